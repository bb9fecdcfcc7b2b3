"""Rows of operation cases: what each operation gives for written-down inputs.

A module of this package is a table for one family: `CASES = [case(...), ...]`. Its rows run through
tests/ops/test_op_cases.py (attributes, inference, evaluation) and, in OpenVINO, through
tests/ops/test_peers_ops.py.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
from lxml import etree

import irdeconv.ops.dialects
from irdeconv.base.errors import Problem
from irdeconv.base.limits import current
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType
from irdeconv.ir.op import Op, lookup, parse_attributes
from irdeconv.ir.spec import Array, Spec

assert irdeconv.ops.dialects  # importing it fills the registry


@dataclass(frozen=True)
class Tensor:
    """Values and their element type."""

    dtype: ElementType
    values: Array

    @property
    def spec(self) -> Spec:
        """Type, shape and, where it is small, the value."""
        value = self.values if self.values.size <= current().value_elements else None
        return Spec(self.dtype, self.values.shape, value)


def tensor(dtype: str, values: Any, shape: Sequence[int] | None = None) -> Tensor:
    """Return a tensor from nested lists or from a flat list and a shape."""
    element = ELEMENT_TYPES[dtype]
    array = np.array(values).astype(element.container)
    return Tensor(element, array if shape is None else array.reshape(shape))


f64, f32, f16, bf16 = (partial(tensor, n) for n in ("f64", "f32", "f16", "bf16"))
i64, i32, i16, i8, i4 = (partial(tensor, n) for n in ("i64", "i32", "i16", "i8", "i4"))
u64, u8, u4, u1 = (partial(tensor, n) for n in ("u64", "u8", "u4", "u1"))
boolean = partial(tensor, "boolean")


def count(shape: Sequence[int], first: int = 0, dtype: str = "f32") -> Tensor:
    """Return first, first + 1, ... in a shape: distinct values show every wrong move."""
    size = int(np.prod(shape))
    return tensor(dtype, np.arange(first, first + size), shape)


ROUNDING = 2.0**-24  # half a unit in the last place of f32, relative


@dataclass(frozen=True)
class Case:
    """One row: operation and version (`Pad-12`), attributes as XML text, inputs, outputs.

    `tolerance` is relative to the largest expected magnitude, by default that of a function and
    three more operations, each rounded to f32; integers compare exactly. `fixed` are ports whose
    value inference cannot do without. `defect` is the title of what is known to differ in OpenVINO,
    a row of tests/support/live/differences.toml: the peer test fails where it agrees. `crash` says
    that the row would kill OpenVINO's process, or give anything by chance: it is not run there.
    """

    op: str
    attributes: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    tolerance: float = 4 * ROUNDING
    fixed: tuple[int, ...] = ()
    defect: str = ""
    crash: str = ""
    module: str = field(default="", compare=False)

    @property
    def type(self) -> str:
        """The type as `<layer>` spells it."""
        return self.op.rpartition("-")[0]

    @property
    def version(self) -> str:
        """The version as `<layer>` spells it."""
        number = self.op.rpartition("-")[2]
        return f"opset{number}" if number.isdecimal() else number

    def build(self) -> tuple[Op, list[Problem]]:
        """Return the operation with the row's attributes and what is wrong with these."""
        cls = lookup(self.type, self.version)
        assert cls is not None, f"{self.op} is not registered"
        text = etree.fromstring(f"<data {self.attributes}/>").attrib
        values, problems = parse_attributes(cls, dict(text))
        return cls(**values), problems


def case(
    op: str,
    attributes: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor] | Tensor,
    **more: Any,
) -> Case:
    """Write a row; a single output needs no list."""
    outs = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    return Case(op, attributes, tuple(inputs), outs, **more)


@cache
def all_cases() -> dict[str, Case]:
    """Return the rows of every table by a unique id."""
    found: dict[str, Case] = {}
    for info in pkgutil.iter_modules(__path__):
        table = importlib.import_module(f"{__name__}.{info.name}")
        for i, row in enumerate(table.CASES):
            found[f"{info.name}-{i}-{row.op}"] = row
    return found


def differs(got: Array, want: Tensor, tolerance: float) -> str:
    """Say how an array differs from the expected tensor; empty where it does not."""
    if got.shape != want.values.shape:
        return f"shape {got.shape} instead of {want.values.shape}"
    if not want.dtype.is_real:
        same = np.array_equal(got, want.values)
        return "" if same else f"{got.tolist()} instead of {want.values.tolist()}"
    a, b = got.astype(np.float64), want.values.astype(np.float64)
    finite = b[np.isfinite(b)]
    limit = tolerance * max(1.0, float(np.max(np.abs(finite), initial=0)))
    if np.allclose(a, b, rtol=0, atol=limit, equal_nan=True):
        return ""
    return f"{a.tolist()} instead of {b.tolist()} (limit {limit:g})"
