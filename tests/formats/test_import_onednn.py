"""Importing JSON dumps of oneDNN Graph: operations, layouts, weights, refusals."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from support import oracle
from support.commands import answer
from support.onednn_dumps import content, op, tensor
from support.rows import each_row

RNG = np.random.default_rng(7)


def dump(*ops: Any, **more: Any) -> bytes:
    return json.dumps(content(*ops, **more)).encode()


def numbers(*shape: int) -> Any:
    return RNG.integers(-5, 6, shape).astype(np.float32)


def weights(folder: Path, **arrays: Any) -> Path:
    path = folder / "w.npz"
    np.savez(path, **arrays)
    return path


DECONVOLUTION = {
    "strides": [2, 2],
    "pads_begin": [1, 0],
    "pads_end": [1, 1],
    "dilations": [1, 2],
    "auto_pad": "None",
    "output_padding": [0] * 12,
    "groups": 2,
}


def last(x: Any) -> Any:
    return np.moveaxis(x, 1, -1)


# [C, M/g, *K] -> the dump's layout
LAYOUTS = {
    "IOX": lambda w: w,
    "XOI": lambda w: w.transpose(2, 3, 1, 0),
    "XIO": lambda w: w.transpose(2, 3, 0, 1),
    "OIX": lambda w: w.swapaxes(0, 1),
}


@each_row("data_format", ["NXC", "NCX"])
@each_row("layout", list(LAYOUTS))
@each_row("name", ["weights_format", "filter_format"])
def test_deconvolution(data_format: str, layout: str, name: str, tmp_path: Path) -> None:
    x, w = numbers(2, 6, 4, 5), numbers(6, 2, 3, 3)
    grouped = w.reshape(2, 3, 2, 3, 3)
    full = oracle.deconvolution(x, grouped, (2, 2), (1, 2), (1, 0), (7, 12))
    to = (lambda a: a) if data_format == "NCX" else last
    y = to(full)
    ends = tensor(0, to(x).shape), tensor(1, LAYOUTS[layout](w).shape), tensor(2, y.shape)
    more = {"data_format": data_format, name: layout}
    made = dump(op("ConvTranspose", ends[:2], ends[2:], **DECONVOLUTION, **more))
    graph = ird.convert(made, weights(tmp_path, **{"1": LAYOUTS[layout](w)}))
    assert graph.inputs == ["t0"]
    assert graph.find("ConvTranspose_2")[0].op.version == "onednn_graph_1"
    assert not [d for d in ird.validate(graph) if d.severity == "error"]
    for form in (None, "zero-insertion"):
        assert np.array_equal(ird.run(graph, {"t0": to(x)}, form=form)["t2"], y)


@each_row(("version", "layout"), [("3.1.0", "XOI"), ("2.7.0", "XIO")])
def test_the_default_layout_depends_on_the_version(version: str, layout: str) -> None:
    ends = tensor(0, (1, 4, 4, 2)), tensor(1, (3, 3, 2, 2)), tensor(2, (1, 9, 9, 2))
    lists = {"pads_begin": [0, 0], "pads_end": [0, 0], "strides": [2, 2], "dilations": [1, 1]}
    graph = ird.convert(dump(op("ConvTranspose", ends[:2], ends[2:], **lists), version=version))
    assert graph.find("ConvTranspose_2")[0].op.layout == layout  # type: ignore[attr-defined]
    assert graph.inputs == ["t0", "t1"]


@each_row("groups", [1, 2])
@each_row(("data_format", "layout"), [("NXC", "XIO"), ("NCX", "OIX")])
def test_convolution(groups: int, data_format: str, layout: str) -> None:
    x, w, bias = numbers(2, 4, 6, 5), numbers(6, 4 // groups, 3, 2), numbers(6)
    grouped = w.reshape(groups, 6 // groups, *w.shape[1:])
    y = oracle.convolution(x, grouped, (2, 1), (1, 1), (1, 0), (0, 0)) + bias.reshape(1, 6, 1, 1)
    to = (lambda a: a) if data_format == "NCX" else last
    filter = w if layout == "OIX" else w.transpose(2, 3, 1, 0)
    ends = tensor(0, to(x).shape), tensor(1, filter.shape), tensor(2, (6,)), tensor(3, to(y).shape)
    attributes = {
        "strides": [2, 1],
        "pads_begin": [1, 0],
        "pads_end": [0, 0],
        "dilations": [1, 1],
        "groups": groups,
        "data_format": data_format,
        "weights_format": layout,
    }
    graph = ird.convert(dump(op("Convolution", ends[:3], ends[3:], **attributes)))
    got = ird.run(graph, {"t0": to(x), "t1": filter, "t2": bias})["t3"]
    assert np.array_equal(got, to(y))


def shared(kind: str, x: Any, y: Any, **attributes: Any) -> Any:
    """The output of one operation on one input."""
    ends = [tensor(0, x.shape)], [tensor(1, y.shape)]
    graph = ird.convert(dump(op(kind, *ends, **attributes)))
    assert not [d for d in ird.validate(graph) if d.code == "W202"]
    return ird.run(graph, {"t0": x})["t1"]


X = numbers(2, 3, 4, 6)
POOL = {"strides": [2, 2], "kernel": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}
BLOCKS = X.reshape(2, 3, 2, 2, 3, 2)


@each_row(
    ("kind", "attributes", "want"),
    [
        ("ReLU", {}, np.maximum(X, 0)),
        ("Abs", {}, np.abs(X)),
        ("Square", {}, X * X),
        ("Sigmoid", {}, 1 / (1 + np.exp(-X))),
        ("Tanh", {}, np.tanh(X)),
        ("Clamp", {"min": -1.0, "max": 2.0}, np.clip(X, -1, 2)),
        ("LeakyReLU", {"alpha": 0.5}, np.where(X < 0, X / 2, X)),
        ("Elu", {"alpha": 2.0}, np.where(X < 0, 2 * np.expm1(X), X)),
        ("SoftPlus", {"beta": 2.0}, np.log1p(np.exp(2 * X)) / 2),
        ("SoftMax", {"axis": -1}, np.exp(X) / np.exp(X).sum(-1, keepdims=True)),
        ("StaticReshape", {"shape": [0, -1], "special_zero": True}, X.reshape(2, -1)),
        ("StaticTranspose", {"order": [0, -1, 1, 2]}, X.transpose(0, 3, 1, 2)),
        ("ReduceSum", {"axes": [1, -1], "keep_dims": True}, X.sum((1, 3), keepdims=True)),
        ("MaxPool", {**POOL, "data_format": "NCX"}, BLOCKS.max((3, 5))),
        ("AvgPool", {**POOL, "data_format": "NCX", "exclude_pad": True}, BLOCKS.mean((3, 5))),
        ("Reorder", {}, X),
    ],
)
def test_operations_of_one_input(kind: str, attributes: dict[str, Any], want: Any) -> None:
    np.testing.assert_allclose(shared(kind, X, want, **attributes), want, rtol=1e-5, atol=1e-6)


@each_row(
    ("kind", "shape", "attributes", "want"),
    [
        ("Add", (4, 1), {"auto_broadcast": "numpy"}, lambda b: X + b),
        ("Multiply", X.shape, {"auto_broadcast": "none"}, lambda b: X * b),
        ("Divide", (6,), {}, lambda b: X / b),
        ("BiasAdd", (3,), {"data_format": "NCX"}, lambda b: X + b.reshape(3, 1, 1)),
        ("BiasAdd", (6,), {"data_format": "NXC"}, lambda b: X + b),
        ("Concat", (2, 1, 4, 6), {"axis": 1}, lambda b: np.concatenate([X, b], 1)),
        ("MatMul", (5, 6), {"transpose_b": True}, lambda b: X @ b.T),
    ],
)
def test_operations_of_two_inputs(
    kind: str, shape: tuple[int, ...], attributes: dict[str, Any], want: Any
) -> None:
    other = np.abs(numbers(*shape)) + 1
    ends = [tensor(0, X.shape), tensor(1, shape)], [tensor(2, want(other).shape)]
    graph = ird.convert(dump(op(kind, *ends, **attributes)))
    got = ird.run(graph, {"t0": X, "t1": other})["t2"]
    np.testing.assert_allclose(got, want(other), rtol=1e-6)


def small(**more: Any) -> bytes:
    """A deconvolution and a ReLU, written in the wrong order."""
    ends = tensor(0, (1, 2, 4, 4)), tensor(1, (2, 3, 3, 3), kind="constant")
    middle, end = tensor(2, (1, 3, 9, 9)), tensor(3, (1, 3, 9, 9))
    lists = {"pads_begin": [0, 0], "pads_end": [0, 0], "strides": [2, 2], "dilations": [1, 1]}
    formats = {"data_format": "NCX", "weights_format": "IOX"}
    first = op("ConvTranspose", ends, [middle], **lists, **formats)
    return dump(op("ReLU", [middle], [end]), first, **more)


def test_random_weights_are_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((1, 2, 4, 4), np.float32)
    runs = [ird.run(ird.convert(small(), "random", seed=s), {"t0": x})["t3"] for s in (0, 0, 1)]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])
    monkeypatch.setattr("irdeconv.formats.onednn_reader.DRAWN_AT_ONCE", 5)
    pieces = ird.run(ird.convert(small(), "random", seed=0), {"t0": x})["t3"]
    assert np.array_equal(pieces, runs[0])


def test_ports_order_inputs_and_name_outputs() -> None:
    graph = ird.convert(small(input_ports=[1, 0], output_ports=[3, 2]))
    assert graph.inputs == ["t1", "t0"]
    assert graph.outputs == ["t3", "t2"]
    assert [n.name for n in graph.nodes("ReLU")] == ["ReLU_3"]


def test_half_precision_and_open_dimensions() -> None:
    far = -(2**63)
    ends = [tensor(0, (far, 3), "bf16")], [tensor(1, (far, 3), "f32")]
    graph = ird.convert(dump(op("TypeCast", *ends)))
    assert str(graph.parameters[0].spec()) == "bf16[?,3]"
    fixed = ird.convert(dump(op("TypeCast", *ends)), shapes={"t0": [2, 3]})
    assert fixed.parameters[0].spec().shape == (2, 3)


def test_everything_uncovered_is_listed() -> None:
    x, y, z = (tensor(i, (2, 2)) for i in range(3))
    made = dump(op("Wildcard", [x], [y]), op("Abs", [x], [z], speed=1))
    with pytest.raises(ird.UnsupportedError) as e:
        ird.convert(made)
    found = e.value.diagnostics
    assert [d.layer for d in found] == ["Wildcard_1", "Abs_2"]
    assert {d.code for d in found} == {"E502"}


@each_row(
    ("data", "error", "text"),
    [
        (b"{", ird.InputError, "<bytes>:1:2: error[E103]: not a JSON document"),
        (b'{"a": 1}', ird.InputError, "graph"),
        (dump({"id": 1}), ird.InputError, '"kind" is missing'),
        (dump(), ird.InputError, "no operations"),
        (dump(op("ReLU", [tensor(1, [2])], [tensor(1, [2])])), ird.InputError, "cycle"),
        (dump(op("Abs", [tensor(0, [2], "s4")], [tensor(1, [2])])), ird.UnsupportedError, "s4"),
        (
            dump(op("Add", [tensor(0, [2]), tensor(1, [3])], [tensor(2, [2])])),
            ird.InferenceError,
            "E302",
        ),
    ],
)
def test_bad_dumps(data: bytes, error: type[ird.IrdeconvError], text: str) -> None:
    with pytest.raises(error) as e:
        ird.convert(data)
    assert text in str(e.value)


JUNK = (None, -1, 0, 2**70, 1.5, "x", [], {}, [None], True, [1] * 7)


def places(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys: Any = ()
    if isinstance(content, dict | list):
        keys = content if isinstance(content, dict) else range(len(content))
    return [path, *(p for k in keys for p in places(content[k], (*path, k)))]


@each_row("junk", JUNK)
def test_no_junk_is_a_crash(junk: Any) -> None:
    """Each value of the dump in turn is replaced: it is imported or refused with a diagnostic."""
    for *path, last in places(json.loads(small()))[1:]:
        made = json.loads(small())
        at = made
        for key in path:
            at = at[key]
        at[last] = junk
        try:
            ird.convert(json.dumps(made).encode(), "random")
        except ird.IrdeconvError as e:
            assert e.diagnostics  # noqa: PT017 -- both ends are right, a traceback is not


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(ird.UnsupportedError, match="the weights have shape"):
        ird.convert(small(), weights(tmp_path, t1=np.zeros((2, 3))))
    with pytest.raises(ird.UsageError, match="belong to no input"):
        ird.convert(small(), weights(tmp_path, t1=np.zeros((2, 3, 3, 3)), t9=np.zeros(1)))
    with pytest.raises(ird.FileAccessError):
        ird.convert(small(), tmp_path / "none.npz")


@each_row("array", [np.full((2, 3, 3, 3), "a"), np.zeros((2, 3, 3, 3), "V3"), 1j])
def test_weights_that_are_no_real_numbers(array: Any, tmp_path: Path) -> None:
    filled = np.broadcast_to(array, (2, 3, 3, 3))
    with pytest.raises(ird.UnsupportedError, match="no real numbers"):
        ird.convert(small(), weights(tmp_path, t1=filled))


def test_weights_beyond_the_element_type(tmp_path: Path) -> None:
    big = ird.convert(small(), weights(tmp_path, t1=np.full((2, 3, 3, 3), 1e300)))
    assert big.inputs == ["t0"]
    integers = small().replace(b'"f32"', b'"s8"')
    with pytest.raises(ird.UnsupportedError, match="do not exist in i8"):
        ird.convert(integers, weights(tmp_path, t1=np.full((2, 3, 3, 3), 0.5)))


def test_the_verb(tmp_path: Path) -> None:
    source, target = tmp_path / "graph-1.json", tmp_path / "net.xml"
    source.write_bytes(small())
    args = ["convert", str(source), "-o", str(target), "--weights", "random", "--seed", "3"]
    assert "oneDNN Graph 3.4.0: 2 nodes became" in answer(*args).out
    x = np.ones((1, 2, 4, 4), np.float32)
    want = ird.run(ird.convert(source, "random", seed=3), {"t0": x})["t3"]
    np.testing.assert_allclose(ird.run(ird.read(target), {"t0": x})["t3"], want, rtol=1e-5)
    assert main(["convert", str(source), "-o", str(target), "--weights", str(target)]) == 2
