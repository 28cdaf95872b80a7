"""Canal-JSON as a changefeed writes it. Source: Canal-JSON protocol, members, options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tidecast.model import Ddl
from tidecast.protocols._codec import Codec, CodecOptions, Message, time_of_building
from tidecast.protocols.canal_json._encode import encode_ddl, encode_watermark
from tidecast.protocols.canal_json._encoder import CanalEncoder
from tidecast.protocols.canal_json._options import CanalOptions


class CanalCodec(Codec):
    """Canal-JSON: every row names its columns and their types. All values can be read back, if not always the types."""

    def __init__(self, options: CodecOptions, registry: object, state: bytes) -> None:
        self._build_ts = time_of_building()
        self._options = CanalOptions(
            enable_tidb_extension=options.enable_tidb_extension,
            content_compatible=options.content_compatible,
            only_output_updated_columns=options.only_output_updated_columns,
            delete_only_output_handle_key_columns=options.delete_only_output_handle_key_columns,
            zone=options.zone,
        )

    @property
    def encoder(self) -> CanalEncoder:
        """The encoder of rows."""
        return CanalEncoder(self._options, self._build_ts)

    def ddl(self, ddl: Ddl) -> Sequence[Message]:
        """Return the message of a schema change."""
        return [(None, encode_ddl(ddl, self._options, self._build_ts))]

    @property
    def watermark(self) -> Callable[[int], Message] | None:
        """A function from a TSO to a watermark's message; None without TiDB's extension."""
        if not self._options.enable_tidb_extension:
            return None
        return partial(encode_watermark, options=self._options, build_ts=self._build_ts)
