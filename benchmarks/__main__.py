"""``python -m benchmarks [SUITE ...] [--seconds S] [--threads N] [--json FILE]``: print the tables."""

from __future__ import annotations

import argparse
import json
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.suites import Table

NAMES = ("inversion", "regression", "logistic", "building", "memory")


def _text(value: int | float | str) -> str:
    return (
        f"{value:.4g}"
        if isinstance(value, float) and value < 1e4
        else f"{value:.0f}"
        if isinstance(value, float)
        else str(value)
    )


def _print(table: Table) -> None:
    columns = list(table.rows[0])
    cells = [columns, *([_text(row[column]) for column in columns] for row in table.rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    print(f"\n{table.title}\n{table.note}\n")
    for line in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"some of {', '.join(NAMES)}; all by default")
    parser.add_argument("--seconds", type=float, default=4.0, help="time for each line of a table (default: 4)")
    parser.add_argument("--threads", type=int, default=1, help="threads of numpy and torch (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here too")
    options = parser.parse_args()
    unknown = sorted(set(options.suites) - set(NAMES))
    if unknown:
        parser.error(f"SUITE = {', '.join(unknown)}: must be among {', '.join(NAMES)}")
    if options.seconds <= 0 or options.threads < 1:
        parser.error(f"--seconds {options.seconds} --threads {options.threads}: must be above 0, and at least 1")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)  # read when numpy and torch are loaded, which is now
    import numpy as np
    import torch

    from benchmarks.suites import SUITES

    torch.set_num_threads(options.threads)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    print(f"{torch.get_num_threads()} thread(s); numpy {np.__version__}, torch {torch.__version__}; {machine}")
    tables = {}
    for name in options.suites or NAMES:
        tables[name] = SUITES[name](options.seconds)
        _print(tables[name])
    if options.json is not None:
        options.json.write_text(json.dumps({name: table._asdict() for name, table in tables.items()}, indent=1))


if __name__ == "__main__":
    main()
