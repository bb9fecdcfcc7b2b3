"""Packed types, quantized filters, random numbers."""

import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.constant import NF4, decode, encode
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import REGISTRY, infer_op
from irdeconv.ir.spec import Spec
from irdeconv.kernels import random_numbers
from irdeconv.kernels import random_numbers as numbers
from irdeconv.kernels import random_numbers as philox
from irdeconv.ops.elementwise import Add
from irdeconv.ops.generation import RandomUniform
from irdeconv.rewrite.compressed_filters import stored
from support.layers import Layer, begun, constant, expected, parameter, result
from support.plan_graphs import Builder
from support.rows import each_row, tables
from support.runtime_truth import outputs, outputs_of_each

TABLES = tables(__file__)

# Bytes to arrays and back for every element type; expected values are worked out by hand.


@each_row(("name", "raw", "expected"), TABLES["bit_layouts"])
def test_layout(name: str, raw: str, expected: tuple[float, ...]) -> None:
    dtype = ELEMENT_TYPES[name]
    got = decode(bytes.fromhex(raw), dtype, (len(expected),))
    assert got.dtype == dtype.container
    assert tuple(got.astype(object).tolist()) == expected
    assert not got.flags.writeable
    if name != "boolean":
        assert encode(got, dtype).hex() == raw


@each_row("name", [n for n in ELEMENT_TYPES if n != "string"])
@each_row("count", [0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 33])
def test_round_trip(name: str, count: int) -> None:
    dtype = ELEMENT_TYPES[name]
    rng = np.random.default_rng(count)
    raw = rng.integers(0, 2 if name == "boolean" else 256, dtype.nbytes(count), dtype=np.uint8)
    values = decode(raw.tobytes(), dtype, (count,))
    assert values.shape == (count,)
    again = encode(values, dtype)
    assert len(again) == dtype.nbytes(count)
    assert decode(again, dtype, (count,)).tobytes() == values.tobytes()


def test_whole_byte_types_are_views() -> None:
    raw = memoryview(bytes(range(1, 18)))
    got = decode(raw[1:17], ELEMENT_TYPES["f64"], (2,))
    assert np.shares_memory(got, np.frombuffer(raw, np.uint8))
    assert got.view(np.uint8).reshape(-1).tolist() == list(range(2, 18))


def test_nf4_takes_the_nearest() -> None:
    between = np.array([-1.0, -0.99, -0.8, 0.01, 0.9, 5.0], np.float32)
    got = decode(encode(between, ELEMENT_TYPES["nf4"]), ELEMENT_TYPES["nf4"], (6,))
    assert got.tolist() == [NF4[0], NF4[0], NF4[1], NF4[7], NF4[15], NF4[15]]


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("u4", [16], r"16 does not fit u4 \(0..15\)"),
        ("i4", [8, -9], r"-9 does not fit i4 \(-8..7\)"),
        ("u1", [2], r"2 does not fit u1 \(0..1\)"),
        ("u6", [64], r"64 does not fit u6 \(0..63\)"),
    ],
)
def test_values_out_of_range(name: str, values: list[int], message: str) -> None:
    dtype = ELEMENT_TYPES[name]
    with pytest.raises(ValueError, match=message):
        encode(np.array(values, dtype.container), dtype)


@pytest.mark.parametrize(
    ("name", "size", "shape", "message"),
    [
        ("f32", 8, (3,), "3 elements of f32 take 12 bytes, there are 8"),
        ("u3", 3, (9,), "9 elements of u3 take 6 bytes, there are 3"),
        ("i4", 1, (3,), "3 elements of i4 take 2 bytes, there are 1"),
        ("f32", 8, (2**40, 2**40), "take 4835703278458516698824704 bytes"),
        ("f32", 4, (0, 3), "0 elements of f32 take 0 bytes, there are 4"),
    ],
)
def test_wrong_size(name: str, size: int, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(bytes(size), ELEMENT_TYPES[name], shape)


def test_empty_constant_may_have_one_byte() -> None:
    assert decode(b"\0", ELEMENT_TYPES["f32"], (0, 3)).shape == (0, 3)


def packed(count: int, offsets: list[int], text: bytes = b"") -> bytes:
    return struct.pack(f"<{1 + len(offsets)}i", count, *offsets) + text


STRING = ELEMENT_TYPES["string"]


def test_strings() -> None:
    raw = packed(4, [0, 2, 2, 7, 8], "abhééx".encode())
    got = decode(raw, STRING, (2, 2))
    assert got.tolist() == [["ab", ""], ["héé", "x"]]
    assert encode(got, STRING) == raw
    assert decode(packed(0, [0]), STRING, (0,)).shape == (0,)
    assert decode(b"\0", STRING, (0,)).shape == (0,)


@each_row(
    ("raw", "message"),
    [
        (b"", "starts with a 4-byte count, there are 0 bytes"),
        (packed(-1, [0]), "the string count is negative: -1"),
        (packed(2_000_000_000, [0, 1]), "header of 2000000000 strings takes 8000000008 bytes"),
        (packed(2, [0, 1, 2], b"ab"), "the tensor holds 2 strings, its shape wants 1"),
        (packed(1, [-1, 1], b"ab"), "string offset 0 is negative: -1"),
        (packed(1, [1, 0], b"ab"), "string 0 ends at 0, before it begins at 1"),
        (packed(1, [0, 3], b"ab"), "the strings end at 3, there are 2 bytes of text"),
        (packed(1, [0, 2], b"a\xff"), "string 0 is not UTF-8: byte 0xff at 1"),
    ],
)
def test_malformed_strings(raw: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(raw, STRING, (1,))


@pytest.mark.parametrize(
    ("type_", "numbers", "want"),
    [
        ("i4", [7, -8, 3], [-2, 0, 6]),
        ("u4", [15, 8, 3], [14, 0, 6]),
        ("u2", [3, 2, 1], [2, 0, 2]),
        ("i8", [127, -128, 3], [-2, 0, 6]),
    ],
)
def test_sums_keep_the_low_bits(type_: str, numbers: list[int], want: list[int]) -> None:
    """Inferred and run alike; `simplify` leaves them, as OpenVINO folds them in its own way."""
    layers = f"""%0 "x" = opset1.Parameter() {{element_type = {type_}, shape = [3]}} : {type_}[3]
      %1 "c" = opset1.Const() {{element_type = {type_}, shape = [3], data = {numbers}}}"""
    ends = '%2 "a" = opset1.Add({0}, {0}) %3 "y" = opset1.Result(%2)'
    known = ird.infer(ird.parse(f'graph 1 "g" {{ {layers} {ends.format("%1")} }}'))
    x = np.array(numbers, ELEMENT_TYPES[type_].container)
    (sums,) = ird.run(known, [x]).values()
    assert sums.tolist() == want
    assert known.spec(Value(2)).known.tolist() == want  # type: ignore[union-attr]
    assert known.spec(Value(2)).unsure
    assert "opset1.Add" in ird.dump(ird.simplify(known)[0])
    given = ird.infer(ird.parse(f'graph 1 "g" {{ {layers} {ends.format("%0")} }}'))
    for trace in (None, lambda node, arrays: None):  # as planned, and node by node
        (sums,) = ird.run(given, [x], trace=trace).values()
        assert sums.tolist() == want


# Filters that are stored in few bits stay so in every form, zero points and scales included.

FORMS = ["zero-insertion", "phases", "stacked", "auto"]
LAYER: dict[str, Any] = {
    "batch": 2,
    "size": (3, 4),
    "kernel": (3, 2),
    "strides": (2, 3),
    "dilations": (1, 2),
    "pads_begin": (1, 0),
    "pads_end": (0, 2),
    "output_padding": (1, 0),
}
PLAIN, GROUPED = Layer(groups=None, c=3, m=2, **LAYER), Layer(groups=2, c=3, m=2, **LAYER)
GEMM = Layer(
    **LAYER | {"kernel": (2, 3), "strides": (2, 3), "dilations": (1, 1), "pads_begin": (0, 0)}
    | {"pads_end": (0, 0), "output_padding": (0, 0)},
    groups=None, c=3, m=2,
)  # fmt: skip
# Along which axes of [C/g, M/g, *K] zero points and scales change.
PER = {"tensor": (), "input channel": (0,), "output channel": (1,)}
TYPES = {"i8": (-128, 127), "u8": (0, 255), "i4": (-8, 7), "u4": (0, 15)}


def op(type: str, *args: Any) -> Any:
    return REGISTRY[type, "opset1"](*args)


def parameters(shape: tuple[int, ...], per: str, groups: bool) -> tuple[int, ...]:
    """Return the shape of zero points and scales; those of groups differ, too."""
    axes = [a + groups for a in PER[per]] + [0] * (groups and per != "tensor")
    return tuple(n if a in axes else 1 for a, n in enumerate(shape))


def quantized(layer: Layer, stored_in: str, per: str) -> tuple[Graph, Any, Any]:
    """Return a graph, its data and its filter: (levels - zero points) * scales, exactly."""
    rng = np.random.default_rng(len(stored_in + per))
    low, high = TYPES[stored_in]
    shape = layer.filter_shape
    some = parameters(shape, per, layer.groups is not None)
    levels = rng.integers(low, high + 1, shape)
    zeros = rng.integers(low // 2 + 1, high // 2 + 1, some)
    scales = 2.0 ** rng.integers(-3, 2, some)
    container = ELEMENT_TYPES[stored_in].container
    g = Graph()
    x = rng.integers(-9, 10, layer.data_shape).astype(np.float32)
    data = parameter(g, x.shape, np.float32, "x")
    f32 = ELEMENT_TYPES["f32"]
    w, z = (constant(g, v.astype(container), f"{v.shape}", stored_in) for v in (levels, zeros))
    w, z = (Value(g.add(op("Convert", f32), [v], name=f"{v.node}").id) for v in (w, z))
    w = Value(g.add(op("Subtract"), [w, z], name="centered").id)
    s = constant(g, scales.astype(np.float32), "scales")
    w = Value(g.add(op("Multiply"), [w, s], name="filter").id)
    result(g, Value(g.add(layer.op, [data, w], name="deconv").id))
    return g, x, ((levels - zeros) * scales).astype(np.float32)


def filters(graph: Graph) -> list[tuple[Node, Any]]:
    nodes = [*graph.nodes("Convolution"), *graph.nodes("GroupConvolution")]
    return [(n, stored(graph, graph.inputs_of(n.id)[1])) for n in nodes]


@pytest.mark.sampled(16)
@pytest.mark.parametrize("per", PER)
@pytest.mark.parametrize("stored_in", TYPES)
@pytest.mark.parametrize(
    "layer", [PLAIN, GROUPED, GEMM], ids=["plain", "grouped", "kernel is stride"]
)
def test_every_form_keeps_the_bits(layer: Layer, stored_in: str, per: str) -> None:
    g, x, w = quantized(layer, stored_in, per)
    y = expected(layer, x, w)
    for form in FORMS:
        lowered = ird.lower(g, form).graph
        found = filters(lowered)
        assert found
        for node, filter in found:
            assert filter is not None, (form, node)
            assert str(filter.dtype) == stored_in
            assert [s.node.type for s in filter.steps] == ["Convert", "Subtract", "Multiply"]
            small = sum(p.values.size for s in filter.steps for p in s.parameters)
            assert small <= max(filter.values.size, 4 * w.size)
        assert np.array_equal(ird.run(lowered, {"x": x}, form=None)["y"], y), form
        assert ird.certify(g, lowered), form


@pytest.mark.parametrize("form", FORMS)
def test_quantized_by_fake_quantize(form: str) -> None:
    """Data and filter in f32, as training leaves them; 0 is a level of both."""
    _, x, w = quantized(GROUPED, "i8", "tensor")
    graph, y = begun(x.shape)
    limits = [[constant(graph, np.float32(v), str(v)) for v in (-128, 127, -64, 63.5)]] * 2
    y = Value(graph.add(op("FakeQuantize", 256), [y, *limits[0]], name="levels of x").id)
    inputs = [constant(graph, w, "w"), *limits[1]]
    filter = Value(graph.add(op("FakeQuantize", 256), inputs, name="filter").id)
    result(graph, Value(graph.add(GROUPED.op, [y, filter], name="deconv").id))
    lowered = ird.lower(graph, form).graph
    wanted = expected(GROUPED, x / 2, np.clip(np.round(w), -128, 127) / 2)
    assert np.array_equal(ird.run(lowered, {"x": x}, form=None)["y"], wanted)
    assert ird.certify(graph, lowered)


def test_a_zero_that_has_no_number_stays_outside() -> None:
    """Zero points of 0.5: what pads the filter is no level of it."""
    g, x, _ = quantized(PLAIN, "u8", "tensor")
    node = next(n for n in g.nodes() if n.name == "centered")
    g.replace_uses(g.inputs_of(node.id)[1], constant(g, np.float32(0.5), "half"))
    (before,) = ird.run(g, {"x": x}).values()
    for form in FORMS:
        lowered = ird.lower(g, form).graph
        assert np.array_equal(ird.run(lowered, {"x": x}, form=None)["y"], before)


@pytest.mark.oracles
@pytest.mark.parametrize("per", ["tensor", "output channel"])
def test_openvino_executes_them(per: str, tmp_path: Path) -> None:
    models, wanted = [], []
    for layer in (PLAIN, GROUPED, GEMM):
        g, x, w = quantized(layer, "u8", per)
        for form in FORMS:
            ird.write(ird.lower(g, form), path := tmp_path / f"{len(models)}-{form}.xml")
            models.append((path, [x]))
            wanted.append(expected(layer, x, w))
    for (path, _), (got,), want in zip(models, outputs_of_each(models), wanted, strict=True):
        assert np.array_equal(got, want), path.stem


# Random numbers in graphs, and their bits against exact arithmetic and live OpenVINO.

SHAPE = (2, 3)


def uniform(seed: int) -> RandomUniform:
    return RandomUniform(ELEMENT_TYPES["f32"], global_seed=seed)


def noisy(seed: int = 7) -> Graph:
    """x plus the same random numbers twice, all of their inputs being constants."""
    b, x = Builder.of(SHAPE)
    given = np.array(SHAPE), np.float32(-1), np.float32(1)
    first, second = (b.add(uniform(seed), *given) for _ in range(2))
    return b.done(b.add(Add(), b.add(Add(), x, first), second))


def drawn(graph: Graph) -> int:
    return sum(n.type == "RandomUniform" for n in graph.nodes())


def test_nothing_is_folded_or_joined() -> None:
    graph = ird.infer(noisy())
    assert drawn(graph) == 2
    assert drawn(ird.simplify(graph).graph) == 2
    (out,) = infer_op(uniform(7), (Spec.of(np.array(SHAPE)), *map(Spec.of, scalars(-1, 1))))
    assert (out.shape, out.value) == (SHAPE, None)


def scalars(*values: float, kind: Any = np.float32) -> list[Any]:
    return [np.array(v, kind) for v in values]


@pytest.mark.parametrize("seed", [0, 7])
def test_runs_of_a_plan_repeat(seed: int) -> None:
    plan = ird.compile(noisy(seed))
    feeds = {"x": np.zeros(SHAPE, np.float32)}
    (first,), (second,) = plan.run(feeds).values(), plan.run(feeds).values()
    assert np.array_equal(first, second)
    assert np.array_equal(first, 2 * uniform(seed).evaluate(np.array(SHAPE), *scalars(-1, 1)))


def test_pieces_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = philox.words(3, 1 << 40, 100)
    monkeypatch.setattr(philox, "GROUPS_AT_ONCE", 7)
    assert np.array_equal(philox.words(3, 1 << 40, 100), whole)
    limits = np.float32(-3.7), np.float32(1000.3)
    numbers_of_all = numbers.uniform(400, *limits, (3, 1 << 40), torch=False)
    monkeypatch.setattr(numbers, "CONVERTED_AT_ONCE", 9)
    assert np.array_equal(numbers.uniform(400, *limits, (3, 1 << 40), torch=False), numbers_of_all)


def test_the_sequence_of_two_seeds_is_that_of_cpp() -> None:
    # std::seed_seq{3, 5} and std::mt19937, as OpenVINO's Multinomial shows them among 4096 classes.
    words = random_numbers.words_of_sequence((3, 5), 8).astype(np.uint64)
    assert (words * 4096 >> 32).tolist() == [788, 1254, 2170, 2615, 244, 2303, 1941, 948]


def test_sums_are_rounded_once() -> None:
    r = np.random.default_rng(0)
    products = np.ldexp(r.integers(-(2**46), 2**46, 4000).astype(float), r.integers(-60, 10, 4000))
    for low in (1.0, -3.7, 2.0**-20, 16777217.0):
        found = numbers.rounded_sum(products, low)
        for product, got in zip(products.tolist(), found.tolist(), strict=True):
            exact = Fraction(product) + Fraction(low)
            apart = abs(Fraction(got) - exact)
            for side in (-np.inf, np.inf):
                other = float(np.nextafter(np.float32(got), np.float32(side)))
                assert apart <= abs(Fraction(other) - exact)


LIMITS = [
    ("f32", 2, 100),
    ("f32", -3.7, 1000.3),
    ("f32", 0, 1),
    ("i32", -(2**31), 5),
    ("i64", 2, 99),
]


@pytest.mark.oracles
@pytest.mark.parametrize(("name", "low", "high"), LIMITS)
@pytest.mark.parametrize("alignment", ["tensorflow", "pytorch"])
def test_openvino_draws_the_same_bits(name: str, low: float, high: float, alignment: Any) -> None:
    ov = pytest.importorskip("openvino")
    ops = ov.opset16
    seeds = 2**40 + 3, 2**35 + 1
    size = np.array([2999])
    limits = scalars(low, high, kind=ELEMENT_TYPES[name].container)
    given = [ops.constant(v) for v in (size, *limits)]
    (theirs,) = outputs(ov.Model([ops.random_uniform(*given, name, *seeds, alignment)], []))
    ours = RandomUniform(ELEMENT_TYPES[name], *seeds, alignment).evaluate(size, *limits)
    assert ours.tobytes() == theirs.tobytes()


@pytest.mark.oracles
def test_numbers_from_the_time_are_not_compared() -> None:
    report = ird.compare(noisy(0), "openvino", [np.zeros(SHAPE, np.float32)])
    assert report.passed, report
    rules = {t.type_a: t.rule for t in report.tensors}
    assert rules["RandomUniform"] == "drawn anew in every run"
