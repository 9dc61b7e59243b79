"""A transformer computes from the modules as they are: edits act at once, alike in every mode, or are refused."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.helpers.linear_problems import matrix, regression_inputs
from tfnewton import Transformer
from tfnewton.constructions.inversion import newton_schulz
from tfnewton.constructions.linear_regression import least_squares
from tfnewton.constructions.logistic_regression import damped_newton
from tfnewton.model.layers import AttentionOptions, Head, Layer, ReLU, attention
from tfnewton.model.layout import Layout
from tfnewton.model.maps import Dense, Piece, Selection

RNG = np.random.default_rng(0)
BUILT: dict[str, tuple[Transformer, np.ndarray]] = {}
for _name, _model, _inputs in (
    ("general", newton_schulz(3, 2), (0.1 * np.eye(3), matrix(3, 2.0, RNG))),
    ("symmetric", newton_schulz(3, 2, symmetric=True), (0.1 * np.eye(3), np.diag([1.0, 2.0, 3.0]))),
    ("least squares", least_squares(2, 2, 1e-3), regression_inputs(2, 4, RNG)),
    ("logistic", damped_newton(2, 3, 1.0, 1, 0.05), (matrix(3, 2.0, RNG)[:, :2] / 4, np.array([1.0, -1.0, 1.0]))),
):
    BUILT[_name] = (_model, np.asarray(_model.pack(*_inputs)))


def random_map(like: Selection | Dense) -> Dense:
    rng = np.random.default_rng(1)
    return Dense(torch.tensor(rng.standard_normal(like.shape) / 10 / like.shape[1]), trainable=True)


def replace(name: str) -> Callable[[Layer], object]:
    return lambda layer: setattr(layer.heads[-1], name, random_map(getattr(layer.heads[-1], name)))


def reselect(name: str) -> Callable[[Layer], object]:
    """Another selection, after the map had been dense: back to the kind that it was."""

    def edit(layer: Layer) -> None:
        head = layer.heads[-1]
        shape = getattr(head, name).shape
        setattr(head, name, random_map(getattr(head, name)))
        setattr(head, name, Selection((Piece(0, 0, 1, -2.0),), shape))

    return edit


def remove_head(layer: Layer) -> None:
    del layer.heads[0]  # type: ignore[attr-defined]


def other_list(layer: Layer) -> None:
    layer.heads = nn.ModuleList([*layer.heads, deepcopy(layer.heads[0])])  # type: ignore[assignment]


def edit_options(layer: Layer) -> None:
    layer.options = AttentionOptions(average=True, clip=0.5, layer_norm=1e-5)


def scale_units(layer: Layer) -> None:
    if layer.relu is not None:
        with torch.no_grad():
            layer.relu.groups[0].outer.weight.mul_(3.0)
        del layer.relu.groups[-1]  # type: ignore[attr-defined]


EDITS: dict[str, Callable[[Layer], object]] = {
    **{f"another {name}": replace(name) for name in ("out", "value", "key", "query")},
    **{f"selected {name}": reselect(name) for name in ("out", "value", "key", "query")},
    "a head less": remove_head,
    "another list": other_list,
    "other options": edit_options,
    "other units": scale_units,
    "no units": lambda layer: setattr(layer, "relu", None),
}


def every_way(model: Transformer, H: np.ndarray) -> list[np.ndarray]:
    """The result under numpy, no_grad and grad, as traced, and as written layer by layer."""
    tensor = torch.tensor(H)
    with torch.no_grad():
        ungraded = np.asarray(model(tensor))
    graded = torch.as_tensor(model(tensor.clone().requires_grad_())).detach().numpy()
    traced = np.concatenate([torch.as_tensor(b).detach() for b in model.trace(H)[-1].blocks.values()], axis=-2)
    one_by_one = tensor
    for layer in model.layers:
        one_by_one = layer(one_by_one)
    return [np.asarray(model(H)), ungraded, graded, traced, one_by_one.detach().numpy()]


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("name", BUILT)
def test_edits_act_at_once_and_alike(name: str, edit: str, tmp_path: Path) -> None:
    built, H = BUILT[name]
    model = deepcopy(built)
    before = np.asarray(model(H))
    for layer in dict.fromkeys(model.layers):
        EDITS[edit](layer)
    results = every_way(model, H)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
    scale = 1.0 + np.abs(results[0]).max()
    np.testing.assert_allclose(np.asarray(model.dense()(H)), results[0], rtol=0, atol=1e-11 * scale)
    model.save(tmp_path / "edited.safetensors")
    np.testing.assert_array_equal(Transformer.load(tmp_path / "edited.safetensors")(H), results[0])
    if "units" not in edit or any(layer.relu is not None for layer in built.layers):
        assert np.abs(results[0] - before).max() > 1e-6 * scale
    np.testing.assert_array_equal(built(H), before)


def test_layers_can_be_removed_and_added(tmp_path: Path) -> None:
    built, H = BUILT["general"]
    model = deepcopy(built)
    model.layers = nn.ModuleList([*model.layers, *model.layers])  # type: ignore[assignment]
    np.testing.assert_array_equal(model(H), newton_schulz(3, 4)(H))
    del model.layers[2:]  # type: ignore[attr-defined]
    np.testing.assert_array_equal(model(H), newton_schulz(3, 1)(H))
    assert model.depth == 2


@pytest.mark.parametrize("kind", ["numpy", "no_grad", "grad", "trace", "global"])
def test_hooks_fire_every_time_and_see_what_happens(kind: str) -> None:
    model, H = deepcopy(BUILT["general"])
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def watch(layer: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        if isinstance(layer, Layer):
            seen.append((inputs[0], output))

    if kind == "global":
        handles = [nn.modules.module.register_module_forward_hook(watch)]
    else:
        handles = [layer.register_forward_hook(watch) for layer in dict.fromkeys(model.layers)]
    try:
        for _ in range(2):
            if kind == "trace":
                model.trace(H)
            elif kind == "no_grad":
                with torch.no_grad():
                    model(torch.tensor(H))
            else:
                model(H if kind != "grad" else torch.tensor(H).requires_grad_())
    finally:
        for handle in handles:
            handle.remove()
    frames = [np.concatenate(list(frame.blocks.values()), axis=-2) for frame in model.trace(H)]
    assert len(seen) == 2 * model.depth
    for number, (given, made) in enumerate(seen):  # not written over by the layers that follow
        at = number % model.depth
        np.testing.assert_array_equal(given.detach().numpy(), frames[at])
        np.testing.assert_array_equal(made.detach().numpy(), frames[at + 1])


def test_a_hook_can_change_the_result() -> None:
    model, H = newton_schulz(3, 1), BUILT["general"][1]
    before = np.asarray(model(H))
    handle = model.layers[-1].register_forward_hook(lambda layer, inputs, output: 2.0 * output)
    np.testing.assert_array_equal(model(H), 2.0 * before)
    handle.remove()
    np.testing.assert_array_equal(model(H), before)


def narrow(model: Transformer) -> None:
    model.layers[0].heads[0].key = Selection((Piece(0, 0, 2, 1.0),), (2, model.width))


def foreign(model: Transformer) -> None:
    model.layers[0].heads[0].query = Selection((Piece(0, 0, 3, 1.0),), (3, model.width - 1))


def other_weight(model: Transformer) -> None:
    head = model.layers[0].heads[0]
    head.out = random_map(head.out)
    head.out.weight = nn.Parameter(torch.ones(1, 3, dtype=torch.float64))


def no_layer(model: Transformer) -> None:
    model.layers[0] = nn.Identity()  # type: ignore[index]


def far_rows(model: Transformer) -> None:
    model.layers[0].options = AttentionOptions(layer_norm=1e-5, rows=(model.width - 1, 2))


@pytest.mark.parametrize("edit", [narrow, foreign, other_weight, no_layer, far_rows])
def test_edits_that_do_not_fit_are_refused_before_any_computing(
    edit: Callable[[Transformer], None], tmp_path: Path
) -> None:
    model, H = deepcopy(BUILT["general"])
    edit(model)
    message = "do not fit together|must be a Layer|must lie in the 12 rows"
    for use in (model, model.trace, lambda H: model(torch.tensor(H).requires_grad_())):
        with pytest.raises((TypeError, ValueError), match=message):
            use(H)
    with pytest.raises((TypeError, ValueError), match=message):
        model.save(tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())


def test_what_is_no_map_is_refused() -> None:
    head: Head = deepcopy(BUILT["general"][0]).layers[0].heads[0]
    with pytest.raises(TypeError, match="key is a Linear: must be a Selection or a Dense map"):
        head.key = nn.Linear(2, 2)  # type: ignore[assignment]
    with pytest.raises(AttributeError):
        head.key.pieces = ()  # type: ignore[misc]
    with pytest.raises(TypeError, match="trainable = 'no': must be True or False"):
        Dense(torch.eye(2), trainable="no")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="weight contains NaN or infinity"):
        Dense(torch.full((2, 2), torch.nan), trainable=False)
    with pytest.raises(ValueError, match="weight has shape"):
        Dense(torch.ones(2), trainable=False)


def test_results_that_are_not_finite_are_refused_in_every_mode() -> None:
    model = newton_schulz(2, 30)
    H = np.asarray(model.pack(10.0 * np.eye(2), np.eye(2)))  # outside the basin
    for use in (H, torch.tensor(H), torch.tensor(H).requires_grad_()):
        with pytest.raises(ValueError, match=r"the result contains NaN or infinity: trace\(H\) shows"):
            model(use)


def other_dtype(model: Transformer) -> None:
    model.layers[0].heads[0].out.float()  # type: ignore[union-attr]


def other_device(model: Transformer) -> None:
    model.layers[0].to("meta")


def no_head(model: Transformer) -> None:
    model.layers[0].heads[0] = nn.Identity()  # type: ignore[index]


def no_list(model: Transformer) -> None:
    model.layers[0].heads = None  # type: ignore[assignment]


def no_options(model: Transformer) -> None:
    model.layers[0].options = None  # type: ignore[assignment]


def no_weight(model: Transformer) -> None:
    model.layers[0].heads[0].out.weight = None  # type: ignore[union-attr]


def flat_weight(model: Transformer) -> None:
    model.layers[0].heads[0].out.weight = nn.Parameter(torch.ones(3, dtype=torch.float64))  # type: ignore[union-attr]


def no_units(model: Transformer) -> None:
    model.layers[0].relu = ReLU([nn.Linear(1, 1)])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "edit", [other_dtype, other_device, no_head, no_list, no_options, no_weight, flat_weight, no_units]
)
def test_parts_of_another_kind_are_refused_by_name(edit: Callable[[Transformer], None], tmp_path: Path) -> None:
    model, H = BUILT["general"][0].dense(), BUILT["general"][1]
    edit(model)
    for use in (model, model.trace, lambda H: model(torch.tensor(H).requires_grad_())):
        with pytest.raises((TypeError, ValueError), match=r"must be|do not fit together"):
            use(H)
    with pytest.raises((TypeError, ValueError), match=r"must be|do not fit together"):
        model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_matrices_of_two_dtypes_make_no_transformer() -> None:
    model = BUILT["general"][0].dense()
    model.layers[0].heads[0].key.float()  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="do not fit together"):
        Transformer(model.layout, model.layers)
    assert Transformer(model.layout, list(BUILT["general"][0].dense().float().layers)).dtype == torch.float32


@pytest.mark.parametrize("part", ["out", "value", "key", "query", "inner", "outer"])
@pytest.mark.parametrize("edit", ["dtype", "rows", "columns"])
def test_one_map_that_does_not_fit_is_enough(part: str, edit: str) -> None:
    """Each of a head and of a group of units by itself, the others as they were."""
    model = BUILT["logistic"][0].dense()
    layer = next(layer for layer in model.layers if layer.relu is not None and len(layer.heads))
    assert layer.relu is not None
    holder = layer.relu.groups[0] if part in {"inner", "outer"} else layer.heads[0]
    old = getattr(holder, part).weight.detach()
    if edit == "dtype":
        other = old.float()
    else:
        other = torch.cat([old, old[:1]]) if edit == "rows" else torch.cat([old, old[:, :1]], dim=1)
    H = BUILT["logistic"][1]
    assert np.isfinite(model(H)).all()
    setattr(holder, part, Dense(other, trainable=True))
    with pytest.raises(ValueError, match=r"^the maps of .* do not fit together in"):
        model(H)


def test_units_read_and_write_by_selections() -> None:
    relu = deepcopy(BUILT["logistic"][0]).layers[0].relu
    assert relu is not None
    with pytest.raises(TypeError, match="read is a Dense: must be a Selection map"):
        relu.groups[0].read = relu.groups[0].inner  # type: ignore[assignment]


@pytest.mark.parametrize("kind", ["head twice", "shared matrix", "shared list", "tied weights"])
def test_what_is_shared_is_saved_once_and_shared_again(kind: str, tmp_path: Path) -> None:
    model, H = BUILT["general"][0].dense(), BUILT["general"][1]
    first, second = model.layers[0], model.layers[1]
    if kind == "head twice":
        first.heads.append(first.heads[0])  # type: ignore[attr-defined]
    elif kind == "shared matrix":
        second.heads[0].out = second.heads[1].out = first.heads[0].out
        second.heads[1].value = second.heads[0].value
    elif kind == "shared list":
        second.heads = first.heads
    else:
        second.heads[0].query.weight = first.heads[0].query.weight  # type: ignore[union-attr]
    model.save(tmp_path / "m")
    loaded = Transformer.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded(H), model(H))
    assert len(list(loaded.parameters())) == len(list(model.parameters()))
    if kind != "tied weights":
        assert len(list(model.dense().parameters())) == len(list(model.parameters()))
    np.testing.assert_allclose(np.asarray(model.dense()(H)), np.asarray(model(H)), atol=1e-12)


def test_weights_that_are_not_finite_are_not_saved(tmp_path: Path) -> None:
    model = BUILT["general"][0].dense()
    with torch.no_grad():
        model.layers[0].heads[0].out.weight[0, 0] = torch.nan  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="contains NaN or infinity: cannot be saved"):
        model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_layer_with_a_forward_of_its_own_keeps_it() -> None:
    class Twice(Layer):
        def forward(self, H: torch.Tensor) -> torch.Tensor:
            return 2.0 * super().forward(H)

    built, H = BUILT["general"]
    for layer in (Twice([]), Layer([])):
        if type(layer) is Layer:
            layer.forward = lambda H: 2.0 * H  # type: ignore[method-assign]
        for result in every_way(Transformer(built.layout, [layer]), H):
            np.testing.assert_array_equal(result, 2.0 * H)


def test_a_query_alone_has_no_keys() -> None:
    layout = Layout(a=2, b=2)
    a, b = layout.blocks
    model = Transformer(layout, [attention(layout, a.add(a @ b.T @ b))])
    for average in (False, True):
        model.layers[0].options = AttentionOptions(average=average, query_as_key=False)
        np.testing.assert_array_equal(model(np.ones((4, 1))), np.ones((4, 1)))


@pytest.mark.parametrize("small", [0.0, 5e-324, 1e-300, 1e-9])
@pytest.mark.parametrize("large", [1.0, -1e3, 1e250])
def test_coefficients_far_apart_share_a_product(small: float, large: float) -> None:
    layout = Layout(a=2, b=2)
    a, b = layout.blocks
    H = 1e-40 * np.random.default_rng(0).standard_normal((4, 5))
    for order in ((small, large), (large, small)):
        writes = [a.add(a @ (order[0] * b).T @ b), a.add(a @ (order[1] * b).T @ a)]
        model = Transformer(layout, [attention(layout, *writes)])
        np.testing.assert_allclose(np.asarray(model(H)), np.asarray(model.dense()(H)), rtol=1e-12)


def test_traces_name_what_clipping_changes() -> None:
    layout = Layout(a=2, b=2)
    model = Transformer(layout, [Layer([], None, "clip", AttentionOptions(clip=0.5))])
    assert model.trace(np.ones((4, 2)))[1].written == ("a", "b")
    model.layers[0].options = AttentionOptions(clip=0.5, rows=(2, 2))
    assert model.trace(np.ones((4, 2)))[1].written == ("b",)


def test_a_dtype_that_numpy_has_not() -> None:
    model, H = newton_schulz(3, 1).to(torch.bfloat16), BUILT["general"][1]
    for use in (model, model.unpack):
        with pytest.raises(TypeError, match=r"H has dtype float64: must be torch\.bfloat16"):
            use(H)
    with pytest.raises(TypeError, match=r"numpy has no torch\.bfloat16: an input must be a tensor"):
        model.pack(np.eye(3), np.eye(3))
    assert torch.as_tensor(model(model.pack(torch.eye(3), np.eye(3)))).dtype == torch.bfloat16


def test_without_layers_the_result_is_a_copy() -> None:
    H = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    assert Transformer(Layout(X=2), [])(H) is not H
