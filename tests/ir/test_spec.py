"""Specs: sizes, shapes that flow, open shapes."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir import dtypes
from irdeconv.ir.dtypes import ELEMENT_TYPES, f32, i64
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import REGISTRY, Op, SpecBuilder, as_tuple, infer_op
from irdeconv.ir.spec import (
    DYNAMIC,
    Dim,
    Interval,
    Shape,
    Spec,
    bounds,
    broadcast,
    compatible,
    format_shape,
    is_static,
    merge,
    merge_shapes,
    parse_dim,
    parse_shape,
    simplify,
)
from irdeconv.ops import elementwise
from irdeconv.ops.basic import Convert, Parameter
from irdeconv.ops.channels import Split
from irdeconv.ops.convolution import Convolution
from irdeconv.ops.movement import (
    Broadcast,
    Concat,
    Pad12,
    Reshape,
    ShapeOf,
    Squeeze,
    Transpose,
    Unsqueeze,
)
from irdeconv.ops.reduction import ReduceProd
from irdeconv.ops.slicing import Gather, Slice, StridedSlice
from irdeconv.rewrite.forms import FORMS
from support.layers import begun, constant, parameter, result
from support.rows import each_row

# Graphs of which less is declared: no specs at all, open batch, spatial sizes, dims or ranks.

LOOSER = ("batch", "spatial", "batch and spatial", "dims", "rank")


def undeclared(graph: Graph) -> Graph:
    """A copy in which no layer declares anything."""
    out = graph.copy()
    for node in out.nodes():
        if node.op.type != "Opaque":
            node.declared = node.declared_inputs = ()
            node.specs = None
    return out


def opened(graph: Graph, what: str) -> Graph:
    """A copy in which nothing is declared and dims of the inputs are open."""
    out = undeclared(graph)
    for node in list(out.parameters):
        assert isinstance(node.op, Parameter)
        out.replace_op(node.id, replace(node.op, shape=_opened(node.op.shape, what)))
    return out


def _opened(shape: Shape | None, what: str) -> Shape | None:
    if shape is None or what == "rank":
        return None

    def is_open(axis: int) -> bool:
        return what == "dims" or (axis == 0 and "batch" in what) or (axis > 1 and "spatial" in what)

    return tuple(DYNAMIC if is_open(i) else d for i, d in enumerate(shape))


def specs(graph: Graph) -> dict[tuple[str, int], Spec]:
    """What is inferred, by the layer's name and the output."""
    return {(n.name, i): s for n in ird.infer(graph).nodes() for i, s in enumerate(n.specs or ())}


def contradictions(tight: Graph, loose: Graph) -> Iterator[str]:
    """Say where a graph of which less is known is inferred to something that excludes the other."""
    known = specs(tight)
    for place, found in specs(loose).items():
        want = known[place]
        if found.dtype != want.dtype or not holds(found.shape, want.shape):
            yield f"{place}: {found}, of exact inputs {want}"


def holds(loose: Shape | None, tight: Shape | None) -> bool:
    """Whether every size that the tight shape allows is allowed by the loose one."""
    if loose is None or tight is None:
        return loose is None
    return len(loose) == len(tight) and all(map(_inside, loose, tight))


def _inside(loose: Dim, tight: Dim) -> bool:
    if isinstance(loose, int):
        return loose == tight
    low, high = (tight, tight) if isinstance(tight, int) else (tight.lo, tight.hi)
    return loose.lo <= low and (loose.hi is None or (high is not None and high <= loose.hi))


# Dimensions, shapes and their arithmetic; the element types.

RANGES = [(0, 0), (0, 3), (2, 5), (4, 4), (-3, 2), (-4, -1), (1, None), (-2, None)]


def members(r: tuple[int, int | None]) -> range:
    lo, hi = r
    return range(lo, (lo + 6 if hi is None else hi) + 1)


def contains(dim: object, value: int) -> bool:
    lo, hi = bounds(dim)  # type: ignore[arg-type]
    return lo <= value and (hi is None or value <= hi)


@each_row("a", RANGES)
@each_row("b", RANGES)
def test_interval_arithmetic_contains_every_result(a, b):
    x, y = Interval(*a), Interval(*b)
    for p, q in itertools.product(members(a), members(b)):
        assert contains(x + y, p + q)
        assert contains(x - y, p - q)
        assert contains(x * y, p * q)
        assert contains(x + q, p + q)
        assert contains(q - x, q - p)
        if b[0] > 0:
            assert contains(x // y, p // q)


@each_row("a", [r for r in RANGES if r[1] is not None])
@each_row("b", [r for r in RANGES if r[1] is not None])
def test_bounded_interval_arithmetic_is_tight(a, b):
    x, y = Interval(*a), Interval(*b)
    pairs = list(itertools.product(members(a), members(b)))
    for op in ("__add__", "__sub__", "__mul__"):
        exact = {getattr(p, op)(q) for p, q in pairs}
        assert bounds(getattr(x, op)(y)) == (min(exact), max(exact))
    if b[0] > 0:
        exact = {p // q for p, q in pairs}
        assert bounds(x // y) == (min(exact), max(exact))


def test_large_dimensions_do_not_overflow():
    assert Interval(2**30, 2**31) * 2**30 == Interval(2**60, 2**61)


def test_bounds_beyond_64_bits_are_open():
    assert Interval(2**62, 2**63) * 2**40 == Interval(2**63, None)
    assert Interval(1, 2**63 - 1) + 1 == Interval(2, None)
    assert Interval.of(2, 2**63) - 2 == Interval(0, None)
    assert Interval(0, 2**62) * -4 == Interval(-(2**63), 0)
    grown = Interval(2, 7)
    for _ in range(1_000):
        grown = grown * grown
    assert grown == Interval(2**63, None)


def test_numbers_of_a_value_beyond_64_bits_are_not_known():
    values = np.array([2**63, 3, Interval(1, 2)], object)
    assert list(simplify(values, dtypes.i64)) == [Interval(-(2**63), None), 3, Interval(1, 2)]
    with pytest.raises(ValueError, match="largest number of 64 bits"):
        parse_dim("18446744073709551616")


@each_row(
    ("text", "dim"),
    [("3", 3), (" 7 ", 7), ("?", DYNAMIC), ("-1", DYNAMIC), ("3..9", Interval(3, 9)),
     ("..9", Interval(0, 9)), ("3..", Interval(3, None)), ("4..4", 4)],
)  # fmt: skip
def test_parse_dim(text, dim):
    assert parse_dim(text) == dim


@each_row("text", ["", "-7", "five", "5.9", "9..3", "1e3", "٣", "3...9", "1" * 60])
def test_parse_dim_rejects(text):
    with pytest.raises(ValueError, match=r'"|range'):
        parse_dim(text)


@each_row("text", ["1,3,?,16..512", "...", "", "..9", "3.."])
def test_shape_text_round_trip(text):
    shape = parse_shape(text)
    assert parse_shape(format_shape(shape)[1:-1]) == shape


def test_merge():
    assert merge(3, DYNAMIC) == 3
    assert merge(Interval(2, 5), Interval(4, 9)) == Interval(4, 5)
    assert merge(Interval(2, 5), Interval(5, 9)) == 5
    assert merge(3, 4) is None
    assert merge_shapes((1, DYNAMIC), (DYNAMIC, 4)) == (1, 4)
    assert merge_shapes(None, (1, 2)) == (1, 2)
    with pytest.raises(ValueError, match="ranks 1 and 2"):
        merge_shapes((1,), (1, 2))
    assert compatible(None, (3,))
    assert not compatible((3,), (4,))


@each_row(
    ("a", "b", "out"),
    [((2, 1), (3,), (2, 3)), ((1,), (0,), (0,)), ((DYNAMIC,), (3,), (3,)),
     ((DYNAMIC,), (1,), (DYNAMIC,)), ((Interval(2, 4),), (Interval(3, 9),), (Interval(3, 4),)),
     ((Interval(1, 4),), (Interval(1, 9),), (Interval(1, 9),)), (None, (3,), None)],
)  # fmt: skip
def test_broadcast(a, b, out):
    assert broadcast(a, b) == out
    assert broadcast(b, a) == out


@each_row(("a", "b"), [((2,), (3,)), ((Interval(4, 9),), (3,))])
def test_broadcast_rejects(a, b):
    with pytest.raises(ValueError, match="broadcast"):
        broadcast(a, b)


def test_spec():
    spec = Spec.of(np.zeros((2, 3), np.float16))
    assert (str(spec), spec.size, spec.nbytes, spec.rank) == ("f16[2,3]", 6, 12, 2)
    assert spec.known is not None
    assert Spec(dtypes.i64, (2,), np.array([3, DYNAMIC], object)).known is None
    assert is_static((1, 2))
    assert not is_static((1, DYNAMIC))
    assert not is_static(None)


def test_every_element_type_has_one_precision():
    names = [t.precision for t in dtypes.ELEMENT_TYPES.values()]
    assert len(set(names)) == len(names)
    assert {dtypes.BY_PRECISION[p].name for p in names} == set(dtypes.ELEMENT_TYPES)


@each_row(
    ("name", "elements", "size"),
    [("u1", 11, 2), ("u3", 11, 6), ("u6", 11, 9), ("i4", 3, 2), ("f64", 2, 16), ("nf4", 5, 3)],
)
def test_packed_sizes(name, elements, size):
    assert dtypes.ELEMENT_TYPES[name].nbytes(elements) == size


# Shape arithmetic of dynamic models: partly known values flow from ShapeOf to their users.

b = SpecBuilder()
IMAGE = Spec(f32, (Interval(1, 4), 3, Interval(10, 20), DYNAMIC))


def ints(*values: int) -> Spec:
    return Spec.of(np.array(values, np.int64))


def scalar(value: int) -> Spec:
    return Spec.of(np.array(value, np.int64))


def values(spec: Spec) -> list[Any]:
    assert spec.value is not None
    return [
        v if isinstance(v, Interval) else v.item() if hasattr(v, "item") else v
        for v in spec.value.flat
    ]


def size(at: int) -> Spec:
    """Return dimension `at` of the image as a vector of one."""
    return b.add(Gather(), b.add(ShapeOf(), IMAGE), ints(at), scalar(0))


def test_shape_of() -> None:
    assert values(b.add(ShapeOf(), IMAGE)) == [Interval(1, 4), 3, Interval(10, 20), DYNAMIC]
    assert b.add(ShapeOf(), Spec(f32, None)) == Spec(i64, (DYNAMIC,))


@each_row(
    ("op", "operand", "want"),
    [
        (elementwise.Add(), 3, Interval(13, 23)),
        (elementwise.Subtract(), 3, Interval(7, 17)),
        (elementwise.Multiply(), 2, Interval(20, 40)),
        (elementwise.Divide(), 4, Interval(2, 5)),
        (elementwise.FloorMod(), 4, Interval(0, 3)),
        (elementwise.Maximum(), 15, Interval(15, 20)),
        (elementwise.Maximum(), 25, 25),
        (elementwise.Minimum(), 15, Interval(10, 15)),
        (elementwise.Minimum(), 5, 5),
    ],
)
def test_integer_arithmetic(op: Op, operand: int, want: Any) -> None:
    assert values(b.add(op, size(2), ints(operand))) == [want]


def test_scaling_through_floating_point() -> None:
    """Resize by a real factor: Convert, Multiply, Floor, Convert."""
    real = b.add(Convert(f32), b.add(Concat(0), size(1), size(2)))
    scaled = b.add(elementwise.Multiply(), real, Spec.of(np.array([1.5, 1.5], np.float32)))
    back = b.add(Convert(i64), b.add(elementwise.Floor(), scaled))
    assert values(back) == [4, Interval(15, 30)]


def test_exact_floats_round_as_the_tensor_does() -> None:
    """100 * 0.29 is 28.999999165 in exact arithmetic but 29 in float32."""
    shape = b.add(ShapeOf(), Spec(f32, (100, DYNAMIC)))
    factor = Spec.of(np.array([0.29, 0.29], np.float32))
    scaled = b.add(elementwise.Multiply(), b.add(Convert(f32), shape), factor)
    whole = values(b.add(Convert(i64), scaled))[0]
    assert whole == int(np.float32(100) * np.float32(0.29))


def test_reshape_takes_computed_sizes() -> None:
    target = b.add(Concat(0), size(0), ints(-1))
    out = b.add(Reshape(), IMAGE, target)
    assert out.shape[0] == Interval(1, 4)
    static = Spec(f32, (Interval(1, 4), 3, 10, 20))
    batch = b.add(Gather(), b.add(ShapeOf(), static), ints(0), scalar(0))
    out = b.add(Reshape(), static, b.add(Concat(0), batch, ints(600)))
    assert out.shape == (Interval(1, 4), 600)


def test_copied_dimensions_cancel() -> None:
    data = Spec(f32, (DYNAMIC, 3, 4))
    assert b.add(Reshape(True), data, ints(0, -1)).shape == (DYNAMIC, 12)
    assert b.add(Reshape(True), data, ints(0, 0, 2, -1)).shape == (DYNAMIC, 3, 2, 2)


def test_slices_and_scalars() -> None:
    shape = b.add(ShapeOf(), IMAGE)
    assert values(b.add(Slice(), shape, ints(2), ints(9), ints(1))) == [Interval(10, 20), DYNAMIC]
    picked = b.add(StridedSlice((0,), (0,), shrink_axis_mask=(1,)), shape, ints(1), ints(2))
    assert (picked.shape, values(picked)) == ((), [3])
    assert values(b.add(Squeeze(), size(2), ints(0))) == [Interval(10, 20)]
    assert b.add(Unsqueeze(), picked, scalar(0)).shape == (1,)
    parts = as_tuple(infer_op(Split(2), (shape, scalar(0))))
    assert values(parts[1]) == [Interval(10, 20), DYNAMIC]
    assert values(
        b.add(ReduceProd(), b.add(Slice(), shape, ints(0), ints(3), ints(1)), ints(0))
    ) == [Interval(30, 240)]


def test_select_by_a_certain_comparison() -> None:
    """Frameworks replace -1 in a target shape; a size is never -1."""
    certain = b.add(elementwise.Equal(), size(3), ints(-1))
    assert values(certain) == [False]
    assert values(b.add(elementwise.Select(), certain, ints(1), size(3))) == [DYNAMIC]
    assert b.add(elementwise.Equal(), size(3), ints(5)).value is None


def test_computed_pads_and_targets() -> None:
    missing = b.add(elementwise.Subtract(), ints(32), size(2))
    pads = b.add(Concat(0), ints(0, 0), missing, ints(0))
    out = b.add(Pad12(), IMAGE, ints(0, 0, 0, 0), pads)
    assert bounds(out.shape[2]) == (22, 42)
    wide = b.add(Broadcast(), Spec(f32, (1, 1)), b.add(Concat(0), size(2), ints(7)))
    assert wide.shape == (Interval(10, 20), 7)
    turned = b.add(Transpose(), IMAGE, b.add(Concat(0), ints(0, 2), ints(3, 1)))
    assert turned.shape == (Interval(1, 4), Interval(10, 20), DYNAMIC, 3)


def test_an_unknown_part_leaves_the_others_known() -> None:
    unknown = Spec(i64, (1,))
    joined = b.add(Concat(0), size(1), unknown)
    assert values(joined)[0] == 3
    assert b.add(Reshape(), Spec(f32, (6, 5)), joined).shape == (3, DYNAMIC)
    assert b.add(Pad12(), Spec(f32, (6,)), unknown, ints(2)).shape == (DYNAMIC,)


def test_an_unknown_part_is_as_wide_as_the_others() -> None:
    known = Spec(i64, (1, 2), np.array([[3, 4]]))
    joined = b.add(Concat(0), known, Spec(i64, (2, DYNAMIC)))
    assert joined.shape == (3, 2)
    assert values(joined)[:2] == [3, 4]


@each_row("step", [-3, -1, 1, 2])
@each_row("start", [-6, -2, 0, 1, 5])
@each_row("stop", [-7, -1, 0, 3, 8, 2**63 - 1])
def test_slice_bounds_hold_every_size_and_are_reached(start: int, stop: int, step: int) -> None:
    for low, high in ((0, 4), (2, 9), (3, None)):
        data = Spec(f32, (Interval(low, high),))
        out = b.add(Slice(), data, ints(start), ints(stop), ints(step))
        lo, hi = bounds(out.shape[0])
        # Backwards a start in front of the axis is clamped to it, unlike Python's.
        found = [
            len(range(*slice(max(start, -n) if step < 0 else start, stop, step).indices(n)))
            for n in range(low, (high or 60) + 1)
        ]
        assert lo == min(found)
        if high is not None:
            assert hi == max(found)
        else:
            assert hi is None or hi == max(found)
            assert (hi is None) == (found[-1] > found[-12])


# Models of which little is declared: inference never says something wrong, and they run.

SAMPLES = sorted((Path(__file__).resolve().parents[2] / "ir_samples/openvino").glob("*.xml"))
each_sample = each_row("path", SAMPLES)


@each_sample
def test_without_declarations_the_declared_shapes_are_inferred(path: Path) -> None:
    graph = ird.read(path)
    found = specs(undeclared(graph))
    for node in graph.nodes():
        for port, want in enumerate(node.declared):
            got = found[node.name, port]
            assert got.dtype == want.dtype
            assert holds(want.shape, got.shape), node.name


@each_row("what", LOOSER)
@each_sample
def test_open_inputs_never_contradict_exact_ones(path: Path, what: str) -> None:
    graph = ird.read(path)
    assert list(contradictions(undeclared(graph), opened(graph, what))) == []


def feeds(graph: Graph, batch: int) -> list[np.ndarray]:
    rng = np.random.default_rng(batch)
    return [
        rng.standard_normal((batch, *(n.spec().shape[1:]))).astype(n.spec().dtype.container)
        for n in graph.parameters
    ]


@each_row("path", [p for p in SAMPLES if p.stem != "dynamic"])
def test_open_models_compute_what_exact_ones_do(path: Path) -> None:
    graph = ird.read(path)
    data = feeds(graph, graph.parameters[0].spec().shape[0])
    want = ird.run(graph, data, None)
    for what in ("dims", "rank"):
        got = ird.run(opened(graph, what), data, None)
        for name, array in want.items():
            np.testing.assert_array_equal(got[name], array)


def make(g: Graph, kind: str, version: str, inputs: list[Value], **fields: Any) -> Value:
    return Value(g.add(REGISTRY[kind, version](**fields), inputs, name=kind).id)


def test_shapes_that_an_evaluator_would_not_notice_are_refused() -> None:
    """hidden_size is 3, the matrices have 2: every product of matrices fits."""
    g = Graph()
    names = {"x": (2, 4), "h": (2, 2), "w": (2, 4), "r": (2, 2), "b": (2,)}
    given = [parameter(g, (None,) * len(s), np.float32, n) for n, s in names.items()]
    result(g, make(g, "RNNCell", "opset3", given, hidden_size=3))
    data = [np.ones(s, np.float32) for s in names.values()]
    with pytest.raises(ird.ExecutionError, match=r'RNNCell "RNNCell".* has size 2; it must be 3'):
        ird.run(g, data, None)


OPEN = """graph 1 "open" {
  %0 "x" = opset1.Parameter() {shape = [?, 2, SIZE], element_type = f32}
  %1 "w" = opset1.Parameter() {shape = [2, 3, 2], element_type = f32}
  %2 "up" = opset1.ConvolutionBackpropData(%0, %1)
    {strides = [2], pads_begin = [1], pads_end = [1], dilations = [1]}
  %3 "y" = opset1.Result(%2)
}"""


@each_row("size", ["?", "..3", "1..2"])
@each_row("form", list(FORMS))
def test_what_a_lowering_convolves_to_nothing_is_inferred(form: str, size: str) -> None:
    """One element gives 2(I - 1) + 2 - 2 = 0: inference may not say that there is an output."""
    graph = ird.infer(ird.parse(OPEN.replace("SIZE", size)))
    lowered = ird.infer(ird.lower(graph, form).graph)
    wrong = []

    def held(node: Node, outputs: Sequence[np.ndarray]) -> None:
        for port, array in enumerate(outputs):
            if not holds(node.spec(port).shape, array.shape):
                wrong.append(f"{node.name}: {node.spec(port)}, ran {array.shape}")

    for length in (1, 2):
        data = [np.ones((1, 2, length), np.float32), np.ones((2, 3, 2), np.float32)]
        (out,) = ird.run(lowered, data, None, trace=held).values()
        assert out.shape == (1, 3, 2 * length - 2)
    assert wrong == []


@each_row(("size", "want"), [((0, 3), (0, 1)), ((2, 5), (0, 3)), ((3, 5), (1, 3))])
def test_a_convolution_of_a_lowering_may_have_no_output(
    size: tuple[int, int], want: tuple[int, int]
) -> None:
    lists = (1,), (0,), (0,), (1,)
    data, filter = (Spec(ELEMENT_TYPES["f32"], s) for s in ((1, 2, Interval(*size)), (3, 2, 3)))
    made = Convolution(*lists, unrestricted=True).infer(data, filter).shape
    plain = Convolution(*lists).infer(data, filter).shape
    assert plain is not None
    assert bounds(made[2]) == want
    assert bounds(plain[2]) == (1, want[1])


@each_row("kept", [0, 1, 3])
def test_sizes_that_depend_on_values(kept: int) -> None:
    """The places that are not 0, gathered: as many as there are, whatever stands behind them."""
    g, x = begun((None,))
    places = make(g, "NonZero", "opset3", [x])
    flat = make(g, "Squeeze", "opset1", [places, constant(g, np.array([0]), "first")])
    found = make(g, "Gather", "opset8", [x, flat, constant(g, np.array(0), "axis")])
    result(g, make(g, "Multiply", "opset1", [found, constant(g, np.float32([2]), "two")]))
    (spec,) = (n.specs[0] for n in ird.infer(g).results)
    assert spec.shape == (Interval(0, None),)
    data = np.array([0, 5, 0, 7, 9][: 1 + kept + (kept > 1)], np.float32)
    (out,) = ird.run(g, [data], None).values()
    np.testing.assert_array_equal(out, 2 * data[data != 0])


def test_a_plan_keeps_a_program_for_each_set_of_shapes() -> None:
    graph = opened(ird.read(SAMPLES[0]), "batch")
    plan = ird.compile(graph, None, threads=1)
    first = plan.program(feeds(ird.read(SAMPLES[0]), 1))
    other = plan.program(feeds(ird.read(SAMPLES[0]), 2))
    assert other is not first
    assert plan.program(feeds(ird.read(SAMPLES[0]), 1)) is first
