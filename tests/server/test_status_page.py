"""The status page in a real browser: it is live, it tells everything, and its buttons work."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from feed_server import Client, answering, until
from feed_server import serving as serve
from full import full
from memory_runner import MemoryRunner, table

from tidecast._errors import SchemaRefused, Unreachable
from tidecast.changefeed import Changefeeds, ChangefeedSpec, State, Timing
from tidecast.model import Ddl, compose
from tidecast.replica import ReplicaStatus, Replicated, TableReport
from tidecast.server import Access, Listener, _history, _replica, build_replica_app
from tidecast.sources import Progress

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

SINK = "kafka://127.0.0.1:9092/topic?protocol=simple&sasl-user=ann&sasl-password=pa55word&sasl-mechanism=PLAIN"
REGISTRY_SAYS = 'the registry refuses: 409 {"message":"<b>Schema</b> being registered is incompatible"} ' + "x" * 300
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--window-size=1200,1400"),
)


@contextmanager
def chromium(profile: Path) -> Iterator[Chrome]:
    """Debian's browser, without a window. Raises LookupError where it is not installed."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not (program and driver):
        raise LookupError("there is no Chromium with its chromedriver here: apt-get install chromium chromium-driver")
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = program
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    running = Chrome(options, ChromeService(driver))
    try:
        yield running
    finally:
        running.quit()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    try:
        with chromium(tmp_path_factory.mktemp("chromium")) as running:
            yield running
    except LookupError as missing:
        pytest.skip(str(missing))


@pytest.fixture(autouse=True)
def usual_screen(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test sets of the screen ends with it, and its page, which would go on to ask a server that has gone."""
    yield
    if "browser" in request.fixturenames:
        chrome = request.getfixturevalue("browser")
        chrome.get("about:blank")
        chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.fixture
def runner() -> MemoryRunner:
    return MemoryRunner(known=(table("test.user", version=4711), table("shop.<i>orders</i>")))


@pytest.fixture
def served(tmp_path: Path, runner: MemoryRunner) -> Iterator[tuple[str, Changefeeds]]:
    with serve(tmp_path, runner) as served:
        yield served


# Elements that only those are told of who do not see are clipped to a pixel.
_OFF_SCREEN = """
const clipped = (node) => node.closest("thead, .unseen") && node.closest("thead, .unseen").clientWidth <= 1;
const wide = (node) => node.getBoundingClientRect().right > innerWidth + 0.5
  || node.scrollWidth > node.clientWidth && node.clientWidth && getComputedStyle(node).overflowX !== "visible"
    && !node.matches(".reason, input");
return [...document.querySelectorAll("body *")].filter((node) => !clipped(node) && wide(node))
  .map((node) => `${node.tagName} ${node.className} ${node.textContent.slice(0, 40)}`);
"""


class Page:
    """The page, as a person reads it."""

    def __init__(self, browser: Chrome, url: str) -> None:
        self.browser = browser
        _ = self.complaints  # of the page before
        browser.get(url)

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements("css selector", selector)

    def text(self, feed_id: str, selector: str) -> str:
        return " ".join(e.text for e in self.all(f"section[data-id='{feed_id}'] {selector}"))

    def press(self, feed_id: str, button: str) -> None:
        self.all(f"section[data-id='{feed_id}'] .{button}")[0].click()

    def pause(self, feed_id: str, *, sure: bool = True) -> None:
        self.press(feed_id, "pause")
        assert self.all("#question")[0].text == f"Pause {feed_id}?"
        self.all(f"#ask button[value={'yes' if sure else 'no'}]")[0].click()

    def shown(self) -> list[str | None]:
        return [e.get_attribute("data-id") for e in self.all("section") if e.is_displayed()]

    def run(self, script: str) -> Any:
        return self.browser.execute_script(script)

    def off_screen(self) -> list[str]:
        """What one would have to scroll sideways for, or would not see at all."""
        return self.run(_OFF_SCREEN)  # type: ignore[no-any-return]

    def on_screen(self, width: int, height: int, scheme: str) -> None:
        size = {"width": width, "height": height, "mobile": False, "deviceScaleFactor": 1}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def picture(self, name: str) -> None:
        if folder := os.environ.get("TIDECAST_PICTURES"):
            Path(folder, f"{name}.png").write_bytes(self.browser.get_screenshot_as_png())

    @property
    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.browser.get_log("browser")]  # type: ignore[no-untyped-call]


def test_the_page_shows_what_changefeeds_do_and_lets_people_stop_them(
    browser: Chrome, served: tuple[str, Changefeeds], runner: MemoryRunner
) -> None:
    url, feeds = served
    page = Page(browser, url)
    until(lambda: page.all("#none")[0].is_displayed())
    start = runner.now() - compose(3_600_000)
    runner.errors = {
        "bad": [SchemaRefused(REGISTRY_SAYS, where="topic <script>alert(1)</script>", hint="ask its owner")]
    }
    runner.events = [(start + n, "test.user") for n in range(1, 21)] + [(start + 30, "shop.<i>orders</i>")]
    feeds.create(ChangefeedSpec("good", SINK, None, start))
    feeds.create(ChangefeedSpec("bad", SINK))
    # It comes by itself: nobody loads the page again.
    until(lambda: [page.text(i, ".state") for i in ("bad", "good")] == ["failed", "normal"])
    assert [section.get_attribute("data-id") for section in page.all("section")] == ["bad", "good"]
    assert not page.all("#none")[0].is_displayed()
    until(lambda: "shop." in page.text("good", "tbody"))
    assert page.text("good", "tbody").splitlines() == ["shop.<i>orders</i> 7 1 0", "test.user 4711 20 0"]
    assert float(page.text("good", ".rate")) > 0
    assert page.text("good", ".sink").endswith("sasl-password=xxxxx&sasl-user=ann")
    until(lambda: page.text("good", ".lag").endswith(" s"))
    assert "pa55word" not in browser.page_source
    # The error in full, as text.
    assert page.text("bad", ".facts-line").startswith("CDC:ErrChangefeedUnretryable · 2")
    assert page.text("bad", ".lead") == "ask its owner"
    page.all("section[data-id=bad] summary")[0].click()
    assert page.text("bad", "pre") == f"{REGISTRY_SAYS}, topic <script>alert(1)</script> (ask its owner)"
    assert browser.title == "(1 failed) tidecast"
    assert not page.all("section b, section i, section script")
    assert not page.all("section[data-id=good] .error")[0].is_displayed()

    assert not page.all("section[data-id=good] .resume")[0].is_displayed()
    page.pause("good", sure=False)
    assert feeds.get("good").feed.state is State.NORMAL
    page.pause("good")
    until(lambda: page.text("good", ".state") == "stopped")
    assert feeds.get("good").feed.state is State.STOPPED
    lags = []
    for _ in range(2):
        lags.append(page.text("good", ".lag-tso"))
        until(lambda: page.text("good", ".lag-tso") != lags[-1])
    page.press("good", "resume")
    until(lambda: page.text("good", ".state") == "normal")
    assert feeds.get("good").feed.state is State.NORMAL
    page.press("bad", "resume")
    until(lambda: page.text("bad", ".state") == "normal")
    assert not page.all("section[data-id=bad] .error")[0].is_displayed()
    feeds.remove("bad")
    until(lambda: len(page.all("section")) == 1)
    assert page.complaints == []


def test_a_refusal_and_a_lost_server_are_shown(browser: Chrome, tmp_path: Path, runner: MemoryRunner) -> None:
    with serve(tmp_path, runner) as (url, feeds):
        feeds.create(ChangefeedSpec("good", SINK))
        page = Page(browser, url)
        until(lambda: page.text("good", ".state") == "normal")
        browser.execute_script(
            "window.fetch = (real => (path, how) => real(path.replace('/good/', '/none/'), how))(fetch)"
        )
        page.pause("good")
        until(lambda: "changefeed not exists, none" in page.text("good", ".refused"))
    until(lambda: page.all("#now.lost"))
    assert page.all("#now")[0].text.startswith("no connection")


class Crowd(NamedTuple):
    """A state of the page: so many changefeeds, of which the first fail, others are tried again, the rest run."""

    feeds: int
    failed: int = 0
    warned: int = 0
    words: str = REGISTRY_SAYS


CROWDS = {
    "none": Crowd(0),
    "one": Crowd(1),
    "failed": Crowd(1, failed=1, words="\n".join([REGISTRY_SAYS] * 60)),
    "five": Crowd(5, failed=1, warned=1),
    "fifty": Crowd(50, failed=2, warned=1),
}
SCREENS = {
    "desk": (1200, 900, "light"),
    "dark": (1200, 900, "dark"),
    "tablet": (800, 900, "light"),
    "phone": (375, 812, "light"),
}


@pytest.mark.parametrize("name", [*sorted(CROWDS.keys() - {"fifty"}), pytest.param("fifty", marks=full)])
def test_every_state_can_be_read_on_every_screen(
    browser: Chrome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, axe: str, name: str
) -> None:
    crowd, start = CROWDS[name], MemoryRunner().now() - compose(3_600_000)
    monkeypatch.setattr(_history, "EVERY_S", 0.1)
    tables = [table(f"a_schema_with_a_name.a_rather_long_table_name_{n}") for n in range(12)]
    runner = MemoryRunner(known=tables)
    runner.events = [(start + n, f"a_schema_with_a_name.a_rather_long_table_name_{n % 12}") for n in range(1, 200)]
    ids = [f"feed-{n:02}" for n in range(crowd.feeds)]
    ill = ids[: crowd.failed + crowd.warned]
    for place, feed_id in enumerate(ill):
        fails = place < crowd.failed
        error = SchemaRefused(crowd.words, hint="mend it") if fails else Unreachable("no answer", hint="start it")
        runner.errors[feed_id] = [error] * 100
    with serve(tmp_path / "feeds", runner, timing=Timing(poll=0.1, first_retry=100)) as (url, feeds):
        for feed_id in ids:
            feeds.create(ChangefeedSpec(feed_id, SINK, None, start))
        page = Page(browser, url)
        until(lambda: page.run("return document.getElementById('now').textContent"))
        until(lambda: len(page.all("section")) == crowd.feeds)
        until(lambda: [page.text(i, ".state") for i in ill] == ["failed"] * crowd.failed + ["warning"] * crowd.warned)
        # Problems come first, and one that is tried again says when.
        assert page.shown()[: len(ill)] == ill
        for feed_id in ill[crowd.failed :]:
            assert "retry 1, next in" in page.text(feed_id, ".reason, .facts-line")
        for screen, (width, height, scheme) in SCREENS.items():
            page.on_screen(width, height, scheme)
            page.picture(f"{name}-{screen}")
            assert page.off_screen() == []
            assert page.run("return document.documentElement.scrollHeight") < 1500 + 130 * crowd.feeds
            faults = browser.execute_async_script(axe + _RUN_AXE)
            assert faults == []
        assert page.complaints == []


_AXE = "axe-core@4.10.3"
_AXE_SHA256 = "0f2b4d7dcdf7d1219df8d1959ad68e565f51d14c3f0d88bb71cd59abeb956292"
_RUN_AXE = """;
const done = arguments[arguments.length - 1];
axe.run().then((found) => done(found.violations.filter((one) => ["serious", "critical"].includes(one.impact))
  .map((one) => `${one.id}: ${one.nodes.map((node) => `${node.target} ${node.failureSummary}`).join("; ")}`)));
"""


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """axe-core, which finds what people who do not see or use a mouse cannot read."""
    folder = tmp_path_factory.mktemp("axe")
    try:
        subprocess.run(["npm", "pack", "--silent", _AXE], cwd=folder, check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        pytest.skip(f"npm does not fetch {_AXE} here")
    (packed,) = folder.iterdir()
    assert hashlib.sha256(packed.read_bytes()).hexdigest() == _AXE_SHA256
    with tarfile.open(packed) as files:
        script = files.extractfile("package/axe.min.js")
        assert script
        return script.read().decode()


def test_changefeeds_are_filtered_searched_and_folded(
    browser: Chrome, served: tuple[str, Changefeeds], runner: MemoryRunner
) -> None:
    url, feeds = served
    runner.errors = {"c": [SchemaRefused("no")]}
    for feed_id in "abcd":
        feeds.create(ChangefeedSpec(feed_id, SINK))
    feeds.pause("d")
    page = Page(browser, url)
    until(lambda: page.shown() == ["c", "a", "b", "d"])
    filters = {e.text: e for e in page.all(".filter") if e.is_displayed()}
    assert list(filters) == ["All 4", "1 failed", "2 normal", "1 stopped"]
    filters["2 normal"].click()
    assert page.shown() == ["a", "b"]
    filters["All 4"].click()
    page.all("#search")[0].send_keys("UNRELATED")
    until(lambda: page.shown() == [] and page.all("#no-match")[0].is_displayed())
    page.run("const s = document.getElementById('search'); s.value = 'Topic'; s.dispatchEvent(new Event('input'))")
    until(lambda: page.shown() == ["c", "a", "b", "d"])
    # Of more than a few, none is open before somebody asks.
    assert not any(e.is_displayed() for e in page.all(".body"))
    page.all("section[data-id=a] .fold")[0].click()
    assert page.text("a", ".sink").startswith("kafka://")
    page.all("#fold-all")[0].click()
    assert not any(e.is_displayed() for e in page.all(".body"))
    page.all("#fold-all")[0].click()
    assert all(e.is_displayed() for e in page.all(".body"))


def test_the_api_is_described_without_anybody_else_s_help(browser: Chrome, served: tuple[str, Changefeeds]) -> None:
    url, _ = served
    page = Page(browser, f"{url}/docs")
    until(lambda: len(page.all(".opblock")) > 15)
    assert any("/api/v2/changefeeds/{feed_id}/pause" in e.text.replace("\u200b", "") for e in page.all(".opblock"))
    asked: list[str] = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert asked
    assert all(address.startswith((url, "data:")) for address in asked)
    assert page.complaints == []


def test_a_history_has_the_last_hour_and_forgets_what_is_gone() -> None:
    read, now = {"a": _history.Sample(1.5, 10), "b": _history.Sample(None, 0)}, [1000.0]
    history = _history.History(lambda: read, lambda: now[0])
    history.take()
    now[0] += 30
    read["a"] = _history.Sample(2.0, 70)
    history.take()
    assert history.content()["series"] == {
        "a": {"time": [1000, 1030], "lag_seconds": [1.5, 2], "rows_per_second": [None, 2]},
        "b": {"time": [1000, 1030], "lag_seconds": [None, None], "rows_per_second": [None, 0]},
    }
    del read["b"]
    read["a"] = _history.Sample(0, 0)  # made anew: it counts from 0 again
    for _ in range(200):
        now[0] += 30
        history.take()
    (series,) = history.content()["series"].values()
    assert (len(series["time"]), series["time"][-1] - series["time"][0]) == (121, 3600)
    assert min(series["rows_per_second"][1:]) == 0


def test_the_server_keeps_a_history(tmp_path: Path, runner: MemoryRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_history, "EVERY_S", 0.05)
    with serve(tmp_path, runner) as (url, feeds):
        feeds.create(ChangefeedSpec("a", SINK))
        asked = Client(url)
        until(lambda: len(asked("GET", "/page/history").json["series"].get("a", {}).get("time", ())) > 2)


def test_a_replica_tells_when_it_tries_again_and_what_to_do() -> None:
    now = [1_000_000.0]
    status = ReplicaStatus("file:///source", "tables", lambda: now[0])
    for delay in (1.0, 20.0):
        status.failed("no answer (start it)", "start it", delay)
    now[0] += 5
    told = _replica._content(status.read(), status.now())
    assert (told["hint"], told["retries"], told["retry_in_seconds"]) == ("start it", 2, 15)
    assert (told["uptime_seconds"], told["since"][:10]) == (5, "1970-01-12")
    status.idle()
    told = _replica._content(status.read(), status.now())
    assert (told["problem"], told["hint"], told["retries"], told["retry_in_seconds"]) == (None, None, 0, None)


def test_the_page_of_a_replica_tells_what_it_tries_again(browser: Chrome) -> None:
    status = ReplicaStatus("file:///source", "tables", lambda: 1_000_000.0)
    listener = Listener.open("127.0.0.1:0", Access())
    with answering(build_replica_app(status, listener.access), listener) as url:
        page = Page(browser, url)
        until(lambda: page.all("#state")[0].text == "waiting")
        assert (browser.title, page.all("#error div")[0].is_displayed()) == ("tidecast replicate", False)
        status.failed("no answer", None, 30)
        until(lambda: browser.title == "(retrying) tidecast replicate")
        # A short error needs no fold of its own.
        assert page.all("#error")[0].text.splitlines()[:2] == ["no answer", "retry 1, next in 30 s"]
        assert not page.all("#error details")[0].is_displayed()
        status.failed("x" * 500, "start it", 30)
        until(lambda: page.all("#error .lead")[0].text == "start it")
        assert page.all("#error details")[0].is_displayed()
        assert not page.complaints


def test_the_page_of_a_replica_tells_what_it_does_and_can_be_read_on_every_screen(browser: Chrome, axe: str) -> None:
    now = [1_000_000.0]
    status = ReplicaStatus("file:///source", "tables", lambda: now[0])
    listener = Listener.open("127.0.0.1:0", Access())
    with answering(build_replica_app(status, listener.access), listener) as url:
        page = Page(browser, url)
        status.begin()
        with status.stage("read"):
            until(lambda: page.all("#now")[0].text)
            assert (page.all("#state")[0].text, page.all("#step")[0].is_displayed()) == ("waiting", False)
            now[0] += 125
            until(lambda: page.all("#state")[0].text == "reading")
            assert page.all("#step")[0].text.startswith("reading what is new · for 2 min 5 s · since 1970-01-12 ")
        status.applying()
        with status.stage("apply"):
            status.tell("applying shop.a, shop.b", 1, 3)
            now[0] += 61
            until(lambda: page.all("#state")[0].text == "applying")
            words = "applying shop.a, shop.b · 1 of 3 tables done · for 1 min 1 s"
            until(lambda: page.all("#step")[0].text.startswith(words))
        tso, name = compose(1_000_000_000), "a_rather_long_name_of_a_table_" * 2
        reports = [TableReport("shop", table, "", 1_234_567, last_commit_ts=tso) for table in ("a", "b", name)]
        sql = f"ALTER TABLE `{name}` ADD COLUMN `{name}` INT, " * 3
        change = Ddl("ALTER", sql, (1 << 63) - 1, named=("shop", name))
        status.applied(Progress(None, {}, tso, 1, "waiting-1", 1, (), ""), (change,), Replicated(tuple(reports)))
        until(lambda: len(page.all("#tables tr")) == 3)
        until(lambda: not page.all("#step")[0].is_displayed())
        facts = page.all("#facts")[0].text
        assert all(words in facts for words in ("in 1 batch\n", "1 row waits for the schemas of their tables"))
        for screen in SCREENS:
            page.on_screen(*SCREENS[screen])
            page.picture(f"replica-{screen}")
            assert page.off_screen() == []
            assert browser.execute_async_script(axe + _RUN_AXE) == []
        assert not page.complaints


def write_letters(folder: Path, count: int) -> None:
    folder.mkdir(parents=True)
    place = {"topic": "<b>t</b>", "partition": 3, "timestamp": 1_700_000_000_000, "key": None, "value": "dmFsdWU="}
    letters: list[dict[str, Any]] = [
        {**place, "offset": n, "reason": "bad-json", "detail": f"no <i>JSON</i> {n}"} for n in range(count)
    ]
    letters[-1]["timestamp"] = 1_700_000_000_000_000_000
    (folder / "part-1.jsonl").write_text("".join(f"{json.dumps(letter)}\n" for letter in letters))


def test_dead_letters_are_a_page_of_their_own(browser: Chrome, tmp_path: Path, axe: str) -> None:
    folder = tmp_path / "dead letters"
    write_letters(folder, 101)
    status = ReplicaStatus("file:///source", "tables", lambda: 1_000_000.0)
    listener = Listener.open("127.0.0.1:0", Access())
    with answering(build_replica_app(status, listener.access), listener) as url:
        page = Page(browser, url)
        until(lambda: page.all("#state")[0].text == "waiting")
        assert not page.all(".letters-at a")
        done = Replicated((), dead_letters={"bad-json": 101}, dead_letters_in=folder)
        status.applied(Progress(None, {}, None, 1, None, 0, (), ""), (), done)
        until(lambda: page.all(".letters-at a"))
        page.all(".letters-at a")[0].click()
        until(lambda: len(page.all("#letters tr")) == 100)
        assert page.all("#told")[0].text == "100 of them. This counts all:"
        assert page.all("#list code")[0].text == f"tidecast dead-letters list '{folder}'"
        first = [cell.text for cell in page.all("#letters tr:first-child td")]
        assert (first[:3], first[4], len(first)) == (["<b>t</b>", "3", "0"], "bad-json", 6)
        assert first[5].startswith("no <i>JSON</i> 0\n")
        assert re.fullmatch(r"2023-11-1\d \d\d:\d\d:20\.000[+-]\d\d:\d\d", first[3])
        assert page.all("#back")[0].text == "Replica"
        shown = f"tidecast dead-letters show '{folder}' --topic '<b>t</b>' --partition 3 --offset 0"
        assert page.all("#letters code")[0].text.split() == shown.split()
        for screen in SCREENS:
            page.on_screen(*SCREENS[screen])
            page.picture(f"letters-{screen}")
            assert page.off_screen() == []
            assert browser.execute_async_script(axe + _RUN_AXE) == []
        (folder / "part-0.jsonl").write_text("{}no letter\n")
        browser.refresh()
        until(lambda: "it has a line that is no dead letter" in page.all("#told")[0].text)
        assert not page.complaints


def test_a_changefeed_that_is_tried_again_tells_when_and_what_to_do(tmp_path: Path, runner: MemoryRunner) -> None:
    runner.errors = {"ill": [Unreachable("no answer", hint="start pa55word")]}
    with serve(tmp_path / "my feeds", runner, timing=Timing(first_retry=100)) as (url, feeds):
        feeds.create(ChangefeedSpec("ill", SINK))
        until(lambda: feeds.get("ill").retry_in)
        content = Client(url)("GET", "/page").json
        (feed,) = content["changefeeds"]
        assert (feed["retries"], 80 < feed["retry_in_seconds"] < 111) == (1, True)
        assert (feed["error"]["hint"], feed["error"]["message"]) == ("start xxxxx", "no answer (start xxxxx)")
        assert feed["dead_letters_command"].endswith("/my feeds/ill/dead-letters'")
        assert Client(url)("GET", "/page/dead-letters?of=ill").json["letters"] == []
        write_letters(tmp_path / "my feeds/ill/dead-letters", 2)
        told = Client(url)("GET", "/page/dead-letters?of=ill").json
        assert (told["letters"][0]["reason"], told["more"]) == ("bad-json", False)
        assert told["letters"][0]["command"].endswith("/ill/dead-letters' --topic '<b>t</b>' --partition 3 --offset 0")
        assert told["letters"][1]["time"] == "1700000000000000000"  # no time that there is
        assert "value" not in str(told)
        assert Client(url)("GET", "/page/dead-letters?of=nobody").json["error_code"] == "CDC:ErrChangeFeedNotExists"
        assert (content["source"], content["uptime_seconds"] >= 0) == ("file:///source", True)
        assert re.search(r"\d[+-]\d\d:\d\d$", feed["checkpoint_time"])
        assert "hint" not in Client(url)("GET", "/api/v2/changefeeds/ill").json["error"]
