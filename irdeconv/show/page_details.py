"""Details of single layers on the page: deconvolutions, constants, overlays, values of a run.

Pictures and overlap maps of axes are left out: the browser makes them of the integers of an axis.

Values of a run are extremes, histograms, and tensors as small pictures of 8 bits. Arrays are read
in small parts. A pixel is the mean of the elements that it covers: 0 if one of them is not finite,
otherwise 1 to 255 from the least to the largest number of its channel.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from html import unescape
from typing import Any, Literal

import numpy as np

from irdeconv.base import work
from irdeconv.base.errors import IrdeconvError, OpError
from irdeconv.base.json_form import json_form
from irdeconv.base.limits import current, raise_hint
from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.op import Op, attributes
from irdeconv.ir.spec import Array, is_static
from irdeconv.ops.basic import Const, Opaque
from irdeconv.ops.bodies import bodies_of
from irdeconv.rewrite.builder import NodeBudget
from irdeconv.rewrite.lower_deconv import LoweringReport, LoweringRequest, lower_for
from irdeconv.rewrite.planning import FormCost
from irdeconv.show import explanation
from irdeconv.show.layers import LayerFacts

EXPLAINED = 1 << 17  # units of work for a deconvolution
PART_SIZE = 1 << 16  # elements that are float64 at a time


@dataclass(frozen=True, kw_only=True)
class ArrayStatistics:
    """Extremes, mean and counts; the first three are of the finite numbers, None without any.

    `bins` counts these in equal parts of the way from `low` to `high`, the last bin with its end;
    one bin if all are the same.
    """

    low: float | None = None
    high: float | None = None
    mean: float | None = None
    zeros: int = 0
    nan: int = 0
    infinite: int = 0
    bins: tuple[int, ...] = ()


def has_numbers(array: Array) -> bool:
    """Whether an array holds numbers at all: texts do not, and empty ones."""
    return bool(array.size) and array.dtype != object and array.dtype.kind not in "SUT"


def array_statistics(array: Array, bins: int = 0) -> ArrayStatistics:
    """Return the statistics of an array, in float64; empty ones if it has no numbers.

    Without `bins` the numbers are not counted by size.
    """
    if not has_numbers(array):
        return ArrayStatistics()
    nan = zeros = seen = 0
    low, high, mean = math.inf, -math.inf, 0.0
    for part in _parts(array):
        nan += int(np.isnan(part).sum())
        zeros += part.size - int(np.count_nonzero(part))
        finite = part[np.isfinite(part)]
        if not finite.size:
            continue
        low, high = min(low, float(finite.min())), max(high, float(finite.max()))
        share = finite.size / (seen + finite.size)
        mean = mean * (1 - share) + _mean(finite) * share
        seen += finite.size
    counts = ArrayStatistics(zeros=zeros, nan=nan, infinite=array.size - seen - nan)
    if not seen:
        return counts
    # The last digit of a mean may be rounded beyond the ends, even to infinity.
    mean = min(max(mean, low), high)
    counted = _histogram(array, low, high, bins, seen) if bins else ()
    return replace(counts, low=low, high=high, mean=mean, bins=counted)


def rounded(value: float, digits: int) -> float:
    """Return a number with fewer digits; the largest doubles are not rounded to infinity."""
    few = float(f"{value:.{digits}g}")
    return few if math.isfinite(few) else value


def _parts(array: Array) -> Iterator[Array]:
    """Yield all elements as float64, a part at a time; their order is that of memory."""
    for part in np.nditer(array, ["external_loop", "buffered"], order="K", buffersize=PART_SIZE):
        yield np.asarray(part).astype(np.float64)


def _mean(values: Array) -> float:
    # The sum of all may overflow although that of their shares does not.
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(values.mean())
        return mean if math.isfinite(mean) else float((values / values.size).sum())


def _histogram(array: Array, low: float, high: float, bins: int, seen: int) -> tuple[int, ...]:
    if low == high:
        return (seen,)
    # The width of the range may be more than a double holds, or less: powers of 2 are exact.
    power = -math.frexp(max(abs(low), abs(high)))[1]
    start, end = math.ldexp(low, power), math.ldexp(high, power)
    counts = np.zeros(bins, np.int64)
    for part in _parts(array):
        place = (np.ldexp(part[np.isfinite(part)], power) - start) / (end - start)
        counts += np.bincount(np.minimum((place * bins).astype(np.int64), bins - 1), minlength=bins)
    return tuple(map(int, counts))


Kind = Literal["maps", "colour", "lines"]


@dataclass(frozen=True)
class Level:
    """How large pictures may be: maps and lines of a tensor, and pixels of a side or a line."""

    channels: int
    side: int
    length: int
    colour: int


LEVELS = (
    Level(16, 64, 256, 256),
    Level(16, 48, 192, 192),
    Level(12, 32, 128, 128),
    Level(8, 24, 96, 96),
    Level(4, 24, 64, 64),
    Level(4, 16, 48, 48),
    Level(1, 16, 32, 32),
    Level(1, 8, 16, 16),
)


@dataclass(frozen=True)
class TensorPicture:
    """The first channels of a tensor, [channels, height, width]; NaN for each that is not finite.

    `total` counts all channels, `axes` says how the tensor was read, `size` is that of a channel
    before it was reduced.
    """

    kind: Kind
    axes: str
    total: int
    size: tuple[int, int]
    values: Array

    def at_most(self, level: Level) -> TensorPicture:
        """Return the picture reduced to a level; the same one if it is small enough."""
        return self if self.values.shape == self._shape(level) else self.read_at(level)

    def read_at(self, level: Level) -> TensorPicture:
        """Return the picture reduced to a level, of float64, with NaN for numbers not finite."""
        channels, height, width = self._shape(level)
        return replace(self, values=_reduced(self.values[:channels], height, width))

    def _shape(self, level: Level) -> tuple[int, int, int]:
        channels, height, width = self.values.shape
        if self.kind == "lines":
            return min(channels, level.channels), 1, min(width, level.length)
        most = level.colour if self.kind == "colour" else level.side
        scale = min(1.0, most / max(height, width))
        fewer = channels if self.kind == "colour" else min(channels, level.channels)
        return fewer, max(1, round(height * scale)), max(1, round(width * scale))

    @cached_property
    def ranges(self) -> list[tuple[float, float] | None]:
        """The least and largest number of each channel; of all together if they are colours."""
        whole = [self.values] * len(self.values) if self.kind == "colour" else [*self.values]
        finite = [v[np.isfinite(v)] for v in whole]
        return [(float(v.min()), float(v.max())) if v.size else None for v in finite]

    @property
    def facts(self) -> dict[str, Any]:
        """The facts about the picture on the page."""
        digits = [None if r is None else [rounded(v, 5) for v in r] for r in self.ranges]
        ranges = digits[:1] if self.kind == "colour" else digits
        keys = "kind axes total size shape ranges"
        return json_form(self, keys, shape=self.values.shape, ranges=ranges)


def picture(
    values: Array, level: Level = LEVELS[0], *, colour: bool = False
) -> TensorPicture | None:
    """Return a tensor of floating-point numbers as a picture; None if it is none.

    [N, C, H, W] are maps, [N, C, L] and shorter ones lines; of [N, C, D, H, W] the middle slice is
    taken, of a batch the first. 3 channels are a `colour` picture if the caller says so.
    """
    read = _read(values)
    if read is None:
        return None
    axes, channels = read
    total, height, width = channels.shape
    kind: Kind = "lines" if height == 1 else "colour" if colour and total == 3 else "maps"
    return TensorPicture(kind, axes, total, (height, width), channels).read_at(level)


def _read(values: Array) -> tuple[str, Array] | None:
    """Return how the axes are read, and [channels, height, width] of a batch's first element."""
    shape = values.shape
    if values.size < 2 or not 1 <= values.ndim <= 5:
        return None
    if values.ndim == 5:
        middle = shape[2] // 2
        return f"N,C,D,H,W at D = {middle}", values[0, :, middle]
    if values.ndim == 3:
        return "N,C,L", values[0][:, None, :]
    if values.ndim < 3:
        return ("N,L" if values.ndim == 2 else "L"), values.reshape(-1, 1, shape[-1])
    if shape[2] == shape[3] == 1:
        return "N,C,1,1", values[0].reshape(1, 1, -1)
    if shape[3] in (1, 3, 4) and shape[1] > 4 and shape[2] > 4:
        return "N,H,W,C", np.moveaxis(values[0], -1, 0)
    return ("N,C,1,W" if shape[2] == 1 else "N,C,H,W"), values[0]


def _reduced(values: Array, height: int, width: int) -> Array:
    """Return the means of the elements of each pixel, read in parts; whole elements count."""
    channels, rows, columns = values.shape
    wide = max(1, min(columns, PART_SIZE // channels))
    tall = max(1, PART_SIZE // (channels * wide))
    out = np.zeros((channels, height, width))
    down, along = _pixels(rows, height), _pixels(columns, width)
    for y in range(0, rows, tall):
        for x in range(0, columns, wide):
            part = values[:, y : y + tall, x : x + wide].astype(np.float64)
            part[~np.isfinite(part)] = np.nan
            part, top = _sums(part, 1, down[y : y + tall], rows, height)
            part, left = _sums(part, 2, along[x : x + wide], columns, width)
            out[:, top : top + part.shape[1], left : left + part.shape[2]] += part
    return out


def _pixels(whole: int, size: int) -> Array:
    """Return the pixel of each element of an axis."""
    return np.repeat(np.arange(size), np.diff(np.arange(size + 1) * whole // size))


def _sums(part: Array, axis: int, pixels: Array, whole: int, size: int) -> tuple[Array, int]:
    """Return the share of a part in the mean of each pixel, and the first of these pixels."""
    covered = np.diff(np.arange(size + 1) * whole // size)[pixels]
    starts = np.flatnonzero(np.diff(pixels, prepend=-1))
    # Divided first: a sum of large numbers may overflow.
    part = part / np.expand_dims(covered, [a for a in range(3) if a != axis])
    return np.add.reduceat(part, starts, axis), int(pixels[0])


def encoded(shown: TensorPicture) -> bytes:
    """Return the pixels as bytes, channel by channel and row by row."""
    out = np.zeros(shown.values.shape, np.uint8)
    for channel, (values, range) in enumerate(zip(shown.values, shown.ranges, strict=True)):
        if range is None:
            continue
        low, high = range
        scale = max(abs(low), abs(high)) or 1.0
        wide = high / scale - low / scale
        # Equal numbers are in the middle; NaN stays NaN.
        place = (values / scale - low / scale) / wide if wide else values * 0 + 0.5
        level = 1 + np.round(254 * place)
        out[channel] = np.where(np.isnan(level), 0, level).astype(np.uint8)
    return out.tobytes()


VALUE_BINS = 32
PICTURE_BYTES = 1_500_000  # of all pictures on a page, before base64


@dataclass(frozen=True, kw_only=True)
class TensorValues(ArrayStatistics):
    """The values of one tensor. Texts have a shape only."""

    shape: tuple[int, ...]
    element_type: str
    picture: TensorPicture | None = None

    @staticmethod
    def of(array: Array, level: Level = LEVELS[0], *, ends: bool = False) -> TensorValues:
        """Look at an array; those at the `ends` of a model may be pictures in colour."""
        seen = vars(array_statistics(array, VALUE_BINS))
        shown = picture(array, level, colour=ends) if has_numbers(array) else None
        dtype = str(array.dtype)
        return TensorValues(shape=array.shape, element_type=dtype, picture=shown, **seen)

    @property
    def non_finite(self) -> int:
        """The number of NaN and infinite values."""
        return self.nan + self.infinite

    @property
    def largest(self) -> float | None:
        """The largest absolute value; None if there is no number."""
        return None if self.low is None or self.high is None else max(abs(self.low), abs(self.high))

    def at_most(self, level: Level) -> TensorValues:
        """Return the same with a picture of at most that size."""
        return self if self.picture is None else replace(self, picture=self.picture.at_most(level))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        found = {k: v for k, v in vars(self).items() if k != "picture" and v not in (None, ())}
        found = {k: v for k, v in found.items() if v or k not in ("zeros", "nan", "infinite")}
        found |= {k: rounded(found[k], 7) for k in ("low", "high", "mean") if k in found}
        if self.picture is None:
            return found
        content = {"data": b64encode(encoded(self.picture)).decode("ascii"), **self.picture.facts}
        return {**found, "picture": content}


@dataclass
class ValueCollector:
    """Looks at every tensor of a run; `trace` is the function that `Plan.run` calls.

    Pictures that no longer fit on a page are reduced at once, so that little memory is in use.
    `level` is the largest size at which all fit.
    """

    graph: Graph
    found: dict[int, tuple[TensorValues, ...]] = field(default_factory=dict)
    level: Level = LEVELS[0]
    _pixels: int = 0

    def trace(self, node: Node, arrays: tuple[Array, ...]) -> None:
        """Look at the arrays that a node has computed."""
        if node.type != "Const":
            ends = node.type == "Parameter" or self._ends(node)
            self.found[node.id] = tuple(TensorValues.of(a, self.level, ends=ends) for a in arrays)
            self._pixels += _shown_pixels(self.found[node.id])
            if self._pixels > PICTURE_BYTES:
                self._reduce()

    def _ends(self, node: Node) -> bool:
        return any(self.graph.node(i).type == "Result" for i in self.graph.successors(node.id))

    def _reduce(self) -> None:
        """Reduce all pictures until they fit on a page."""
        for level in LEVELS[LEVELS.index(self.level) :]:
            self.level = level
            self.found = {i: tuple(t.at_most(level) for t in ts) for i, ts in self.found.items()}
            self._pixels = sum(map(_shown_pixels, self.found.values()))
            if self._pixels <= PICTURE_BYTES:
                return

    def to_dict(self, key: str) -> Mapping[str, Any]:
        """Return the JSON form by node key; `key` is that of the graph."""
        return {f"{key}/{i}": [t.to_dict() for t in ts] for i, ts in self.found.items()}

    def tensors(self, key: str) -> Iterator[tuple[str, TensorValues]]:
        """Yield every tensor with the key of its node."""
        for node, tensors in self.found.items():
            for one in tensors:
                yield f"{key}/{node}", one


def _shown_pixels(tensors: tuple[TensorValues, ...]) -> int:
    return sum(t.picture.values.size for t in tensors if t.picture is not None)


SHOWN_VALUES = 16  # a larger constant is summed up
HISTOGRAM_BINS = 24
HEIGHTS = "0123456789abcdefghijklmnopqrstuvwxyz"  # of a bin, the highest one z
LONGEST_TEXT = 200  # characters of the values of a constant of strings
ELEMENTS_READ = 1 << 25  # on a page; the constants after these are not looked at


@dataclass
class Budget:
    """How many elements may still be read."""

    left: int = ELEMENTS_READ

    def take(self, count: int) -> bool:
        """Whether so many more may be read."""
        fits = count <= self.left
        self.left -= count * fits
        return fits


def constant_detail(op: Const, budget: Budget) -> dict[str, Any] | None:
    """Return a constant's data for the page; None if they are missing or too large."""
    if not op.data.available or not is_static(op.shape) or not budget.take(math.prod(op.shape)):
        return None
    try:
        array = op.data.array()
    except (OpError, ValueError):  # the .bin is too short, or NumPy has no such array
        return None
    if array.size <= SHOWN_VALUES:
        values = array.ravel().tolist()
        texts = [f"{v:.6g}" if isinstance(v, float) else str(v) for v in values]
        return {"values": ", ".join(texts)[:LONGEST_TEXT]}
    if array.dtype == object or array.dtype.kind in "SUb":
        return None
    return _summary(array)


def _summary(array: Array) -> dict[str, Any]:
    """Return least, greatest and mean value, how many are 0 or not finite, and a histogram."""
    seen = array_statistics(array, HISTOGRAM_BINS)
    odd = seen.nan + seen.infinite
    if seen.low is None or seen.high is None or seen.mean is None:
        return {"odd": odd}
    ends = {"min": seen.low, "max": seen.high}
    whole = array.dtype.kind in "iu"
    # A digit for the height of each bin; a bin that is not empty has at least 1.
    digits = (HEIGHTS[-(-n * (len(HEIGHTS) - 1) // max(seen.bins))] for n in seen.bins)
    histogram = "".join(digits) if len(seen.bins) > 1 else ""
    counts = {"zeros": seen.zeros, "odd": odd, "histogram": histogram}
    return {
        **{k: int(v) if whole else rounded(v, 5) for k, v in ends.items()},
        "mean": rounded(seen.mean, 5),
        **{k: v for k, v in counts.items() if v},
    }


LONGEST_INFO = 300  # characters of one value
_ATTRIBUTE = re.compile(r"<attribute\b[^>]*>")
_FIELD = re.compile(r"""(?<!\w)(\w+)\s*=\s*["']([^"']*)["']""")
DRAWABLE = 1 << 20  # the numbers of an axis that the browser goes through one by one


def details_of(
    graphs: Mapping[str, Graph],
    report: LoweringReport | None = None,
    kinds: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the details of the layers of a page, by the keys of nodes.

    `graphs` are those of the page by key. A layer of "after" that is not in `kinds` is described
    with "before". "defaults" has those of attributes by the type and version of layers.
    """
    details: dict[str, dict[str, Any]] = {}
    defaults: dict[str, dict[str, str]] = {}
    costs: dict[str, tuple[FormCost, ...]] | None = None
    budget = Budget()
    for key, graph in graphs.items():
        for name, node, holder in _every(graph, key):
            if key == "after" and (kinds or {}).get(name, "same") == "same":
                continue
            kind = f"{node.type} {node.op.version}"
            if kind not in defaults:
                defaults[kind] = _defaults(node.op)
            detail: dict[str, Any] = {}
            if node.op.deconvolution:
                costs = _costs(graph, report) if costs is None else costs
                detail = _deconvolution(holder, node, costs.get(node.name, ()))
            elif isinstance(node.op, Const):
                detail = constant_detail(node.op, budget) or {}
            more = {"declared": _declared(node), "info": _info(node)}
            detail |= {k: v for k, v in more.items() if v}
            if detail:
                details[name] = detail
    return {"defaults": {k: texts for k, texts in defaults.items() if texts}, **details}


def _defaults(op: Op) -> dict[str, str]:
    """Return the texts of an operation's defaults; none for an unknown type."""
    if isinstance(op, Opaque):
        return {}
    usual = [a for a in attributes(type(op)).values() if not a.required and a.default is not None]
    return {a.xml: text for a in usual if (text := a.kind.format(a.default))}


def _declared(node: Node) -> list[str]:
    """Return the file's declarations of the outputs if inference differs from one."""
    pairs = zip(node.declared, node.specs or (), strict=False)
    differ = [(d.dtype, d.shape) != (s.dtype, s.shape) for d, s in pairs]
    return list(map(str, node.declared)) if any(differ) else []


def _info(node: Node) -> dict[str, str]:
    """Return the runtime information that the file has of a layer, but for its own name."""
    texts = {}
    for element in _ATTRIBUTE.findall(node.rt_info or ""):
        fields = {k: unescape(v) for k, v in _FIELD.findall(element)}
        name, value = fields.get("name", ""), fields.get("value", "")
        if name and value != node.name:
            texts[name] = value[:LONGEST_INFO]
    return texts


def _costs(graph: Graph, report: LoweringReport | None) -> dict[str, tuple[FormCost, ...]]:
    """Return the costs of all forms by layer; none if the graph cannot be lowered."""
    if report is None or all(len(r.costs) < 2 for r in report):
        try:
            request = LoweringRequest.of(None, None, explain_costs=True)
            budget = NodeBudget(current().lowered_total)
            report = lower_for(graph, request, budget, costs_only=True).report
        except IrdeconvError:
            return {}
    return {r.name: r.costs for r in report}


def _deconvolution(graph: Graph, node: Node, costs: tuple[FormCost, ...]) -> dict[str, Any]:
    if not work.room(EXPLAINED, whole=True):
        return {"explain": f"It takes more than {work.limit_text()}; {raise_hint('work')}"}
    # The drawing in letters gives way to the drawn one.
    e = replace(explanation.explain_layer(graph, node), picture=())
    rows = {"costs": list(map(_cost, costs))} if costs else {}
    return {"explain": str(explanation.Explanation((e,))), **_axes(e), **rows}


def _axes(e: explanation.LayerExplanation) -> dict[str, Any]:
    """Return the numbers of every axis, an open size as text, and the overlap map in sentences."""
    axes = explanation.anatomies(e)
    if not axes:
        return {}
    rows: list[list[int | str]] = [[*astuple(a)] for a in axes]
    for row, equation in zip(rows, e.axes, strict=True):
        row[0] = equation.size if isinstance(equation.size, int) else str(equation.size)
    drawable = all(abs(n) < DRAWABLE for row in rows for n in row if not isinstance(n, str))
    return {"overlap": explanation.overlap(e).sentences(), **({"axes": rows} if drawable else {})}


def _cost(row: FormCost) -> dict[str, Any]:
    """Return the row of a form, without empty values."""
    c = row.cost
    keys = "macs bytes scratch nodes wasted"
    numbers = {} if c is None else json_form(c, keys, wasted=round(c.wasted, 3))
    said = {"refused": row.refused, "chosen": row.chosen, "assumed": row.assumed}
    return {"form": row.form, **numbers, **{k: v for k, v in said.items() if v}}


def _every(graph: Graph, key: str) -> Iterator[tuple[str, Node, Graph]]:
    """Yield every layer with its key and graph, those in bodies included."""
    for node in graph.nodes():
        name = f"{key}/{node.id}"
        yield name, node, graph
        for body in bodies_of(node):
            yield from _every(body.graph, f"{name}/{body.tag}")


Scale = Literal["log", "linear"]


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """A number of each layer, by node key ("before/12"); None is an unknown one.

    Instead of `values`, `fact` names a fact of every layer that the page has anyhow. `unit` "B" and
    "s" get prefixes. `lines` are sentences about a layer, `marks` a word about those that need a
    look, which the graph shows as a sign. A layer that is on both sides of a page needs to be named
    on one. `first` is the layer to begin with; an overlay that is `shown` is painted at first.
    """

    key: str
    title: str
    unit: str = ""
    scale: Scale = "log"
    fact: str | None = None
    values: Mapping[str, float | None] = field(default_factory=dict)
    lines: Mapping[str, Sequence[str]] = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict)
    first: str | None = None
    shown: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, which has no infinity: that is the text "Infinity"."""
        values = {k: _number(v) for k, v in self.values.items()}
        lines = {k: [*v] for k, v in self.lines.items()}
        content = {**vars(self), "values": values, "lines": lines, "marks": dict(self.marks)}
        return {k: v for k, v in content.items() if v not in (None, {}, "", False)}


FACTS = (
    Overlay(key="macs", title="MACs", fact="macs"),
    Overlay(key="memory", title="memory", unit="B", fact="memory"),
    Overlay(key="parameters", title="parameters", fact="parameters"),
)


def memory(facts: LayerFacts) -> int | None:
    """Return the bytes of a layer's outputs and of the constants that reach it.

    A constant counts for its readers; by itself it takes its stored bytes. A Result
    shares the memory of the tensor that it names.
    """
    if facts.constant:
        return facts.bytes
    if facts.type == "Result":
        return 0
    sizes = [output.spec.nbytes for output in facts.outputs]
    known = [size for size in sizes if size is not None]
    return sum(known) + facts.bytes if len(known) == len(sizes) else None


def _number(value: float | None) -> float | str | None:
    if value is None or math.isnan(value):
        return None
    # Four digits are more than a colour or a label shows.
    finite = value if isinstance(value, int) else rounded(value, 4)
    return "Infinity" if math.isinf(value) else finite
