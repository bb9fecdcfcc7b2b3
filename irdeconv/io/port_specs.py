"""Declared specs: the precision and the `<dim>`s of a port, with what is wrong in them."""

from __future__ import annotations

import re
from functools import lru_cache

from irdeconv.dtypes import BY_PRECISION, ELEMENT_TYPES, ElementType
from irdeconv.io.context import Context
from irdeconv.io.document import XmlLayer, XmlPort
from irdeconv.spec import Shape, Spec, parse_dim
from irdeconv.suggest import did_you_mean

_NUMBER_THEN_TEXT = re.compile(r"\s*[0-9]+\.[0-9]*\s*")
_ONE_NAME = re.compile(r"(?:[^\\,]|\\.|\\$)+", re.DOTALL)


def declared_specs(
    layer: XmlLayer, ports: tuple[XmlPort, ...], outputs: bool, context: Context
) -> tuple[Spec, ...]:
    """Return the declared spec of each port of one side and report malformed ones.

    A port without `<dim>`s is a scalar or has an unknown rank: the file does not say which.
    """
    out = []
    for port in ports:
        spec, fault = _spec(port.precision, port.dims)
        if fault or port.extra or (outputs and port.precision is None):
            _report(layer, port, outputs, context)
        out.append(spec)
    return tuple(out)


@lru_cache(maxsize=8192)
def _spec(precision: str | None, dims: tuple[str, ...]) -> tuple[Spec, bool]:
    dtype = _dtype(precision)
    fault = dtype is None and precision is not None and not _unspecified(precision)
    shape: Shape | None = None
    if dims:
        try:
            shape = tuple(parse_dim(d) for d in dims)
            fault = fault or any(not _plain(d) for d in dims)
        except ValueError:
            fault = True
    return Spec(dtype, shape), fault


def _dtype(precision: str | None) -> ElementType | None:
    """Return the element type that OpenVINO reads: it tells upper from lower case, and blanks."""
    return BY_PRECISION.get(precision) if precision else None


def _unspecified(precision: str) -> bool:
    """Whether the text is how OpenVINO writes an element type that is not known yet."""
    return precision in ("UNSPECIFIED", "dynamic", "undefined")


def _plain(dim: str) -> bool:
    text = dim.strip()
    return text == "-1" or text.isdigit()


def _report(layer: XmlLayer, port: XmlPort, outputs: bool, context: Context) -> None:
    if port.precision is None:
        if outputs:
            context.add("E105", 'an output port has no "precision"', layer=layer, sub=port.sub)
    elif _dtype(port.precision) is None and not _unspecified(port.precision):
        context.add(
            "E212",
            f'the precision "{port.precision}" is not an element type',
            attribute="precision",
            layer=layer,
            sub=port.sub,
            hint=_type_hint(port.precision),
        )
    for number, dim in enumerate(port.dims):
        _check_dim(dim, port.sub + 1 + number, layer, context)
    known = ("id", "precision", "names")
    context.unknown_attributes(dict(port.extra), known, "<port>", layer=layer, sub=port.sub)


def _type_hint(text: str) -> str | None:
    by_name = ELEMENT_TYPES.get(text.strip().lower())
    if by_name is not None:
        return f"ports spell it {by_name.precision}"
    return did_you_mean(text, BY_PRECISION)


def _check_dim(dim: str, sub: int, layer: XmlLayer, context: Context) -> None:
    text = dim.strip()
    try:
        parse_dim(text)
    except ValueError as e:
        if _NUMBER_THEN_TEXT.fullmatch(text):
            message = f'the dimension "{text}" is not an integer; OpenVINO ignores it'
            context.add("W103", message, layer=layer, sub=sub)
            return
        hint = "a <dim> holds a non-negative integer, or -1 where it is not known"
        wide = text.isascii() and text.isdigit()
        message = str(e) if wide else f'"{text}" is not a dimension'
        context.add("E213", message, layer=layer, sub=sub, hint=hint)
        return
    if not _plain(text):
        message = f'the dimension "{text}" is spelled unusually; OpenVINO writes -1'
        context.add("W103", message, layer=layer, sub=sub)


def tensor_names(ports: tuple[XmlPort, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the tensor names of each output; commas inside a name are escaped in the file."""
    return tuple([split_names(p.names) if p.names else () for p in ports])


def split_names(text: str) -> tuple[str, ...]:
    r"""Split `a,b\,c` into `a` and `b,c`."""
    if "," not in text:
        return (text,)
    return tuple(part.replace("\\,", ",") for part in _ONE_NAME.findall(text))
