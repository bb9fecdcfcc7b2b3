"""Whether every input that an operation needs is there, and no more ports than it has."""

from __future__ import annotations

import typing

from irdeconv.declare import per_class
from irdeconv.io.context import Context
from irdeconv.io.document import XmlLayer
from irdeconv.io.wiring import Wiring
from irdeconv.op import Op, ports
from irdeconv.ops.basic import Opaque
from irdeconv.spec import Spec


def check_inputs(wiring: Wiring, index: int, op: Op, context: Context) -> bool:
    """Report missing and surplus ports; whether the operation can take the inputs it has."""
    layer, sources = wiring.layers[index], wiring.sources[index]
    if None not in sources:
        if isinstance(op, Opaque):
            return True
        if len(layer.outputs) < 2 and ports(type(op)).fits(len(sources)):
            return True
    fed = [i for i, value in enumerate(sources) if value is not None]
    dense = fed == list(range(len(fed)))
    quiet = index in wiring.doubtful
    if isinstance(op, Opaque):
        if not quiet:
            for port in range(len(sources)):
                if sources[port] is None:
                    _missing(layer, port, f"input {port}", context)
        return dense
    known = ports(type(op))
    if not quiet:
        for port in range(len(sources)):
            if sources[port] is None and (known.variadic or port < len(known.names)):
                _missing(layer, port, known.name(port), context)
        _check_count(layer, op, context)
    return dense and known.fits(len(fed))


def _missing(layer: XmlLayer, port: int, name: str, context: Context) -> None:
    number = layer.inputs[port].id
    context.add(
        "E204",
        f"input port {number} ({name}) has no producer",
        layer=layer,
        sub=layer.inputs[port].sub,
        hint=f'an <edge to-layer="{layer.id}" to-port="{number}"> is missing',
    )


def _check_count(layer: XmlLayer, op: Op, context: Context) -> None:
    known, count = ports(type(op)), len(layer.inputs)
    if count < known.required:
        names = ", ".join(known.names[: known.required]) or "one input or more"
        context.add(
            "E208", f"it has {_count(count)}, but needs {known.required}: {names}", layer=layer
        )
    elif not known.fits(count):
        names = ", ".join(known.names) or "none"
        context.add(
            "E208",
            f"it has {_count(count)}, but takes {len(known.names)} at most: {names}",
            layer=layer,
            sub=layer.inputs[len(known.names)].sub,
        )
    if len(layer.outputs) > 1 and single_output(type(op)):
        context.add(
            "E208", f"it has {len(layer.outputs)} output ports; {op.type} has one", layer=layer,
            sub=layer.outputs[1].sub,
        )  # fmt: skip


def _count(inputs: int) -> str:
    return "1 input port" if inputs == 1 else f"{inputs} input ports"


@per_class
def single_output(cls: type[Op]) -> bool:
    """Whether the rule's annotation says that the operation always has one output."""
    return typing.get_type_hints(cls.infer).get("return") is Spec
