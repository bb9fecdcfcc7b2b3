"""Every row of op_cases; the table of operations; formulas; refusals at run time."""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
import irdeconv.ops
from irdeconv.base.errors import OpError
from irdeconv.ir import dtypes
from irdeconv.ir.op import (
    LAST_OPSET,
    MOVES,
    REGISTRY,
    Op,
    Operand,
    as_tuple,
    infer_op,
    lookup,
    parse_attributes,
)
from irdeconv.ir.spec import DYNAMIC, Array, Interval, Spec, bounds
from irdeconv.kernels import jit
from irdeconv.kernels.elementwise import Instruction
from irdeconv.kernels.elementwise_chain import Chain
from irdeconv.kernels.threads import Threads
from irdeconv.ops import catalog, core
from irdeconv.ops.basic import Assign3, Assign6, ConvertPromoteTypes, ReadValue3, ReadValue6
from irdeconv.ops.control import If, Loop, TensorIterator
from irdeconv.ops.elementwise import Binary, Power
from irdeconv.ops.matrix import ScaledDotProductAttention
from irdeconv.ops.recurrent import GRUCell, LSTMCell
from irdeconv.ops.reduction import ReduceSum
from irdeconv.runtime.fusion import chain_step
from irdeconv.runtime.plan import build_plan
from irdeconv.verify.judge import allowed, carried, evaluate, precise, worth_precision
from op_cases import (
    Case,
    Tensor,
    all_cases,
    count,
    differs,
    f32,
    first_rows,
    i64,
    rows_of,
    tensor_of,
    u1,
)
from support.commands import command
from support.live.sample import Given, Sample, answer, build, given, layer
from support.rows import each_row, parts

# Every row of op_cases through attributes, inference with ever less knowledge, and evaluation.

assert irdeconv.ops


def built(row: Case) -> Op:
    op, problems = row.build()
    assert [p for p in (*problems, *op.problems()) if p.severity == "error"] == []
    return op


@each_row("row", all_cases)
def test_attributes_inference_and_evaluation(row: Case) -> None:
    """Attributes survive writing and reading, shapes are exact, inputs stay as they are."""
    op = built(row)
    values, problems = parse_attributes(type(op), op.to_attributes())
    assert problems == []
    assert type(op)(**values) == op
    specs = infer_op(op, tuple(t.spec for t in row.inputs))
    assert [o.dtype for o in specs] == [t.dtype for t in row.outputs]
    assert [o.shape for o in specs] == [t.values.shape for t in row.outputs]
    given = [t.values.copy() for t in row.inputs]
    for g in given:
        g.flags.writeable = False
    outs = as_tuple(op.evaluate(*given))
    assert [g.tobytes() for g in given] == [t.values.tobytes() for t in row.inputs]
    for got, want in zip(outs, row.outputs, strict=True):
        assert got.dtype == want.dtype.container
        assert differs(got, want, row.tolerance) == ""


def is_list(t: Tensor) -> bool:
    """Whether a tensor may be a list of axes, sizes or indices, whose value inference uses."""
    return (t.dtype.is_integral or t.dtype.kind == "bool") and t.values.ndim <= 1


def partly(t: Tensor, index: int | None) -> Spec:
    """Forget one element of an integer tensor, or all of them, up to an interval around it."""
    values = t.values.astype(object)
    flat = values.reshape(-1)
    for i in range(len(flat)) if index is None else (index,):
        flat[i] = Interval(int(flat[i]) - 1, int(flat[i]) + 2)
    return Spec(t.dtype, t.values.shape, values)


def loosened(row: Case) -> Iterator[tuple[str, tuple[Spec, ...]]]:
    """Yield the inputs' specs with less and less known."""
    exact = [t.spec for t in row.inputs]
    keep = [is_list(t) and (i > 0 or i in row.fixed) for i, t in enumerate(row.inputs)]

    def mix(what: str, loose: list[Spec], kept: list[bool]) -> tuple[str, tuple[Spec, ...]]:
        kept = [k or i in row.fixed for i, k in enumerate(kept)]
        pairs = zip(exact, loose, kept, strict=True)
        return what, tuple(e if k else s for e, s, k in pairs)

    near = [Spec(s.dtype, tuple(Interval(max(d - 1, 0), d + 1) for d in s.shape)) for s in exact]
    far = [Spec(s.dtype, (DYNAMIC,) * len(s.shape)) for s in exact]
    none = [Spec(s.dtype, None) for s in exact]
    never = [False] * len(exact)
    yield mix("no values", [s.without_value() for s in exact], never)
    yield mix("intervals", near, keep)
    yield mix("dynamic", far, keep)
    yield mix("unknown rank", none, keep)
    yield mix("all intervals", near, never)
    yield mix("all dynamic", far, never)
    yield mix("all of unknown rank", none, never)
    yield mix("no types", [Spec(None, s.shape, s.value) for s in exact], never)
    for i in range(len(exact)):
        others = [j != i for j in range(len(exact))]
        yield mix(f"input {i} of unknown rank", none, others)
        yield mix(f"input {i} without value", [s.without_value() for s in exact], others)
        if row.inputs[i].dtype.is_integral and 0 < row.inputs[i].values.size <= 12:
            for k in (None, *range(row.inputs[i].values.size)):
                yield mix(
                    f"input {i}, element {k}", [partly(row.inputs[i], k)] * len(exact), others
                )


def contains(spec: Spec, want: Tensor) -> bool:
    if spec.dtype not in (None, want.dtype):
        return False
    if spec.shape is not None:
        if len(spec.shape) != want.values.ndim:
            return False
        if not all(within(d, n) for d, n in zip(spec.shape, want.values.shape, strict=True)):
            return False
    if spec.value is None or want.dtype.kind == "string":
        return True
    if spec.value.dtype != object:
        return differs(spec.value, want, 1e-6) == ""
    return all(within(v, w) for v, w in zip(spec.value.flat, want.values.flat, strict=True))


def within(known: object, value: float) -> bool:
    if not isinstance(known, Interval):
        return abs(float(known) - value) <= 1e-6 * max(1.0, abs(value))  # type: ignore[arg-type]
    low, high = bounds(known)
    return low <= value and (high is None or value <= high)


@pytest.mark.parametrize("others", parts(1, [False, True]))
def test_inference_with_less_knowledge_holds_the_result(others: bool) -> None:
    each_row("row", first_rows(others=others))(require_contained)()


def require_contained(row: Case) -> None:
    op = built(row)
    for what, specs in loosened(row):
        outs = infer_op(op, specs)
        assert len(outs) == len(row.outputs), what
        for got, want in zip(outs, row.outputs, strict=True):
            assert contains(got, want), f"{what}: {got} does not hold {want}"


# Inputs, outputs and constants have no rows, they are tested with the reader; nor has the canonical
# deconvolution, into which every other one expands. Loops, branches and variables are
# in tests/ops/test_bodies.py.
WITHOUT_ROWS = {REGISTRY[t, "opset1"] for t in ("Parameter", "Result", "Const")}
WITHOUT_ROWS.add(core.Deconvolution)
WITHOUT_ROWS |= {TensorIterator, Loop, If, ReadValue3, ReadValue6, Assign3, Assign6}
OPERATIONS = sorted(set(REGISTRY.values()) - WITHOUT_ROWS, key=lambda c: (c.type, c.version))


@each_row("cls", OPERATIONS)
def test_operation_has_a_row(cls: type[Op]) -> None:
    assert any(REGISTRY[r.type, r.version] is cls for r in all_cases().values())


# The support table: `irdeconv inspect --operations`, ird.operations, docs/operations.md.

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "ir_samples/openvino/group_deconv.xml"
ROWS = ird.operations().rows


def test_every_type_has_a_section_that_the_page_links_to() -> None:
    page = (ROOT / "docs/operations.md").read_text("utf-8")
    linked = dict(re.findall(r"^\| \[(\w+)\]\(operations/(\w+)\.md#\w+\)", page, re.M))
    assert set(linked) == {r.type for r in ROWS}
    for type, family in linked.items():
        text = (ROOT / f"docs/operations/{family}.md").read_text("utf-8")
        assert f"\n## {type}\n" in text


def test_every_operation_of_every_opset_is_listed_once() -> None:
    listed = sorted((r.type, n) for r in ROWS for n in r.opsets)
    known = sorted((t, n) for t in catalog.CATALOG for n in catalog.opsets(t) if n <= LAST_OPSET)
    assert listed == known


def test_what_is_executed_has_no_reason_and_the_rest_has_one() -> None:
    assert all((r.state == "executed") == (r.reason == "") for r in ROWS)


def test_element_types_are_those_that_rows_have() -> None:
    """Whatever a row of op_cases runs with is in the table."""
    words = dict.fromkeys(("f64", "f32", "f16"), "floating-point")
    words |= dict.fromkeys(("i64", "i32"), "integers")
    by_class = {lookup(r.type, f"opset{r.opsets[0]}"): r for r in ROWS}
    for case in all_cases().values():
        row = by_class.get(lookup(case.type, case.version))
        kinds = {t.dtype.name for t in case.inputs}
        if row is None or not row.element_types or not kinds & set(words):
            continue
        allowed = row.element_types.split(", ")
        spelled = {"any", *kinds, *(words[k] for k in kinds if k in words)}
        assert spelled & set(allowed), (row, case)


@each_row(
    ("type", "opset", "types"),
    [
        ("Abs", 1, "floating-point, integers"),
        ("BatchNormInference", 1, "floating-point"),
        ("BitwiseAnd", 13, "integers, boolean"),
        ("LogicalNot", 1, "boolean"),
        ("Reshape", 1, "any"),
        ("Parameter", 1, ""),
    ],
)
def test_element_types(type: str, opset: int, types: str) -> None:
    (row,) = (r for r in ROWS if r.type == type and opset in r.opsets)
    assert row.element_types == types


def test_optional_inputs_stand_in_brackets() -> None:
    (row,) = ird.operations("unique").rows
    assert row.inputs == "data, [axis]"
    assert ird.operations("Concat").rows[0].inputs == "..."


def test_the_command_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("inspect", "--operations", "--only", "Gather*") == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines() if line.startswith("GatherN")]
    assert command("inspect", "--operations", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["operations"]) == len(ROWS)


@each_row(
    "arguments",
    [
        ("inspect",),
        ("inspect", "--operations", str(SAMPLE)),
        ("inspect", "--operations", "--lower"),
        ("inspect", "--operations", "--format", "html"),
        ("inspect", "--operations", "--only", "Nothing"),
    ],
)
def test_misuse_is_refused(arguments: tuple[str, ...]) -> None:
    assert command(*arguments) == 2


# Layers that see only while they run that sizes or values do not fit: what is said of them.

X, EMPTY = count((3, 2), 1), f32(np.zeros((0, 2)))
AXIS, RUN_REFUSALS = i64(0), Path(__file__).with_name("run_refusals.txt")
NOTHING, PLACES = f32(np.zeros((1, 1, 0, 3))), f32(np.zeros((1, 2, 2, 2)))
GRID_SAMPLE = "align_corners=true mode=bilinear padding_mode="
PADS = "strides=1,1 dilations=1,1 mode=xnor-popcount pad_value=0.0 pads_begin=0,-1 pads_end=-1,0"


def run(op: str, attributes: str, *tensors: Tensor) -> Any:
    """Run a layer whose inputs are open in every axis; bits are a constant."""
    kind, version = op.split("-")
    ports = tuple(
        given(t) if t.dtype.name == "u1" else Given(t, declared=(-1,) * t.values.ndim)
        for t in tensors
    )
    texts = dict(text.split("=") for text in attributes.split())
    sample = Sample(kind, f"opset{version}", texts, ports)
    (out,) = ird.run(ird.infer(build(sample)), sample.feeds, form=None).values()
    return out


@each_row("text", [r for r in RUN_REFUSALS.read_text("utf-8").splitlines() if r[0] != "#"])
def test_numbers_are_told(text: str) -> None:
    left, words = text.rsplit(" -> ", 1)
    head, *tensors = left.split(" // ")
    op, _, attributes = head.partition(" ")
    with pytest.raises(ird.ExecutionError) as raised:
        run(op, attributes, *map(tensor_of, tensors))
    (found,) = raised.value.diagnostics
    assert words in found.message
    assert found.layer == "layer"
    assert "E30" in found.code + str(found.notes)


def test_sizes_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What inference has seen, or what is exact, it need not see again."""
    seen: list[tuple[Any, ...]] = []
    infer = ReduceSum.infer

    def counted(self: ReduceSum, *inputs: Spec) -> Any:
        seen.append(tuple(s.shape for s in inputs))
        return infer(self, *inputs)

    monkeypatch.setattr(ReduceSum, "infer", counted)
    for declared, looks in ((-1, 2), (3, 0)):
        ports = (Given(f32([1, 2, 3]), declared=(declared,)), given(AXIS, constant=True))
        plan = build_plan(ird.infer(build(Sample("ReduceSum", "opset1", {}, ports))), exact=True)
        seen.clear()
        for size in (3, 3, 2, 3) if looks else (3, 3):
            plan.run([np.ones(size, np.float32)])
        assert len(seen) == looks


def test_indices_that_name_no_axis_take_or_replace_everything() -> None:
    nowhere = i64(np.zeros((2, 0)))
    np.testing.assert_array_equal(run("GatherND-8", "", X, nowhere), np.stack([X.values] * 2))
    updates = f32(np.stack([X.values, X.values + 1]))
    np.testing.assert_array_equal(run("ScatterNDUpdate-4", "", X, nowhere, updates), X.values + 1)


def test_nothing_is_taken_from_nothing() -> None:
    assert run("GatherElements-6", "axis=0", EMPTY, i64(np.zeros((0, 2)))).shape == (0, 2)
    zeros = run("GridSample-9", f"{GRID_SAMPLE}zeros", NOTHING, PLACES)
    np.testing.assert_array_equal(zeros, np.zeros((1, 1, 2, 2)))


@each_row(("kind", "wanted"), [("i8", [-4, 127]), ("i32", [-3, 142])])
def test_samples_of_eight_bits_are_rounded_and_saturate(kind: str, wanted: list[int]) -> None:
    text = (
        f"GridSample-9 mode={{}} padding_mode=border // {kind} [[[[{{}}]]]] // f32 [[[[{{}},0]]]]"
    )
    rows = ("bilinear", "-3,-4", -0.5 + 0.5), ("bicubic", "127,127,-128,-128", -0.3)
    made = [answer(layer(text.format(*row))).arrays[0].item() for row in rows]
    assert made == wanted


def test_each_of_two_outputs_has_a_carried_error() -> None:
    op, (a, b) = ConvertPromoteTypes(), (np.ones(1, np.float32), np.full(2, 2, np.float32))
    assert len(carried(op, [a, b], [a / 8, b * 0], op.evaluate(a, b))) == 2


def test_cells_and_attention_of_nothing() -> None:
    one = np.ones
    states = one((0, 2), np.float32)
    for cell, gates in ((LSTMCell, 4), (GRUCell, 3)):
        weights = [one((gates * 2, n), np.float32) for n in (3, 2)] + [one(gates * 2, np.float32)]
        more = [states] * (2 if cell is LSTMCell else 1)
        found = as_tuple(cell(hidden_size=2).evaluate(one((0, 3), np.float32), *more, *weights))
        assert found[0].shape == (0, 2)
    size = one((5, 0), np.float32), one((5, 2), np.float32), one((6, 0), np.float32)
    rest = one((6, 2), np.float32), one(6, np.float32)
    assert as_tuple(GRUCell(hidden_size=2).evaluate(*size, *rest))[0].shape == (5, 2)
    arrays = (one(shape, np.float32) for shape in ((2, 4, 8), (2, 0, 8), (2, 0, 5)))
    got = ScaledDotProductAttention(causal=False).evaluate(*arrays)
    assert got.shape == (2, 4, 5)
    assert np.isnan(got).all()


def test_negative_pads_of_bits_crop() -> None:
    data = count((1, 8, 3, 3))
    bits = u1(count((1, 8, 2, 2)).values % 2)
    whole = run("BinaryConvolution-1", PADS, data, bits)
    cropped = f32(data.values[:, :, :-1, 1:])
    plain = PADS.replace("-1", "0")
    np.testing.assert_array_equal(whole, run("BinaryConvolution-1", plain, cropped, bits))


def test_bounds_below_an_unsigned_type_leave_its_lowest() -> None:
    data = Tensor(dtypes.ELEMENT_TYPES["u32"], np.array([0, 7], np.uint32))
    np.testing.assert_array_equal(run("Clamp-1", "min=-1.5 max=-1.0", data), [0, 0])


def test_attention_without_features_weighs_all_keys_alike() -> None:
    empty, value = f32(np.zeros((1, 2, 0))), f32([[[2], [4]]])
    out = run("ScaledDotProductAttention-13", "causal=false", empty, empty, value)
    np.testing.assert_array_equal(out, [[[3], [3]]])


def test_a_sink_has_to_fit_the_scores() -> None:
    q, mask, sink = count((1, 2, 2), 1), f32(0), f32(np.zeros((1, 3, 1)))
    with pytest.raises(ird.IrdeconvError, match=r"sink \[1,3,1\] does not broadcast to \[1,2,1\]"):
        run("ScaledDotProductAttention-13", "causal=false", q, q, q, mask, f32(1), sink)


def test_a_sink_has_the_rank_of_the_query() -> None:
    q = count((1, 2, 2), 1)
    with pytest.raises(ird.IrdeconvError, match="sink has rank 2; it must be 3"):
        run("ScaledDotProductAttention-13", "causal=false", q, q, q, f32(0), f32(1), f32([[0]]))


MEAN = "ScatterElementsUpdate-12 reduction=mean"


@each_row(
    ("text", "wanted"),
    [
        ("Exp-1 // const i32 [-1,1,2]", [0, 2, 7]),
        ("Cosh-1 // const i32 [-1,1,2]", [2, 2, 4]),
        ("HSwish-4 // const i16 [-1,1,2]", [0, 1, 2]),
        ("Elu-1 alpha=0.7 // const i64 [-3,-1,2]", [-1, 0, 2]),
        ("Clamp-1 min=-2.8 max=1.2 // const i32 [-3,2]", [-2, 1]),
        (f"{MEAN} // const i32 [-5,7] // const i32 [0] // const i32 [-6] // const i32 0", [-6, 7]),
        (f"{MEAN} // const i8 [-5,7] // const i32 [0] // const i8 [-6] // const i32 0", [-5, 7]),
    ],
)
def test_constants_of_integers_are_folded_as_openvino_does(text: str, wanted: list[int]) -> None:
    (made,) = answer(layer(text)).arrays
    assert made.tolist() == wanted


# What an element-wise operation computes in a chain is what it computes alone.

assert irdeconv.ops
TYPES = ("f64", "f32", "f16", "bf16")
BINARY = {c for c in REGISTRY.values() if issubclass(c, Binary)}
ARITHMETIC = sorted((c for c in BINARY if c.rule is not None), key=lambda c: c.type)
STEPS = {c for c in REGISTRY.values() if c.chain_step is not Op.chain_step}
STEPS -= BINARY - set(ARITHMETIC)


def specials(dtype: str) -> list[float]:
    """Return values at the ends of a type and where formulas change."""
    info = np.finfo(np.float64) if dtype == "f64" else np.finfo(np.float32)
    largest = 65504.0 if dtype == "f16" else 3e38 if dtype != "f64" else float(info.max)
    tiny, least = float(info.tiny), float(info.smallest_subnormal)
    positive = [0.0, least, tiny, 1e-3, 0.5, 1.0, 1.5, 2.5, 3.0, 6.0, 20.0, 80.0, 100.0, largest]
    return [*positive, *(-v for v in positive), np.inf, -np.inf, np.nan]


def typed(array: Array, dtype: str) -> Array:
    """Return floating-point arrays in a type, others as they are."""
    if not dtypes.of_numpy(array.dtype).is_real:
        return array
    with np.errstate(all="ignore"):
        return array.astype(dtypes.ELEMENT_TYPES[dtype].container)


def data_port(op: Op, arrays: Sequence[Array]) -> int | None:
    """Return the input that varies, the others being constants; None where it is no step."""
    for port in range(len(arrays)):
        step = chain_step(op, specs_of(arrays, {port}))
        if step is not None and isinstance(step.args[0], Operand) and step.args[0].number == port:
            return port
    return None


def specs_of(arrays: Sequence[Array], varying: set[int]) -> list[Spec]:
    return [
        Spec(dtypes.of_numpy(a.dtype), a.shape, None if i in varying else a)
        for i, a in enumerate(arrays)
    ]


def as_chain(op: Op, arrays: Sequence[Array], out: Array, varying: set[int]) -> Array:
    """Compute the operation as a chain of one step; `varying` are inputs that are no constants."""
    step = chain_step(op, specs_of(arrays, varying))
    assert step is not None
    operands: list[Array | None] = []
    given: list[Array] = []
    for arg in step.args:
        constant = not isinstance(arg, Operand) or arg.number not in varying
        value = arrays[arg.number] if isinstance(arg, Operand) else arg
        if isinstance(arg, Operand) and arg.shape is not None:
            value = value.reshape(arg.shape)
        operands.append(value if constant else None)
        if not constant:
            given.append(value)
    instruction = Instruction(step.rule, tuple(range(len(step.args))), step.params)
    Chain.compile([instruction], given[0].dtype, operands[1:]).run(given, out, Threads())
    return out


def filled(arrays: Sequence[Array], port: int, dtype: str) -> Iterator[list[Array]]:
    """Yield the inputs with the data replaced by special values, until all have had their turn."""
    values = specials(dtype)
    shape = arrays[port].shape if len(arrays) > 1 else (len(values),)
    count = max(1, math.prod(shape))
    for at in range(0, len(values), count):
        data = np.resize(np.array(values[at:] + values[:at]), shape)
        yield [typed(data if i == port else a, dtype) for i, a in enumerate(arrays)]


def assert_within(op: Op, arrays: Sequence[Array], got: Array) -> None:
    """Compare with `evaluate` by the operation's own rule."""
    outputs = evaluate(op, arrays)
    want = precise(op, arrays, outputs) if worth_precision(op, outputs) else outputs
    (bound,) = allowed(op, arrays, outputs)
    plain, result = (np.asarray(v).astype(np.float64) for v in (outputs[0], got))
    np.testing.assert_array_equal(np.isnan(result), np.isnan(plain))
    with np.errstate(all="ignore"):
        apart = np.abs(result - want[0].astype(np.float64))
    same = (result == plain) | np.isnan(plain)
    wrong = ~same & ~(apart <= np.nan_to_num(bound.limit))
    assert not wrong.any(), (bound.rule, result[wrong], plain[wrong])


@cache
def formulas() -> dict[str, tuple[Op, int, str, list[Array]]]:
    """Return every row that is a step in a type: its operation, data port, type and inputs."""
    found = {}
    for name, row in all_cases().items():
        op = row.build()[0]
        for dtype in TYPES if type(op) in STEPS else ():
            arrays = [typed(t.values, dtype) for t in row.inputs]
            port = data_port(op, arrays)
            if port is not None:
                found[f"{name}-{dtype}"] = op, port, dtype, arrays
    return found


@each_row(("op", "port", "dtype", "arrays"), formulas)
def test_alone_and_in_a_chain(
    op: Op, port: int, dtype: str, arrays: list[Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    for available in {False, jit.available() and dtype == "f32"}:
        monkeypatch.setattr(jit, "available", lambda answer=available: answer)
        for inputs in filled(arrays, port, dtype):
            with np.errstate(all="ignore"):
                out = np.empty_like(evaluate(op, inputs)[0])
                assert_within(op, inputs, as_chain(op, inputs, out, {port}))
                data = inputs[port]
                if data.shape == out.shape and data.dtype == out.dtype:  # in place
                    before = [a.copy() for a in inputs]
                    assert_within(op, before, as_chain(op, inputs, data, {port}))


@each_row("dtype", TYPES)
@each_row("cls", ARITHMETIC)
def test_two_tensors_and_constants(cls: type[Binary], dtype: str) -> None:
    op, values = cls(), typed(np.array(specials(dtype)), dtype)
    with np.errstate(all="ignore"):
        square = np.empty((values.size, values.size), values.dtype)
        pair = [values[:, None], values]
        assert_within(op, pair, as_chain(op, pair, square, {0, 1}))
        for constant in [*values, *typed(np.array([2.0, 3.0, -1.0]), dtype)]:
            if cls is Power and constant == 0.5:
                continue  # NumPy takes the root, in some types: a NaN of -inf
            inputs = [values, constant.reshape(1)]
            assert_within(op, inputs, as_chain(op, inputs, np.empty_like(values), {0}))


def moving() -> dict[str, Case]:
    return {k: row for k, row in all_cases().items() if row.build()[0].moves}


@each_row("row", moving)
def test_what_moves_elements_commutes_with_a_conversion(row: Case) -> None:
    """So rewriting may put it in front of the Convert of a compressed constant."""
    op, (data, *others) = row.build()[0], [t.values for t in row.inputs]
    assert op.rounding == MOVES
    coarse = np.resize(np.arange(1.0, 100.0).astype(np.float16), data.shape)
    try:
        (moved,) = evaluate(op, [coarse, *others])
    except OpError:
        return  # a row for inference alone
    (wanted,) = evaluate(op, [coarse.astype(np.float64), *others])
    assert moved.dtype == np.float16
    np.testing.assert_array_equal(moved.astype(np.float64), wanted)
    assert set(moved.reshape(-1)) <= {0.0, *coarse.reshape(-1)}


def test_every_step_is_tested() -> None:
    """A new operation has a row in op_cases with which it is a step."""
    assert {c for c in STEPS if c.type not in {op.type for op, *_ in formulas().values()}} == set()


def test_arithmetic_is_a_step() -> None:
    for cls in BINARY:
        computes = cls.signature == "a: number t; b: t -> t [*O]"
        assert computes == (cls in ARITHMETIC)


# A test of many rows runs each of them, and fails with the names of those that fail.


def failing(number: int) -> None:
    assert number != 2, "it is two"
    with pytest.raises(ZeroDivisionError):
        1 / number


@pytest.mark.parametrize("rows", [{"a": 1, "b": 2, "c": 0}, lambda: {"a": 1, "b": 2, "c": 0}])
def test_every_row_that_fails_is_named(rows: dict[str, int] | Callable[[], dict[str, int]]) -> None:
    with pytest.raises(pytest.fail.Exception) as caught:
        each_row("number", rows)(failing)()
    message = str(caught.value)
    assert message.startswith("2 of 3 rows:\n[a] Failed: DID NOT RAISE")
    assert "[b] AssertionError: it is two" in message
    assert "[c]" not in message


def test_two_decorators_give_all_pairs(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    @each_row("a", [1, 2])
    @each_row(("b", "double"), [(3, 6), (4, 8)])
    def test(a: int, b: int, double: int, tmp_path: Path) -> None:
        assert double == 2 * b
        seen.append((a, b))

    assert list(signature(test).parameters) == ["tmp_path"]
    test(tmp_path=tmp_path)
    assert seen == [(1, 3), (1, 4), (2, 3), (2, 4)]


def test_no_rows_are_a_failure() -> None:
    with pytest.raises(AssertionError, match="no rows"):
        each_row("number", [])(failing)()


TABLE = """# A comment.

A = [1, 2, 3, 4] as (2, 2)

Add-1|16 auto_broadcast=numpy text='a b' // f32 A // i64 count[2] - 1
  // f32 zeros[1] -> f32 [sqrt(4), exp(0)]
  tolerance: 2**-3
  fixed: 1, 2
"""


def test_a_table_of_operations() -> None:
    first, second = rows_of(TABLE)
    assert (first.op, second.op) == ("Add-1", "Add-16")
    assert first.attributes == 'auto_broadcast="numpy" text="a b"'
    assert [t.values.tolist() for t in first.inputs] == [[[1, 2], [3, 4]], [0, 1], [0]]
    assert [t.dtype.name for t in first.inputs] == ["f32", "i64", "f32"]
    assert first.outputs[0].values.tolist() == f32([2, 1]).values.tolist()
    assert (first.tolerance, first.fixed, first.defect) == (0.125, (1, 2), "")
