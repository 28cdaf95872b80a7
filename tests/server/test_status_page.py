"""The status page in a real browser: it is live, it tells everything, and its buttons work."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from feed_server import serving as serve
from feed_server import until
from memory_runner import MemoryRunner, table

from tidecast._errors import SchemaRefused
from tidecast.changefeed import Changefeeds, ChangefeedSpec, State
from tidecast.model import compose

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

SINK = "kafka://127.0.0.1:9092/topic?protocol=simple&sasl-user=ann&sasl-password=pa55word&sasl-mechanism=PLAIN"
REGISTRY_SAYS = 'the registry refuses: 409 {"message":"<b>Schema</b> being registered is incompatible"} ' + "x" * 300
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--window-size=1200,1400"),
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("there is no Chromium with its chromedriver here: apt-get install chromium chromium-driver")
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = chromium
    for flag in (*_FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = Chrome(options, ChromeService(driver))
    yield chrome
    chrome.quit()


@pytest.fixture
def runner() -> MemoryRunner:
    return MemoryRunner(known=(table("test.user", version=4711), table("shop.<i>orders</i>")))


@pytest.fixture
def served(tmp_path: Path, runner: MemoryRunner) -> Iterator[tuple[str, Changefeeds]]:
    with serve(tmp_path, runner) as served:
        yield served


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
    runner.errors = {"bad": [SchemaRefused(REGISTRY_SAYS, where="topic <script>alert(1)</script>")]}
    runner.events = [(start + n, "test.user") for n in range(1, 21)] + [(start + 30, "shop.<i>orders</i>")]
    feeds.create(ChangefeedSpec("good", SINK, None, start))
    feeds.create(ChangefeedSpec("bad", SINK))
    # It comes by itself: nobody loads the page again.
    until(lambda: [page.text(i, ".state") for i in ("bad", "good")] == ["failed", "normal"])
    assert [section.get_attribute("data-id") for section in page.all("section")] == ["bad", "good"]
    assert not page.all("#none")[0].is_displayed()
    until(lambda: "test.user" in page.text("good", "tbody"))
    assert page.text("good", "tbody").splitlines() == ["shop.<i>orders</i> 7 1 0", "test.user 4711 20 0"]
    assert float(page.text("good", ".rate")) > 0
    assert page.text("good", ".sink").endswith("sasl-password=xxxxx&sasl-user=ann")
    until(lambda: page.text("good", ".lag").endswith(" s"))
    assert "pa55word" not in browser.page_source
    # The error in full, as text.
    assert page.text("bad", ".error .code") == "CDC:ErrChangefeedUnretryable"
    assert page.text("bad", "pre") == f"{REGISTRY_SAYS}, topic <script>alert(1)</script>"
    assert not page.all("section b, section i, section script")
    assert not page.all("section[data-id=good] .error")[0].is_displayed()

    assert not page.all("section[data-id=good] .resume")[0].is_enabled()
    page.press("good", "pause")
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
        page.press("good", "pause")
        until(lambda: "changefeed not exists, none" in page.text("good", ".refused"))
    until(lambda: page.all("#now.lost"))
    assert page.all("#now")[0].text.startswith("no connection")


def test_the_api_is_described_without_anybody_else_s_help(browser: Chrome, served: tuple[str, Changefeeds]) -> None:
    url, _ = served
    page = Page(browser, f"{url}/docs")
    until(lambda: len(page.all(".opblock")) > 15)
    assert any("/api/v2/changefeeds/{feed_id}/pause" in e.text.replace("\u200b", "") for e in page.all(".opblock"))
    asked: list[str] = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert asked
    assert all(address.startswith((url, "data:")) for address in asked)
    assert page.complaints == []
