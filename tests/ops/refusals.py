"""Rows of inputs that an operation must refuse: code, port, numbers."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import irdeconv.ops
from irdeconv.base.errors import OpError
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.op import infer_op, lookup, parse_attributes
from irdeconv.ir.spec import Spec, parse_shape
from op_cases import Tensor

assert irdeconv.ops


@dataclass(frozen=True)
class Row:
    """An operation that must refuse: expected code, port (or attribute) and parts of the text."""

    op: str
    attributes: dict[str, str]
    inputs: tuple[Tensor | str, ...]
    code: str
    where: int | str | None
    says: tuple[str, ...]


def row(
    op: str,
    attributes: str,
    inputs: list[Tensor | str],
    code: str,
    where: int | str | None,
    *says: str,
) -> Row:
    pairs = (p.split("=") for p in attributes.split())
    return Row(op, dict(pairs), tuple(inputs), code, where, says)


def spec(given: Tensor | str) -> Spec:
    """Return the spec of `f32[2,?]` or of a tensor with its value."""
    if isinstance(given, Tensor):
        return given.spec
    name, _, shape = given.partition("[")
    return Spec(ELEMENT_TYPES[name], parse_shape(shape.rstrip("]")))


def check_refusal(r: Row) -> None:
    """Infer a row's operation; it must fail as the row says."""
    kind, _, number = r.op.rpartition("-")
    cls = lookup(kind, f"opset{number}" if number.isdecimal() else number)
    assert cls is not None
    values, problems = parse_attributes(cls, r.attributes)
    assert [p for p in problems if p.severity == "error"] == []
    with pytest.raises(OpError) as caught:
        infer_op(cls(**values), tuple(spec(i) for i in r.inputs))
    found = caught.value.problem
    assert found.code == r.code
    assert (found.attribute if isinstance(r.where, str) else found.port) == r.where
    for part in r.says:
        assert part in found.message


def check_attribute(op: str, given: dict[str, str], name: str | None) -> None:
    """Check an operation's attributes, of which one (None: several together) is wrong."""
    kind, _, number = op.rpartition("-")
    cls = lookup(kind, f"opset{number}")
    assert cls is not None
    values, _ = parse_attributes(cls, given)
    (found,) = cls(**values).check()
    assert (found.code, found.attribute) == ("E210", name)
