"""Declared ports: what a signature says, and what inputs that do not fit it are told."""

from collections.abc import Callable

import numpy as np
import pytest

import irdeconv.ops
from irdeconv.base.errors import OpError
from irdeconv.ir.attributes import ValueRange
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.op import REGISTRY, Op, infer_op, ports
from irdeconv.ir.ports import Product, declaration, fit
from irdeconv.ir.spec import Spec, parse_shape, simplify
from support.rows import each_row

assert irdeconv.ops


class Declared(Op):
    """An operation with ports alone."""

    signature = (
        "data: real t [N, C, *I]; lengths: integer [N]; weights?: t [pair*C, *I]; "
        "scale?: number one; more*: t [*:1, 2] -> t [N, pair*C, *I]; i64 [C, X]"
    )
    pair = 2


def spec(text: str) -> Spec:
    name, _, shape = text.partition("[")
    dtype = ELEMENT_TYPES[name] if name else None
    return Spec(dtype, None if shape == "...]" else parse_shape(shape.rstrip("]")))


def inferred(*inputs: str) -> str:
    return " ".join(map(str, Declared().infer(*map(spec, inputs))))  # type: ignore[arg-type]


@each_row(
    ("inputs", "want"),
    [
        (["f32[2,3,5]", "i32[2]"], "f32[2,6,5] i64[3,?]"),
        (["f32[?,3,5]", "i32[2]"], "f32[2,6,5] i64[3,?]"),
        (["f32[1..4,3,5]", "i32[2..9]"], "f32[2..4,6,5] i64[3,?]"),
        (["f32[2,?,5]", "i32[2]", "f32[6,?]"], "f32[2,?,5] i64[?,?]"),
        (["f32[...]", "i32[2]", "f32[6,5]"], "f32[2,?,5] i64[?,?]"),
        (["f32[...]", "i32[2]"], "f32[...] i64[?,?]"),
        (["[2,3]", "[2]", "f16[6]"], "f16[2,6] i64[3,?]"),
        (["f32[2,3]", "i32[2]", "f32[6]", "i8[1]", "f32[2]", "f32[7,2]"], "f32[2,6] i64[3,?]"),
    ],
)
def test_outputs_follow_from_what_all_inputs_say(inputs: list[str], want: str) -> None:
    assert inferred(*inputs) == want


# Inputs, and the code, the number of the input and the text of the error.
REFUSED = """
i32[2,3] i32[2] | E303 0 data is i32; it must be a floating-point type
f32[2,3] f32[2] | E303 1 lengths is f32; it must be an integer type
f32[2,3] i32[2] f16[6] | E303 2 data is f32 and weights is f16; both must have one element type
f32[2] i32[2] | E301 0 data has rank 1; it must be at least 2
f32[2,3] i32[2,1] | E301 1 lengths has rank 2; it must be 1
f32[2,3,5] i32[2] f32[6] | E301 2 weights has rank 1; it must be 2, as in data
f32[2,3,5] i32[2] f32[6,4] | E302 2 axis 1 of weights has size 4; it must be 5, as in data
f32[2,3] i32[4] | E302 1 lengths has 4 values; it must have 2, as axis 0 of data
f32[1..3,3] i32[4..5] | E302 1 lengths has 4..5 values; it must have 1..3, as axis 0 of data
f32[2,3,1] i32[2] f32[5,1] | E302 2 axis 0 of weights has size 5; it must be 6 (pair*C)
f32[2,3] i32[2] f32[6] f32[2] | E302 3 scale has 2 values; it must have one
f32[2,3] i32[2] f32[6] f32[] f32[2] f32[1,3] | E302 5 axis 1 of more 1 has size 3; it must be 2
"""


class Counted(Op):
    """Groups with as many axes as others have, and a choice of element types."""

    signature = "data: f32|f16 t [N, *I:1..3]; filter: t [M, C, *K:I]; signs?: u1 [*K, ?]"


COUNTED = """
i32[2,3] f32[1,2,3] | E303 0 data is i32; it must be f32 or f16
f32[2,3] f16[1,2,3] | E303 1 data is f32 and filter is f16; both must have one element type
f32[2] f32[1,2,3] | E301 0 data has rank 1; it must be 2 to 4
f32[...] f32[1,2] | E301 1 filter has rank 2; it must be 3 to 5
f32[2,3,4] f32[1,2,3] | E301 1 filter has rank 3; it must be 4, [M, C, *K], for data of rank 3
f32[2,3] f32[1,2,3] i8[3,1] | E303 2 signs is i8; it must be u1
f32[2,3] f32[1,2,3] u1[1] | E301 2 signs has rank 1; it must be 2, as in filter
"""


class Valued(Op):
    """Inputs whose values are sizes or axes, a type that is an attribute, one or more inputs."""

    signature = (
        "data: any [*I]; axes: integer [*:1] of data; size: integer one = N; "
        "shape: integer [?] = *O; part+: wide_type [] -> wide_type [N, *O]"
    )
    wide_type = ELEMENT_TYPES["f64"]


def valued(text: str) -> Spec:
    """Return the spec of `f32[2,?]`, of an i64 vector `2,?`, or of a scalar `=2`."""
    if "[" in text:
        return spec(text)
    found = parse_shape(text.lstrip("="))
    assert found is not None
    values = np.empty(len(found), object)
    values[:] = found
    scalar = values.reshape(()) if text.startswith("=") else values
    return Spec(ELEMENT_TYPES["i64"], scalar.shape, simplify(scalar, ELEMENT_TYPES["i64"]))


@pytest.mark.parametrize(
    ("inputs", "want"),
    [
        ("f32[2,3] 0,1 =4 5,6 f64[]", "f64[4,5,6]"),
        ("f32[2,3] 0 i64[] i64[2] f64[] [] f64[]", "f64[?,?,?]"),
        ("f32[2,3] i64[?] 2..3 i64[?] f64[]", "f64[...]"),
        ("f32[...] 7 =1 0,4.. f64[]", "f64[1,0,4..]"),
    ],
)
def test_values_that_are_sizes(inputs: str, want: str) -> None:
    found = infer_op(Valued(), tuple(map(valued, inputs.split())))
    assert " ".join(map(str, found)) == want


VALUED = """
f32[2,3] 2 =4 5 f64[] | E305 1 axis 2 is outside a tensor of rank 2 (-2 to 1 is allowed)
f32[2,3] 0 =4 5 f32[] | E303 4 part 0 is f32; it must be f64, as wide_type says
f32[2,3] 0 =4 5 | E208 None it has 4 inputs, but needs 5: data, axes, size, shape, one or more
"""


TABLES: list[tuple[str, Callable[..., object]]] = [
    (REFUSED, inferred),
    (COUNTED, lambda *inputs: fit(Counted(), *map(spec, inputs))),
    (VALUED, lambda *inputs: infer_op(Valued(), tuple(map(valued, inputs)))),
]


@each_row(("line", "check"), [(row, f) for text, f in TABLES for row in text.strip().splitlines()])
def test_what_does_not_fit(line: str, check: Callable[..., object]) -> None:
    inputs, want = line.split(" | ")
    with pytest.raises(OpError) as caught:
        check(*inputs.split())
    found = caught.value.problem
    assert f"{found.code} {found.port} {found.message}" == want


def test_groups_of_as_many_axes() -> None:
    fit(Counted(), spec("f32[2,3,4]"), spec("f32[1,2,9,9]"), spec("u1[9,9,7]"))


@pytest.mark.parametrize("port", [2, 3])
def test_sizes_are_not_negative(port: int) -> None:
    specs = list(map(valued, "f32[2] 0 =4 5 f64[]".split()))
    specs[port] = Spec.of(-np.ones_like(specs[port].value))
    with pytest.raises(OpError, match="has -1; it must not be negative"):
        infer_op(Valued(), tuple(specs))


RANGES = [
    (ValueRange(1), 0, "is 0; it must be positive"),
    (ValueRange(2), 1, "is 1; it must be at least 2"),
    (ValueRange(0, high=1), 1.5, "is 1.5; it must be from 0 to 1"),
    (ValueRange(1, high=1), 2.0, "is 2.0; it must be 1"),
    (ValueRange(0, above=True), 0.0, "is 0.0; it must be positive"),
    (ValueRange(0, above=True, high=1e308), float("inf"), "is inf; it must be positive and finite"),
    (ValueRange(0), (1, -1), "is [1, -1]; each value must not be negative"),
    (ValueRange(None, counts=(0, 2)), (1,), "has 1 value; it must have 2, or none"),
    (ValueRange(0, counts=(0, 1, 4)), (1, 2), "has 2 values; it must have 1 or 4, or none"),
    (ValueRange(0, needed=True), (), "is empty; it is required"),
]


@each_row(("limits", "value", "want"), RANGES)
def test_ranges_of_attributes(limits: ValueRange, value: object, want: str) -> None:
    assert limits.misfit(value) == want


@each_row(
    ("limits", "value"),
    [(ValueRange(1), 1), (ValueRange(None), -5), (ValueRange(0, counts=(0, 2)), ()),
     (ValueRange(0), ()), (ValueRange(0, high=1), 1.0), (ValueRange(1), (3, 1))],
)  # fmt: skip
def test_values_in_range(limits: ValueRange, value: object) -> None:
    assert limits.misfit(value) is None


def test_names_of_ports_are_those_of_the_signature() -> None:
    found = ports(Declared)
    assert found.names == ("data", "lengths", "weights", "scale")
    assert (found.required, found.variadic) == (2, True)


@pytest.mark.parametrize(
    "signature",
    ["data real", "data: real [N", "data: real T [N]", ": x", "a: any [*N, *M]", "a: any [*K:I]"],
)
def test_mistakes_in_a_signature(signature: str) -> None:
    with pytest.raises(ValueError, match="declares no port"):
        declaration(signature)


def test_every_signature_can_be_read_and_names_attributes_that_there_are() -> None:
    for cls in set(REGISTRY.values()):
        found = declaration(cls.signature)
        named = {p.kind for p in found.outputs if p.kind.endswith("_type")}
        for p in (*found.inputs, *found.outputs):
            terms = () if p.axes is None else (*p.axes.before, *p.axes.behind)
            factors = {f for t in terms if isinstance(t, Product) for f in t.factors}
            named |= {f for f in factors if isinstance(f, str) and not f.isupper()}
        fields = getattr(cls, "__dataclass_fields__", {})
        assert all(n in fields or hasattr(cls, n) for n in named), (cls, named)
