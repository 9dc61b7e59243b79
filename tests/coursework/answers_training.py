"""Answers to "What training finds", right and wrong, and what the wrong ones lose."""

from __future__ import annotations

from tests.coursework.answers import Answer

__all__ = ["ANSWERS"]

_INTERVAL, _COMPARE, _RESIDUALS, _NAMES = "trimmed-interval", "compare", "residuals", "name-it"
_LENGTHS, _SAMPLE, _CURE = "tuned-lengths", "find-sample", "cure"


def _of(cell: str, name: str, source: str, loses: float = 0.0) -> Answer:
    return Answer(f"{cell}: {name}", {cell: source}, {f"{cell}-test": loses} if loses else {})


_INTERVALS = [
    _of(
        _INTERVAL,
        "a bootstrap",
        """
def trimmed_interval(errors):
    drawn = np.random.default_rng(1).choice(errors, (400, len(errors)))
    return np.quantile(stats.trim_mean(drawn, 0.05, axis=1), [0.025, 0.975])
""",
    ),
    _of(
        _INTERVAL,
        "the standard error of what is left",
        """
def trimmed_interval(errors):
    left = stats.trimboth(errors, 0.05)
    half = 1.96 * left.std(ddof=1) / len(left) ** 0.5
    return left.mean() - half, left.mean() + half
""",
        4,
    ),
    _of(
        _INTERVAL,
        "the plain mean",
        """
def trimmed_interval(errors):
    half = 1.96 * errors.std(ddof=1) / len(errors) ** 0.5
    return errors.mean() - half, errors.mean() + half
""",
        4,
    ),
    _of(
        _INTERVAL,
        "so long that it always covers",
        """
def trimmed_interval(errors):
    middle = stats.trim_mean(errors, 0.05)
    return middle - 3 * middle, middle + 3 * middle
""",
        4,
    ),
    _of(
        _INTERVAL,
        "the spread of errors, not of their mean",
        """
def trimmed_interval(errors):
    return np.quantile(errors, [0.025, 0.975])
""",
        4,
    ),
    _of(
        _INTERVAL,
        "tuned to the visible errors",
        """
def trimmed_interval(errors):
    middle = stats.trim_mean(errors, 0.05)
    return middle - 0.3, middle + 0.3
""",
        5,
    ),
]

_COMPARISONS = [
    _of(
        _COMPARE,
        "a paired bootstrap",
        """
def compare(first, second):
    rows = np.random.default_rng(2).integers(0, len(first), (400, len(first)))
    one, two = (stats.trim_mean(e[rows], 0.05, axis=1) for e in (first, second))
    low, high = np.quantile(one - two, [0.025, 0.975])
    return "second" if low > 0 else "first" if high < 0 else "open"
""",
    ),
    _of(
        _COMPARE,
        "the trimmed mean of the differences",
        """
def compare(first, second):
    low, high = trimmed_interval(first - second)
    return "second" if low > 0 else "first" if high < 0 else "open"
""",
        1,
    ),
    _of(
        _COMPARE,
        "a paired t-test of logarithms",
        """
def compare(first, second):
    test = stats.ttest_rel(np.log(first), np.log(second))
    return "open" if test.pvalue > 0.05 else "second" if test.statistic > 0 else "first"
""",
        1,
    ),
    _of(
        _COMPARE,
        "plain means",
        """
def compare(first, second):
    test = stats.ttest_rel(first, second)
    return "open" if test.pvalue > 0.05 else "second" if test.statistic > 0 else "first"
""",
        1,
    ),
    _of(
        _COMPARE,
        "intervals that do not overlap",
        """
def compare(first, second):
    one, two = trimmed_interval(first), trimmed_interval(second)
    return "second" if two[1] < one[0] else "first" if one[1] < two[0] else "open"
""",
        1,
    ),
    _of(
        _COMPARE,
        "the smaller number",
        """
def compare(first, second):
    one, two = (stats.trim_mean(e, 0.05) for e in (first, second))
    return "second" if two < one else "first"
""",
        2,
    ),
    _of(
        _COMPARE,
        "wins counted",
        """
def compare(first, second):
    wins = int((second < first).sum())
    if stats.binomtest(wins, len(first)).pvalue > 0.05:
        return "open"
    return "second" if wins > len(first) / 2 else "first"
""",
        1,
    ),
    _of(_COMPARE, "always open", 'def compare(first, second):\n    return "open"\n', 4),
    _of(
        _COMPARE,
        "first and second confused",
        """
def compare(first, second):
    low, high = trimmed_interval(first - second)
    return "first" if low > 0 else "second" if high < 0 else "open"
""",
        4,
    ),
]

_BOXES = [
    _of(
        _RESIDUALS,
        "turned axes, all in float64 tensors",
        """
def residuals(answer, spectrum, n, query=1.0):
    d, source = len(spectrum), torch.Generator().manual_seed(5)
    V = torch.linalg.qr(torch.randn(d, d, generator=source, dtype=torch.float64)).Q
    U = torch.linalg.qr(torch.randn(n, d, generator=source, dtype=torch.float64)).Q
    A = (U * torch.as_tensor(n * spectrum).sqrt()) @ V.T
    x, w = A.expand(d, n, d), d**0.5 * V.T
    found = ask(answer, x, (x @ w[..., None])[..., 0], query * V.T)
    return (1 - found / (query * d**0.5)).numpy()
""",
    ),
    _of(
        _RESIDUALS,
        "the spectrum of the sum, not of the mean",
        """
def residuals(answer, spectrum, n, query=1.0):
    d = len(spectrum)
    A = np.linalg.qr(np.random.default_rng(0).normal(size=(n, d))).Q * np.sqrt(spectrum)
    found = ask(answer, np.repeat(A[None], d, axis=0), d**0.5 * A.T, query * np.eye(d))
    return 1 - np.asarray(found) / (query * d**0.5)
""",
        4,
    ),
    _of(
        _RESIDUALS,
        "weights of length one",
        """
def residuals(answer, spectrum, n, query=1.0):
    d = len(spectrum)
    A = np.linalg.qr(np.random.default_rng(0).normal(size=(n, d))).Q * np.sqrt(n * spectrum)
    found = ask(answer, np.repeat(A[None], d, axis=0), A.T, query * np.eye(d))
    return 1 - np.asarray(found) / query
""",
        1,
    ),
    _of(
        _RESIDUALS,
        "the query always of length one",
        """
def residuals(answer, spectrum, n, query=1.0):
    d = len(spectrum)
    A = np.linalg.qr(np.random.default_rng(0).normal(size=(n, d))).Q * np.sqrt(n * spectrum)
    found = ask(answer, np.repeat(A[None], d, axis=0), d**0.5 * A.T, np.eye(d))
    return 1 - np.asarray(found) / d**0.5
""",
        1,
    ),
    _of(
        _RESIDUALS,
        "sorted, and so for other eigenvalues",
        """
def residuals(answer, spectrum, n, query=1.0):
    d, spectrum = len(spectrum), np.sort(spectrum)
    A = np.linalg.qr(np.random.default_rng(0).normal(size=(n, d))).Q * np.sqrt(n * spectrum)
    found = ask(answer, np.repeat(A[None], d, axis=0), d**0.5 * A.T, query * np.eye(d))
    return 1 - np.asarray(found) / (query * d**0.5)
""",
        4,
    ),
    _of(
        _RESIDUALS,
        "random points, whose spectrum is near the one asked for",
        """
def residuals(answer, spectrum, n, query=1.0):
    d = len(spectrum)
    A = np.random.default_rng(0).normal(size=(n, d)) * np.sqrt(spectrum)
    found = ask(answer, np.repeat(A[None], d, axis=0), d**0.5 * A.T, query * np.eye(d))
    return 1 - np.asarray(found) / (query * d**0.5)
""",
        4,
    ),
    _of(
        _RESIDUALS,
        "numpy in place of the box",
        """
def residuals(answer, spectrum, n, query=1.0):
    return (1 - spectrum / spectrum.max()) ** 4
""",
        4,
    ),
]

_NAMED = """
def name_it(answer, n, d):
    at = np.geomspace(1, 30, d)
    r, far, double = (residuals(answer, *of) for of in ((at, n), (at, n, 30.0), (2 * at, n)))
    same = lambda a, b: np.allclose(a, b, 1e-6, 1e-9)
    if not same(r, far):
        return "false sample"
    if same(r, double):
        {newton}
    if same(at * r / (1 - r), at[0] * r[0] / (1 - r[0])):
        return "ridge"
    coefficients = np.polyfit(at, r, 4)
    if not same(np.polyval(coefficients, at), r) or abs(coefficients[-1] - 1) > 1e-6:
        return "none"
    {steps}
"""
_NEWTON = 'return "newton" if any(same(r, (1 - at / at[-1]) ** p) for p in (2, 3, 4, 8, 9, 27)) else "none"'
_STEPS = """for m in (1, 2, 3, 4):
        if same(np.abs(r) ** (1 / m), np.abs(1 - (1 - r[0] ** (1 / m)) * at / at[0])):
            return "descent"
    return "tuned"
"""
_OWN = "residuals(answer, *of, seed=1)"

_DETECTIVES = [
    _of(_NAMES, "a polynomial fitted, powers of sizes", _NAMED.format(newton=_NEWTON, steps=_STEPS)),
    _of(
        _NAMES,
        "whatever knows its scale is Newton's",
        _NAMED.format(newton='return "newton"', steps=_STEPS),
        2,
    ),
    _of(_NAMES, "all steps are descent", _NAMED.format(newton=_NEWTON, steps='return "descent"'), 2),
    _of(_NAMES, "always the same", 'def name_it(answer, n, d):\n    return "newton"\n', 6),
    _of(
        _NAMES,
        "tuned to the suspects shown",
        """
def name_it(answer, n, d):
    known = {name: residuals(box, np.geomspace(1, 30, d), n) for name, box in suspects.items()}
    r = residuals(answer, np.geomspace(1, 30, d), n)
    return next((name for name, of in known.items() if np.allclose(of, r)), "none")
""",
        6,
    ),
]

_OF_TWO_TASKS = [
    Answer(
        f"{_NAMES}: residuals with an argument of their own, which is used",
        {
            _RESIDUALS: """
def residuals(answer, spectrum, n, query=1.0, seed=0):
    d = len(spectrum)
    A = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, d))).Q * np.sqrt(n * spectrum)
    found = ask(answer, np.repeat(A[None], d, axis=0), d**0.5 * A.T, query * np.eye(d))
    return 1 - np.asarray(found) / (query * d**0.5)
""",
            _NAMES: _NAMED.format(newton=_NEWTON, steps=_STEPS).replace("residuals(answer, *of)", _OWN),
        },
        {},
    ),
    Answer(
        f"{_NAMES}: right, with no residuals to call",
        {
            _RESIDUALS: "def residuals(answer, spectrum, n, query=1.0):\n    raise NotImplementedError\n",
            _NAMES: _NAMED.format(newton=_NEWTON, steps=_STEPS),
        },
        {f"{_RESIDUALS}-test": 4},
    ),
]

_TUNED = [
    _of(
        _LENGTHS,
        "found by a search over the prompts' own errors",
        """
def tuned_lengths(given, steps):
    from scipy.optimize import minimize

    values, vectors = np.linalg.eigh((given.x.mT @ given.x / given.x.shape[1]).numpy())
    q = np.einsum("bij,bi->bj", vectors, given.x_query.numpy()) ** 2
    top = values.max()

    def loss(logs):
        r = np.prod([1 - np.exp(s) * values / top for s in logs], axis=0)
        return np.log((q * r**2).sum())

    starts = (np.log(np.geomspace(1.1, ratio, steps)) for ratio in (4, 8, 16))
    found = min((minimize(loss, start) for start in starts), key=lambda f: f.fun)
    return list(np.exp(found.x) / top)
""",
    ),
    _of(
        _LENGTHS,
        "one over the largest eigenvalue, in the mean, each time",
        """
def tuned_lengths(given, steps):
    top = torch.linalg.matrix_norm(given.x, ord=2) ** 2 / given.x.shape[1]
    return [1 / top.mean().item()] * steps
""",
        4,
    ),
    _of(
        _LENGTHS,
        "the zeros of a Chebyshev polynomial",
        """
def tuned_lengths(given, steps):
    values = torch.linalg.eigvalsh(given.x.mT @ given.x / given.x.shape[1])
    low, high = values[:, 0].mean().item(), values[:, -1].mean().item()
    angles = np.pi * (np.arange(steps) + 0.5) / steps
    return list(1 / ((high + low) / 2 + (high - low) / 2 * np.cos(angles)))
""",
        4,
    ),
    _of(
        _LENGTHS,
        "steps on the sum, not on the mean",
        """
def tuned_lengths(given, steps):
    values, vectors = torch.linalg.eigh(given.x.mT @ given.x)
    q = (vectors.mT @ given.x_query[..., None]).flatten().numpy()
    v, top = values.flatten().numpy(), values.max().item()
    powers = (v[:, None] / top) ** np.arange(1, steps + 1)
    c = np.linalg.lstsq(q[:, None] * powers, -q, rcond=None)[0]
    return list(1 / (np.roots([*c[::-1], 1.0]).real * top))
""",
        4,
    ),
    _of(
        _LENGTHS,
        "written down for prompts like these",
        """
def tuned_lengths(given, steps):
    return {1: [0.0141], 2: [0.009, 0.0238], 3: [0.0073, 0.0126, 0.035], 4: [0.0065, 0.0095, 0.0171, 0.0484]}[steps]
""",
        2,
    ),
]

_SAMPLES = [
    _of(
        _SAMPLE,
        "the ratio is a line in h, robustly",
        """
def find_sample(prompts, answers):
    Ri = torch.linalg.inv(prompts.x.mT @ prompts.x)
    h = torch.einsum("bi,bij,bj->b", prompts.x_query, Ri, prompts.x_query).numpy()
    slope, start, *_ = stats.theilslopes((prompts.target / answers).numpy(), h)
    return 1 / start, slope / start
""",
    ),
    _of(
        _SAMPLE,
        "one sample taken for granted",
        """
def find_sample(prompts, answers):
    u = torch.linalg.solve(prompts.x.mT @ prompts.x, prompts.x_query)
    h = (prompts.x_query * u).sum(-1)
    return (answers * (1 + h) / prompts.target).median().item(), 1.0
""",
        3,
    ),
    _of(
        _SAMPLE,
        "least squares without a word to wild answers",
        """
def find_sample(prompts, answers):
    u = torch.linalg.solve(prompts.x.mT @ prompts.x, prompts.x_query)
    h, t, a = (prompts.x_query * u).sum(-1).numpy(), prompts.target.numpy(), answers.numpy()
    return tuple(np.linalg.lstsq(np.stack([t, -h * a], axis=1), a, rcond=None)[0])
""",
        1,
    ),
    _of(
        _SAMPLE,
        "the leverage of the mean",
        """
def find_sample(prompts, answers):
    R = prompts.x.mT @ prompts.x / prompts.x.shape[1]
    h = (prompts.x_query * torch.linalg.solve(R, prompts.x_query)).sum(-1).numpy()
    slope, start, *_ = stats.theilslopes((prompts.target / answers).numpy(), h)
    return 1 / start, slope / start
""",
        3,
    ),
    _of(
        _SAMPLE,
        "the theory's numbers",
        """
def find_sample(prompts, answers):
    n, d = prompts.x.shape[1:]
    return (n + 5) / (n - d + 3), 1.0
""",
        3,
    ),
]

_CURES = [
    _of(
        _CURE,
        "the median constant, from five small queries",
        """
def cure(answer, prompts):
    x, y = prompts.x, prompts.y
    size = 0.02
    asked = [ask(answer, x, y, size * x[:, i]) / size for i in (0, 10, 20, 30, 40)]
    known = y[:, [0, 10, 20, 30, 40]]
    constants = (torch.stack(asked, dim=1) * known).sum(1) / known.square().sum(1)
    return ask(answer, x, y, size * prompts.x_query) / size / constants.median()
""",
    ),
    _of(
        _CURE,
        "a constant of its own for each prompt, all queries in one call",
        """
def cure(answer, prompts):
    B, n, d = prompts.x.shape
    x, y = (part.repeat_interleave(n + 1, dim=0) for part in (prompts.x, prompts.y))
    queries = torch.cat([prompts.x, prompts.x_query[:, None]], dim=1).flatten(0, 1)
    found = ask(answer, x, y, 0.05 * queries).view(B, n + 1) / 0.05
    return found[:, -1] * prompts.y.square().sum(1) / (found[:, :-1] * prompts.y).sum(1)
""",
    ),
    _of(
        _CURE,
        "least squares in place of the model",
        """
def cure(answer, prompts):
    moment = (prompts.x.mT @ prompts.y[..., None])[..., 0]
    return (prompts.x_query * torch.linalg.solve(prompts.x.mT @ prompts.x, moment)).sum(-1)
""",
        5,
    ),
    _of(
        _CURE,
        "a small query, and no constant",
        """
def cure(answer, prompts):
    return ask(answer, prompts.x, prompts.y, 0.01 * prompts.x_query) / 0.01
""",
        3,
    ),
    _of(
        _CURE,
        "the theory's constant",
        """
def cure(answer, prompts):
    n, d = prompts.x.shape[1:]
    small = ask(answer, prompts.x, prompts.y, 0.01 * prompts.x_query) / 0.01
    return small / ((n + 5) / (n - d + 3))
""",
        3,
    ),
    _of(
        _CURE,
        "one whole sample taken for granted",
        """
def cure(answer, prompts):
    u = torch.linalg.solve(prompts.x.mT @ prompts.x, prompts.x_query)
    h = (prompts.x_query * u).sum(-1)
    return answer(prompts) * (1 + h) / 1.23
""",
        5,
    ),
    _of(_CURE, "the answer as it is", "def cure(answer, prompts):\n    return answer(prompts)\n", 5),
]

ANSWERS = [*_INTERVALS, *_COMPARISONS, *_BOXES, *_DETECTIVES, *_TUNED, *_SAMPLES, *_CURES, *_OF_TWO_TASKS]
