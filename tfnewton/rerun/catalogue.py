"""What each chapter shows, the number that stands for it, how long it runs, and sets of parameters worth a look.

Entries are by the name of the chapter's file, without its number, which is also that of its class of parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CATALOGUE", "Entry", "Headline"]

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Headline:
    """The number that stands for a run: a column of one of its tables, in the row that ``row`` names.

    ``row`` is "first", "last", or a parameter: then the row whose first column has the parameter's value.
    """

    table: str
    column: str
    label: str
    row: str = "last"

    def __str__(self) -> str:
        return f"{self.table}:{self.column}"

    def value(self, table: Mapping[str, Any], parameters: Values) -> Any:
        """Return the number of a run from the table as its JSON has it.

        Raises:
            ValueError: the table has no such column or row.
        """
        names, rows = [of["name"] for of in table["schema"]["fields"]], table["data"]
        if self.column not in names:
            raise ValueError(f"{self}: has no such column, but {', '.join(names)}")
        if self.row in ("first", "last"):
            return rows[0 if self.row == "first" else -1][self.column]
        wanted = parameters[self.row]
        for row in rows:
            if row[names[0]] == wanted:
                return row[self.column]
        raise ValueError(f"{self}: has no row for {self.row} = {wanted}")


def _nothing(values: Values) -> float:
    return 0.0


@dataclass(frozen=True)
class Entry:
    """A chapter as ``tfnewton list`` and ``tfnewton params`` tell it.

    ``seconds`` is of a run at the defaults on one core, ``more`` what values add to it; ``costly`` says by parameter
    which values take longer; ``presets`` are legal sets of parameters by name.
    """

    shows: str
    headline: Headline
    seconds: float
    presets: Mapping[str, Values]
    costly: Mapping[str, str] = field(default_factory=dict)
    more: Callable[[Values], float] = _nothing


def _training(a_layer_step: float) -> Callable[[Values], float]:
    """Return what ``retrain`` adds, in proportion to layers and steps; measured with batches of 128 on one core."""

    def more(values: Values) -> float:
        return a_layer_step * values["layers"] * values["steps"] if values["retrain"] else 0.0

    return more


CATALOGUE: dict[str, Entry] = {
    "linear_transformer": Entry(
        "a linear transformer is a short formula, and a layer of it a line of algebra",
        Headline("transformer-residual-table", "residual", "residual after 16 layers"),
        15,
        {
            "wide": {"d": 32, "n": 256, "heads": 8},
            "one-feature": {"d": 1, "n": 4, "heads": 1},
        },
    ),
    "newton_iteration": Entry(
        "Newton's iteration squares what is missing: how many steps, from which start, at which order",
        Headline("newton-steps-table", "spectral", "steps of order two from the spectral start"),
        20,
        {
            "ill-conditioned": {"d": 16, "kappa": 1e5, "steps": 60},
            "well-conditioned": {"kappa": 2.0, "steps": 12},
            "high-orders": {"orders": [2, 3, 5, 8], "kappa": 100.0},
        },
    ),
    "matrix_inversion": Entry(
        "two layers of linear attention are one Newton step for the inverse of a matrix",
        Headline("inverse-residuals-table", "error", "relative error after the last step"),
        15,
        {
            "ill-conditioned": {"kappa": 1e4, "steps": 40},
            "symmetric": {"symmetric": True, "d": 8, "kappa": 100.0, "steps": 20},
            "single-precision": {"dtype": "float32", "kappa": 100.0, "steps": 20},
        },
    ),
    "linear_regression": Entry(
        "a transformer that fits least squares and ridge to the examples in its prompt",
        Headline("regression-errors-table", "from ε R", "relative error of the weights"),
        40,
        {
            "diabetes": {"dataset": "diabetes", "d": 10, "n": 200, "steps": 24},
            "ridge": {"ridge": 1.0, "noise": 1.0},
            "many-features": {"d": 32, "n": 128, "steps": 20},
        },
    ),
    "self_concordance": Entry(
        "how far the regularised logistic loss can be trusted near a point, with the sharp constant",
        Headline("sc-hessian-table", "data, largest", "growth of the Hessian on lines of data"),
        15,
        {
            "strong-penalty": {"mu": 1.0},
            "weak-penalty": {"mu": 1e-3},
            "few-examples": {"d": 3, "n": 5},
        },
        {"d, n": "20 features with 200 examples take a minute"},
    ),
    "damped_newton": Entry(
        "the two phases of the damped Newton method, and what errors in its steps cost",
        Headline("dn-theorem-table", "paper", "steps of phase I", row="first"),
        15,
        {
            "far-start": {"start": 1000.0},
            "weak-penalty": {"mu": 0.01},
            "large-errors": {"error": 0.05, "mu": 1.0},
        },
        {"start, mu": "start = 10000 with mu = 0.0001 takes minutes"},
    ),
    "logistic_construction": Entry(
        "a transformer whose layers make one damped Newton step, with an error that is asked for",
        Headline("logistic-inversion-table", "measured", "error of the step", row="inversion_steps"),
        25,
        {
            "coarse": {"error": 0.1, "inversion_steps": 4},
            "fine": {"error": 1e-5, "inversion_steps": 12},
            "strong-penalty": {"mu": 1.0, "d": 6, "n": 20},
        },
        {"mu": "0.01 takes a minute"},
    ),
    "main_theorem": Entry(
        "how many layers and units take logistic regression to a given error",
        Headline("main-steps-table", "distance r", "distance to the minimiser at the last step shown"),
        35,
        {
            "breast-cancer": {"dataset": "breast_cancer", "d": 4, "n": 60, "error": 0.01, "steps": 8},
            "long-walk": {"mu": 0.01, "steps": 30},
            "one-feature": {"d": 1, "n": 10},
        },
        {"n, d": "1000 samples, or 30 features of 500, take a minute or two"},
    ),
    "training_linear_attention": Entry(
        "what trained linear attention does on least squares, depth by depth, beside Newton's method",
        Headline("training-this-model", "trimmed_mean", "trimmed mean of the model's squared errors", row="first"),
        90,
        {
            "noisy": {"noise": 1.0},
            "ill-conditioned": {"kappa": 100.0},
            "query-out": {"query_in_context": False, "layers": 3},
        },
        {"retrain": "True trains a model, about 8 seconds for 1000 layers times steps"},
        _training(0.008),
    ),
    "moving_the_query": Entry(
        "what trained models answer when the query leaves the range of training",
        Headline("query-inside-trimmed-table", "query out", "root of the trimmed mean inside the range", row="layers"),
        80,
        {
            "shallow": {"layers": 2},
            "far": {"range": 500.0},
            "ill-conditioned": {"kappa": 100.0},
        },
    ),
    "which_polynomial": Entry(
        "which polynomial of the Gram matrix a trained model applies, and whether one is fixed",
        Headline("polynomial-residuals-table", "trained", "residual of the trained model", row="layers"),
        40,
        {
            "shallow": {"layers": 2},
            "ill-conditioned": {"kappa": 100.0},
        },
    ),
    "training_logistic": Entry(
        "a trained encoder on logistic regression: what its depth is worth in Newton steps",
        Headline("logistic-steps-from", "from the encoder", "mean loss of the encoder above the least", row="first"),
        45,
        {
            "shallow": {"layers": 2},
            "weak-penalty": {"mu": 0.01},
            "ill-conditioned": {"kappa": 100.0},
        },
        {"retrain": "True trains an encoder, about 20 seconds for 1000 layers times steps"},
        _training(0.02),
    ),
    "conditioning_and_noise": Entry(
        "trained models and their rivals by condition number and noise, the figures of appendix D",
        Headline(
            "conditioning-losses", "Newton order 2", "loss of Newton's order two over predicting zero, at the last κ"
        ),
        80,
        {
            "quiet": {"noises": [0.0]},
            "deep": {"layers": 8, "kappas": [10.0, 100.0]},
            "harsh": {"kappas": [100.0, 1000.0], "noises": [1.0, 10.0]},
        },
        {"kappas, noises": "four of each take two minutes", "layers": "8 and more take two minutes"},
    ),
}
