"""docs/operations.md and docs/operations/: every operation of OpenVINO and its rules."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import irdeconv as ird
from irdeconv.ir.op import Op, Rounding, SugarOp, attributes, lookup
from irdeconv.ir.ports import declaration
from irdeconv.ops.convolution import ConvolutionBase
from irdeconv.show.operations import OperationSupport, runs
from pages import DOCS, MARK, plain, table, with_parts

INTRODUCTION = """Letters are sizes: N batch, C channels, I and O the spatial sizes of input
and output, K the kernel. `[{family}/Name-1]` names the section of OpenVINO's specification.
Optional inputs are in brackets, `...` means any number of them. In a signature every input has
element types and axes: equal letters are equal sizes, `?` is any size, `*I` any number of axes
(`*I:2`: at most two, `*K:I`: as many as of I), a lower-case letter one element type, and `one` a
single element; other names are attributes. `= N` says that the input's value is the size N, `of
data` that its values are axes of data.
[All operations](../operations.md)
"""
TITLES = {
    "infrastructure": "Infrastructure: loops, branches, variables, inputs",
    "signals": "Signals",
}
# What an absent list means.
PER_AXIS = dict.fromkeys(("strides", "dilations"), "1 per axis") | dict.fromkeys(
    ("pads_begin", "pads_end", "output_padding"), "0 per axis"
)
# What a rule of traits.Rounding says to whoever compares results.
JUDGED = {
    "exact": "exactly: the same bits",
    "roundings": "within {count} of the result",
    "remainder": "within {count} of the first input",
    "conversion": "within the rounding of the conversion",
    "sum": "as a sum of products: within gamma_n of the sum of their absolute values",
    "function": "within a few units in the last place of argument and result",
    "composite": "within a few units in the last place of its steps, which may cancel",
    "softmax": "as a softmax: relative to the result, with the rounding of the exponents",
    "log_softmax": "as the logarithm of a softmax",
    "levels": "exactly, or one level up or down where the argument is close to the border",
    "scale": "relative to the largest value",
    "any": "not at all: drawn anew in every run",
}


def pages() -> dict[Path, str]:
    """Return the text of every page by its path."""
    found = ird.operations()
    families: dict[str, list[OperationSupport]] = {}
    for row in found.rows:
        families.setdefault(_family(row), []).append(row)
    every = table(("operation", "opsets", "irdeconv", "element types"), map(_row, found.rows))
    out = with_parts(DOCS / "operations.md", {"all": f"{found.summary}.\n\n{every}"})
    for family, rows in sorted(families.items()):
        out[DOCS / "operations" / f"{family}.md"] = _page(family, rows)
    return out


def _family(row: OperationSupport) -> str:
    """Return the part of the specification that a row's operation belongs to."""
    cls = _class(row)
    match = re.search(r"\[(\w+)/", (cls.__doc__ if cls else None) or "")
    return match[1] if match else "infrastructure"


def _class(row: OperationSupport) -> type[Op] | None:
    return lookup(row.type, f"opset{row.opsets[0]}")


def _row(row: OperationSupport) -> tuple[str, ...]:
    """Return a row of the table of all operations, linked to the section of its type."""
    name = f"[{row.type}](operations/{_family(row)}.md#{row.type.lower()})"
    state = f"{row.state}: {row.reason}" if row.reason else row.state
    return name, runs(row.opsets), state, row.element_types


def _page(family: str, rows: list[OperationSupport]) -> str:
    """Return the page of a family: a section for each type, a part for each of its classes."""
    title = TITLES.get(family, family.capitalize())
    parts = [f"{MARK}# Operations: {title}\n\n{INTRODUCTION.format(family=family)}"]
    for type in dict.fromkeys(row.type for row in rows):
        mine = [row for row in rows if row.type == type]
        parts.append(f"## {type}\n")
        parts += ["\n".join(_part(row)) for row in mine]
    return "\n".join(parts)


def _part(row: OperationSupport) -> Iterator[str]:
    """Yield the lines about one class of operations."""
    cls = _class(row)
    yield f"**opset {runs(row.opsets)}**: {row.state}{f', {row.reason}' if row.reason else ''}\n"
    if cls is None:
        return
    yield plain(inspect.cleandoc(cls.__doc__ or "")) + "\n"
    if rows := list(_attributes(cls)):
        yield table(("attribute", "values", "default"), rows) + "\n"
    yield f"- inputs: {plain(row.inputs) or 'none'}; outputs: {_outputs(cls)}"
    if cls.signature:
        yield f"- signature: `{cls.signature}`"
    if row.element_types:
        yield f"- element types: {row.element_types}"
    if row.state == "executed":
        yield f"- executed: {_executed(cls)}"
        yield f"- judged by `compare`: {_judged(cls)}"
    yield ""


def _attributes(cls: type[Op]) -> Iterator[tuple[str, ...]]:
    for a in attributes(cls).values():
        choices = a.kind.label.split(" | ")
        values = " ".join(f"`{c}`" for c in choices) if len(choices) > 1 else plain(a.kind.label)
        yield f"`{a.xml}`", f"{values}{_limits(a)}", _default(a)


def _limits(a: Any) -> str:
    """Return what an attribute, or each value of a list, must be."""
    if a.range is None:
        return ""
    listed = a.kind.label in ("integers", "numbers")
    counts = f"; must {a.range.count_rule}" if a.range.counts else ""
    open_range = a.range.low is None and not a.range.types
    return counts + ("" if open_range else f"; {'each ' if listed else ''}must {a.range.rule}")


def _default(a: Any) -> str:
    if a.required:
        return "required"
    text = a.kind.format(a.default)
    shown = f"`{text}`" if text else PER_AXIS.get(a.name, "none")
    return f"required; {shown} where it is missing" if a.documented else shown


def _outputs(cls: type[Op]) -> str:
    """Return how many outputs are declared, or returned by the rule of shapes."""
    if outputs := declaration(cls.signature).outputs:
        return str(len(outputs))
    rule = SugarOp.infer if issubclass(cls, SugarOp) else cls.infer
    said = str(rule.__annotations__.get("return", ""))
    if issubclass(cls, SugarOp) or said == "Spec":
        return "1"
    return "several" if "..." in said else str(said.count("Spec"))


def _executed(cls: type[Op]) -> str:
    """Return how a plan runs the operation."""
    ways = []
    if issubclass(cls, ConvolutionBase):
        ways.append("by a kernel for its sizes, fused with a Pad before it and what follows it")
    if cls.chain_step is not Op.chain_step:
        ways.append("fused into a chain of element-wise operations, or with the layer before")
    if cls.bind is not Op.bind:
        ways.append("bound to fixed sizes, into given memory or as a view")
    if cls.deconvolution:
        ways.append("by a kernel for its sizes, fused with its bias and activation")
    return "; ".join(ways) or "by its evaluator"


def _judged(cls: type[Op]) -> str:
    rounding: Any = cls.rounding
    if isinstance(rounding, Rounding):
        several = f"{rounding.count} rounding{'s' if rounding.count != 1 else ''}"
        return JUDGED[rounding.rule].format(count=several)
    return JUDGED["sum"] if cls.deconvolution else "as its attributes, or its body, say"
