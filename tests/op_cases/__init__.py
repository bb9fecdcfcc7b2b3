"""Rows of operation cases: what each operation gives for written-down inputs.

Each family has a table `<family>.txt`, and a module with `CASES = [case(...), ...]` if Python
computes the expected numbers. The rows run through tests/ops/test_op_cases.py (attributes,
inference, evaluation) and tests/ops/test_peers_ops.py (OpenVINO).

A row of a table is the operation with its attributes, the inputs, `->` and the outputs. A tensor is
its element type, an expression of numpy and math, and `as` a shape if it has another one; `zeros`,
`ones` and `count` (1, 2, 3, ...) are made of a shape. `NAME = ...` names an expression. Indented
lines continue a row or set `tolerance`, `fixed`, `defect`, `crash`. `Pad-1|12` are two rows.

    Pad-12 pad_mode=edge // f32 [1, 2] // i64 [1] // i64 [0] -> f32 [1, 1, 2]
      defect: the title of a known difference
"""

import importlib
import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

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


def unordered(shape: Sequence[int]) -> Array:
    """Return small integers without any order."""
    n = np.arange(math.prod(shape))
    return ((n * 7 + n * n * 3) % 11 - 5).reshape(shape)


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


@dataclass(frozen=True)
class Filled:
    """zeros[2, 3]: an array of a shape."""

    fill: Callable[[tuple[int, ...]], Array]

    def __getitem__(self, shape: int | tuple[int, ...]) -> Array:
        return self.fill(shape if isinstance(shape, tuple) else (shape,))


NAMES = {
    **vars(math),
    "np": np,
    "zeros": Filled(np.zeros),
    "ones": Filled(np.ones),
    "count": Filled(lambda s: np.arange(1, math.prod(s) + 1).reshape(s)),
    "NaN": math.nan,
    "Infinity": math.inf,
}


def array_of(text: str, names: Mapping[str, Any] = NAMES) -> Array:
    """Return the array that a table writes as `[1, 2, 3, 4] as (2, 2)`."""
    values, _, shape = text.partition(" as ")
    array = np.array(eval(values, dict(names)))
    return array.reshape(eval(shape)) if shape else array


def tensor_of(text: str, names: Mapping[str, Any] = NAMES) -> Tensor:
    """Return the tensor that a table writes as `f32 [1, 2]`."""
    dtype, _, values = text.strip().partition(" ")
    return tensor(dtype, array_of(values, names))


OPTIONS: dict[str, Callable[[str], Any]] = {
    "tolerance": lambda text: float(array_of(text)),
    "fixed": lambda text: tuple(map(int, text.split(","))),
    "defect": str,
    "crash": str,
}


def rows_of(text: str) -> list[Case]:
    """Return the rows of a table."""
    names, found = dict(NAMES), []
    for block in re.split(r"\n(?=\S)", text):
        first, *rest = (line.rstrip() for line in block.split("\n"))
        if first.startswith("#") or not first:
            continue
        if named := re.fullmatch(r"([A-Z_]+) = (.*)", first):
            names[named[1]] = array_of(named[2], names)
            continue
        options = [re.fullmatch(rf"  ({'|'.join(OPTIONS)}): (.*)", line) for line in rest]
        more = {o[1]: OPTIONS[o[1]](o[2]) for o in options if o}
        lines = [line.strip() for line, o in zip(rest, options, strict=True) if not o]
        left, right = " ".join((first, *lines)).rsplit(" -> ", 1)
        head, *inputs = left.split(" // ")
        op, *words = shlex.split(head)
        attributes = " ".join(f"{k}={quoteattr(v)}" for k, v in (w.split("=", 1) for w in words))
        ins, outs = ([tensor_of(t, names) for t in side] for side in (inputs, right.split(" // ")))
        kind, *versions = op.split("|")
        stem = kind.rstrip("0123456789")
        found += [
            case(o, attributes, ins, outs, **more) for o in (kind, *map(stem.__add__, versions))
        ]
    return found


@cache
def all_cases() -> dict[str, Case]:
    """Return the rows of every table by a unique id."""
    found: dict[str, Case] = {}
    files = [p for p in sorted(Path(__file__).parent.glob("[a-z]*")) if p.suffix in (".py", ".txt")]
    for family in sorted({p.stem for p in files}):
        rows: list[Case] = []
        for path in (p for p in files if p.stem == family):
            if path.suffix == ".txt":
                rows += rows_of(path.read_text("utf-8"))
            else:
                rows += importlib.import_module(f"{__name__}.{family}").CASES
        found |= {f"{family}-{i}-{row.op}": row for i, row in enumerate(rows)}
    return found


def first_rows(*, others: bool) -> dict[str, Case]:
    """Return the first row of each operation, or all the others."""
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    for name, row in all_cases().items():
        if bool(seen[row.type, row.version]) == others:
            found[name] = row
        seen[row.type, row.version] += 1
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
