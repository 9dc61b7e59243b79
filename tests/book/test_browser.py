"""The built book in a real Chromium: loaded whole and from nowhere else, typeset, readable, narrow, by keyboard.

``make book`` builds it; the browser is the system's ``chromium``, or the one named by the variable CHROMIUM.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.base import AXE_FILE_PATH
from playwright.sync_api import Browser, Page, sync_playwright

pytestmark = pytest.mark.slow

HTML = Path(__file__).parents[2] / "_build" / "html"
PAGES = sorted(str(path.relative_to(HTML)) for part in ("book", "notebooks") for path in HTML.glob(f"{part}/*.html"))
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NARROW = 390

Scheme = Literal["light", "dark"]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class names it so)
        pass


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    """The built book, served on a free port of this machine."""
    if not (HTML / "index.html").is_file():
        pytest.fail("the book is not built: run `make book`")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(HTML))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    name = os.environ.get("CHROMIUM", "chromium")
    executable = shutil.which(name)
    if executable is None:
        pytest.fail(f"{name} not found: `apt-get install chromium`, or name a browser with CHROMIUM=...")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield browser
        browser.close()


class Visit:
    """A page opened in a fresh context, with what it asked for and what it complained of."""

    def __init__(self, browser: Browser, origin: str, address: str, *, scheme: Scheme = "light", width: int = 1280):
        self.address, self.scheme = address, scheme
        self.context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        self.page.on("console", lambda message: self._complain(message.type, message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("response", lambda answer: self._complain("error" if answer.status >= 400 else "", answer.url))
        self.page.on("request", lambda request: self._requested(request.url, origin))
        self.page.goto(origin + address)
        self.page.evaluate("() => window.MathJax?.startup?.promise")

    def _complain(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.complaints.append(text)

    def _requested(self, url: str, origin: str) -> None:
        if not url.startswith((origin, "data:", "blob:")):
            self.foreign.append(url)

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


# `make test` looks at one page of each kind in the dark, and at their accessibility, whose contrast of colours takes
# most of the time; `make test-long` at all.
ONE_OF_A_KIND = {
    "book/claims.html",
    "book/coursework.html",
    "book/errata.html",
    "book/intro.html",
    "book/notation.html",
    "notebooks/05_self_concordance.html",
    "notebooks/07_logistic_construction.html",
}


def visits(always: Callable[[str, str], bool]) -> list[Any]:
    return [
        pytest.param((page, scheme), id=f"{page}-{scheme}", marks=() if always(page, scheme) else pytest.mark.long)
        for page in PAGES
        for scheme in ("light", "dark")
    ]


@pytest.fixture(scope="module", params=visits(lambda page, scheme: page in ONE_OF_A_KIND or scheme == "light"))
def visit(request: pytest.FixtureRequest, browser: Browser, origin: str) -> Iterator[Visit]:
    """Each page in each colour scheme, opened once for all tests that only look at it."""
    address, scheme = request.param
    with Visit(browser, origin, address, scheme=scheme) as visit:
        yield visit


def test_page_loads_whole_and_from_here_alone(visit: Visit) -> None:
    visit.page.wait_for_load_state("networkidle")
    assert visit.complaints == []
    assert visit.foreign == []


def test_mathematics_is_typeset(visit: Visit) -> None:
    formulas = visit.page.locator(".math").count()
    assert formulas > 0 or not visit.address.startswith("notebooks/")
    assert visit.page.locator("mjx-container").count() == formulas
    assert visit.page.locator("mjx-merror, [data-mjx-error]").count() == 0
    prose = visit.page.evaluate(
        """() => { const copy = document.querySelector("article").cloneNode(true);
                   copy.querySelectorAll("pre, code, mjx-container").forEach(node => node.remove());
                   return copy.textContent; }"""
    )
    assert not [mark for mark in ("$", "\\(", "\\[") if mark in prose]


@pytest.mark.parametrize("visit", visits(lambda page, scheme: page in ONE_OF_A_KIND), indirect=True, scope="module")
def test_page_has_no_accessibility_violation(visit: Visit) -> None:
    visit.page.evaluate(AXE_FILE_PATH.read_text(encoding="utf-8"))
    # A formula does not count as text there, though it is read out: a header cell that holds one is not empty.
    # Ink of the very colour of its ground is left to the reader's judgement there; here it is a fault.
    report = visit.page.evaluate(
        """() => axe.run(document, {resultTypes: ["violations", "incomplete"]}).then(({violations, incomplete}) =>
            [...violations, ...incomplete.map(({nodes, ...rule}) => ({...rule, nodes: nodes.filter(
                    ({any}) => any.some(({data}) => data?.messageKey === "equalRatio"))}))]
            .flatMap(({id, impact, nodes}) => nodes
                .filter(({target}) => id !== "empty-table-header"
                        || !document.querySelector(target[0]).querySelector("mjx-container"))
                .map(({html}) => `${id} (${impact}): ${html.slice(0, 160)}`)))"""
    )
    assert not report, "\n".join(report)


def test_text_and_mathematics_stand_out(visit: Visit) -> None:
    ground = luminance(visit.page, "body", "backgroundColor")
    assert (ground < 0.05) == (visit.scheme == "dark")
    for selector in ("article p", "article mjx-container"):
        if visit.page.locator(selector).count():
            ink = luminance(visit.page, selector, "color")
            contrast = (max(ink, ground) + 0.05) / (min(ink, ground) + 0.05)
            assert contrast >= 7, f"{selector}: contrast {contrast:.1f}"


def luminance(page: Page, selector: str, style: str) -> float:
    """Relative luminance of a computed colour of the first match, as WCAG defines it."""
    colour: str = page.locator(selector).first.evaluate(f"node => getComputedStyle(node).{style}")
    channels = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("address", PAGES)
def test_narrow_page_does_not_scroll_sideways(browser: Browser, origin: str, address: str) -> None:
    with Visit(browser, origin, address, width=NARROW) as visit:
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= NARROW
        # What is wider than the column scrolls in a box of its own: nothing is cut off without one.
        cut = visit.page.evaluate(
            """width => [...document.querySelectorAll("article *")].filter(node => {
                   if (node.closest("mjx-assistive-mml, .headerlink, svg")) return false;
                   if (node.getBoundingClientRect().right <= width + 1) return false;
                   for (let box = node; box && box.tagName !== "ARTICLE"; box = box.parentElement)
                       if (["auto", "scroll"].includes(getComputedStyle(box).overflowX)) return false;
                   return node.getBoundingClientRect().width > 0;
               }).map(node => node.outerHTML.slice(0, 120))""",
            NARROW,
        )
        assert cut == []


def test_colour_mode_follows_the_system_and_the_button(browser: Browser, origin: str) -> None:
    with Visit(browser, origin, "book/intro.html", scheme="dark") as visit:
        theme = "document.documentElement.dataset.theme"
        assert visit.page.evaluate(theme) == "dark"
        for _ in range(3):  # auto, light, dark
            visit.page.locator(".theme-switch-button:visible").first.click()
            if visit.page.evaluate(theme) == "light":
                break
        assert visit.page.evaluate(theme) == "light"


def test_keyboard_reaches_the_text_and_shows_where_it_is(browser: Browser, origin: str) -> None:
    with Visit(browser, origin, "book/intro.html") as visit:
        visit.page.keyboard.press("Tab")
        focused = visit.page.locator(":focus")
        assert focused.get_attribute("href") == "#main-content"
        assert focused.is_visible()
        for _ in range(12):
            visit.page.keyboard.press("Tab")
            shown = visit.page.locator(":focus").evaluate(
                "node => { const s = getComputedStyle(node);"
                " return (s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0) || s.boxShadow !== 'none'; }"
            )
            assert shown, visit.page.locator(":focus").evaluate("node => node.outerHTML.slice(0, 120)")


def test_code_can_be_copied(browser: Browser, origin: str) -> None:
    with Visit(browser, origin, "book/rerunning.html") as visit:
        visit.context.grant_permissions(["clipboard-read", "clipboard-write"])
        block = visit.page.locator("div.highlight").first
        block.hover()
        block.locator("button.copybtn").click()
        assert visit.page.evaluate("navigator.clipboard.readText()").startswith(".venv/bin/tfnewton run")


def test_search_finds_a_chapter(browser: Browser, origin: str) -> None:
    with Visit(browser, origin, "search.html?q=inversion") as visit:
        # results come one after another; waiting for the right one fails when it never comes
        visit.page.locator("#search-results li a[href*=matrix_inversion]").first.wait_for()
