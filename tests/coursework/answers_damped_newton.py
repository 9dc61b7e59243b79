"""Answers to "Damped Newton inside", right and wrong, and what the wrong ones lose."""

from __future__ import annotations

from tests.coursework.answers import Answer

__all__ = ["ANSWERS"]

_TESTS = {"prepare": "test_data"}  # the others are called after their solution cells


def _of(cell: str, name: str, source: str, loses: float = 0.0) -> Answer:
    test = _TESTS.get(cell, f"test_{cell}")
    return Answer(f"{cell}: {name}", {cell: source}, {test: loses} if loses else {})


def _need(name: str, loses: float = 0.0, **changed: str) -> Answer:
    parts = {
        "c": "y * (A @ u)",
        "second": "np.mean(delta**2 / r**3 * c**2) + mu * u @ u",
        "third": "abs(np.mean(-3 * m * delta**2 / r**5 * c**3))",
        "need": "third / (2 * second**1.5)",
    } | changed
    source = """
def need(x, u, A, y, mu, delta):
    m, c = y * (A @ x), {c}
    r = np.sqrt(delta**2 + m**2)
    second = {second}
    third = {third}
    return {need}
"""
    return _of("need", name, source.format(**parts), loses)


_NEEDS = [
    _of(
        "need",
        "in hyperbolic functions",
        """
def need(x, u, A, y, mu, delta):
    t = np.arcsinh(y * (A @ x) / delta)
    c = y * (A @ u)
    third = (3 * np.sinh(t) / np.cosh(t) ** 5 * c**3).mean() / delta**2
    second = (c**2 / np.cosh(t) ** 3).mean() / delta + mu * (u**2).sum()
    return float(np.abs(third) / second / np.sqrt(second) / 2)
""",
    ),
    _need(
        "a sum, not a mean",
        2,
        second="np.sum(delta**2 / r**3 * c**2) + mu * u @ u",
        third="abs(np.sum(-3 * m * delta**2 / r**5 * c**3))",
    ),
    _need("moduli inside the mean", 2, third="np.mean(np.abs(-3 * m * delta**2 / r**5 * c**3))"),
    _need("no label in the direction", 2, c="A @ u"),
    _need("a direction taken to be of length one", 3, second="np.mean(delta**2 / r**3 * c**2) + mu"),
    _need("no half", 3, need="third / second**1.5"),
    _need("the square of the direction", 3, third="abs(np.mean(-3 * m * delta**2 / r**5 * c**2))"),
    _of(
        "need",
        "a finite difference of Hessians",
        """
def need(x, u, A, y, mu, delta):
    h = 1e-4
    second = [u @ soft_loss(x + s * u, A, y, mu, delta)[2] @ u for s in (-h, 0, h)]
    return abs(second[2] - second[0]) / (2 * h) / (2 * second[1] ** 1.5)
""",
        3,
    ),
    _of(
        "need",
        "the logistic loss",
        """
def need(x, u, A, y, mu, delta):
    p, c = 1 / (1 + np.exp(y * (A @ x))), y * (A @ u)
    second = np.mean(p * (1 - p) * c**2) + mu * u @ u
    return abs(np.mean(p * (1 - p) * (1 - 2 * p) * c**3)) / (2 * second**1.5)
""",
        3,
    ),
]

_DATA = """
    A = np.zeros((n, 1))
    A[: round(4 * math.sqrt(2) * mu * delta * n)] = 1.0
    return A, np.ones(n), np.array([delta]), np.ones(1)
"""


def _constant(name: str, loses: float = 0.0, M: str = "0.5 / (math.sqrt(3 * mu) * delta)", data: str = _DATA) -> Answer:
    source = f"def soft_constant(mu, delta):\n    return {M}\n\n\ndef worst_data(mu, delta, n):\n{data}"
    return _of("constant", name, source, loses)


_CONSTANTS = [
    _of(
        "constant",
        "both by search",
        """
def soft_constant(mu, delta):
    w = np.geomspace(1e-3, 10, 100_001)
    return (0.75 / delta * w / (mu + w) ** 1.5).max()


def worst_data(mu, delta, n):
    def data(many):
        return np.where(np.arange(n) < many, -1.0, 0.0)[:, None], -np.ones(n), np.array([-delta]), np.array([2.0])

    def needs(many):
        c = np.where(np.arange(n) < many, 1.0, 0.0)
        m = delta * c
        r = np.sqrt(delta**2 + m**2)
        return np.mean(3 * m * delta**2 / r**5 * c) / (mu + np.mean(delta**2 / r**3 * c)) ** 1.5

    return data(max(range(n + 1), key=needs))
""",
    ),
    _of(
        "constant",
        "one example, as in chapter 5",
        """
def one(mu, delta):
    m = np.linspace(0, 20, 20_001)
    r = np.sqrt(delta**2 + m**2)
    needs = 3 * m * delta**2 / r**5 / (2 * (mu + delta**2 / r**3) ** 1.5)
    return needs.max(), m[needs.argmax()]


def soft_constant(mu, delta):
    return one(mu, delta)[0]


def worst_data(mu, delta, n):
    return np.ones((n, 1)), np.ones(n), np.array([one(mu, delta)[1]]), np.ones(1)
""",
        6,
    ),
    _constant("the loss's curvature left out below", 2, M="3 / (4 * delta * math.sqrt(mu))"),
    _constant("twice the smallest", 2, M="1 / (math.sqrt(3 * mu) * delta)"),
    _constant("delta forgotten, which is near one", 4, M="1 / (2 * math.sqrt(3 * mu))"),
    _constant("the logistic loss", 4, M="1 / (3 * math.sqrt(3 * mu) * (1 + 4 * mu))"),
    _constant("the largest at w = mu", 4, M="3 / (4 * delta) * mu / (2 * mu) ** 1.5"),
    _constant("data whose curvature equals mu", 2, data=_DATA.replace("4 *", "2 *")),
    _constant("a share that serves the visible mu", 2, data=_DATA.replace("4 * math.sqrt(2) * mu * delta", "0.3")),
    _constant("all examples alike", 2, data=_DATA.replace("np.zeros", "np.ones")),
    _constant("data where the curvature is largest", 2, data=_DATA.replace("np.array([delta])", "np.zeros(1)")),
    _constant("rows of length two", 2, data=_DATA.replace("= 1.0", "= 2.0").replace("[delta]", "[delta / 2]")),
    _constant("three hundred rows, whatever is asked", 2, data="    n = 300" + _DATA),
]

_STEPS = """
def predicted_steps(M, mu, delta, gap, accuracy):
    g, goal, count = {scale} * gap, {scale} * accuracy, {first}
    rate = {rate}
    while g > goal:
        lam = math.sqrt(rate * g)
        low, high = 0.0, 1 - 1e-15
        while g < 30 and high - low > 1e-15 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if -middle - math.log1p(-middle) < g else (low, middle)
        lam = max(lam, {near})
        g, count = g - (lam - math.log1p(lam)), count + 1
    return count
"""


def _steps(name: str, loses: float = 0.0, **changed: str) -> Answer:
    parts = {"scale": "M**2", "first": "0", "rate": "2 * mu / (mu + 1 / delta)", "near": "low"} | changed
    return _of("steps", name, _STEPS.format(**parts), loses)


_TWO_PHASES = """
def predicted_steps(M, mu, delta, gap, accuracy):
    g, goal, count = M**2 * gap, M**2 * accuracy, 0
    rate, t = 2 * mu / (mu + 1 / delta), 1 / 6
    while g > goal and g >= t - math.log1p(t):
        lam = max(t, math.sqrt(rate * g))
        g, count = g - (lam - math.log1p(lam)), count + 1
    while {not_yet}:
        t, count = {after}, count + 1
    return count
"""


def _two_phases(name: str, loses: float, after: str) -> Answer:
    not_yet = "g > goal and -t - math.log1p(-t) > goal"
    return _of("steps", name, _TWO_PHASES.format(not_yet=not_yet, after=after), loses)


_COUNTS = [
    _steps("by bisection"),
    _of(
        "steps",
        "the shorter of two ways at the end",
        """
def predicted_steps(M, mu, delta, gap, accuracy):
    def star(t):
        return -t - np.log1p(-t)

    def last(g):
        t, count = brentq(lambda t: t - np.log1p(t) - g, 0, g + 9), 0  # lambda is at most this
        if t > 0.6:
            return math.inf
        while star(t) > goal:
            t, count = t**2 * (2 + t) / (1 + t), count + 1
        return count

    g, goal, steps, best = M**2 * gap, M**2 * accuracy, 0, math.inf
    while g > goal:
        best = min(best, steps + last(g)) if g < 1 else best
        t = brentq(lambda t: star(t) - g, 0, 1 - 1e-16, xtol=1e-15) if g < 30 else 1 - 1e-12
        t = max(t, np.sqrt(2 * mu / (mu + 1 / delta) * g))
        g, steps = g - (t - np.log1p(t)), steps + 1
    return int(min(best, steps))
""",
    ),
    _two_phases("the two phases of chapter 6", 2, "t**2 * (2 + t) / (1 + t)"),
    _two_phases("a last phase of linear convergence", 4, "t * (2 + t) / (3 + 3 * t)"),
    _steps("the quarter of the logistic loss", 4, rate="8 * mu / (1 + 4 * mu)"),
    _steps("without the penalty in the largest Hessian", 4, rate="2 * mu * delta"),
    _steps("f for M^2 f", 4, scale="1"),
    _steps("one step short", 4, first="-1"),
    _steps("no bound from the gap near the minimum", 4, near="0"),
    _of(
        "steps",
        "chapter 6's count for the logistic loss",
        """
def predicted_steps(M, mu, delta, gap, accuracy):
    return phase_one_steps(M**2 * gap, mu) + 5
""",
        6,
    ),
    _of(
        "steps",
        "the decrease of the paper, the same at every step",
        """
def predicted_steps(M, mu, delta, gap, accuracy):
    t, count = 1 / 6, max(0, math.ceil(M**2 * gap / (1 / 6 - math.log1p(1 / 6))))
    while -t - math.log1p(-t) > M**2 * accuracy:
        t, count = t**2 * (2 + t) / (1 + t), count + 1
    return count
""",
        2,
    ),
    _of("steps", "what the run took", "def predicted_steps(M, mu, delta, gap, accuracy):\n    return taken\n", 6),
    _of("steps", "enough for anybody", "def predicted_steps(M, mu, delta, gap, accuracy):\n    return 10**6\n", 6),
    _of(
        "steps",
        "a run on the visible data",
        """
def predicted_steps(M, mu, delta, gap, accuracy):
    def run(z, many):
        values = []
        for _ in range(many):
            value, g, H = soft_loss(z, A, y, mu, delta)
            v = np.linalg.solve(H, g)
            z = z - v / (1 + M * math.sqrt(g @ v))
            values.append(value)
        return z, np.array(values)

    best, values = run(np.zeros(3), 500)
    rise = lambda far: soft_loss(best + far, A, y, mu, delta)[0] - values.min() - gap
    _, values = run(best + brentq(rise, 0, 1e4), 500)
    return int(np.argmax(values - values.min() <= accuracy))
""",
        4,
    ),
]

_UNITS = [
    _of(
        "units",
        "interpolation, moved by the error to where it lacks",
        """
def variance_units(radius, error):
    z = np.linspace(-radius, radius, 40_001)
    least = knots.approximate(VARIANCE, (-radius, radius), 2 * error).width - 2
    for pieces in range(least, 2 * least):
        found = knots.interpolate(VARIANCE, (-radius, radius), pieces)
        move = -np.sign(VARIANCE.curvature(found.knots)) * 0.995 * error
        units = PiecewiseLinear(found.knots, found.values + move).units()
        if np.abs(units(z) - VARIANCE.value(z)).max() < 0.999 * error:
            return units
""",
    ),
    _of(
        "units",
        "the book's interpolation",
        """
def variance_units(radius, error):
    return knots.approximate(VARIANCE, (-radius, radius), error).units()
""",
        2,
    ),
    _of(
        "units",
        "knots at equal distances",
        """
def variance_units(radius, error):
    return knots.approximate(VARIANCE, (-radius, radius), error, "uniform").units()
""",
        4,
    ),
    _of(
        "units",
        "twice the error, moved down everywhere",
        """
def variance_units(radius, error):
    found = knots.approximate(VARIANCE, (-radius, radius), 2 * error)
    return PiecewiseLinear(found.knots, found.values - error).units()
""",
        6,
    ),
    _of(
        "units",
        "four fifths of the units, and nothing else",
        """
def variance_units(radius, error):
    pieces = math.floor(0.8 * knots.approximate(VARIANCE, (-radius, radius), error).width) - 1
    return knots.interpolate(VARIANCE, (-radius, radius), pieces).units()
""",
        6,
    ),
    _of(
        "units",
        "as many as the visible request takes",
        """
def variance_units(radius, error):
    return knots.interpolate(VARIANCE, (-radius, radius), 24).units()
""",
        6,
    ),
    _of(
        "units",
        "those of the visible request",
        """
visible = knots.approximate(VARIANCE, (-radius, radius), error).units()


def variance_units(radius, error):
    return visible
""",
        6,
    ),
    _of(
        "units",
        "p, not p(1-p)",
        """
def variance_units(radius, error):
    return knots.approximate(PROBABILITY, (-radius, radius), error).units()
""",
        6,
    ),
]

_STEP = """
def weighted_step(d, n, mu, weights, k):
    L, parts = layout(d), drawer(d, n, mu, weights)
    A_T, W, B, X, S, I, x, g, v, y, s, ones = L.blocks
    e1, size, c = I[0], 30.0, max(weights)
    M = {M}
    gates = [gate(scaled(d_units, w), label, size) for w, label in {classes}]
    eta = knots.approximate(step_size({penalty}), (0.0, {reach}), 1e-4).units()

    def layer(*writes, relu):
        return attention(L, *writes, relu=feed_forward(L, ones, *relu))

    weigh = [UnitWrite(s, units, (s, y)) for units in gates]
    parts["curvature"] = [layer(s.add({margin}), relu=(weigh, erase(s)))]
    parts["gradient"] = [layer({gradient}, relu=(erase(s),))]
    parts["damping"] = [layer(s.add({squared}), relu=(UnitWrite(s, eta, (s,)), erase(s)))]
    scratch = [erase(block) for block in ({scratch},)]
    parts["update"] = [layer(x.add({update}), relu=scratch)]
    parts["invert"] = parts["invert"] * {times}
    {more}
    order = "{order}"
    layers = [layer for name in order.split() for layer in parts[name]]
    return Transformer(L, layers, packing(d, n))
"""
_ORDER = "curvature weigh hessian invert slope gradient direction damping update"
_MEAN = "g.add(A_T @ s.T @ e1)"
_INSIDE = """parts["curvature"] = [{kind}]

    def inside(H):
        H, (A_T, x, y, s) = H.clone(), ([*range(b.start, b.start + b.size)] for b in (L["A_T"], L["x"], L["y"], L["s"]))
        p = (H[x][:, :1].T @ H[A_T]).sigmoid()
        H[s] += p * (1 - p) * ((H[y] > 0) * weights[0] + (H[y] < 0) * weights[1])
        return H

    parts["curvature"][0].forward = parts["curvature"][0].forward_ = inside"""


def _step(name: str, loses: float = 0.0, **changed: str) -> Answer:
    parts = {
        "M": "1 / (3 * math.sqrt(3 * mu) * (1 + 4 * mu / c))",
        "classes": "zip(weights, (1.0, -1.0))",
        "penalty": "1 / (4 * M**2)",
        "reach": "100.0",
        "margin": "e1 @ x.T @ A_T",
        "gradient": f"{_MEAN}, g.add(mu * x @ e1.T @ e1)",
        "squared": "e1 @ g.T @ v",
        "scratch": "B, X, g, v, s",
        "update": "-v @ s.T @ ones",
        "times": "k",
        "order": _ORDER,
        "more": "",
    } | changed
    return _of("step", name, _STEP.format(**parts), loses)


_SINGLE = [
    _step(
        "the gradient first, and M from the package",
        order="slope gradient curvature weigh hessian invert direction damping update",
        M="__import__('tfnewton').theory.self_concordance.sharp_constant(mu / c) / math.sqrt(c)",
    ),
    _step(
        "heads erase",
        scratch="g, s",
        update="-v @ s.T @ ones), B.add(-B @ I.T @ I), X.add(-X @ I.T @ I), v.add(-v @ e1.T @ e1",
        reach="150.0",
    ),
    _step("weights of the classes swapped", 4, classes="zip(weights, (-1.0, 1.0))"),
    _step("weights forgotten in the Hessian", 4, classes="zip((1.0, 1.0), (1.0, -1.0))"),
    _step("no penalty in the gradient", 4, gradient=_MEAN),
    _step("the mean taken twice", 4, gradient="g.add(1 / n * A_T @ s.T @ e1), g.add(mu * x @ e1.T @ e1)"),
    _step("the constant of the paper", 3, penalty="mu"),
    _step("the constant of chapter 5, without weights", 3, M="1 / (3 * math.sqrt(3 * mu) * (1 + 4 * mu))"),
    _step("the weight of the first class in M", 3, M="1 / (3 * math.sqrt(3 * mu) * (1 + 4 * mu / weights[0]))"),
    _step("units of the damping that end at one", 3, reach="1.0"),
    _step("the square of g in the decrement", 3, squared="e1 @ g.T @ g"),
    _step("x changed at the first token only", 2, update="-v @ s.T @ e1"),
    _step("uphill", 2, update="v @ s.T @ ones"),
    _step("no damping", 2, update="-v @ e1.T @ ones"),
    _step("B and X left over", 2, scratch="g, v, s"),
    _step("one inversion step short", 2, times="(k - 1)"),
    _step(
        "slope before curvature is used up",
        6,
        order=_ORDER.replace("weigh hessian invert slope", "slope weigh hessian invert"),
    ),
    _step(
        "a layer of its own that computes the sigmoid",
        7,
        more=_INSIDE.format(kind="type('Own', (type(parts['slope'][0]),), {})([])"),
    ),
    _step("a layer without heads, whose forward is replaced", 4, more=_INSIDE.format(kind="layer(relu=())")),
]

_PREPARED = """
def prepare(points, labels, mu, repeats):
    times = {times}
    A, divisor = {scaled}
    penalty = {penalty}
    return A, np.repeat(labels, times), penalty, divisor
"""


def _prepared(name: str, loses: float = 0.0, **changed: str) -> Answer:
    parts = {
        "times": "np.where(labels > 0, *repeats)",
        "scaled": "book.scale_rows(np.repeat(points, times, axis=0))",
        "penalty": "mu * len(points) / times.sum() / divisor**2",
    } | changed
    return _of("prepare", name, _PREPARED.format(**parts), loses)


_TABLES = [
    _of(
        "prepare",
        "class by class, in lowest terms, always divided by the longest row",
        """
def prepare(points, labels, mu, repeats):
    plus, minus = (r // math.gcd(*repeats) for r in repeats)
    first, second = points[labels == 1], points[labels == -1]
    A = np.vstack([first] * plus + [second] * minus)
    y = np.repeat([1.0, -1.0], [plus * len(first), minus * len(second)])
    longest = np.sqrt((A**2).sum(axis=1).max()) * (1 + 1e-12)
    return A / longest, y, mu * len(points) / (math.gcd(*repeats) * len(A) * longest**2), longest
""",
    ),
    _prepared("the penalty not divided", 1, penalty="mu * len(points) / times.sum()"),
    _prepared("the penalty divided once", 1, penalty="mu * len(points) / times.sum() / divisor"),
    _prepared("the penalty multiplied", 1, penalty="mu * len(points) / times.sum() * divisor**2"),
    _prepared("the penalty per row that was there", 2, penalty="mu / divisor**2"),
    _prepared("the penalty of the sum, not of the mean", 2, penalty="mu * times.sum() / len(points) / divisor**2"),
    _prepared("the classes swapped", 3, times="np.where(labels < 0, *repeats)"),
    _prepared("the visible repeats", 3, times="np.where(labels > 0, 1, 2)"),
    _prepared(
        "every row of length one",
        2,
        scaled="(lambda rows: (rows / np.linalg.norm(rows, axis=1)[:, None], 1.0))(np.repeat(points, times, axis=0))",
    ),
    _prepared("rows as long as they are", 3, scaled="np.repeat(points, times, axis=0), 1.0"),
]

ANSWERS = [*_NEEDS, *_CONSTANTS, *_COUNTS, *_UNITS, *_SINGLE, *_TABLES]
