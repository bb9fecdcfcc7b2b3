"""All limits that keep hostile files and wrong sizes from exhausting the machine.

`current()` returns the limits in force: the defaults, or those that `Limits(...).applied()` or
`--limit` sets. Numbers elsewhere that only decide how something is computed (how long a folded
constant of an importer may be, when a matrix is used) refuse nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cache, wraps
from threading import Thread, current_thread
from typing import Any
from weakref import WeakKeyDictionary

from irdeconv.base.errors import did_you_mean
from irdeconv.base.hints import constructor, hinted

LARGEST_INT = 2**63 - 1  # the highest value of a limit; sizes and bounds beyond it are no sizes
ARRAY_AXES = 32  # of an array that sorting and iterators of NumPy take
ENVIRONMENT = "IRDECONV_LIMITS"  # the variable that the command line reads
_AMOUNT = re.compile(
    r"([0-9]{1,3}(?:,[0-9]{3}){1,6}|[0-9]{1,19})(\.[0-9]{1,6}(?= ?[KMGT]))?"
    r" ?([KMGT]?)(?:i?B| bytes)?",
    re.IGNORECASE,
)


def _of(
    default: int, what: str, code: str = "", *, size: bool = False, most: int = LARGEST_INT
) -> Any:
    """Describe a limit; `most` is its highest value."""
    metadata = {"what": what, "code": code, "bytes": size, "most": most}
    return field(default=default, metadata=metadata)


@hinted
@constructor
@dataclass(frozen=True)
class Limits:
    """Limits of a file's contents and needs; give higher values for files that you trust.

    `irdeconv doctor --limits` and docs/limits.md explain each one. `read` takes them for one file;
    as a context manager they hold for all code inside:

    >>> with ird.Limits(layers=2).applied():
    ...     ird.validate("ir_samples/openvino/group_deconv.xml")[0].code
    'E601'
    """

    xml_bytes: int = _of(2 * 2**30, "an .xml file or another text", "E600", size=True)
    message_bytes: int = _of(
        2**31 - 1, "an ONNX model without data in other files", "E600", size=True
    )
    json_bytes: int = _of(2**28, "a dump, certificates, a saved report", "E600", size=True)
    toml_bytes: int = _of(2**20, "a profile, a list of layers", "E600", size=True)
    array_bytes: int = _of(2**36, "an array of an .npy or .npz", "E600", size=True)
    members: int = _of(2**17, "arrays of an .npz", "E600")
    packing: int = _of(200, "times its packed size that an array above 64 MiB may have", "E600")
    layers: int = _of(1_000_000, "layers of a file, those of bodies included", "E601")
    called_nodes: int = _of(
        2**14, "nodes that calls of an ONNX model's functions expand to", "E601"
    )
    edges: int = _of(8_000_000, "edges of a file, those of bodies included", "E601")
    ports: int = _of(32_768, "inputs of a layer, and its outputs", "E601")
    attributes: int = _of(1_024, "attributes of an element", "E601")
    name_length: int = _of(65_536, "characters of a layer's name, type or version", "E600")
    attribute_length: int = _of(10_000_000, "bytes of an attribute or a text", "E600")
    errors: int = _of(10_000, "errors of a file; nothing more of it is looked at", "E601")
    depth: int = _of(32, "bodies in bodies", "E603")
    rank: int = _of(ARRAY_AXES, "axes of a tensor; more cannot be allowed", "E602", most=ARRAY_AXES)
    tensor_elements: int = _of(2**40, "elements of a tensor", "E602")
    tensor_bytes: int = _of(2**40, "a tensor", "E602", size=True)
    total_bytes: int = _of(2**44, "all tensors of a model together", "E602", size=True)
    value_elements: int = _of(4_096, "elements of a value that inference computes with")
    lowered_nodes: int = _of(4_096, "nodes that a deconvolution may become, by its strides")
    lowered_total: int = _of(2**16, "nodes that a lowering makes, constants included", "E601")
    folded_bytes: int = _of(
        2**26, "a constant that lowering computes, or 8 times what it is made of", size=True
    )
    macs: int = _of(2**46, "multiply-accumulates of a run", "E602")
    memory: int = _of(LARGEST_INT, "a run for which --max-memory is not given", "E602", size=True)
    axis_elements: int = _of(2**31, "elements of an axis that is transformed (DFT, STFT)", "E306")
    drawn_elements: int = _of(2**33, "random numbers that a layer draws", "E306")
    random_weights: int = _of(2**30, "elements of a tensor for --weights random")
    boxes: int = _of(2**16, "boxes of a cell (PriorBox)", "E210")
    samples: int = _of(2**10, "samples of a bin along an axis (PSROIPooling)", "E210")
    iterations: int = _of(262_144, "iterations of a loop", "E602")
    work: int = _of(
        2**27, "units of work of a command: bytes of folded constants, and more", "E602"
    )
    reports: int = _of(100, "diagnostics of one code that are printed in full")

    def __post_init__(self) -> None:
        for each in fields(self):
            value, most = getattr(self, each.name), each.metadata["most"]
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
                raise ValueError(f"{each.name}={value!r} is not a number from 0 to {most:,}")

    @contextmanager
    def applied(self) -> Iterator[Limits]:
        """Apply these limits inside, also in threads that are started there."""
        _hand_on()
        token = _CURRENT.set(self)
        try:
            yield self
        finally:
            _CURRENT.reset(token)


_CURRENT: ContextVar[Limits] = ContextVar("limits")
_DEFAULT = Limits()
_STARTED: WeakKeyDictionary[Thread, Limits] = WeakKeyDictionary()


@cache
def _hand_on() -> None:
    """Let threads begin with the limits in force where they are started; their context is empty."""
    start = Thread.start

    @wraps(start)
    def started(thread: Thread) -> None:
        if current() is not _DEFAULT:
            _STARTED[thread] = current()
        start(thread)

    Thread.start = started  # type: ignore[method-assign, assignment]


_MOST: dict[str, int] = {f.name: f.metadata["most"] for f in fields(Limits)}


def current() -> Limits:
    """Return the limits in force."""
    found = _CURRENT.get(None)
    return found or (_STARTED.get(current_thread(), _DEFAULT) if _STARTED else _DEFAULT)


def raise_hint(name: str) -> str:
    """Return a hint that says how to raise a limit."""
    if getattr(current(), name) == _MOST[name] < LARGEST_INT:
        return f"irdeconv does not compute with more than {_MOST[name]:,}"
    return f"if you trust the file, allow more: --limit {name}=N"


def table() -> list[dict[str, Any]]:
    """Return every limit in force: its name, value, default, subject and code."""
    now = current()
    return [
        {"name": f.name, "value": getattr(now, f.name), "default": f.default, **f.metadata}
        for f in fields(Limits)
    ]


def shown(row: dict[str, Any]) -> str:
    """Return the value of a row of the table: `2 GiB`, `1,000,000`, `none`."""
    value: int = row["value"]
    if value == LARGEST_INT:
        return "none"
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if row["bytes"] and value and value % 2**power == 0:
            return f"{value >> power:,} {unit}"
    return f"{value:,}{' bytes' if row['bytes'] else ''}"


def setting(text: str) -> tuple[str, int]:
    """Parse `layers=2000000`, `xml_bytes=4G`, `memory=none`; ValueError."""
    name, equals, amount = text.partition("=")
    names = list(_MOST)
    limit = name.strip().replace("-", "_")
    if not equals and limit in names:
        raise ValueError(f"{limit} needs a number: {limit}=N")
    if not equals or limit not in names:
        hint = did_you_mean(limit, names) or "irdeconv doctor --limits lists them"
        raise ValueError(f'"{text}" is not NAME=N with the name of a limit; {hint}')
    most = _MOST[limit]
    if amount.strip().lower() == "none" and most == LARGEST_INT:
        return limit, most
    match = _AMOUNT.fullmatch(amount.strip())
    if match is None:
        raise ValueError(f'"{amount}" is not a number such as 100, 512M or 2G, or none')
    whole, part, unit = match[1].replace(",", ""), match[2] or "", match[3].upper()
    value = int(Fraction(whole + part) * 1024 ** " KMGT".index(unit or " "))
    if value > most:
        none = "; none is no limit" if most == LARGEST_INT else ""
        raise ValueError(f"{amount} is above {most:,}{none}")
    return limit, value


def of_environment() -> list[tuple[str, int]]:
    """Return the settings of `IRDECONV_LIMITS` (`layers=2000000, xml_bytes=4G`); ValueError."""
    parts = re.split(r",(?![0-9])", os.environ.get(ENVIRONMENT, ""))
    try:
        return [setting(part) for part in parts if part.strip()]
    except ValueError as e:
        raise ValueError(f"{ENVIRONMENT}: {e}") from None


def of_settings(settings: Iterable[tuple[str, int]]) -> Limits:
    """Return the limits of some settings; the last one of a name counts."""
    return Limits(**dict(settings))
