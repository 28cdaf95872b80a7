"""Ends a process only after its current work is finished."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ended_by_sigterm(waits: bool = True) -> Iterator[threading.Event | None]:
    """Give an event that SIGTERM sets; a second one ends the process at once, as Ctrl-C does.

    Unless work `waits` for an end there is none, and the signal is left alone.
    """
    if not waits:
        yield None
        return
    stop = threading.Event()
    earlier = signal.getsignal(signal.SIGTERM)

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, earlier)
        # In another thread: the signal may come while this one holds the event's lock.
        threading.Thread(target=stop.set).start()

    signal.signal(signal.SIGTERM, end)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, earlier)
