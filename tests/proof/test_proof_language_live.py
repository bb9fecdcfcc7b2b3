"""Every operation of the proof's language in live OpenVINO, folded and at run time.

Whatever the language accepts OpenVINO computes likewise, whole domains under the mark `slow`; what
it refuses may crash there and is not run, but for disagreements of OpenVINO with itself.
"""

import random
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import chain, islice, product

import numpy as np
import pytest

from irdeconv.proof.language import ATTRIBUTES, evaluate
from irdeconv.proof.model import MOVES, RULES, TypedArray, Unproved
from language_domains import (
    DOMAINS,
    PAIRS,
    TYPES,
    UNARY,
    LiveCase,
    Mode,
    combined,
    counted,
    ints,
    layer,
    live,
    scalar,
)

pytestmark = pytest.mark.oracles

SAMPLE = 50
TOGETHER = 64  # cases of one model
OTHERS = ("i64", "f16", "u8", "boolean", "bf16", "f64")
Judged = tuple[LiveCase, list[TypedArray]]


def each_accepted(cases: Iterable[LiveCase]) -> Iterator[Judged]:
    for case in cases:
        with suppress(Unproved):
            yield case, evaluate(case.layer, case.inputs)


def accepted(cases: Iterable[LiveCase]) -> list[Judged]:
    return list(each_accepted(cases))


@cache
def domain(name: str) -> tuple[LiveCase, ...]:
    return tuple(DOMAINS[name]())


def drawn(name: str, seed: str, count: int) -> list[Judged]:
    """Return accepted cases of a domain; only as many as are wanted are evaluated."""
    cases = random.Random(seed).sample(domain(name), len(domain(name)))
    return list(islice(each_accepted(cases), count))


def alike(ours: TypedArray, theirs: object) -> bool:
    """Whether values are equal; products that are held in float64 may be rounded there."""
    a, b = ours.array, np.asarray(theirs)
    wide = a.dtype == np.float64
    return a.shape == b.shape and bool(np.allclose(a, b, 2.0**-22 if wide else 0, 0))


def far(x: TypedArray) -> bool:
    return x.type == "i64" and bool(((x.array >= 2**31) | (x.array < -(2**31))).any())


def complaints(judged: list[Judged], *modes: Mode) -> list[str]:
    out = []
    for mode in modes:
        # Parameters of 64 bits are cut to 32; constants are clipped, bounds stay what they are.
        some = [j for j in judged if mode != "unknown" or not any(map(far, j[0].inputs))]
        for i in range(0, len(some), TOGETHER):
            part = some[i : i + TOGETHER]
            answers = live([case for case, _ in part], mode, [len(outs) for _, outs in part])
            for (case, outs), answer in zip(part, answers, strict=True):
                if isinstance(answer, str):
                    # A vector that is not known keeps OpenVINO from compiling; not all is folded.
                    refused = mode == "run"
                    out += [f"{mode}: {case}: {answer[-300:]}"] if refused else []
                elif not all(map(alike, outs, answer)):
                    out.append(f"{mode}: {case}: {answer}, not {[o.array for o in outs]}")
    return out


def typed(case: LiveCase, type: str) -> LiveCase:
    """Return a case whose moved elements have another type."""

    def cast(x: TypedArray) -> TypedArray:
        array = x.array % 3 == 0 if type == "boolean" else x.array % 100
        return TypedArray(array, type)

    ports = MOVES[case.layer.type]
    moved = [cast(x) if p in ports or p == 3 else x for p, x in enumerate(case.inputs)]
    return LiveCase(
        case.layer,
        moved
        if case.layer.type == "Pad"
        else [cast(x) if p in ports else x for p, x in enumerate(case.inputs)],
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", DOMAINS)
def test_a_sample(name: str) -> None:
    assert complaints(drawn(name, name, SAMPLE), "folded", "run") == []


@pytest.mark.slow
@pytest.mark.parametrize("name", DOMAINS)
def test_the_whole_domain(name: str) -> None:
    assert complaints(accepted(domain(name)), "folded", "run", "unknown") == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("type", OTHERS)
def test_elements_of_other_types_are_moved_as_well(type: str) -> None:
    cases = [typed(case, type) for name in DOMAINS for case, _ in drawn(name, type, 5)]
    assert complaints(accepted(cases), "folded", "run") == []


def joined(cases: Iterable[LiveCase]) -> list[Judged]:
    """Return one case of all the elements that are accepted one by one."""
    judged = accepted(cases)
    if not judged:
        return []
    columns = zip(*(case.inputs for case, _ in judged), strict=True)
    given = [TypedArray(np.concatenate([x.array for x in c]), c[0].type) for c in columns]
    outs = [out for _, (out,) in judged]
    whole = TypedArray(np.concatenate([o.array for o in outs]), outs[0].type)
    return [(LiveCase(judged[0][0].layer, given), [whole])]


def test_conversions() -> None:
    judged = []
    for source in (*TYPES, "u4", "i4"):
        for target in TYPES:
            head = layer(f"Convert-1 destination_type={target}")
            # A pure parameter of 64 bits is cut to 32 at run time, so it is no identity there.
            if source != target:
                judged += joined(combined(head, source))
    assert len(judged) > 100
    assert complaints(judged, "folded", "run") == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", [*(f"{k}-1" for k in PAIRS.split()), *UNARY])
def test_arithmetic(kind: str) -> None:
    ports = 1 if kind in UNARY else 2
    judged = [j for t in TYPES for j in joined(combined(layer(kind), *[t] * ports))]
    assert len(judged) >= 2
    assert complaints(judged, "folded", "run") == []


# Operations that OpenVINO computes in two ways.
TWO_WAYS = [
    ("Divide-1", [ints(-7), ints(2)]),
    ("Divide-1", [ints(2**24 + 1), ints(1)]),
    ("FloorMod-1", [ints(2**24 + 1), ints(2)]),
    ("ReLU-1", [ints(2**24 + 1)]),
    ("Add-1", [ints(2**31 - 1), ints(1)]),
    ("Multiply-1", [ints(2**20), ints(2**20)]),
    ("Subtract-1", [ints(-1, type="i8"), ints(-128, type="i8")]),
    ("Convert-1 destination_type=boolean", [ints(-(2**31))]),
    ("Equal-1", [ints(2**24 + 1), ints(2**24)]),
    ("FloorMod-1", [ints(-(2**24)), ints(65535)]),
]


@pytest.mark.parametrize(("head", "inputs"), TWO_WAYS, ids=[head for head, _ in TWO_WAYS])
def test_what_openvino_computes_in_two_ways_is_refused(head: str, inputs: list[TypedArray]) -> None:
    case = LiveCase(layer(head), inputs)
    with pytest.raises(Unproved):
        evaluate(case.layer, case.inputs)
    folded, run = (live([case], mode, [1])[0] for mode in ("folded", "run"))
    assert isinstance(folded, str) or not np.array_equal(folded[0], run[0])


# Attributes that may be missing are those of OpenVINO's own defaults.
SHORT = [
    ("Broadcast-3", [counted((2,)), ints(2, 2)]),
    ("Divide-1", [ints(7), ints(2)]),
    ("Gather-8", [counted((2, 3)), ints(-1), ints(0)]),
    (
        "Interpolate-11 mode=nearest shape_calculation_mode=sizes",
        [counted((1, 1, 3, 2)), ints(9, 4), ints(2, 3)],
    ),
    ("Pad-1", [counted((2,)), ints(1), ints(1)]),
    ("ReduceProd-1", [ints(3, 4), ints(0)]),
    ("Reshape-1", [counted((0, 3)), ints(3, 0)]),
    ("ScatterNDUpdate-15", [counted((3,)), TypedArray(np.array([[1]]), "i64"), counted((1,))]),
    ("ShuffleChannels-3", [counted((1, 4, 2))]),
    ("Squeeze-15", [counted((1, 2))]),
    ("StridedSlice-1", [counted((3,)), ints(1), ints(2), ints(1)]),
]


def test_defaults_are_those_of_openvino() -> None:
    cases = [LiveCase(layer(head), inputs) for head, inputs in SHORT]
    assert len(accepted(cases)) == len(SHORT)
    assert complaints(accepted(cases), "folded", "run") == []


def test_versions_are_those_of_openvino() -> None:
    """What is accepted in another opset is computed likewise there; Reverse is gone, for one."""
    kinds: dict[str, LiveCase] = {}
    for case in chain.from_iterable(map(domain, DOMAINS)):
        if case.layer.type not in kinds and accepted([case]):
            kinds[case.layer.type] = case
    cases = [
        LiveCase(replace(case.layer, version=f"opset{n}"), case.inputs)
        for case in kinds.values()
        for n in range(1, 18)
    ]
    judged = accepted(cases)
    assert 200 < len(judged) < len(cases)
    assert complaints(judged, "run") == []


def test_ranges() -> None:
    """Those that run away from their end have elements at run time."""
    ends = product(range(-3, 4), repeat=3)
    head = layer("Range-4 output_type=i64")
    judged = accepted(LiveCase(head, [scalar(v) for v in e]) for e in ends)
    assert len(judged) > 150
    assert complaints(judged, "folded", "run") == []


def test_sums_and_products() -> None:
    axes = [*product(range(-3, 3), repeat=1), *product(range(-3, 3), repeat=2)]
    cases = [
        LiveCase(layer(f"Reduce{kind}-1 keep_dims={keep}"), [counted(shape, "i64"), ints(*a)])
        for kind, keep, a in product(("Sum", "Prod"), ("true", "false"), axes)
        for shape in ((3,), (2, 3), (0, 3))
        if keep == "true" or len(a) == 1  # as parameters OpenVINO refuses several of these
    ]
    judged = accepted(cases)
    assert len(judged) > 50
    assert complaints(judged, "folded", "run") == []


@pytest.mark.parametrize("kind", ["Gather", "Squeeze", "Unsqueeze", "ReduceProd", "ReduceSum"])
def test_some_vectors_have_to_be_known_beforehand(kind: str) -> None:
    """OpenVINO does not run these with a vector of run time."""
    import openvino as ov
    from openvino import opset16 as op

    x, at = op.parameter([1, 3, 2], ov.Type.i32), op.parameter([2], ov.Type.i64)
    first = op.parameter([], ov.Type.i64)
    y, vector = {
        "Gather": lambda: (op.gather(x, op.constant(np.array([1])), first), first),
        "Squeeze": lambda: (op.squeeze(x, at), at),
        "Unsqueeze": lambda: (op.unsqueeze(x, at), at),
        "ReduceProd": lambda: (op.reduce_prod(x, at, False), at),
        "ReduceSum": lambda: (op.reduce_sum(x, at, False), at),
    }[kind]()
    model = ov.Model([op.result(y)], [x, vector])
    feeds = [np.ones((1, 3, 2), np.int32), np.array(1) if kind == "Gather" else np.array([0, 0])]
    with pytest.raises(RuntimeError):
        ov.Core().compile_model(model, "CPU")(feeds)


def test_every_operation_has_a_domain() -> None:
    named = {k.strip() for names in DOMAINS for k in names.split(",")} | {"ZeroInsertion"}
    named |= {kind.partition("-")[0] for kind in UNARY} | set(PAIRS.split())
    by_hand = {"Convert", "ConvertLike", "Range", "ReduceSum", "ReduceProd", "ShapeOf"}
    of_data = {"MatMul", "Einsum", "Sigmoid", "Tanh", "PReLU", "HardSigmoid"}
    assert RULES.keys() - named == by_hand | of_data


# ReLU and PReLU are spelled otherwise there.
GONE = {("Reverse", 2), ("ShuffleChannels", 2), ("ReLU", 1), ("PReLU", 1)}


def peers() -> list[tuple[str, int, set[str]]]:
    found = [(t, n, ATTRIBUTES[t]) for t, rows in RULES.items() for n in rows if n]
    return [row for row in found if row[:2] not in GONE]


@pytest.mark.parametrize("row", peers(), ids=lambda r: f"{r[0]}-{r[1]}")
def test_openvino_reads_no_other_attributes(row: tuple[str, int, set[str]]) -> None:
    from openvino._pyopenvino import NodeFactory

    name, opset, ours = row
    assert {*NodeFactory(f"opset{opset}").create(name).get_attributes()} <= ours
