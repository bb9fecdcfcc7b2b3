"""irdeconv's support of every operation of OpenVINO's operation sets, read from the registry."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import irdeconv.ops.dialects
from irdeconv.base.arguments import checked
from irdeconv.base.errors import OpError, count, misused, other_pattern
from irdeconv.base.json_form import Record
from irdeconv.base.markup import html_table, line
from irdeconv.base.tables import WIDTH, table
from irdeconv.ir.attributes import AttributeType
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.op import LAST_OPSET, Op, SugarOp, attributes, lookup, ports
from irdeconv.ir.ports import KINDS
from irdeconv.ir.spec import Spec
from irdeconv.ops import catalog

assert irdeconv.ops.dialects  # importing it fills the registry

State = Literal["executed", "inferred", "kept"]
_KINDS = {
    "floating-point": [n for n, t in ELEMENT_TYPES.items() if KINDS["real"][1](t)],
    "integers": [n for n, t in ELEMENT_TYPES.items() if KINDS["integer"][1](t)],
    "boolean": ["boolean"],
    "string": ["string"],
}
# Why a type is not executed; all others wait for somebody who writes them.
REASONS = {"Constant": "files spell it Const"}
_NOT_WRITTEN = "no rule yet"
_SHAPE_ONLY = "no evaluator yet"
HEAD = ("operation", "opsets", "irdeconv", "element types", "inputs", "reason")


@dataclass(frozen=True)
class OperationSupport:
    """One operation type in the opsets that have the same rules.

    `state` is "executed", "inferred" (shapes only) or "kept" (its declared shapes are taken, and it
    is written back unchanged); every one of them is read. `element_types` are those of the data
    (the input of that name, or the first), `inputs` the names of the ports, optional ones in
    brackets.
    """

    type: str  # its name
    opsets: tuple[int, ...]  # the operation sets that have this version
    state: Annotated[State, str]  # executed, inferred or kept
    element_types: str = ""  # that are executed
    inputs: str = ""  # names of the ports, optional ones in brackets
    reason: str = ""  # why it is not executed


class Operations(Record, document="operations/1", keys="operations=rows", repr=False):
    """OpenVINO's operations, and what irdeconv does with them."""

    rows: tuple[OperationSupport, ...]  # in the order of names

    def __repr__(self) -> str:
        executed = sum(len(r.opsets) for r in self.rows if r.state == "executed")
        whole = sum(len(r.opsets) for r in self.rows)
        return line(self, f"{executed} of {whole} (type, opset) executed")

    def _repr_html_(self) -> str:
        return html_table(self.summary, HEAD, self._cells(), total=len(self.rows))

    @property
    def summary(self) -> str:
        """How many types and pairs of type and opset are executed, inferred, kept."""
        types = {r.type for r in self.rows}
        executed = {r.type for r in self.rows if r.state == "executed"}
        pairs = {s: sum(len(r.opsets) for r in self.rows if r.state == s) for s in STATES}
        each = ", ".join(f"{number:,} {state}" for state, number in pairs.items())
        return f"{len(executed)} of {count(len(types), 'type')} executed; of (type, opset): {each}"

    def to_text(self, width: int = WIDTH) -> str:
        """Return the table in lines of at most `width` columns, and the summary."""
        body = table(HEAD, self._cells(), names=("operation",), width=width)
        return f"{body}\n\n{self.summary}"

    __str__ = to_text

    def to_json(self) -> str:
        """Return one object; its rows are those of the table."""
        return json.dumps(self.to_dict(), indent=1) + "\n"

    def _cells(self) -> list[tuple[str, ...]]:
        return [
            (r.type, runs(r.opsets), r.state, r.element_types, r.inputs, r.reason)
            for r in self.rows
        ]


STATES: tuple[State, ...] = ("executed", "inferred", "kept")


@checked
def operations(only: str | Sequence[str] = ()) -> Operations:
    """Return a table of OpenVINO's operations, opset1 to opset16, with the support for each.

    `only` keeps the types that fit a name or pattern (`*`, `?`, `[a-z]`), in upper or lower case. A
    row covers opsets with the same rules. The operation is "executed", "inferred" (shapes only) or
    "kept" (read and written back with its declared shapes). The row has the element types of its
    data, and the reason if it is not executed.

    Raises UsageError if no type fits.

    >>> [(row.opsets, row.state) for row in ird.operations("LSTMCell").rows]
    [((1, 2, 3), 'executed'), ((4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16), 'executed')]
    >>> ird.operations("Pad").summary
    '1 of 1 type executed; of (type, opset): 16 executed, 0 inferred, 0 kept'
    """
    patterns = [only] if isinstance(only, str) else only
    low = [p.lower() for p in patterns] or ["*"]
    chosen = [n for n in catalog.CATALOG if any(fnmatch.fnmatchcase(n.lower(), p) for p in low)]
    if not chosen:
        hint = other_pattern(patterns, catalog.CATALOG) or "a pattern such as 'Scatter*'"
        raise misused(f'"{patterns[0]}": there is no such operation type', hint)
    return Operations(tuple(row for name in sorted(chosen) for row in _rows(name)))


def runs(numbers: Sequence[int]) -> str:
    """Return `1-6, 8` for 1, 2, ... 6, 8."""
    out: list[list[int]] = []
    for n in numbers:
        if out and out[-1][1] == n - 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in out)


def _rows(name: str) -> Iterator[OperationSupport]:
    """Yield a row for each class of a type, in the order of the opsets."""
    found: dict[type[Op] | None, list[int]] = {}
    for n in catalog.opsets(name):
        if n <= LAST_OPSET:
            found.setdefault(lookup(name, f"opset{n}"), []).append(n)
    for cls, numbers in found.items():
        opsets = tuple(numbers)
        if cls is None:
            reason = REASONS.get(name, _NOT_WRITTEN)
            yield OperationSupport(name, opsets, "kept", reason=reason)
            continue
        state = _state(cls)
        reason = "" if state == "executed" else REASONS.get(name, _SHAPE_ONLY)
        yield OperationSupport(name, opsets, state, element_types(cls), _inputs(cls), reason)


def _state(cls: type[Op]) -> State:
    if issubclass(cls, SugarOp) or cls.evaluate is not Op.evaluate or cls.type == "Parameter":
        return "executed"
    return "kept" if cls.infer is Op.infer and not cls.signature else "inferred"


def _inputs(cls: type[Op]) -> str:
    found = ports(cls)
    names = [n if i < found.required else f"[{n}]" for i, n in enumerate(found.names)]
    return ", ".join([*names, "..."] if found.variadic else names)


def element_types(cls: type[Op]) -> str:
    """Return the element types of the data: those that `infer` does not refuse."""
    found = ports(cls)
    if not found.names and not found.variadic:
        return ""
    op = _example(cls)
    data = found.names.index("data") if "data" in found.names else 0
    inputs = [Spec(None, None)] * max(found.required, data + 1)
    accepted = {n for n in ELEMENT_TYPES if op is None or _accepts(op, inputs, data, n)}
    if len(accepted) == len(ELEMENT_TYPES):
        return "any"
    words = []
    for kind, names in _KINDS.items():
        inside = [n for n in names if n in accepted]
        words += [kind] if inside == names else inside
    return ", ".join(words)


def _accepts(op: Op, unknown: Sequence[Spec], data: int, name: str) -> bool:
    """Whether data of a type, all else being unknown, are not refused for their type."""
    inputs = list(unknown)
    inputs[data] = Spec(ELEMENT_TYPES[name], None)
    try:
        op.infer(*inputs)
    except OpError as e:
        return e.problem.code != "E303" or e.problem.port not in (data, None)
    except Exception:  # the rule needs more than this example has: nothing about types
        return True
    return True


def _example(cls: type[Op]) -> Op | None:
    """Return the operation with some value for every attribute that has no default."""
    values = {a.name: _value(a.kind) for a in attributes(cls).values() if a.required}
    with suppress(Exception):
        return cls(**values)
    return None


def _value(kind: AttributeType) -> Any:
    for text in ("1", "1.0", "f32", kind.label.split(" | ")[0], ""):
        with suppress(ValueError):
            return kind.parse(text)
    return None
