"""Transformers that run Newton's method in context: constructions, theory and experiments.

After *How Well Can Transformers Emulate In-context Newton's Method?* (Giannou et al., AISTATS 2025).
Importing this package starts no work; ``tfnewton.Transformer`` is loaded at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfnewton.model.transformer import Transformer

__version__ = "0.1.0"
__all__ = ["Transformer", "__version__"]


def __getattr__(name: str) -> object:
    if name == "Transformer":
        from tfnewton.model.transformer import Transformer

        return Transformer
    raise AttributeError(f"module 'tfnewton' has no attribute {name!r}")
