"""From a `<layer>` to an operation, known, unknown or constant; names and the weights file.

Type and version are looked up, attributes and ports checked. An unknown operation is known only by
its declaration; a file may have it only under some conditions. ReadValue and Assign share variables
by name. The weights file may be missing, too short, or have bytes that no constant uses; the text
form leaves out the data of some constants.
"""

from __future__ import annotations

import dataclasses
import math
import re
import typing
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from lxml import etree

from irdeconv.base.errors import (
    Collector,
    Diagnostic,
    Note,
    OpError,
    Problem,
    Severity,
    count,
    did_you_mean,
)
from irdeconv.base.limits import current
from irdeconv.base.source import Anchor
from irdeconv.formats.document import SAFE_PARSER, Context, Document, XmlLayer, integer
from irdeconv.formats.kinds import ARRAYS, BEGIN, kind_of
from irdeconv.formats.xml_layer import split_names
from irdeconv.ir.attributes import per_class
from irdeconv.ir.constant import FileData, decode
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType, u8
from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.op import REGISTRY, TYPES, Op, attributes, lookup, parse_attributes
from irdeconv.ir.spec import Spec
from irdeconv.ops.basic import Const, MisfitBranch, Opaque, Parameter, Section, is_indispensable
from irdeconv.ops.bodies import Body, BodyOp, bodies_of
from irdeconv.ops.catalog import CATALOG, LAST, opsets, spelling
from irdeconv.proof.spelling import integer as exact_integer

T = TypeVar("T")
_CONST_ATTRIBUTES = ("element_type", "shape", "offset", "size")


class ConstantReader:
    """Reads Const layers of one file."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._layer: XmlLayer

    def read(self, layer: XmlLayer) -> Const | None:
        """Return the operation, or None after reporting its errors."""
        self._layer = layer
        data = layer.data or {}
        if layer.data is None:
            self._add("E104", "it has no <data>: element type, shape, offset and size are missing")
            return None
        dtype = self._element_type(data)
        shape = self._shape(data)
        offset, size = self._number(data, "offset"), self._number(data, "size")
        if layer.data.keys() - _CONST_ATTRIBUTES:
            meant = [self._context.misspelt(n, data, _CONST_ATTRIBUTES) for n in _CONST_ATTRIBUTES]
            rest = [n for n in data if n not in meant]
            where: Any = {"layer": layer, "sub": layer.data_sub}
            self._context.unknown_attributes(rest, _CONST_ATTRIBUTES, "Const", **where)
        if dtype is None or shape is None or offset is None or size is None:
            return None
        if not self._fits(dtype, shape, offset, size):
            return None
        source = FileData(self._context.weights, offset, size, dtype, shape)
        if dtype.kind == "string" and source.available:
            try:
                decode(source.raw(), dtype, shape)
            except ValueError as e:
                self._add("E123", str(e), "offset")
                return None
        return Const(element_type=dtype, shape=shape, data=source)

    def _add(self, code: str, message: str, attribute: str | None = None, **more: Any) -> None:
        sub = self._layer.data_sub
        self._context.add(code, message, attribute=attribute, layer=self._layer, sub=sub, **more)

    def _parsed(self, data: dict[str, str], name: str, parse: Callable[[str], T]) -> T | None:
        """Return the value of an attribute; None after reporting that it is missing or wrong."""
        if name not in data:
            near = self._context.misspelt(name, data, _CONST_ATTRIBUTES)
            text = f'the attribute "{name}" is missing' + (f'; there is "{near}"' if near else "")
            self._add("E105", text, near, hint=f'write "{name}"' if near else None)
            return None
        try:
            return parse(data[name])
        except ValueError as e:
            self._add("E106", f'{name}="{data[name]}": {e}', name)
            return None

    def _element_type(self, data: dict[str, str]) -> ElementType | None:
        text = self._parsed(data, "element_type", str)
        found = None if text is None else ELEMENT_TYPES.get(text.lower())
        if text is None or (found is not None and text in (found.name, found.precision, "U1")):
            return found
        hint = f'write "{found.name}"' if found else did_you_mean(text, ELEMENT_TYPES)
        self._add("E212", f'"{text}" is not an element type', "element_type", hint=hint)
        return None

    def _shape(self, data: dict[str, str]) -> tuple[int, ...] | None:
        shape = self._parsed(
            data, "shape", lambda t: tuple(map(exact_integer, t.split(","))) if t.strip() else ()
        )
        if shape and min(shape) < 0:
            message = f'shape="{data["shape"]}" has the negative dimension {min(shape)}'
            self._add("E107", message, "shape")
            return None
        return shape

    def _number(self, data: dict[str, str], name: str) -> int | None:
        value = self._parsed(data, name, _whole)
        if value is not None and value < 0:
            self._add("E107", f"{name} is negative: {value}", name)
            return None
        return value

    def _fits(self, dtype: ElementType, shape: tuple[int, ...], offset: int, size: int) -> bool:
        count = math.prod(shape)
        fine = True
        need = dtype.nbytes(count)
        # Writers give a zero-element constant one byte.
        if dtype.kind != "string" and size != need and not (count == 0 and size <= 1):
            message = f"{count} elements of {dtype} take {need} bytes, size is {size}"
            self._add("E122", message, "size")
            fine = False
        total = self._context.weights.size
        if total is not None and offset + size > total and size:
            self._context.outside.append((self._layer, offset, offset + size))
            fine = False
        self._context.used.append((offset, offset + size))
        return fine


def _whole(text: str) -> int:
    """Return an integer as OpenVINO reads those of the file: without blanks behind it."""
    if text != text.rstrip():
        raise ValueError(f'"{text}" ends in blanks')
    return exact_integer(text, end=2**64)


def check_names(document: Document, context: Context) -> None:
    """Report repeated names of layers and tensors, and repeated or unpaired variables."""
    _layer_names(document, context)
    _tensor_names(document, context)
    _variables(document, context)


def _layer_names(document: Document, context: Context) -> None:
    first: dict[str, XmlLayer] = {}
    for layer in document.layers:
        if layer.name is None:
            continue
        other = first.setdefault(layer.name, layer)
        if other is not layer:
            text = f"the name is already that of {other.label}"
            notes = context.stands(other, "name")
            context.add("W200", text, attribute="name", layer=layer, notes=[notes])


def _tensor_names(document: Document, context: Context) -> None:
    first: dict[str, tuple[XmlLayer, int]] = {}
    for layer in document.layers:
        for port in layer.outputs:
            if not port.names:
                continue
            for name in set(split_names(port.names)):
                other = first.setdefault(name, (layer, port.sub))
                if other != (layer, port.sub):
                    text = f'the tensor name "{name}" is already that of an output of '
                    notes = [context.stands(other[0], "names", sub=other[1])]
                    where: dict[str, Any] = {"attribute": "names", "layer": layer, "sub": port.sub}
                    context.add("W206", text + other[0].label, **where, notes=notes)


def _variables(document: Document, context: Context) -> None:
    def report(layer: XmlLayer, message: str, severity: Severity = "error") -> None:
        context.add(
            "E215", message, attribute="variable_id", layer=layer, sub=layer.data_sub,
            severity=severity,
        )  # fmt: skip

    read: dict[str, XmlLayer] = {}
    assigned: dict[str, XmlLayer] = {}
    for layer in document.layers:
        if layer.type not in ("ReadValue", "Assign") or layer.data is None:
            continue
        variable = layer.data.get("variable_id")
        if variable is None:
            context.add("E105", 'the attribute "variable_id" is missing', layer=layer)
            continue
        other = (assigned if layer.type == "Assign" else read).setdefault(variable, layer)
        if other is not layer:
            report(layer, f'the variable "{variable}" is already that of {other.label}')
    for variable, layer in assigned.items():
        if variable not in read:
            report(layer, f'no ReadValue reads the variable "{variable}"')
    for variable, layer in read.items():
        if variable not in assigned:
            message = f'no Assign sets the variable "{variable}": it keeps its first value'
            report(layer, message, "warning")


# Why there are no weights, beside that the file is missing.
LEFT_OUT = "the weights were left out"
UNREADABLE = "the weights file cannot be read"

# Writers leave gaps of up to this many bytes for alignment.
_LARGEST_GAP = 63


def check_weights(document: Document, context: Context) -> None:
    """Report a weights file that is missing or too short, and bytes that no constant uses."""
    size = context.weights.size
    if size is None:
        _missing(document, context)
        return
    if _misplaced(document, size, context) or context.unplaced:
        return
    end = max((stop for _, stop in context.used), default=0)
    if end < size:
        text = f"{size - end} of {size} bytes of the weights file follow the last constant, which "
        hint = "the .bin may belong to another .xml"
        context.add("W121", f"{text}ends at {end}", Anchor("layers"), hint=hint)
    end = 0
    for start, stop in sorted(context.used):
        if start - end > _LARGEST_GAP and start <= size:
            text = f"bytes {end} to {start} of the weights file are not used by any constant"
            context.add("W121", text, Anchor("layers"))
        end = max(end, stop)


def _missing(document: Document, context: Context) -> None:
    """Report once that constants with bytes lack weights; a model without any needs no file."""
    reason = context.weights.reason
    if not any(stop > start for start, stop in context.used) or reason == UNREADABLE:
        return
    first, *more = _constants(document)
    if reason == LEFT_OUT:
        message = f"{LEFT_OUT}: what depends on values of constants is open"
        _add(context, "W120", message, first, severity="note")
    else:
        need = f"and {count(len(more), 'more constant')} need it" if more else "needs it"
        _add(context, "E120", f'{reason}; Const "{first.name}" {need}', first)


def _misplaced(document: Document, size: int, context: Context) -> bool:
    """Report once the constants outside the weights file; whether it holds arrays instead."""
    path = context.weights.path
    kind = kind_of(bytes(context.weights.read(0, min(size, BEGIN))), path)
    used = [(layer, 0, 0) for layer in _constants(document)] if kind.name in ARRAYS else []
    if not context.outside and not used:
        return False
    (layer, start, stop), *more = context.outside or used
    if not size:
        message, hint = f"{path} is empty", kind.mend
    elif (kind.foreign or kind.format) and kind.name != "a weights file":
        message, hint = f"{path} is {kind.name}, not weights", kind.mend
        hint = "the .bin beside the .xml has them" if kind.format else hint
    else:
        need = f'Const "{layer.name}" lies at {start} to {stop}'
        if more:
            need += f"; {count(len(more), 'more constant')} would end behind it, too"
        message = f"{path} has {count(size, 'byte')}: {need}"
        hint = f"{path} is cut off or belongs to another .xml"
    _add(context, "E121", message, layer, "offset" if start >= size else "size", hint=hint)
    return bool(used)


def _constants(document: Document) -> Iterator[XmlLayer]:
    for layer in document.layers:
        if layer.type == "Const":
            yield layer
        for body in layer.bodies:
            yield from _constants(body.document)


def _add(
    context: Context,
    code: str,
    message: str,
    layer: XmlLayer,
    attribute: str | None = None,
    **more: Any,
) -> None:
    """Report an error of the weights file, at the place of the first layer that needs it."""
    place = context.place(layer.within(layer.data_sub if attribute else 0), attribute)
    context.out.add(code, message, location=place, layer=layer.name, **more)


ELIDED = "the text form was printed without its large constants"
MEND = "name the .bin with --weights"
_MENDS = {ELIDED: "dump(graph, elide=None) and irdeconv inspect --constants --format ir keep them"}
_NAMED = 20  # names in a note


def lacks_data(op: object) -> bool:
    """Whether an operation is a constant whose bytes are not there."""
    return isinstance(op, Const) and not op.data.available


def no_data(nodes: Sequence[Node], what: str) -> Diagnostic:
    """Return the one error (E120) of all layers that lack data; `what` follows the first one."""
    first, *more = nodes
    data: Any = first.op.data if isinstance(first.op, Const) else None
    data = first.op.weights if isinstance(first.op, Opaque) else data
    reason = getattr(data.source if isinstance(data, FileData) else None, "reason", None)
    reason = reason if isinstance(reason, str) else "its weights file is missing"
    others = f", and {count(len(more), 'more layer')} as well" if more else ""
    names = ", ".join(f'"{n.name}"' for n in more[:_NAMED])
    cut = ", ..." if len(more) > _NAMED else ""
    return Diagnostic(
        "E120",
        "error",
        f'{first.type} "{first.name}" {what}{others}: {reason}',
        first.location,
        first.name,
        notes=(Note(f"the others are {names}{cut}"),) if more else (),
        hint=_MENDS.get(reason, MEND),
    )


_OPSET = re.compile(r"opset([1-9][0-9]{0,3})")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def unknown(kind: str, version: str, live: bool, out: Collector) -> Problem | None:
    """Return the problem of a type or version that irdeconv does not know.

    None if other programs may know it. Only OpenVINO has operations in opset1 and so on. An
    operation set of another name is that of an extension, one of a higher number that of a newer
    OpenVINO. For a layer that no result needs (not `live`) it is a warning.
    """
    number, have = _OPSET.fullmatch(version), opsets(kind)
    if number and int(number[1]) in have:
        return None
    if not live:
        message = f"no result needs it, and its operation {kind} ({version}) is unknown"
        return Problem("W201", message, hint="OpenVINO never looks at it")
    if dialects_of(kind):
        return no_dialect(kind, f'the version "{version}" is unknown')
    if _is_custom(kind, version):
        return None
    if have:
        text = _ranges(have)
        if number is None or int(number[1]) > LAST:
            message = f'"{version}" is not an operation set'
            return Problem("E214", message, "version", hint=f"{kind} is in {text}")
        return Problem("E207", f"{version} has no {kind}", "version", hint=f"it is in {text}")
    hint = None if out.is_full("E206", "error") else did_you_mean(kind, {*CATALOG, *TYPES})
    return Problem("E206", f'the operation type "{kind}" ({version}) is unknown', "type", hint=hint)


def no_dialect(kind: str, message: str, attribute: str | None = "version") -> Problem:
    """Return the problem of a type of dialects whose version selects none of them."""
    listed = ", ".join(f'version="{v}"' for v in dialects_of(kind))
    if kind == "Deconvolution":
        listed = f"{listed}, or the type ConvolutionBackpropData of opset1"
    return Problem("E214", f"{message}; it selects the dialect of {kind}", attribute, hint=listed)


def by_declaration(kind: str, version: str, count: int) -> str:
    """Return the warning of `count` layers of one operation that is not known in detail."""
    more = f" (and {count - 1} more layers of it)" if count > 1 else ""
    text = f"irdeconv does not know {kind} ({version}) in detail{more}"
    return f"{text}; its declared shapes are taken as they are"


def unkept(op: Opaque) -> Problem | None:
    """Return why no reader keeps a layer of this type and version as text; None if one does.

    One that irdeconv knows is read with its details or not at all, unless its bodies stay as text.
    """
    kind, version = op.kind, op.opset
    if isinstance(op, MisfitBranch):
        return Problem("E302", op.why)
    cls = _known(kind, version) if kind and version else None
    if cls is not None:
        kept = issubclass(cls, BodyOp) and bool(op.sections)
    else:
        kept = bool(kind and version) and not is_indispensable(kind)
    text = f"an operation {kind} ({version}) without its details is none that is read"
    return None if kept else Problem("E206", text)


def _known(kind: str, version: str) -> type[Op] | None:
    cls = lookup(spelling(kind) or kind, version)
    return None if left_out(kind, version) else cls


def unknown_operations(graph: Graph) -> list[Diagnostic]:
    """Return the `.xml` reader's diagnostics of operations that are known by declaration."""
    problems = Collector(most=current().reports)
    others: dict[tuple[str, str], list[Node]] = {}
    for node, live in _opaque(graph):
        assert isinstance(node.op, Opaque)
        kind, version = node.op.kind, node.op.opset
        problem = unkept(node.op)
        if problem is None and _known(kind, version) is None:
            problem = unknown(kind, version, live, problems)
            if problem is None:
                others.setdefault((kind, version), []).append(node)
        if problem is not None:
            _report(problems, node, problem)
    for (kind, version), nodes in others.items():
        _report(problems, nodes[0], Problem("W204", by_declaration(kind, version, len(nodes))))
    problems.count_rest()
    return problems.diagnostics


def _opaque(graph: Graph) -> Iterator[tuple[Node, bool]]:
    """Yield the operations known by declaration, and whether a result needs them."""
    live: set[int] | None = None
    for node in graph.nodes():
        if isinstance(node.op, Opaque):
            live = graph.live() if live is None else live
            yield node, node.id in live
        for body in bodies_of(node):
            yield from _opaque(body.graph)


def _report(found: Collector, node: Node, problem: Problem) -> None:
    found.add_at(node, problem.code, f"{node.label}: {problem.message}", hint=problem.hint)


@lru_cache(maxsize=4096)
def left_out(kind: str, version: str) -> bool:
    """Whether OpenVINO lacks the operation in just this opset, as ShuffleChannels in opset2."""
    number, have = _OPSET.fullmatch(version), opsets(kind)
    return bool(have) and number is not None and int(number[1]) not in have


@lru_cache(maxsize=4096)
def _is_custom(kind: str, version: str) -> bool:
    """Whether a version names the operation set of an extension, or of a newer OpenVINO.

    The computation of a deconvolution of such a set is unknown, and ends of a model have no set.
    """
    if is_indispensable(kind):
        return False
    number = _OPSET.fullmatch(version)
    if number is not None:
        return int(number[1]) > LAST
    return did_you_mean(version, [f"opset{n}" for n in range(1, LAST + 1)]) is None


def dialects_of(kind: str) -> list[str]:
    """Return the versions of a type that only dialects have, such as ConvTranspose."""
    return [] if kind in CATALOG else _of_dialects(len(REGISTRY)).get(kind, [])


@lru_cache(maxsize=1)
def _of_dialects(registered: int) -> dict[str, list[str]]:
    """Return the versions that are no operation set, by type, of so many registered operations."""
    found: dict[str, list[str]] = {}
    for kind, version in sorted(REGISTRY):
        if not _OPSET.fullmatch(version):
            found.setdefault(kind, []).append(version)
    return found


def _ranges(numbers: list[int]) -> str:
    """Return `opset2 to opset16, ...`."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and parts[-1][-1] == n - 1:
            parts[-1].append(n)
        else:
            parts.append([n])
    runs = (sorted({p[0], p[-1]}) for p in parts)
    return ", ".join(" to ".join(f"opset{n}" for n in run) for run in runs)


STATEFUL = ("Assign",)
_LAYER_ATTRIBUTES = ("id", "name", "type", "version")
# Attributes that OpenVINO itself writes or reads on <layer>.
_EXTRA_ATTRIBUTES = ("output_names", "precision")


_Made = tuple[Op | None, list[Problem]]


# Of these OpenVINO reads the operation sets "experimental" and "extension" as opset6.
_EARLY = frozenset(
    "GRUCell Proposal RNNCell ExperimentalDetectronDetectionOutput "
    "ExperimentalDetectronGenerateProposalsSingleImage ExperimentalDetectronPriorGridGenerator "
    "ExperimentalDetectronROIFeatureExtractor ExperimentalDetectronTopKROIs".split()
)


class OperationReader:
    """Makes operations of the layers of one document; problems go to the context."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._constants = ConstantReader(context)
        self._made: dict[object, _Made] = {}

    def read(
        self,
        layer: XmlLayer,
        declared: tuple[Spec, ...],
        live: bool,
        bodies: tuple[Body, ...] | None = None,
    ) -> Op:
        """Return the layer's operation; an Opaque one if it is unknown or wrong."""
        self._check_layer(layer)
        if not layer.type or not layer.version:
            return self.opaque(layer, declared)
        if layer.type == "Const" and ("Const", layer.version) in REGISTRY:
            made = self._constants.read(layer)
            self._context.unplaced |= made is None
            return made or self.opaque(layer, declared)
        cls = lookup(layer.type, layer.version) or self._other_case(layer)
        if cls is None and layer.type in _EARLY and layer.version in ("experimental", "extension"):
            cls = lookup(layer.type, "opset6")
        if cls is None or left_out(layer.type, layer.version):
            problem = unknown(layer.type, layer.version, live, self._context.out)
            if problem is not None:
                self._refuse(layer, problem)
            else:  # other programs may know it
                self._context.unknown.setdefault((layer.type, layer.version), []).append(layer)
            return self.opaque(layer, declared)
        if issubclass(cls, BodyOp) and bodies is None:
            if not layer.bodies and not layer.maps:
                self._add(layer, "E104", "it has no body")
            return self.opaque(layer, declared)
        return self._known(layer, cls, bodies) or self.opaque(layer, declared)

    def _other_case(self, layer: XmlLayer) -> type[Op] | None:
        """Look the type up as OpenVINO does, without regard to case."""
        written = spelling(layer.type or "")
        if written is None or written == layer.type:
            return None
        hint = "OpenVINO compares types without regard to case"
        text = f'the type "{layer.type}" is written "{written}"'
        self._add(layer, "W103", text, "type", hint=hint)
        return lookup(written, layer.version or "")

    def _check_layer(self, layer: XmlLayer) -> None:
        name, kind, version = layer.name, layer.type, layer.version
        if name is not None and kind and version and not layer.extra and name.isprintable():
            return
        for key, text in (("name", name), ("type", kind), ("version", version)):
            if text is None:
                if key == "version" and layer.type in TYPES and dialects_of(layer.type):
                    self._refuse(layer, no_dialect(layer.type, "it has no version", None))
                    continue
                self._add(layer, "E105", f'the attribute "{key}" is missing')
            elif not text and key != "name":
                self._add(layer, "E105", f'the attribute "{key}" is empty', key)
            elif _CONTROL.search(text):
                self._add(layer, "E109", f"its {key} contains a control character: {text!a}", key)
        extra = [name for name, _ in layer.extra if name not in _EXTRA_ATTRIBUTES]
        self._context.unknown_attributes(extra, _LAYER_ATTRIBUTES, "<layer>", layer=layer)

    def _known(self, layer: XmlLayer, cls: type[Op], bodies: tuple[Body, ...] | None) -> Op | None:
        if cls is Parameter and layer.data is None:
            self._add(layer, "E104", "it has no <data>: shape and element type are missing")
            return None
        data = layer.data or {}
        key = None if issubclass(cls, BodyOp) else (cls, *data.items())
        made = self._made.get(key)
        if made is None:
            made = self._make(cls, data, bodies)
            if key is not None:  # most layers of a model have the attributes of another one
                self._made[key] = made
        for problem in made[1]:
            self._context.problem(layer, _refined(layer, problem))
        return made[0]

    def _make(self, cls: type[Op], data: dict[str, str], bodies: tuple[Body, ...] | None) -> _Made:
        """Return an operation with these attributes, and their problems."""
        values, problems = parse_attributes(cls, data)
        if any(p.severity == "error" for p in problems):
            return None, problems
        if "semantics" in cls.__dataclass_fields__:
            values["semantics"] = self._context.semantics
        if issubclass(cls, BodyOp):
            values["bodies"] = bodies
        made: Op | None = None
        try:
            made = cls(**values)
            problems += list(made.problems())
        except OpError as e:
            problems.append(e.problem)
        except (ValueError, TypeError, ArithmeticError) as e:
            problems.append(Problem("E210", f"its attributes do not fit: {e}"))
        return None if any(p.severity == "error" for p in problems) else made, problems

    def opaque(self, layer: XmlLayer, declared: tuple[Spec, ...]) -> Opaque:
        """Return an opaque operation for the layer, with its declared specs."""
        sections, source = _sections(layer), self._context.weights
        size = source.size if sections else None
        return Opaque(
            kind=layer.type or "?",
            opset=layer.version or "opset1",
            data=tuple((layer.data or {}).items()),
            declared=declared,
            sections=sections,
            weights=None if size is None else FileData(source, 0, size, u8, (size,)),
            stateful=layer.type in STATEFUL,
        )

    def _refuse(self, layer: XmlLayer, problem: Problem) -> None:
        """Report a problem of the type or the version, which are attributes of the layer."""
        self._add(layer, problem.code, problem.message, problem.attribute, hint=problem.hint)

    def _add(
        self, layer: XmlLayer, code: str, message: str, attribute: str | None = None, **more: Any
    ) -> None:
        self._context.add(code, message, attribute=attribute, layer=layer, **more)


def unknown_attributes(layer: XmlLayer, op: Op) -> tuple[tuple[str, str], ...]:
    """Return the attributes of `<data>` that an operation does not know; they are kept."""
    if isinstance(op, Opaque | Const) or not layer.data:
        return ()
    known = _spellings(type(op))
    if layer.data.keys() <= known:
        return ()
    return tuple((k, v) for k, v in layer.data.items() if k not in known)


@per_class
def _spellings(cls: type[Op]) -> frozenset[str]:
    """Return every name that an attribute of an operation may have."""
    known = attributes(cls)
    return frozenset([*known, *(alias for a in known.values() for alias in a.aliases)])


def report_unknown(context: Context) -> None:
    """Warn once for each operation without details, at its first layer."""
    for (kind, version), layers in context.unknown.items():
        context.add("W204", by_declaration(kind, version, len(layers)), layer=layers[0])


def _sections(layer: XmlLayer) -> tuple[Section, ...]:
    """Return the sections of a layer; port maps name ports as they are written, from 0 on."""
    if not layer.sections:
        return ()
    first = len(layer.inputs)
    inputs = {integer(p.id): number for number, p in enumerate(layer.inputs)}
    outputs = {integer(p.id): number for number, p in enumerate(layer.outputs, first)}
    sides = {"input": inputs, "output": outputs}
    if all(id == number for side in sides.values() for id, number in side.items()):
        return layer.sections
    return tuple(
        Section(s.tag, _renumbered(s.xml, sides) if s.tag.endswith("port_map") else s.xml)
        for s in layer.sections
    )


def _renumbered(xml: bytes, sides: dict[str, dict[int | None, int]]) -> bytes:
    root = etree.fromstring(xml, SAFE_PARSER)
    for entry in root:
        number = sides.get(str(entry.tag), {}).get(integer(entry.get("external_port_id")))
        if number is not None:
            entry.set("external_port_id", str(number))
    made: bytes = etree.tostring(root, encoding="utf-8")  # names are kept as they are
    return made


def _refined(layer: XmlLayer, problem: Problem) -> Problem:
    """Give element types and negative dimensions the codes that ports use for them."""
    name = problem.attribute
    if problem.code != "E106" or name is None or layer.data is None:
        return problem
    if "is not an element type" in problem.message:
        return dataclasses.replace(problem, code="E212")
    if layer.type == "Parameter" and name == "shape":
        return dataclasses.replace(problem, code="E213")
    return problem


@per_class
def single_output(cls: type[Op]) -> bool:
    """Whether the rule's annotation says that the operation always has one output."""
    return typing.get_type_hints(cls.infer).get("return") is Spec
