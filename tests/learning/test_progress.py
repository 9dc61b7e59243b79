"""Training leaves word where it is asked to, and nowhere else; a place that takes none does not stop it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.tiny_run import config
from tfnewton.learning.progress import PLACE, leave_word
from tfnewton.learning.training import train


def test_training_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLACE, str(tmp_path / "word"))
    train(config(), tmp_path / "run")
    assert (tmp_path / "word").read_text().startswith(f"step {config().steps}, loss ")


def test_no_word_without_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PLACE, raising=False)
    monkeypatch.chdir(tmp_path)
    leave_word(1, 0.5, 0.1)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_takes_no_word_is_no_reason_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLACE, str(tmp_path / "missing" / "word"))
    leave_word(1, 0.5, 0.1)
    assert list(tmp_path.iterdir()) == []
