"""Conformance vectors: what is crossed, what is expected, which mistakes are named."""

import hashlib
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.verify.suite_layer import (
    DIALECTS,
    EDGES,
    NETWORKS,
    Refused,
    SuiteCase,
    SuiteLayer,
    chosen_dialects,
    covering,
    factors,
    fixed,
    grid,
    layer_of,
    packaged,
    per_axis,
)
from irdeconv.verify.suite_manifest import Suite
from irdeconv.verify.suite_report import causes
from irdeconv.verify.suite_writing import vectors
from support.dialect_layers import ACTIVATIONS, DialectLayer
from support.dialect_layers import expected as expected_of_dialect
from support.layers import Layer
from support.layers import expected as expected_of_openvino
from support.public_layers import PUBLISHED
from support.rows import parts

# A suite's layers by the tests' own definition: the scatter of tests/support/oracle.py.


def naive(layer: SuiteLayer, arrays: dict[str, Any]) -> Any:
    """The output by loops over scalars; attributes are read anew from what the layer says."""
    x, w, bias = arrays["x"], arrays["filter"], arrays.get("bias")
    wide = [None if a is None else a.astype(np.float64) for a in (x, w, bias)]
    if layer.dialect == "openvino":
        return expected_of_openvino(_openvino(layer), wide[0], wide[1])
    return expected_of_dialect(_dialect(layer), *wide)


def products(layer: SuiteLayer, arrays: dict[str, Any]) -> int:
    """How many scalars the naive definition multiplies."""
    return layer.batch * int(np.prod(layer.size, initial=1)) * int(arrays["filter"].size)


def _openvino(layer: SuiteLayer) -> Layer:
    groups = None if layer.groups == 1 else layer.groups
    inner = {"c": layer.channels // layer.groups, "m": layer.outputs // layer.groups}
    names = "batch size kernel strides dilations pads_begin pads_end output_padding auto_pad"
    same = {name: getattr(layer, name) for name in [*names.split(), "output_shape"]}
    return Layer(groups=groups, **inner, **same)


def _dialect(layer: SuiteLayer) -> DialectLayer:
    attributes: dict[str, Any] = dict(layer.extras)
    given = {
        "strides": layer.strides,
        "dilations": layer.dilations,
        "output_padding": layer.output_padding,
        "output_shape": layer.output_shape,
    }
    explicit = layer.auto_pad == "explicit"
    if layer.dialect == "tensorrt":
        mode = "EXPLICIT_ROUND_DOWN" if explicit else layer.auto_pad.upper()
        given = {"stride": layer.strides, "dilation": layer.dilations}
        given |= {"pre_padding": layer.pads_begin, "post_padding": layer.pads_end}
        attributes = {"padding_mode": mode} | attributes
    elif layer.dialect == "onednn":
        given |= {"pads_begin": layer.pads_begin, "pads_end": layer.pads_end}
        attributes |= {"auto_pad": "none" if explicit else layer.auto_pad}
    else:
        given |= {"pads": (*layer.pads_begin, *layer.pads_end)}
        attributes |= {"auto_pad": "NOTSET" if explicit else layer.auto_pad.upper()}
    if layer.activation != "none":
        name, *parameters = layer.activation.split()
        assert name in ACTIVATIONS
        attributes |= {"activation": name, "activation_params": tuple(map(float, parameters))}
    return DialectLayer(
        layer.op.version,
        layer.batch,
        layer.size,
        layer.groups,
        layer.channels // layer.groups,
        layer.outputs // layer.groups,
        layer.kernel,
        {k: v for k, v in given.items() if v is not None} | attributes,
        bias=0 if layer.bias else None,
    )


QUICK = 2000  # products of the naive definition in the default tests
ALL = chosen_dialects(["all"])


def impossible(dialect: str, row: dict[str, Any]) -> bool:
    """What a dialect cannot have of two values, written here once more from its documents.

    A list counts only as far as the row has axes; where the row does not say, one axis will do.
    """
    if len(row) < 2:
        return False
    axes = row.get("axes", 2 if dialect == "tensorrt" else 1)
    get = row.get

    def some(name: str) -> bool:
        return name in row and any(per_axis(row[name], axes))

    below = any(
        p >= s
        for p, s in zip(
            per_axis(get("output_padding", 0), axes),
            per_axis(get("strides", 99), axes),
            strict=True,
        )
    )
    automatic = get("auto_pad", "explicit") != "explicit"
    if dialect in ("onnx", "ort-nhwc"):
        larger = get("output_shape") == "larger" and per_axis(get("strides", 2), axes)[0] < 2
        half = get("element_type") == "bf16" and get("version", "onnx_opset22") != "onnx_opset22"
        return below or (automatic and (some("pads_begin") or some("pads_end"))) or larger or half
    if dialect == "onednn":
        long = get("pads_end") == -1 and get("strides") == 1 and get("auto_pad") == "explicit"
        return below or long
    if dialect == "tensorrt":
        mode = get("padding_mode", "EXPLICIT_ROUND_DOWN")
        uneven = any(isinstance(get(name), tuple) for name in ("pads_begin", "pads_end"))
        return (automatic and mode != "EXPLICIT_ROUND_DOWN") or (
            mode.startswith("CAFFE") and uneven
        )
    return False


@pytest.mark.parametrize("dialect", ALL)
def test_every_possible_pair_of_values_occurs(dialect: str) -> None:
    values, rows = factors(dialect), grid(dialect, 2).rows
    every = fixed(dialect)
    lacking = []
    for a, b in itertools.combinations(values, 2):
        for x, y in itertools.product(values[a], values[b]):
            if not any(row[a] == x and row[b] == y for row in rows):
                lacking.append({a: x, b: y})
    assert [pair for pair in lacking if not impossible(dialect, pair)] == []
    assert len(lacking) < 25
    assert len(rows) < 60
    assert all({*row} == {*values, *every} for row in rows)


@pytest.mark.parametrize("dialect", ALL)
def test_every_value_occurs_in_the_quick_set(dialect: str) -> None:
    rows = grid(dialect, 1).rows
    assert all(any(row[n] == v for row in rows) for n, vs in factors(dialect).items() for v in vs)
    assert len(rows) < 10


def test_every_row_of_a_grid_is_a_layer() -> None:
    for dialect in ALL:
        for row in grid(dialect, 2).rows:
            layer = layer_of(dialect, row, grow=True)
            assert min(layer.output) > 0
            assert layer.meets_scatter


def test_data_grow_until_the_output_has_products() -> None:
    """S(I-1) + K is 5 with 3 elements: an output from 5 on has only zeros."""
    row = {"axes": 1, "size": 3, "kernel": 3, "strides": 1, "pads_begin": 5, "output_shape": 4}
    assert not layer_of("openvino", row).meets_scatter
    assert layer_of("openvino", row, grow=True).size == (4,)


def test_covering_by_hand() -> None:
    found = covering({"a": (0, 1), "b": (0, 1), "c": (0, 1)}, lambda row: True)
    assert len(found.rows) == 4  # the orthogonal array
    assert found.impossible == []
    found = covering({"a": (0, 1), "b": (0, 1)}, lambda row: row.get("a") != row.get("b", 9))
    assert found.rows == [{"a": 0, "b": 1}, {"a": 1, "b": 0}]
    assert found.impossible == [{"a": 0, "b": 0}, {"a": 1, "b": 1}]
    assert len(covering({"a": (0, 1, 2), "b": (0, 1)}, lambda row: sum(row.values()) < 3).rows) == 5


def test_a_pair_that_a_third_value_makes_impossible() -> None:
    """a=1 needs c=1, b=1 needs c=0: no row has both, though no two of them exclude each other."""

    def allows(row: Any) -> bool:
        if row.get("a") == 1 and row.get("c", 1) != 1:
            return False
        return not (row.get("b") == 1 and row.get("c", 0) != 0)

    found = covering({"a": (0, 1), "b": (0, 1), "c": (0, 1)}, allows)
    assert {"a": 1, "b": 1} in found.impossible
    assert all(allows(row) and len(row) == 3 for row in found.rows)


def small(case: SuiteCase) -> bool:
    """Whether the naive definition is quick."""
    made = vectors(case.layer, case.name, "integers", 0, case.spoil)
    return products(case.layer, {**made.inputs, **made.constants}) <= QUICK


def check_expected(case: SuiteCase, data: Any) -> None:
    made = vectors(case.layer, case.name, data, 3, case.spoil)
    want = naive(case.layer, {**made.inputs, **made.constants})
    assert made.expected.shape == want.shape == case.layer.output, case.name
    if made.exact:
        assert made.expected.dtype == case.layer.dtype.container
        assert np.array_equal(made.expected.astype(np.float64), want, equal_nan=True), case.name
        return
    both_nan = np.isnan(want) & np.isnan(made.expected)
    with np.errstate(invalid="ignore"):
        near = (want == made.expected) | both_nan | (np.abs(want - made.expected) < 1e-12)
    # Rounding to f32 at the very least is allowed, and no error that a mistake would make.
    assert np.all(near | (np.abs(want - made.expected) <= 1e-3 * made.allowed.limit)), case.name
    finite = np.isfinite(want)
    assert np.all(
        np.broadcast_to(made.allowed.limit, want.shape)[finite]
        < 0.2 * np.abs(want[finite]).max(initial=0) + 1e-9
    )


def test_expected_outputs_are_those_of_the_definition() -> None:
    cases = [c for c in packaged(ALL, ["pairs", "edges"])[::12] if small(c)]
    assert len(cases) > 10
    for case in cases:
        with np.errstate(all="ignore"):
            check_expected(case, "integers")
            check_expected(case, "floats")


@pytest.mark.slow
@pytest.mark.parametrize("data", ["integers", "floats"])
@pytest.mark.parametrize("dialect", ALL)
def test_all_expected_outputs_are_those_of_the_definition(dialect: str, data: str) -> None:
    for case in packaged([dialect], ["quick", "pairs", "edges", "networks"]):
        with np.errstate(all="ignore"):
            check_expected(case, data)


@pytest.mark.parametrize("step", parts(1, (27, 1)))
def test_integers_are_exact_wherever_nothing_rounds(step: int) -> None:
    for case in packaged(ALL, ["pairs", "edges", "networks"])[::step]:
        made = vectors(case.layer, case.name, "integers", 0, case.spoil)
        assert made.exact == (case.layer.activation not in ("Tanh", "Sigmoid")), case.name
        values = made.expected[np.isfinite(made.expected.astype(np.float64))].astype(np.float64)
        if made.exact and values.size and case.layer.activation == "none":
            assert np.array_equal(values, np.round(values))
            top = {"bf16": 2**8, "f16": 2**11, "f32": 2**24, "i8": 127}
            assert np.abs(values).max() <= top.get(case.layer.element_type, 2**53), case.name


def test_the_edges_reach_the_limits() -> None:
    layers = {e.name: layer_of("openvino", e.row) for e in EDGES if not e.row.get("bias")}
    assert any(max(a.kernel) < min(a.strides) for a in layers.values())
    assert any(a.groups == a.channels == a.outputs > 1 for a in layers.values())
    assert any(a.channels // a.groups != a.outputs // a.groups and a.groups > 1
               for a in layers.values())  # fmt: skip
    assert {a.batch for a in layers.values()} >= {0, 1, 3}
    assert any(min(a.pads_begin) < 0 for a in layers.values())
    assert any(max(a.pads_begin) > max(a.extent) for a in layers.values())
    assert {a.axes for a in layers.values()} == {1, 2, 3}
    assert {e.spoil for e in EDGES} == {None, "x", "filter"}


def test_networks_are_those_of_the_table_of_forms() -> None:
    assert [p.network for p in PUBLISHED] == [n.network for n in NETWORKS]
    assert len({n.slug for n in NETWORKS}) == len(NETWORKS)
    full = layer_of("openvino", NETWORKS[0].row(full_size=True))
    assert (full.channels, full.outputs, full.size) == (512, 256, (4, 4))
    cases = packaged(["openvino"], ["networks"])
    assert len(cases) == len(NETWORKS)
    assert all(c.layer.channels <= 12 for c in cases)
    kernels = [(c.layer.kernel[0], c.layer.strides[0]) for c in cases]
    assert kernels == [(n.kernel, n.stride) for n in NETWORKS]


def digest(folder: Path) -> dict[str, str]:
    files = (p for p in sorted(folder.rglob("*")) if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    folder = tmp_path_factory.mktemp("suites") / "quick"
    only = ["*-quick-*", "openvino-edge-*", *MISTAKES]
    return ird.suite(folder, ["all"], ["quick", "edges"], only=only, form="phases")


def test_the_same_call_gives_the_same_bytes(quick: Suite, tmp_path: Path) -> None:
    """A case's files depend on no other case, but on the seed."""
    how: Any = {"dialects": ["openvino"], "sets": ["edges"], "form": "phases"}
    names = [f"openvino-edge-{n}" for n in ("batch", "depthwise")]
    first = digest(ird.suite(tmp_path / "1", only=names, **how).folder)
    assert first == digest(ird.suite(tmp_path / "2", only=names, **how).folder)
    whole = digest(quick.folder)
    assert len(first) == 15  # 7 files of each case, and the manifest
    assert all(whole[n] == wanted for n, wanted in first.items() if n != "manifest.json")
    other = digest(ird.suite(tmp_path / "3", only=names, seed=1, **how).folder)
    assert all(other[f"{n}/inputs.npz"] != first[f"{n}/inputs.npz"] for n in names)


def test_the_manifest_tells_everything(quick: Suite) -> None:
    facts = json.loads((quick.folder / "manifest.json").read_text("utf-8"))
    assert facts["schema"] == "irdeconv/suite-manifest/1"
    assert facts["irdeconv"] == ird.__version__
    for case in facts["cases"]:
        for name, wanted in case["files"].items():
            data = (quick.folder / case["name"] / name).read_bytes()
            assert hashlib.sha256(data).hexdigest() == wanted
        with np.load(quick.folder / case["name"] / "inputs.npz") as inputs:
            assert {n: list(a.shape) for n, a in inputs.items()} == {
                n: f["shape"] for n, f in case["inputs"].items()
            }
        assert case["outputs"]["y"]["rule"]
        assert case["attributes"]
        assert case["dialect"] in DIALECTS


@pytest.mark.thorough
def test_models_and_their_lowered_ones_give_what_is_expected(quick: Suite) -> None:
    report = ird.check_suite(quick.folder, ird.run_suite(quick.folder, "irdeconv"))
    assert report.passed, report
    assert len(report.cases) > 60
    lowered = ird.check_suite(quick.folder, ird.run_suite(quick.folder, "irdeconv", lowered=True))
    wrong = {c.name for c in lowered.cases if not c.passed}
    assert all("edge-nonfinite" in name for name in wrong)
    assert all(c.known for c in lowered.cases if not c.passed)


def test_floats_are_judged_by_their_bounds(tmp_path: Path) -> None:
    made = ird.suite(tmp_path / "s", ["all"], ["quick"], data="floats")
    good = ird.run_suite(made.folder, "irdeconv")
    assert ird.check_suite(made.folder, good)
    assert not ird.check_suite(made.folder, {})
    case = next(c for c in made.cases if not c.exact and c.layer.element_type == "f32")
    expected, allowed = case.expected()
    at = np.unravel_index(np.abs(expected).argmax(), expected.shape)
    bad = expected.copy()
    bad[at] += 3 * np.asarray(allowed.limit)[at]
    report = ird.check_suite(made.folder, {**good, case.name: bad})
    assert [c.name for c in report.cases if not c.passed] == [case.name]
    assert next(c for c in report.cases if not c.passed).difference.own_at == at


# Cases, mistakes in them, and what their arrays (which the naive definition computes with then) or
# their outputs become.
MISTAKES: dict[str, tuple[str, Callable[[dict[str, Any], Any], Any]]] = {
    "onnx-edge-groups-unequal":
        ("the kernel is flipped", lambda a, y: {"filter": a["filter"][:, :, ::-1, ::-1]}),
    "onednn-edge-unlike-axes":  # channels last
        ("the kernel is flipped", lambda a, y: {"filter": a["filter"][::-1, ::-1, ::-1]}),
    "onnx-edge-kernel-below-stride-bias":
        ("a bias is missing", lambda a, y: {"bias": 0 * a["bias"]}),
    "ort-nhwc-quick-002":  # before an activation
        ("the bias is missing", lambda a, y: {"bias": 0 * a["bias"]}),
    "openvino-edge-groups-unequal":
        ("input channels of 3 groups interleaved",
         lambda a, y: {"x": a["x"][:, np.arange(6).reshape(3, 2).T.reshape(-1)]}),
    "openvino-edge-depthwise": ("channels permuted", lambda a, y: y[:, ::-1]),
    "openvino-edge-large-dilation": ("shifted by", lambda a, y: np.roll(y, 1, 2)),
    "ort-nhwc-edge-batch":
        ("channels are first instead of last", lambda a, y: np.moveaxis(y, -1, 1)),
    "openvino-edge-output-padding": ("rows more at the end", lambda a, y: y[:, :, :-1]),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_planted_mistakes_are_named(quick: Suite, name: str) -> None:
    kind, make = MISTAKES[name]
    case = next(c for c in quick.cases if c.name == name)
    arrays = case.arrays()
    made = make(arrays, case.expected()[0])
    if isinstance(made, dict):
        made = naive(case.layer, arrays | made).astype(np.float32)
    report = ird.check_suite(quick.folder, {name: made})
    found = next(c for c in report.cases if c.name == name)
    assert found.status == "differs"
    assert kind in (found.difference.kind or ""), found.difference
    assert {c.status for c in report.cases if c.name != name} == {"missing"}


def test_what_failures_have_in_common(quick: Suite) -> None:
    results = {c.name: c.expected()[0] for c in quick.cases}
    wrong = [c for c in quick.cases if max(c.layer.dilations) > 1 and c.expected()[0].size]
    for case in wrong:
        results[case.name] = results[case.name].astype(np.float64) + 0.5
    report = ird.check_suite(quick.folder, results)
    assert report.counts["differs"] == len(wrong) > 4
    assert "a dilation above 1" in report.causes()[0].features
    assert report.causes()[0].passed == 0
    text = str(report)
    assert f"all {len(wrong)} have a dilation above 1; no case that passes has" in text
    assert max(map(len, text.splitlines())) <= 80


def test_causes_by_hand() -> None:
    failed = [("a", "b", "c"), ("a", "b", "d")]
    (cause,) = causes(failed, [("a", "c"), ("b", "d"), ("c",)])
    assert (cause.features, cause.passed) == (("a", "b"), 0)
    assert causes(failed, [("a", "b"), ("a", "b", "d"), ("a", "b", "c")]) == []  # all have both
    assert causes(failed[:1], [("c",)]) == []  # one failure shares everything with itself
    assert [c.features for c in causes(failed, [("c",), ("d",)])] == [("a",), ("b",)]


def test_a_dialect_refuses_what_it_has_not() -> None:
    with pytest.raises(Refused, match="no output_shape"):
        layer_of("tensorrt", {"output_shape": "full"})
    with pytest.raises(Refused, match="have no bias"):
        layer_of("openvino", {"bias": True})
    with pytest.raises(Refused, match="do not divide"):
        layer_of("onnx", {"groups": 4})
