"""Names and variables of a document: doubled layer names, tensor names, ReadValue and Assign."""

from __future__ import annotations

from irdeconv.errors import Severity
from irdeconv.io.context import Context
from irdeconv.io.document import Document, XmlLayer
from irdeconv.io.port_specs import split_names


def check_names(document: Document, context: Context) -> None:
    """Report layer names and tensor names that stand for two things, and variables."""
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
            context.add(
                "W200",
                f"the name is already that of {other.label}",
                attribute="name",
                layer=layer,
                notes=[context.stands(other, "name")],
            )


def _tensor_names(document: Document, context: Context) -> None:
    first: dict[str, tuple[XmlLayer, int]] = {}
    for layer in document.layers:
        for port in layer.outputs:
            if not port.names:
                continue
            for name in set(split_names(port.names)):
                other = first.setdefault(name, (layer, port.sub))
                if other != (layer, port.sub):
                    context.add(
                        "W206",
                        f'the tensor name "{name}" is already that of an output of '
                        f"{other[0].label}",
                        attribute="names",
                        layer=layer,
                        sub=port.sub,
                        notes=[context.stands(other[0], "names", sub=other[1])],
                    )


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
        seen = assigned if layer.type == "Assign" else read
        other = seen.setdefault(variable, layer)
        if other is not layer:
            report(layer, f'the variable "{variable}" is already that of {other.label}')
    for variable, layer in assigned.items():
        if variable not in read:
            report(layer, f'no ReadValue reads the variable "{variable}"')
    for variable, layer in read.items():
        if variable not in assigned:
            message = f'no Assign sets the variable "{variable}": it keeps its first value'
            report(layer, message, "warning")
