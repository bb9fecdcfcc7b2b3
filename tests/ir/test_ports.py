"""Declared ports: what a signature says, and what inputs that do not fit it are told."""

from __future__ import annotations

import pytest

import irdeconv.ops
from irdeconv.base.errors import OpError
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.op import REGISTRY, Op, ports
from irdeconv.ir.ports import Product, declaration
from irdeconv.ir.spec import Spec, parse_shape

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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("line", REFUSED.strip().splitlines())
def test_what_does_not_fit(line: str) -> None:
    inputs, want = line.split(" | ")
    with pytest.raises(OpError) as caught:
        inferred(*inputs.split())
    found = caught.value.problem
    assert f"{found.code} {found.port} {found.message}" == want


def test_names_of_ports_are_those_of_the_signature() -> None:
    found = ports(Declared)
    assert found.names == ("data", "lengths", "weights", "scale")
    assert (found.required, found.variadic) == (2, True)


@pytest.mark.parametrize(
    "signature", ["data real", "data: real [N", "data: real T [N]", ": x", "a: any [*N, *M]"]
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
