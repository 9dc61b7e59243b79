"""What a run changes in the process that carries out a chapter's cells, called there before the first of them."""

from __future__ import annotations

from typing import Any

__all__ = ["CALL", "prepare"]

CALL = f"__import__({__name__!r}, fromlist=['prepare']).prepare()"  # leaves no name behind


def prepare() -> None:
    """Have each figure of the chapter put out as SVG beside PNG, and each table hold its rows in full precision."""
    import matplotlib
    from IPython.core.getipython import get_ipython
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
    matplotlib.rcParams["svg.hashsalt"] = "tfnewton"  # the same file for the same figure
    formats: Any = set_matplotlib_formats
    formats("png", "svg", metadata={"Date": None})
    shell: Any = get_ipython()
    shell.display_formatter.mimebundle_formatter.for_type_by_name("tfnewton.figures.tables", "Table", _with_all_digits)


def _with_all_digits(table: Any) -> dict[str, Any]:
    return dict(table.with_all_digits())
