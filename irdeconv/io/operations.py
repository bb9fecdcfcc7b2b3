"""From a `<layer>` to an operation: type and version looked up, attributes checked."""

from __future__ import annotations

import dataclasses

from lxml import etree

from irdeconv.constant import FileData
from irdeconv.declare import per_class
from irdeconv.dtypes import ELEMENT_TYPES
from irdeconv.errors import OpError, Problem
from irdeconv.io.constants import ConstantReader
from irdeconv.io.context import Context, integer
from irdeconv.io.document import XmlLayer
from irdeconv.io.unknown import by_declaration, dialects_of, left_out, no_dialect, unknown
from irdeconv.op import REGISTRY, TYPES, Op, attributes, lookup, parse_attributes
from irdeconv.ops.basic import Const, Opaque, Parameter, Section
from irdeconv.ops.bodies import Body, BodyOp
from irdeconv.ops.catalog import spelling
from irdeconv.spec import Spec

STATEFUL = ("Assign",)
_LAYER_ATTRIBUTES = ("id", "name", "type", "version")
# Attributes that OpenVINO itself writes or reads on <layer>.
_EXTRA_ATTRIBUTES = ("output_names", "precision")


_Made = tuple[Op | None, list[Problem]]


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
        """Return the layer's operation; an Opaque one where it is unknown or wrong."""
        self._check_layer(layer)
        if not layer.type or not layer.version:
            return self.opaque(layer, declared)
        if layer.type == "Const" and ("Const", layer.version) in REGISTRY:
            return self._constants.read(layer) or self.opaque(layer, declared)
        cls = lookup(layer.type, layer.version) or self._other_case(layer)
        if cls is None or left_out(layer.type, layer.version):
            self._check_known(layer, live)
            return self.opaque(layer, declared)
        if issubclass(cls, BodyOp) and bodies is None:
            self._require_bodies(layer)
            return self.opaque(layer, declared)
        return self._known(layer, cls, bodies) or self.opaque(layer, declared)

    def _other_case(self, layer: XmlLayer) -> type[Op] | None:
        """Look the type up as OpenVINO does, without regard to case."""
        written = spelling(layer.type or "")
        if written is None or written == layer.type:
            return None
        hint = "OpenVINO compares types without regard to case"
        self._add(layer, "W103", f'the type "{layer.type}" is written "{written}"', "type", hint)
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
            elif any(_control(c) for c in text):
                self._add(layer, "E109", f"its {key} contains a control character: {text!a}", key)
        extra = [name for name, _ in layer.extra if name not in _EXTRA_ATTRIBUTES]
        self._context.unknown_attributes(extra, _LAYER_ATTRIBUTES, "<layer>", layer=layer)

    # Known operations --------------------------------------------------------------------------

    def _require_bodies(self, layer: XmlLayer) -> None:
        if not layer.bodies and not layer.maps:
            self._add(layer, "E104", "it has no body")

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
        """Return an operation with these attributes, and what is wrong with them."""
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
            problems += list(made.check())
        except OpError as e:
            problems.append(e.problem)
        except (ValueError, TypeError, ArithmeticError) as e:
            problems.append(Problem("E210", f"its attributes do not fit: {e}"))
        return None if any(p.severity == "error" for p in problems) else made, problems

    def _weights(self) -> FileData | None:
        source = self._context.weights
        size = source.size
        if size is None:
            return None
        return FileData(source, 0, size, ELEMENT_TYPES["u8"], (size,))

    # Unknown operations ------------------------------------------------------------------------

    def opaque(self, layer: XmlLayer, declared: tuple[Spec, ...]) -> Opaque:
        """Return a node that stands for the layer with its declared specs."""
        sections = _sections(layer)
        return Opaque(
            kind=layer.type or "?",
            opset=layer.version or "opset1",
            data=tuple((layer.data or {}).items()),
            declared=declared,
            sections=sections,
            weights=self._weights() if sections else None,
            stateful=layer.type in STATEFUL,
        )

    def _check_known(self, layer: XmlLayer, live: bool) -> None:
        """Report a type or version that nobody knows; count those that others may know."""
        kind, version = layer.type or "", layer.version or ""
        problem = unknown(kind, version, live)
        if problem is None:
            self._context.unknown.setdefault((kind, version), []).append(layer)
        else:
            self._refuse(layer, problem)

    def _refuse(self, layer: XmlLayer, problem: Problem) -> None:
        """Report what is wrong with the type or the version, which are attributes of the layer."""
        self._add(layer, problem.code, problem.message, problem.attribute, problem.hint)

    def _add(
        self,
        layer: XmlLayer,
        code: str,
        message: str,
        attribute: str | None = None,
        hint: str | None = None,
    ) -> None:
        self._context.add(code, message, attribute=attribute, layer=layer, hint=hint)


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
    sides = {
        "input": {integer(p.id): number for number, p in enumerate(layer.inputs)},
        "output": {integer(p.id): first + number for number, p in enumerate(layer.outputs)},
    }
    if all(id == number for side in sides.values() for id, number in side.items()):
        return tuple(Section(s.tag, s.xml) for s in layer.sections)
    return tuple(
        Section(s.tag, _renumbered(s.xml, sides) if s.tag.endswith("port_map") else s.xml)
        for s in layer.sections
    )


def _renumbered(xml: bytes, sides: dict[str, dict[int | None, int]]) -> bytes:
    root = etree.fromstring(xml, etree.XMLParser(resolve_entities=False, no_network=True))
    for entry in root:
        ids = sides.get(str(entry.tag), {})
        number = ids.get(integer(entry.get("external_port_id")))
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


def _control(c: str) -> bool:
    return (ord(c) < 32 and c not in "\t\n\r") or 0x7F <= ord(c) < 0xA0
