"""What the tests of runs share: one thread, a clock that stands still, and a run that nothing interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.helpers.tiny_run import config
from tfnewton.learning import training

STILL = SimpleNamespace(monotonic=lambda: 0.0)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def _still_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time passes, so that runs that did the same have the same history to the byte."""
    monkeypatch.setattr(training, "time", STILL)


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was trained from its first step to its last; tests only read it."""
    folder = tmp_path_factory.mktemp("whole")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "time", STILL)
        training.train(config(), folder)
    torch.set_num_threads(threads)
    return folder
