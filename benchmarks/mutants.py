"""Do the quick tests notice small faults? A seeded sample of them, one at a time, in a copy of the project.

    make mutants                                       # goes on where it was stopped
    .venv/bin/python -m benchmarks.mutants --count 70  # ten of each folder
    .venv/bin/python -m benchmarks.mutants --again     # tries those once more that had survived

cosmic-ray makes the mutants: a sign, a comparison, a number, a loop that does not run. Left out are annotations, text
and what stands in ``raise``. The sample takes as many from each folder, those whose digests come first, so that a
change elsewhere does not alter it. The outcomes stand in ``mutants.csv``. For a survivor, its last column says by hand
why: the mutant is equivalent, or which test notices it now.
"""

from __future__ import annotations

import argparse
import ast
import csv
import hashlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_suffix(".csv")
FOLDERS = ("algorithms", "constructions", "theory", "model", "learning", "campaign", "rerun")
COUNT, SEED = 154, 0
SECONDS = 1800  # for the quick tests; a mutant that needs longer is noticed
# Of each operator its likely confusions; the others that cosmic-ray has fail at once.
_SWAPS = {
    "Binary": "Add_Sub Sub_Add Mul_Div Div_Mul Mul_Add Pow_Mul FloorDiv_Mul Mod_Sub",
    "Comparison": "Lt_LtE LtE_Lt Gt_GtE GtE_Gt Lt_Gt Gt_Lt Eq_NotEq NotEq_Eq Is_IsNot IsNot_Is",
    "Unary": "Delete_USub Delete_Not",
}
OPERATORS = [f"core/Replace{kind}Operator_{swap}" for kind, swaps in _SWAPS.items() for swap in swaps.split()]
OPERATORS += [f"core/Replace{kind}" for kind in ("TrueWithFalse", "FalseWithTrue", "AndWithOr", "OrWithAnd")]
OPERATORS += ["core/AddNot", "core/NumberReplacer", "core/ZeroIterationForLoop", "core/ReplaceBreakWithContinue"]

Place = tuple[int, int]  # line from 1, column from 0


class Mutant(NamedTuple):
    """A change of one line of a module; ``twin`` tells it from the same change of an equal line further up."""

    module: str
    before: str
    after: str
    twin: int


class Outcome(NamedTuple):
    """A row of the table: what became of a mutant; ``result`` is noticed, survived or too long."""

    module: str
    before: str
    after: str
    twin: int
    result: str
    by: str
    reason: str

    @property
    def mutant(self) -> Mutant:
        return Mutant(*self[:4])


def left_out(source: str) -> list[tuple[Place, Place]]:
    """Return the spans of a module that no mutant touches: ``raise``, and annotations without a call in them."""
    spans = []
    for node in ast.walk(ast.parse(source)):
        hints = [part for name in ("annotation", "returns") if (part := getattr(node, name, None)) is not None]
        plain = [part for part in hints if not any(isinstance(inner, ast.Call) for inner in ast.walk(part))]
        for part in [node] if isinstance(node, ast.Raise) else plain:
            spans.append(((part.lineno, part.col_offset), (part.end_lineno or 0, part.end_col_offset or 0)))
    return spans


def places(module: Path) -> Iterator[tuple[str, str, int]]:
    """Yield a key, the operator and which of its occurrences in the module, for each mutant that may be made.

    The key depends on the line, not on where it stands.
    """
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator

    source = module.read_text(encoding="utf-8")
    nodes, spans, lines = list(ast_nodes(get_ast(source))), left_out(source), source.splitlines()
    for name in OPERATORS:
        positions = (place for node in nodes for place, _ in get_operator(name)().mutation_positions(node))
        seen: Counter[str] = Counter()
        for occurrence, place in enumerate(positions):
            key = f"{module.name} {name} {lines[place[0] - 1].strip()}"
            seen[key] += 1
            if not any(start <= place < end for start, end in spans):
                yield f"{key} {seen[key]}", name, occurrence


def made(module: Path, name: str, occurrence: int) -> tuple[Mutant, str] | None:
    """Return a mutant and its source; None if it is no program, or the same."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    source = module.read_text(encoding="utf-8")
    changed: str = mutate_code(source, get_operator(name)(), occurrence)
    try:
        if ast.dump(ast.parse(changed)) == ast.dump(ast.parse(source)):
            return None
    except SyntaxError:
        return None
    old, new = source.splitlines(), changed.splitlines()
    at = next(i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b)
    place = module.relative_to(ROOT).as_posix(), old[at].strip(), new[at].strip()
    return Mutant(*place, old[:at].count(old[at])), changed


def sample(count: int, seed: int) -> dict[Mutant, str]:
    """Return the mutants to try, as many of each folder, with their sources."""
    chosen: dict[Mutant, str] = {}
    for folder in FOLDERS:
        modules = sorted((ROOT / "tfnewton" / folder).glob("*.py"))
        listed = [(digest(key, seed), module, name, at) for module in modules for key, name, at in places(module)]
        ordered = (made(module, name, at) for _, module, name, at in sorted(listed))
        chosen |= islice(filter(None, ordered), count // len(FOLDERS))
    return chosen


def digest(key: str, seed: int) -> str:
    return hashlib.sha256(f"{seed} {key}".encode()).hexdigest()


def copy_of_the_project(to: Path) -> None:
    """Copy what git knows, and what it would know, as it stands now."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    (to / TABLE.relative_to(ROOT)).unlink(missing_ok=True)  # a test minds survivors that wait for their reason
    subprocess.run(["git", "init", "--quiet"], cwd=to, check=True)  # a test asks git for the files


def stages(module: str) -> list[str]:
    """Return the tests in the order in which they are tried: those of the module, of its folder, all."""
    *_, folder, file = Path(module).parts
    own = [f"tests/{folder}/test_{file}", f"tests/{folder}", "tests"]
    return [path for path in own if (ROOT / path).exists()]


def first_failure(copy: Path, tests: str) -> str:
    """Run the quick tests and return the first that fails: "" where none does, "too long" where they take too long.

    The profile of hypothesis draws the same cases each time, and has no complaint about a busy machine.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:nbval", "-p", "no:cacheprovider"]
    command += ["--hypothesis-profile=ci", "-m", "not slow and not long", tests]
    here = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        command, cwd=copy, env=here, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return "too long"
    if process.returncode in (0, 5):  # 5: none was found
        return ""
    named = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
    return named[1] if named else "collection"


def tried(mutant: Mutant, source: str, copy: Path) -> Outcome:
    module = copy / mutant.module
    before = module.read_bytes()
    module.write_text(source, encoding="utf-8")
    try:
        by = next(filter(None, (first_failure(copy, tests) for tests in stages(mutant.module))), "")
    finally:
        module.write_bytes(before)
    result = "survived" if not by else by if by == "too long" else "noticed"
    return Outcome(*mutant, result, by, "")


def read() -> list[Outcome]:
    """Return the rows of the table."""
    if not TABLE.exists():
        return []
    rows = csv.reader(io.StringIO(TABLE.read_text(encoding="utf-8")))
    next(rows)
    return [Outcome(module, before, after, int(twin), *rest) for module, before, after, twin, *rest in rows]


def write(outcomes: list[Outcome]) -> None:
    """Write the table, whole or not at all."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([Outcome._fields, *sorted(outcomes)])
    new = TABLE.with_suffix(".new")
    new.write_text(text.getvalue(), encoding="utf-8")
    new.replace(TABLE)


def run(count: int, seed: int, again: bool) -> list[Outcome]:
    """Try what the table lacks, row by row; what is no longer in the sample leaves it."""
    chosen = sample(count, seed)
    known = {of.mutant: of for of in read() if of.mutant in chosen}
    waiting = [m for m in chosen if m not in known or (again and known[m].result == "survived")]
    with TemporaryDirectory() as folder:
        copy = Path(folder)
        copy_of_the_project(copy)
        broken = first_failure(copy, "tests") if waiting else ""
        if broken:
            raise SystemExit(f"{broken} fails without a mutant; make test-quick must pass first")
        for number, mutant in enumerate(waiting, 1):
            outcome = tried(mutant, chosen[mutant], copy)
            reason = known[mutant].reason if mutant in known else ""
            known[mutant] = outcome._replace(reason=reason if outcome.result == "survived" else "")
            write(list(known.values()))
            print(
                f"{number}/{len(waiting)} {outcome.result:8} {mutant.module}: {mutant.before} -> {mutant.after}",
                flush=True,
            )
    return list(known.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=COUNT, help="mutants, as many of each folder")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--again", action="store_true", help="try survivors once more")
    options = parser.parse_args()
    outcomes = run(options.count, options.seed, options.again)
    open_ones = [of for of in outcomes if of.result == "survived" and not of.reason]
    noticed = sum(of.result != "survived" for of in outcomes)
    print(f"{noticed} of {len(outcomes)} noticed; {len(open_ones)} survivors have no reason in {TABLE.name}")
    sys.exit(bool(open_ones))


if __name__ == "__main__":
    main()
