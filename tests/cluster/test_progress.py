"""What a person who waits is told: bars on a terminal, plain lines elsewhere, and always the same numbers."""

from __future__ import annotations

import io
import sys
import time

import pytest

from tfnewton.cluster import task
from tfnewton.cluster.progress import Ledger, Progress, agreed, duration, shown
from tfnewton.cluster.task import Failure, note, stopping


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (99, "99 s"), (100, "2 min"), (5960, "99 min"), (6000, "1.7 h"), (360_000, "100.0 h")],
)
def test_durations_are_said_shortly(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_the_ledger_counts_and_reckons_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs weigh the tasks; what is half done counts half."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    seen: list[Progress] = []
    ledger = Ledger(["a", "b", "c"], seen.append, {"a": 6.0, "b": 2.0, "c": 2.0})
    ledger.note("a", "step 1", 0.5)
    assert seen[-1] == Progress(3, 0, 0, {"a": ("step 1", 0.5)}, 0.0, 0.0)
    now = 103.0
    ledger.tick()
    assert (seen[-1].seconds, seen[-1].left) == (3.0, 7.0)
    now = 108.0
    ledger.note("b", "", None)
    ledger.end("a", Failure("ValueError", "no"))
    assert seen[-1][:-1] == (3, 1, 1, {"b": ("", None)}, 8.0)
    assert seen[-1].left == pytest.approx(8.0 * 4 / 6)
    ledger.note("a", "late", 0.9)  # what it told comes after its outcome
    assert "a" not in seen[-1].running
    ledger.leave("b")
    ledger.end("b", 1)
    ledger.end("c", 2)
    assert ledger.complete
    assert seen[-1] == Progress(3, 3, 1, {}, 8.0, 0.0)
    count = len(seen)
    ledger.tick()
    assert len(seen) == count


def test_progress_in_words() -> None:
    running: dict[str, tuple[str, float | None]] = {"a": ("", None)}
    assert str(Progress(4, 1, 0, running, 20.0, 60.0)) == "1 of 4 done, 1 running, 0 failed, about 60 s left"
    assert str(Progress(4, 0, 0, {}, 20.0, None)) == "0 of 4 done, 0 running, 0 failed, no worker has begun yet"
    assert str(Progress(4, 4, 2, {}, 20.0, 0.0)) == "4 of 4 done, 0 running, 2 failed"


def test_plain_lines_come_now_and_then(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with shown("sweep") as display:
        for now in (10.0, 31.0, 50.0, 62.0):
            display(Progress(4, 1, 0, {"a": ("", None)}, now, 60.0))
        display.say("a line [bold]")
    out, err = capsys.readouterr()
    assert out == "a line [bold]\n"
    assert err == "sweep: 1 of 4 done, 1 running, 0 failed, about 60 s left\n" * 2


@pytest.mark.parametrize("both", [True, False])
def test_bars_on_a_terminal(both: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines for a file or a pipe do not go to the terminal, whatever is in brackets is left alone."""
    out, err = Terminal() if both else io.StringIO(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    for name, value in {"TERM": "xterm", "COLUMNS": "160"}.items():
        monkeypatch.setenv(name, value)
    with shown("sweep") as display:
        running = {f"point {n}": (f"cell {n} [of 12]", n / 12 if n else None) for n in range(12)}
        display(Progress(20, 2, 1, running, 10.0, 60.0))
        display(Progress(20, 4, 1, {"point 11": running["point 11"]}, 10.0, 60.0))
        display.say("point [0]: done")
    assert ("point [0]: done" in err.getvalue()) is both
    assert out.getvalue() == ("" if both else "point [0]: done\n")
    assert "4 of 20 done, 1 running, 1 failed, about 60 s left" in err.getvalue()
    assert "cell 11 [of 12]" in err.getvalue()


@pytest.mark.parametrize(
    ("answer", "begins"), [("y\n", True), ("Yes\n", True), ("\n", False), ("no\n", False), ("", False)]
)
def test_a_terminal_is_asked(answer: str, begins: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Terminal()
    monkeypatch.setattr(sys, "stderr", told)
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    assert agreed("It takes 3 h.") is begins
    assert told.getvalue() == "It takes 3 h.\nBegin? [y/N] "


@pytest.mark.parametrize("yes", [True, False])
def test_without_a_terminal_it_goes_on(
    yes: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("n\n") if yes else io.StringIO("n\n"))
    assert agreed("It takes 3 h.", yes)
    assert capsys.readouterr().err == "It takes 3 h.\n"


def test_notes_are_passed_on_twice_a_second_and_end_with_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    now, told = 0.0, []
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def work() -> str:
        nonlocal now
        for step in range(8):
            note(f"step {step}", step / 8)
            now += 0.2
        return "done"

    assert task.carry_out(work, (), "batch", lambda text, fraction: told.append((text, fraction))) == "done"
    assert told == [("step 0", 0.0), ("step 3", 0.375), ("step 6", 0.75)]
    note("outside", 1.0)
    assert not stopping()
    assert len(told) == 3


def test_a_task_is_asked_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "_stopped", set())

    def work() -> int:
        assert task.listening("batch") == 0
        assert not stopping()
        assert (task.listening("batch"), task.listening("other")) == (1, 0)
        task.stop("other")
        assert not stopping()
        task.stop("batch")
        assert stopping()
        raise KeyboardInterrupt

    assert task.carry_out(work, (), "batch", lambda *_: None) == task.Stopped()
    assert task.listening("batch") == 0
    assert task.carry_out(_interrupted, (), "batch", lambda *_: None) == task.Stopped()  # and does not begin


def _interrupted() -> None:
    raise KeyboardInterrupt


def test_an_interrupt_that_nobody_asked_for_passes() -> None:
    with pytest.raises(KeyboardInterrupt):
        task.carry_out(_interrupted, (), "batch", lambda *_: None)
