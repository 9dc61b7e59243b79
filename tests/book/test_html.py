"""The built book as a set of files: links, anchors, images, ids, and nothing fetched from elsewhere.

``make book`` builds it; without a built book these tests fail and say so.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from bs4 import BeautifulSoup, Tag

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
HTML = ROOT / "_build" / "html"
PAGES = sorted(page for page in HTML.rglob("*.html") if "_static" not in page.parts)
CONTENT = [page for page in PAGES if page.parent.name in {"book", "notebooks"}]

content_page = pytest.mark.parametrize("page", CONTENT, ids=lambda page: page.stem)
any_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


@cache
def parse(page: Path) -> BeautifulSoup:
    return BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")


@cache
def ids(page: Path) -> frozenset[str]:
    return frozenset(str(tag["id"]) for tag in parse(page).find_all(id=True))


def addresses(page: Path) -> list[tuple[Tag, str]]:
    """Every tag of the page that points somewhere, with the address it gives."""
    return [
        (tag, str(tag[attribute]))
        for attribute in ("href", "src", "data")
        for tag in parse(page).select(f"[{attribute}]")
    ]


def test_every_page_of_the_contents_is_built() -> None:
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    files = [contents["root"], *(chapter["file"] for part in contents["parts"] for chapter in part["chapters"])]
    missing = [name for name in files if not (HTML / f"{name}.html").is_file()]
    assert not missing, f"not built: {missing}; run `make book`"


def test_every_chapter_is_in_the_contents() -> None:
    contents = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    left_out = [path.stem for path in (ROOT / "notebooks").glob("*.ipynb") if f"notebooks/{path.stem}" not in contents]
    assert not left_out


@pytest.mark.parametrize(("page", "prefix"), [("claims", "claim-"), ("errata", "erratum-")])
def test_every_entry_of_the_record_has_a_row_to_link_to(page: str, prefix: str) -> None:
    entries = yaml.safe_load((ROOT / "book" / f"{page}.yml").read_text(encoding="utf-8"))
    rows = [name for name in ids(HTML / "book" / f"{page}.html") if name.startswith(prefix)]
    assert len(rows) == len(entries)


@any_page
def test_nothing_is_loaded_from_elsewhere(page: Path) -> None:
    loaded = [address for tag, address in addresses(page) if tag.name != "a" and urlsplit(address).scheme != "data"]
    foreign = [address for address in loaded if urlsplit(address).netloc]
    assert not foreign
    scripts = [script.get_text() for script in parse(page).find_all("script")]
    assert not [text for text in scripts if re.search(r"import\s*\(?\s*[\"']https?:", text)]


def test_no_style_sheet_loads_from_elsewhere() -> None:
    sheets = sorted((HTML / "_static").rglob("*.css"))
    assert sheets
    foreign = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])(?:https?:)?//""")
    assert not [sheet.name for sheet in sheets if foreign.search(sheet.read_text(encoding="utf-8"))]


@any_page
def test_links_and_anchors_resolve(page: Path) -> None:
    broken = []
    for _, address in addresses(page):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        anchored = parts.fragment != "" and target.suffix == ".html"
        if not target.is_file() or (anchored and unquote(parts.fragment) not in ids(target)):
            broken.append(address)
    assert not broken


@content_page
def test_links_to_other_sites_are_https(page: Path) -> None:
    schemes = {urlsplit(address).scheme for tag, address in addresses(page) if tag.name == "a"}
    assert schemes <= {"", "https"}


@any_page
def test_images_have_alternative_text(page: Path) -> None:
    assert not [str(image) for image in parse(page).find_all("img") if not str(image.get("alt", "")).strip()]


@content_page
def test_figures_state_a_finding_and_have_a_caption(page: Path) -> None:
    article = parse(page).find("article")
    assert isinstance(article, Tag)
    for image in article.find_all("img"):
        assert len(str(image["alt"]).split()) >= 5, f"alt text too short to state a finding: {image['alt']!r}"
        assert image.find_parent("figure"), f"an image without a caption: {image['alt']!r}"


@content_page
def test_ids_are_unique(page: Path) -> None:
    counts = Counter(str(tag["id"]) for tag in parse(page).find_all(id=True))
    assert not [name for name, count in counts.items() if count > 1]


@content_page
def test_page_is_whole(page: Path) -> None:
    soup = parse(page)
    assert soup.html is not None
    assert soup.html.get("lang") == "en"
    assert soup.title is not None
    assert soup.title.get_text(strip=True)
    article = soup.find("article")
    assert isinstance(article, Tag)
    assert len(article.find_all("h1")) == 1
    assert not article.select(".problematic, .system-message"), "the page shows a message of the builder"
    assert not article.select(".stderr, .traceback"), "the page shows an error of a cell"
    assert page.stat().st_size < 1_500_000


@content_page
def test_no_path_of_the_building_machine_is_shown(page: Path) -> None:
    assert str(ROOT) not in page.read_text(encoding="utf-8")
