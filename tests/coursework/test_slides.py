"""The lecture: twenty slides with the chapters' figures, complete without a network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from book.slides.build import HERE, build, slides

TEXT = (HERE / "lecture.md").read_text(encoding="utf-8")


def test_there_are_about_twenty_slides_most_with_a_figure_and_notes() -> None:
    cells = slides(TEXT).cells
    kinds = [cell.metadata["slideshow"]["slide_type"] for cell in cells]
    assert 18 <= kinds.count("slide") <= 22
    assert kinds.count("notes") >= 15
    assert sum("<img" in cell.source for cell in cells) >= 10


def test_a_figure_that_no_chapter_has_is_named() -> None:
    with pytest.raises(ValueError, match="no chapter 03 has a figure no-such-figure"):
        slides("# A\n\n![](03#no-such-figure)")


@pytest.mark.slow
def test_the_page_loads_only_what_stands_beside_it(tmp_path: Path) -> None:
    soup = BeautifulSoup(build(tmp_path).read_text(encoding="utf-8"), "html.parser")
    loaded = [tag[name] for tag, name in ((tag, name) for tag in soup.find_all() for name in ("src",)) if tag.get(name)]
    loaded += [tag["href"] for tag in soup.find_all("link")]
    beside = [str(of) for of in loaded if not str(of).startswith("data:")]
    assert len(beside) >= 5
    assert [of for of in beside if not (tmp_path / of).is_file()] == []
    styles = "".join((tmp_path / of).read_text(encoding="utf-8") for of in beside if of.endswith(".css"))
    assert re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", styles) == []
    assert all(image.get("alt") for image in soup.find_all("img"))
