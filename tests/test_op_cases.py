"""Every row of op_cases through attributes, inference with ever less knowledge, and evaluation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import irdeconv.ops
from irdeconv.ir.op import REGISTRY, Op, as_tuple, infer_op, parse_attributes
from irdeconv.ir.spec import DYNAMIC, Interval, Spec, bounds
from irdeconv.ops import core
from irdeconv.ops.basic import Assign3, Assign6, ReadValue3, ReadValue6
from irdeconv.ops.control import If, Loop, TensorIterator
from op_cases import Case, Tensor, all_cases, differs

assert irdeconv.ops
CASES = all_cases()
each_case = pytest.mark.parametrize("row", CASES.values(), ids=CASES.keys())


def built(row: Case) -> Op:
    op, problems = row.build()
    assert [p for p in (*problems, *op.check()) if p.severity == "error"] == []
    return op


@each_case
def test_attributes_survive_writing_and_reading(row: Case) -> None:
    op = built(row)
    values, problems = parse_attributes(type(op), op.to_attributes())
    assert problems == []
    assert type(op)(**values) == op


@each_case
def test_evaluation(row: Case) -> None:
    outs = as_tuple(built(row).evaluate(*(t.values for t in row.inputs)))
    assert len(outs) == len(row.outputs)
    for got, want in zip(outs, row.outputs, strict=True):
        assert got.dtype == want.dtype.container
        assert differs(got, want, row.tolerance) == ""


@each_case
def test_inputs_stay_as_they_are(row: Case) -> None:
    before = [t.values.copy() for t in row.inputs]
    given = [t.values.copy() for t in row.inputs]
    for g in given:
        g.flags.writeable = False
    built(row).evaluate(*given)
    for b, g in zip(before, given, strict=True):
        assert b.tobytes() == g.tobytes()


@each_case
def test_inference_of_known_shapes_is_exact(row: Case) -> None:
    outs = infer_op(built(row), tuple(t.spec for t in row.inputs))
    assert [o.dtype for o in outs] == [t.dtype for t in row.outputs]
    assert [o.shape for o in outs] == [t.values.shape for t in row.outputs]


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


@each_case
def test_inference_with_less_knowledge_holds_the_result(row: Case) -> None:
    op = built(row)
    for what, specs in loosened(row):
        outs = infer_op(op, specs)
        assert len(outs) == len(row.outputs), what
        for got, want in zip(outs, row.outputs, strict=True):
            assert contains(got, want), f"{what}: {got} does not hold {want}"


# Inputs, outputs and constants have no rows, they are tested with the reader; nor has the canonical
# deconvolution, into which every other one expands. Loops, branches and variables are
# in tests/test_bodies.py and tests/test_state.py.
WITHOUT_ROWS = {REGISTRY[t, "opset1"] for t in ("Parameter", "Result", "Const")}
WITHOUT_ROWS.add(core.Deconvolution)
WITHOUT_ROWS |= {TensorIterator, Loop, If, ReadValue3, ReadValue6, Assign3, Assign6}
OPERATIONS = sorted(
    set(REGISTRY.values()) - WITHOUT_ROWS,
    key=lambda c: (c.type, c.version),
)


@pytest.mark.parametrize("cls", OPERATIONS, ids=lambda c: f"{c.type}-{c.version}")
def test_operation_has_a_row(cls: type[Op]) -> None:
    assert any(REGISTRY[r.type, r.version] is cls for r in CASES.values())
