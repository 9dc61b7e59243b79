"""A run is followed on stderr: a line that moves where there is a terminal, a line a heading elsewhere."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest

from tests.helpers.small_chapter import small_chapter
from tfnewton.rerun import display
from tfnewton.rerun.execution import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def follow(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO, word: Path | None = None) -> str:
    progress = Progress(small_chapter("1", "2").notebook, word)
    monkeypatch.setattr("sys.stderr", stderr)
    with display.on_stderr("A chapter") as watch:
        for cell in progress.cells:
            progress.enter(cell)
            watch(progress)
            if word is not None:
                word.write_text(f"step {cell}")
                time.sleep(0.25)
            progress.leave()
    return stderr.getvalue()


def test_plain_lines_name_each_heading_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert follow(monkeypatch, io.StringIO()).splitlines() == [
        "cell 1 of 4: Inverting a matrix with attention",
        "cell 3 of 4: Part 1",
        "cell 4 of 4: Part 2",
    ]


def test_a_terminal_has_a_line_that_moves_and_is_gone_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    text = follow(monkeypatch, Terminal(), tmp_path / "word")
    assert "Part 2" in text
    assert "3/4" in text
    assert "step 6" in text, "what the cell says of itself"
    assert "\x1b[" in text, "written over"
    assert capsys.readouterr().out == "", "stdout is for results"
