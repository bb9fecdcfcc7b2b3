"""What operations refuse, and what they say of it."""

import contextlib
import random
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import irdeconv.ops
from irdeconv.base.errors import OpError
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.op import infer_op, lookup, parse_attributes, ports
from irdeconv.ir.spec import DYNAMIC, Dim, Interval, Spec, parse_shape
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.recurrent import RNNSequence
from op_cases import Case, Tensor, all_cases, case, f32, first_rows, i32, i64, tensor_of
from support.rows import each_row

# What operations say about inputs and attributes that do not fit: code, port, numbers.

assert irdeconv.ops

ROWS = Path(__file__).with_name("refusals.txt")


def spec(text: str) -> Spec:
    """Return the spec of `f32[2,?]`, or of a tensor with its value."""
    if made := re.fullmatch(r"(\w+)\[(.*)\]", text):
        return Spec(ELEMENT_TYPES[made[1]], parse_shape(made[2]))
    return tensor_of(text).spec


def refusals() -> list[str]:
    """Return the rows, each on one line."""
    lines = ROWS.read_text("utf-8").replace("\n  ", " ").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@each_row("text", refusals)
def test_refusal(text: str) -> None:
    left, expected = text.rsplit(" -> ", 1)
    head, *inputs = left.split(" // ")
    wrong, _, words = expected.partition(": ")
    code, where = wrong.split()
    name, *attributes = shlex.split(head)
    kind, _, number = name.rpartition("-")
    cls = lookup(kind, f"opset{number}" if number.isdecimal() else number)
    assert cls is not None
    values, problems = parse_attributes(cls, dict(a.split("=", 1) for a in attributes))
    if not inputs:
        (found,) = cls(**values).problems()
    else:
        assert [p for p in problems if p.severity == "error"] == []
        with pytest.raises(OpError) as caught:
            infer_op(cls(**values), tuple(map(spec, inputs)))
        found = caught.value.problem
    assert found.code == code
    at = found.port if where.isdecimal() or (inputs and where == "none") else found.attribute
    assert str(at).lower() == where
    assert [w for w in words.split("; ") if w not in found.message] == []


def test_negative_pads_before_opset12_are_remarked() -> None:
    cls = lookup("Pad", "opset1")
    assert cls is not None
    specs = [spec(text) for text in ("f32[3]", "i64 [-1]", "i64 [0]")]
    (found,) = cls().remarks(*specs)
    assert (found.code, found.port) == ("W301", 1)


def test_document_divides_integers_down() -> None:
    cls = lookup("Divide", "opset1")
    assert cls is not None
    a, b = np.array([-7, 7, 6]), np.array([2, -2, -3])
    document = cls(semantics="document")  # type: ignore[call-arg]
    assert list(document.evaluate(a, b)) == [-4, -4, -2]
    towards_zero = cls(m_pythondiv=False, semantics="document")  # type: ignore[call-arg]
    assert list(towards_zero.evaluate(a, b)) == [-3, -3, -2]
    assert list(cls().evaluate(a, b)) == [-3, -3, -2]


def test_packed_integers_keep_their_low_bits() -> None:
    for name, want in (
        ("u4", [1, 13, 15]),
        ("i4", [1, -3, -1]),
        ("u1", [1, 1, 1]),
        ("u2", [1, 1, 3]),
    ):
        cls = lookup("Convert", "opset1")
        assert cls is not None
        op = cls(destination_type=ELEMENT_TYPES[name])  # type: ignore[call-arg]
        assert op.evaluate(np.array([17, -3, 15])).tolist() == want  # type: ignore[union-attr]


def test_real_to_integer_beyond_the_range() -> None:
    cls = lookup("Convert", "opset1")
    assert cls is not None
    x = f32([float("nan"), 1e30, -1e30]).values
    assert cls(destination_type=ELEMENT_TYPES["i64"]).evaluate(x).tolist() == [  # type: ignore
        0,
        2**63 - 1,
        -(2**63),
    ]
    big = cls(destination_type=ELEMENT_TYPES["u64"])  # type: ignore[call-arg]
    assert big.evaluate(f32([2.0**63, -1]).values).tolist() == [  # type: ignore[union-attr]
        2**63,
        2**64 - 1,
    ]


def test_unknown_ranks_follow_from_list_lengths() -> None:
    unknown = Spec(ELEMENT_TYPES["f32"], None)
    for op, inputs, want in (
        ("Transpose", [unknown, spec("i64[3]")], (DYNAMIC,) * 3),
        ("Pad", [unknown, spec("i64[2]"), spec("i64[2]")], (DYNAMIC,) * 2),
        ("Reshape", [unknown, i64([4, -1]).spec], (4, DYNAMIC)),
        ("Broadcast", [unknown, i32([4, 2]).spec], (4, 2)),
    ):
        cls = lookup(op, "opset12")
        assert cls is not None
        (out,) = infer_op(cls(), tuple(inputs))
        assert out.shape == want


def test_channels_that_are_open_are_checked_when_running() -> None:
    x = np.ones((1, 2, 4), np.float32)
    for op, shape in ((Convolution(), (3, 1, 2)), (GroupConvolution(), (3, 1, 1, 2))):
        with pytest.raises(OpError, match="data has 2 channels"):
            op.evaluate(x, np.ones(shape, np.float32))


def test_updates_of_a_slice_that_only_the_run_knows() -> None:
    op, _ = case("SliceScatter-15", "", [f32([1, 2, 3])], f32([1])).build()
    ends = [i64([n]).values for n in (0, 2, 1)]
    with pytest.raises(OpError, match=r"updates are \[1\]; the slice is \[2\]") as e:
        op.evaluate(f32([1, 2, 3]).values, f32([9]).values, *ends)
    assert (e.value.problem.code, e.value.problem.port) == ("E302", 1)


@each_row(
    ("kind", "attributes", "inputs", "words"),
    [
        ("SegmentMax-16", "", [f32([1]), i32([0, 1])], "segment_ids has 2 values; it must have 1"),
        ("Pad-12", 'pad_mode="symmetric"', [f32([1]), i64([2]), i64([0])], "at most 1 for size 1"),
        ("GatherElements-6", 'axis="1"', [f32([[1, 2]] * 3), i32([[0]])], "differ on axis 0"),
        (
            "Gather-8",
            'batch_dims="1"',
            [f32([[1, 2]] * 3), i32([[0]]), i64(1)],
            "batch dimension 0",
        ),
    ],
)
def test_sizes_that_only_the_run_knows(
    kind: str, attributes: str, inputs: list[Tensor], words: str
) -> None:
    op, _ = case(kind, attributes, inputs, inputs[0]).build()
    with pytest.raises(OpError, match=words) as e:
        op.evaluate(*(t.values for t in inputs))
    code = "E305" if kind.startswith("Pad") else "E302"
    assert (e.value.problem.code, e.value.problem.port) == (code, 1)


@each_row("length", [-1, 3])
def test_lengths_of_sequences(length: int) -> None:
    inputs = [np.zeros(s, np.float32) for s in ((1, 2, 1), (1, 1, 1))]
    weights = [np.zeros(s, np.float32) for s in ((1, 1, 1), (1, 1, 1), (1, 1))]
    arrays = [*inputs, np.array([length]), *weights]
    op = RNNSequence(hidden_size=1)
    known = [Spec.of(a) for a in arrays]
    for attempt in (lambda: op.evaluate(*arrays), lambda: op.infer(*known)):
        with pytest.raises(OpError, match=f"sequence_lengths has {length} at 0") as e:
            attempt()
        assert (e.value.problem.code, e.value.problem.port) == ("E305", 2)


# Inference of inputs that make no sense: a result or an OpError, never another exception.


TYPES = [ELEMENT_TYPES[n] for n in ("f32", "f16", "i64", "i32", "u8", "boolean")]
DIMS: list[Dim] = [0, 1, 2, 3, 7, DYNAMIC, Interval(1, 4), Interval(2, None)]


def random_spec(r: random.Random) -> Spec:
    dtype = r.choice([*TYPES, None])
    if r.random() < 0.1:
        return Spec(dtype, None)
    shape = tuple(r.choice(DIMS) for _ in range(r.randint(0, 4)))
    spec = Spec(dtype, shape)
    if spec.size is None or spec.size > 64 or dtype is None or r.random() < 0.4:
        return spec
    values = np.array([r.randint(-3, 5) for _ in range(spec.size)]).reshape(spec.shape)
    if dtype.is_integral and spec.size and r.random() < 0.3:
        loose = values.astype(object)
        loose.reshape(-1)[0] = r.choice([DYNAMIC, Interval(-2, 3), Interval(1, 2)])
        return Spec(dtype, shape, loose)
    return Spec(dtype, shape, values.astype(dtype.container))


def answered(row: Case, tries: int) -> None:
    r = random.Random(row.op)
    op, _ = row.build()
    for _ in range(tries):
        specs = [t.spec for t in row.inputs]
        for at in range(len(specs)):
            if r.random() < 0.5:
                specs[at] = random_spec(r)
        assert ports(type(op)).fits(len(specs))
        with contextlib.suppress(OpError):
            infer_op(op, tuple(specs))


@pytest.mark.thorough
@each_row("row", lambda: first_rows(others=False))
def test_nothing_but_op_errors(row: Case) -> None:
    answered(row, 6)


@pytest.mark.thorough
@pytest.mark.slow
def test_nothing_but_op_errors_in_many_tries() -> None:
    for row in all_cases().values():
        answered(row, 200)
