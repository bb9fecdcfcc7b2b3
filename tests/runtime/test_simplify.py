"""Simplified graphs, moved layers, divided convolutions."""

import hashlib
import os
import pickle
import random
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import irdeconv as ird
from irdeconv.base.errors import InputError
from irdeconv.cli.main import main
from irdeconv.formats.xml_writer import Blobs
from irdeconv.ir.constant import NO_ELEMENT, ArrayData, MovedData
from irdeconv.ir.dtypes import f16, f32, i32, i64
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ir.spec import Array
from irdeconv.kernels.candidate import GAIN, LONG, Candidate, shared
from irdeconv.ops.activation import ReLU, Sigmoid
from irdeconv.ops.basic import Const, Convert
from irdeconv.ops.channels import Split
from irdeconv.ops.elementwise import Add, Divide, Multiply, Subtract
from irdeconv.ops.movement import Concat, Pad12, Reshape, ShapeOf, Squeeze1, Transpose, Unsqueeze
from irdeconv.ops.slicing import Slice
from irdeconv.rewrite import compressed_filters as moving
from support import irbuild as ib
from support.commands import answer
from support.layers import Layer, begun, constant, result
from support.memory import peak_of
from support.networks import image, network
from support.plan_graphs import Builder

# Simplified graphs: what goes, what has to stay, and that every bit of the results does.

SHAPE = (2, 1, 3)
SPECIAL = np.array([[[0.0, -0.0, 1.5]], [[np.inf, np.nan, 1e-40]]], np.float32)
Rule = Callable[[Builder, Value], Value]


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def between(rule: Rule, dtype: Any = np.float32, shape: Any = SHAPE) -> Graph:
    """x -> ReLU-like -> the rule -> Sigmoid -> y, so that the rule is at no end of the model."""
    b = Builder()
    x = b.add(Subtract(), b.input(shape, dtype), np.array(0, dtype))
    middle = rule(b, b.add(Multiply(), x, np.full((3,), 2, dtype)))
    return b.done(b.add(Add(), middle, np.array(3, dtype)))


def kinds(graph: Graph) -> list[str]:
    """The types of the rule's layers: without ends, constants and what `between` adds."""
    found = [n.type for n in graph.nodes() if n.type not in ("Const", "Parameter", "Result")]
    for kind in ("Multiply", "Add"):
        found.remove(kind)
    return found


def check_bits(before: Graph, after: Graph, *feeds: Any) -> None:
    results = [ird.run(g, list(feeds), form=None, fuse=False) for g in (before, after)]
    assert list(results[0]) == list(results[1])
    for name, want in results[0].items():
        assert results[1][name].dtype == want.dtype
        assert results[1][name].tobytes() == want.tobytes(), name


NOTHING: dict[str, Rule] = {
    "reshape to the same shape": lambda b, x: b.add(Reshape(), x, ints(2, 1, -1)),
    "squeeze and unsqueeze": lambda b, x: b.add(
        Unsqueeze(), b.add(Squeeze1(), x, ints(1)), ints(1)
    ),
    "transpose in order": lambda b, x: b.add(Transpose(), x, ints(0, 1, 2)),
    "transpose there and back": lambda b, x: b.add(
        Transpose(), b.add(Transpose(), x, ints(2, 0, 1)), ints(1, 2, 0)
    ),
    "pads of 0": lambda b, x: b.add(Pad12("constant"), x, ints(0, 0, 0), ints(0, 0, 0)),
    "convert to the same type": lambda b, x: b.add(Convert(f32), x),
    "concat of one": lambda b, x: b.add(Concat(0), x),
    "split into one": lambda b, x: b.add(Split(num_splits=1), x, np.int64(0)),
    "add -0": lambda b, x: b.add(Add(), x, np.float32([-0.0])),
    "subtract 0": lambda b, x: b.add(Subtract(), x, np.float32(0)),
    "multiply by 1": lambda b, x: b.add(Multiply(), np.ones((1, 3), np.float32), x),
    "divide by 1": lambda b, x: b.add(Divide(), x, np.float32(1)),
    "slice of everything": lambda b, x: b.add(Slice(), x, ints(0), ints(9), ints(1), ints(2)),
    "tile once": lambda b, x: b.add(REGISTRY["Tile", "opset1"](), x, ints(1, 1)),
    "broadcast to the same shape": lambda b, x: b.add(
        REGISTRY["Broadcast", "opset3"](), x, ints(2, 1, 3)
    ),
}


@pytest.mark.parametrize("rule", NOTHING.values(), ids=NOTHING)
def test_layers_that_change_nothing_go(rule: Rule):
    before = between(rule)
    after, report = ird.simplify(before)
    assert kinds(after) == []
    assert sum(report.before.values()) - len(after) >= 2
    check_bits(before, after, SPECIAL)


STAYS: dict[str, tuple[Rule, list[str]]] = {
    "add +0, which makes +0 of -0": (
        lambda b, x: b.add(Add(), x, np.float32([[0]])), ["Add"]),
    "subtract -0": (lambda b, x: b.add(Subtract(), x, np.float32(-0.0)), ["Subtract"]),
    "multiply by ones that broadcast": (
        lambda b, x: b.add(Multiply(), x, np.ones((2, 3), np.float32)), ["Multiply"]),
    "multiply by ones of a higher rank": (
        lambda b, x: b.add(Multiply(), x, np.ones((1, 1, 1, 1), np.float32)), ["Multiply"]),
    "one over x": (lambda b, x: b.add(Divide(), np.float32(1), x), ["Divide"]),
    "0 minus x": (lambda b, x: b.add(Subtract(), np.float32(0), x), ["Subtract"]),
    "transpose of equal sizes": (
        lambda b, x: b.add(Transpose(), b.add(Concat(1), x, x, x), ints(0, 2, 1)),
        ["Concat", "Transpose"]),
    "slice backwards": (
        lambda b, x: b.add(Slice(), x, ints(-1), ints(-9), ints(-1), ints(2)), ["Slice"]),
    "to fewer bits and back": (
        lambda b, x: b.add(Convert(f32), b.add(Convert(f16), x)), ["Convert", "Convert"]),
}  # fmt: skip


JOINED: dict[str, tuple[Rule, list[str]]] = {
    "reshapes": (
        lambda b, x: b.add(Reshape(), b.add(Reshape(), x, ints(6)), ints(3, -1)), ["Reshape"]),
    "squeeze, then unsqueeze elsewhere": (
        lambda b, x: b.add(Unsqueeze(), b.add(Squeeze1(), x, ints(1)), ints(0)), ["Reshape"]),
    "transposes": (
        lambda b, x: b.add(Transpose(), b.add(Transpose(), x, ints(1, 0, 2)), ints(2, 0, 1)),
        ["Transpose"]),
    "to more bits and back": (
        lambda b, x: b.add(
            Convert(f32),
            b.add(Convert(f16), b.add(Convert(f32), b.add(Convert(f16), x)))),
        ["Convert", "Convert"]),
    "integers through wider ones": (
        lambda b, x: b.add(
            Convert(f32), b.add(Convert(i64), b.add(Convert(i32), x))), ["Convert", "Convert"]),
}  # fmt: skip


FINITE = np.float32([[[0, -0.0, 1.5]], [[7, -3, 2]]])
LEFT = STAYS | JOINED
RULES = NOTHING | {name: rule for name, (rule, _) in LEFT.items()}


@pytest.mark.parametrize("name", LEFT)
def test_what_may_change_a_bit_stays_and_pairs_become_one(name: str):
    rule, left = LEFT[name]
    before = between(rule)
    after = ird.simplify(before).graph
    assert kinds(after) == left
    check_bits(before, after, SPECIAL if name in STAYS else FINITE)


@pytest.mark.parametrize("name", RULES)
def test_open_shapes_keep_every_bit(name: str):
    before = between(RULES[name], shape=(None, 1, None))
    after = ird.simplify(before).graph
    check_bits(before, after, FINITE)
    assert [str(n.spec()) for n in after.results] == [str(n.spec()) for n in before.results]


def test_of_open_shapes_goes_what_needs_no_sizes():
    gone = [n for n, rule in NOTHING.items()
            if not kinds(ird.simplify(between(rule, shape=(None, 1, None))).graph)]  # fmt: skip
    assert gone == [
        "transpose in order", "transpose there and back", "pads of 0", "convert to the same type",
        "concat of one", "split into one", "add -0", "subtract 0", "divide by 1", "tile once",
    ]  # fmt: skip


def test_what_follows_from_shapes_is_constant():
    def rule(b: Builder, x: Value) -> Value:
        sizes = b.add(ShapeOf(), x)
        first = b.add(REGISTRY["Gather", "opset8"](), sizes, ints(0), np.int64(0))
        return b.add(Reshape(), x, b.add(Concat(0), first, ints(-1)))

    before = between(rule)
    after, report = ird.simplify(before)
    assert kinds(after) == ["Reshape"]
    assert report.steps["folded"] == 3
    check_bits(before, after, SPECIAL)


def test_constants_are_folded_up_to_a_limit():
    def graph() -> Graph:
        b = Builder()
        big = b.add(REGISTRY["Broadcast", "opset3"](), np.float32(2), ints(64, 100))
        return b.done(b.add(Add(), b.input((64, 100)), big))

    assert [n.type for n in ird.simplify(graph()).graph.nodes() if n.type != "Const"] == [
        "Parameter", "Add", "Result",
    ]  # fmt: skip
    kept = ird.simplify(graph(), max_growth=25_000).graph
    assert len(list(kept.nodes("Broadcast"))) == 1
    assert not list(ird.simplify(graph(), max_growth=26_000).graph.nodes("Broadcast"))


def test_weights_stay_compressed_and_what_moves_them_acts_on_fewer_bits():
    b = Builder()
    weights = b.add(Convert(f32), np.arange(6, dtype=np.float16).reshape(2, 3))
    turned = b.add(Transpose(), weights, ints(1, 0))
    before = b.done(b.add(REGISTRY["MatMul", "opset1"](), b.input((1, 3)), turned))
    after = ird.simplify(before).graph
    assert [n.type for n in after.topological()] == [
        "Parameter", "Const", "Convert", "MatMul", "Result",
    ]  # fmt: skip
    (constant,) = after.nodes("Const")
    assert str(constant.spec()) == "f16[3,2]"
    check_bits(before, after, np.float32([[1, 2, 3]]))
    assert not list(ird.simplify(before, decompress=True).graph.nodes("Convert"))


def test_quantization_of_constants_stays():
    b = Builder()
    ends = [np.float32(v) for v in (-1, 1, -1, 1)]
    weights = b.add(REGISTRY["FakeQuantize", "opset1"](levels=3), np.float32([0.3, 0.7]), *ends)
    graph = b.done(b.add(Multiply(), b.input((2,)), weights))
    assert len(list(ird.simplify(graph).graph.nodes("FakeQuantize"))) == 1


def test_duplicates_become_one_but_outputs_keep_their_names():
    b, x = Builder.of((2, 3))
    twice = [b.add(Multiply(), b.add(ReLU(), x), np.float32([1, 2, 3])) for _ in range(2)]
    before = b.done(b.add(Add(), *twice), b.add(Sigmoid(), x), b.add(Sigmoid(), x))
    after, report = ird.simplify(before)
    assert [report.after.get(k) for k in ("ReLU", "Multiply", "Const", "Sigmoid")] == [1, 1, 1, 2]
    assert after.outputs == before.outputs == ["y0", "y1", "y2"]
    check_bits(before, after, np.float32([[1, -2, 3], [4, 5, -6]]))


def test_the_ends_of_the_model_stay():
    b, x = Builder.of((2, 3))
    b.input((1,), name="unused")
    before = b.done(b.add(Reshape(), x, ints(2, 3)), b.add(Convert(f32), b.add(ReLU(), x)))
    b.graph.add(ReLU(), [x], name="dead")
    after, report = ird.simplify(b.graph)
    assert after.inputs == ["x", "unused"]
    assert after.outputs == before.outputs == ["y0", "y1"]
    # One that only passes an input on to an output stays: else both were one tensor.
    assert [n.type for n in after.nodes() if n.type in ("Reshape", "Convert")] == ["Reshape"]
    assert report.steps["dead"] == 1
    assert after.find("dead") == []


def test_tensor_names_of_what_goes_are_names_of_what_stays():
    before = between(lambda b, x: b.add(Convert(f32), x))
    (multiply,), (convert,) = before.nodes("Multiply"), before.nodes("Convert")
    multiply.tensor_names = (("a",),)
    convert.tensor_names = (("b",),)
    after = ird.simplify(before).graph
    assert [n.tensor_names for n in after.nodes("Multiply")] == [(("a", "b"),)]


def test_variables_and_unknown_operations_stay():
    loop = ird.read(ib.loop().encode())
    assert len(ird.simplify(loop).graph) == len(loop)


SHAPES = [(0, 0, 0), (2, 3, 4), (4, 1, 6), (1, -1, 2), (8, 0, -1)]
OPS: list[Callable[[Builder, Value, random.Random], Value]] = [
    lambda b, x, r: b.add(ReLU(), x),
    lambda b, x, r: b.add(Add(), x, np.float32(r.choice([0.0, -0.0, 1.0]))),
    lambda b, x, r: b.add(Multiply(), x, np.float32([r.choice([1.0, 2.0])])),
    lambda b, x, r: b.add(Transpose(), x, ints(*r.sample(range(3), 3))),
    lambda b, x, r: b.add(Reshape(special_zero=True), b.add(Reshape(), x, ints(2, 3, 4)),
                          ints(*r.choice(SHAPES))),
    lambda b, x, r: b.add(Reshape(), b.add(Unsqueeze(), x, ints(r.randint(0, 3))), ints(2, 3, 4)),
    lambda b, x, r: b.add(Squeeze1(), b.add(Unsqueeze(), x, ints(axis := r.randint(0, 3))),
                          ints(axis)),
    lambda b, x, r: b.add(Convert(f32), b.add(Convert(r.choice([f16, f32])), x)),
    lambda b, x, r: b.add(Reshape(), x, b.add(ShapeOf(), x)),
    lambda b, x, r: b.add(Concat(0), x),
    lambda b, x, r: b.add(Add(), b.add(Sigmoid(), x), b.add(Sigmoid(), x)),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_compute_the_same_bits(seed: int):
    r, b = random.Random(seed), Builder()
    values = [b.input((2, 3, 4))]
    for _ in range(14):
        values.append(r.choice(OPS)(b, r.choice(values[-2:]), r))
    graph = b.done(values[-1], values[-3], values[4])
    data = np.random.default_rng(seed).standard_normal((2, 3, 4)).astype(np.float32)
    data[0, 0] = [0, -0.0, np.inf, 1e-42]
    after = ird.simplify(graph).graph
    assert (after.inputs, after.outputs) == (graph.inputs, graph.outputs)
    assert [str(n.spec()) for n in after.results] == [str(n.spec()) for n in graph.results]
    check_bits(graph, after, data)
    assert sum(ird.simplify(after).report.steps.values()) == 0


def test_the_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    ird.write(between(NOTHING["transpose there and back"]), "net.xml")
    command = "simplify net.xml -o out.xml --check irdeconv --format json"
    found = answer(*command.split()).json
    assert found["types"]["Transpose"] == {"before": 2, "after": 0}
    assert found["check"] == {
        "with": "irdeconv", "passed": True, "same_bits": True, "difference": 0.0,
    }  # fmt: skip
    assert not list(ird.read("out.xml").nodes("Transpose"))


@pytest.mark.sampled(16)
@pytest.mark.oracles
@pytest.mark.parametrize("name", RULES)
def test_openvino_agrees(name: str, tmp_path: Path, capsys: Any):
    ird.write(between(RULES[name]), tmp_path / "net.xml")
    assert main(["simplify", str(tmp_path / "net.xml"), "--check", "openvino"]) == 0
    assert "same bits before and after" in capsys.readouterr().out


@pytest.mark.oracles
def test_openvino_agrees_on_a_network(tmp_path: Path):
    ird.write(ird.infer(network()), tmp_path / "net.xml")
    assert main(["simplify", str(tmp_path / "net.xml"), "--check", "openvino"]) == 0
    check_bits(network(), ird.simplify(network()).graph, image())


# Constants that are moved without being copied: what they hold, what is written, in how little.

FORMS = ["zero-insertion", "phases", "stacked", "gemm"]


def split(draw: Any, n: int) -> list[int]:
    """Return divisors whose product is n."""
    out = [draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0]))]
    return [*out, n // out[0]]


def turn(draw: Any, data: Array, moved: MovedData) -> tuple[Array, MovedData | None]:
    order = draw(st.permutations(range(data.ndim)))
    return data.transpose(order), moved.transposed(order)


def take(draw: Any, data: Array, moved: MovedData) -> tuple[Array, MovedData | None]:
    axis = draw(st.integers(0, data.ndim - 1))
    index = np.array(draw(st.lists(st.integers(-1, data.shape[axis] - 1), min_size=1, max_size=5)))
    zeros = np.zeros([1 if a == axis else n for a, n in enumerate(data.shape)], data.dtype)
    assert NO_ELEMENT == -1
    return np.concatenate([data, zeros], axis).take(index, axis), moved.taken(axis, index)


def reshape(draw: Any, data: Array, moved: MovedData) -> tuple[Array, MovedData | None]:
    shape: list[int] = []
    for n in data.shape:
        shape += split(draw, n) if draw(st.booleans()) else [n]
    if len(shape) > 1 and draw(st.booleans()):
        at = draw(st.integers(0, len(shape) - 2))
        shape[at : at + 2] = [shape[at] * shape[at + 1]]
    return data.reshape(shape), moved.reshaped(shape)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_movements_are_those_of_numpy(data: Any) -> None:
    draw = data.draw
    shape = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    values = 1 + np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    moved = MovedData.of(ArrayData.of(values), f32, shape)
    for step in draw(st.lists(st.sampled_from([turn, take, reshape]), max_size=6)):
        want, next = step(draw, values, moved)
        if next is not None:  # else it would be copied
            values, moved = want, next
    assert moved.shape == values.shape
    np.testing.assert_array_equal(moved.array(), values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("irdeconv.ir.constant.PART_BYTES", draw(st.integers(4, 200)))
        assert b"".join(moved.pieces()) == values.tobytes()


@pytest.mark.parametrize("rows", [(6,), (1, 6)])
def test_what_is_broadcast_is_moved_narrow(rows: tuple[int, ...]) -> None:
    values = np.arange(6, dtype=np.float32).reshape(rows)
    moved = MovedData.broadcast(values, f32, (4, 6)).transposed((1, 0)).reshaped((3, 2, 4))
    assert moved is not None
    np.testing.assert_array_equal(moved.narrowed(), values.reshape(3, 2, 1))


def stored_layer(folder: Path, layer: Layer, kind: str) -> Path:
    """Write a deconvolution whose filter is f32, or f16 or i8 behind a Convert and a scale."""
    rng = np.random.default_rng(3)
    g, x = begun(layer.data_shape)
    container = {"f32": np.float32, "f16": np.float16, "i8": np.int8}[kind]
    w = constant(g, rng.integers(-9, 9, layer.filter_shape).astype(container), "w")
    if kind != "f32":
        w = Value(g.add(Convert(f32), [w], name="w/f32").id)
    if kind == "i8":
        scaled = [1 if a in (0, layer.axes) else n for a, n in enumerate(layer.filter_shape)]
        scale = constant(g, np.exp2(rng.integers(-3, 3, scaled)).astype(np.float32), "s")
        w = Value(g.add(Multiply(), [w, scale], name="w/scaled").id)
    result(g, Value(g.add(layer.op, [x, w], name="up").id), "y")
    ird.write(ird.infer(g), folder / f"{kind}.xml")
    return folder / f"{kind}.xml"


WINDOW: dict[str, Any] = {"pads_begin": (1, 0), "pads_end": (0, 1), "output_padding": (0, 0)}
LAYERS = [
    Layer(1, (3, 4), None, 3, 2, (3, 4), (2, 3), (1, 2), **WINDOW),
    Layer(2, (4, 3), 2, 3, 5, (4, 4), (2, 2), (1, 1), **WINDOW),
    Layer(1, (3, 4), 3, 2, 5, (2, 3), (2, 3), (1, 1), **WINDOW),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["f32", "f16", "i8"])
@pytest.mark.parametrize("layer", LAYERS)
def test_moved_filters_are_written_as_copied_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layer: Layer, kind: str, form: str
) -> None:
    path = stored_layer(tmp_path, layer, kind)
    copied = ird.lower(path, form).graph
    monkeypatch.setattr(moving, "SMALL_BYTES", -1)
    moved = ird.lower(path, form).graph
    constants = [n.op for n in moved.nodes("Const")]
    assert any(isinstance(c, Const) and isinstance(c.data, MovedData) for c in constants)
    for name, graph in (("copied", copied), ("moved", moved)):
        ird.write(graph, tmp_path / f"{name}.xml")
    for suffix in (".xml", ".bin"):
        assert (tmp_path / f"moved{suffix}").read_bytes() == (
            tmp_path / f"copied{suffix}"
        ).read_bytes()


LARGE = Layer(1, (2, 2), None, 1024, 512, (4, 4), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0))
SAME = Layer(1, (2, 2), None, 1024, 512, (4, 4), (4, 4), (1, 1), (0, 0), (0, 0), (0, 0))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", [*FORMS, "auto"])
@pytest.mark.parametrize("kind", ["f32", "i8"])
def test_lowering_and_writing_need_a_part_of_the_weights(
    tmp_path: Path, kind: str, form: str
) -> None:
    path = stored_layer(tmp_path, SAME if form == "gemm" else LARGE, kind)
    ird.write(ird.lower(path, form).graph, tmp_path / "first.xml")  # imports
    _, peak = peak_of(lambda: ird.write(ird.lower(path, form).graph, tmp_path / "low.xml"))
    assert (tmp_path / "low.bin").stat().st_size >= path.with_suffix(".bin").stat().st_size
    assert peak < 28 << 20  # the filter has 32 MiB as f32, what stacked makes of it 72


def test_a_file_cut_off_after_lowering_is_told(tmp_path: Path) -> None:
    path = stored_layer(tmp_path, SAME, "f32")
    graph = ird.lower(path, "gemm").graph
    os.truncate(path.with_suffix(".bin"), 5000)
    with pytest.raises(InputError, match="was changed while it was in use"):
        ird.write(graph, tmp_path / "low.xml")
    assert not (tmp_path / "low.xml").exists()


def test_a_moved_constant_is_pickled_by_what_it_is_made_of() -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    moved = MovedData.of(ArrayData.of(values), f32, (3, 4)).transposed((1, 0))
    np.testing.assert_array_equal(moved.array(), values.T)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(moved)).array(), values.T)


def test_blobs_that_are_alike_are_stored_once() -> None:
    file = BytesIO()
    blobs = Blobs(file)
    pieces = [b"abc", b"de", b"f"]
    places = [blobs.add(p) for p in (pieces, [b"x"], [b"abcdef"], pieces, [b"ab", b"cdef"], [])]
    assert places == [(0, 6), (6, 1), (0, 6), (0, 6), (0, 6), (7, 1)]
    assert file.getvalue() == b"abcdefx\0"
    assert blobs.hash.hexdigest() == hashlib.sha256(b"abcdefx\0").hexdigest()


def way(cost: float, items: int) -> Candidate:
    return Candidate("some", cost, 0, lambda w: lambda x, out, epilogue, team: None, items)


def test_more_is_paid_for_pieces_that_two_threads_share() -> None:
    costs = [(LONG * 2, 1), (LONG * 2.01, 3), (LONG * 2.1, 2), (LONG * 3, 8)]
    assert shared(way(*c) for c in costs).items == 2
    assert shared(way(*c) for c in costs[:2]).items == 3
    assert shared(way(cost / 3, items) for cost, items in costs).items == 3  # it is short
    assert [way(1, n).gain >= GAIN for n in (1, 2, 3, 4, 5, 7)] == [False, True, False, *[True] * 3]
