"""The cases of a suite: layers, names, order.

Packaged grids cross the values of every attribute of every dialect, so that every pair of values
that may occur together does (covering arrays). Others are layers at the limits, and one
deconvolution of each of several published networks.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from irdeconv.base.errors import did_you_mean, misused
from irdeconv.ir.attributes import Ints
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.spec import Array
from irdeconv.ops.basic import Const, Parameter, Result
from irdeconv.verify.suite_layer import DIALECTS, OWN, TYPES, Refused, SuiteLayer, layer_of, misfit


class EdgeCase(NamedTuple):
    """A row by name, its purpose, and the array that gets an infinity and a NaN, if any."""

    name: str
    tests: str
    row: dict[str, Any]
    spoil: str | None = None


def _edge(name: str, tests: str, spoil: str | None = None, **row: Any) -> EdgeCase:
    return EdgeCase(name, tests, row, spoil)


_SPREAD = (
    "; the definition multiplies no inserted zero, so more NaN than expected come of 0 * infinity"
)
EDGES = (
    _edge("kernel-below-stride", "outputs that no tap reaches are 0 (or the bias)", kernel=2,
          strides=3, bias=False),
    _edge("kernel-below-stride-bias", "outputs that no tap reaches hold the bias", kernel=2,
          strides=3, bias=True),
    _edge("kernel-1", "a kernel of size 1 between inserted zeros", kernel=1, strides=2),
    _edge("kernel-1-stride-1", "a kernel of size 1 at stride 1: a matrix product", kernel=1,
          strides=1, channels=5, outputs=4),
    _edge("kernel-1-shifted", "a kernel of size 1 at stride 1, moved by its pads while the size "
          "stays", kernel=1, strides=1, pads_begin=1, output_shape=(4, 5, 3)),
    _edge("size-1", "a single position", size=1, kernel=4, strides=2, pads_begin=1, pads_end=1),
    _edge("empty-batch", "no data at all: an output without elements", batch=0),
    _edge("empty-axis", "an axis without data still gives an output, which is 0", size=(0, 4, 3),
          kernel=4, strides=2),
    _edge("output-padding", "output_padding of stride - 1: rows at the end, not at the begin",
          kernel=3, strides=3, output_padding=2, pads_begin=1, pads_end=1),
    _edge("output-padding-alone", "output_padding beyond the last tap: rows of zeros", kernel=2,
          strides=3, output_padding=(2, 1, 2)),
    _edge("same-upper-odd", "which side gets the odd element under same_upper", kernel=5,
          strides=2, auto_pad="same_upper"),
    _edge("same-lower-odd", "which side gets the odd element under same_lower", kernel=5,
          strides=2, auto_pad="same_lower"),
    _edge("same-upper-shape", "same_upper with an output_shape and an odd total", kernel=4,
          strides=2, auto_pad="same_upper", output_shape="smaller"),
    _edge("same-lower-shape", "same_lower with an output_shape and an odd total", kernel=4,
          strides=2, auto_pad="same_lower", output_shape="smaller"),
    _edge("same-short-kernel", "same_upper where the kernel is shorter than the stride", kernel=1,
          strides=3, auto_pad="same_upper"),
    _edge("shape-above-scatter", "an output_shape above the scatter: zeros at the end", kernel=3,
          strides=3, output_shape="larger"),
    _edge("pads-beyond-kernel", "pads that cut off more than the kernel reaches", kernel=3,
          size=(7, 8, 6), pads_begin=6, pads_end=5),
    _edge("pads-at-one-end", "pads at the begin only", kernel=4, pads_begin=(2, 1, 3)),
    _edge("negative-pads", "negative pads: zeros around the scatter", pads_begin=(-2, 0, -1),
          pads_end=(-1, -3, 0)),
    _edge("groups-unequal", "groups of 2 inputs and 3 outputs, each a run of channels", groups=3,
          channels=6, outputs=9),
    _edge("groups-many", "16 groups", groups=16, channels=16, outputs=32),
    _edge("depthwise", "one channel per group", groups=8, channels=8, outputs=8),
    _edge("depthwise-multiplier", "one input and 3 outputs per group", groups=4, channels=4,
          outputs=12),
    _edge("one-channel", "one channel in, one out", channels=1, outputs=1),
    _edge("channels-odd", "channel counts that no vector width divides", channels=37, outputs=29,
          size=3),
    _edge("large-stride", "a stride of 16", kernel=3, strides=16, size=3),
    _edge("large-kernel", "a kernel of 17 over little data", axes=1, kernel=17, strides=4, size=3),
    _edge("large-dilation", "taps 9 apart", kernel=3, dilations=9, size=3),
    _edge("dilation-and-stride", "taps 3 apart at stride 2: they share no residue pattern",
          kernel=3, dilations=3, strides=2, pads_begin=2, pads_end=1),
    _edge("unlike-axes", "everything differs from axis to axis, in 3D", axes=3, kernel=(2, 3, 4),
          strides=(3, 1, 2), dilations=(1, 2, 1), pads_begin=(1, 0, 2), pads_end=(0, 2, 1),
          size=(3, 5, 4)),
    _edge("one-axis", "1D, as in audio", axes=1, kernel=16, strides=8, pads_begin=4, pads_end=4,
          size=9),
    _edge("filter-input", "a filter known only at run time", filter="input", groups=2, channels=4,
          outputs=6),
    _edge("batch", "several items", batch=3, size=3),
    _edge("i8", "data of 8 bits; sums stay below 2^7", element_type="i8", channels=4, outputs=4,
          kernel=2, strides=2),
    _edge("nonfinite-data", "an infinity and a NaN in the data" + _SPREAD, "x", size=(5, 6, 4)),
    _edge("nonfinite-filter", "an infinity and a NaN in the filter" + _SPREAD, "filter",
          size=(5, 6, 4)),
)  # fmt: skip


_SMALL = {1: 12, 2: 6, 3: 4}  # elements of an axis, by the number of axes
_FEW_CHANNELS = 4  # of a group


@dataclass(frozen=True)
class NetworkLayer:
    """A layer of a network: `inputs` N, C, *I, `outputs` M, the same K, S, P on all axes."""

    network: str
    inputs: Ints
    outputs: int
    kernel: int
    stride: int
    pad: int = 0
    output_padding: int = 0
    groups: int = 1

    @property
    def slug(self) -> str:
        """The network's name as part of a file's name."""
        return re.sub(r"[^a-z0-9]+", "-", self.network.lower()).strip("-")

    def row(self, *, full_size: bool) -> dict[str, Any]:
        """Return the layer; unless at full size with few channels and elements."""
        batch, channels, *size = self.inputs
        groups, outputs = self.groups, self.outputs
        if not full_size:
            batch, groups = min(batch, 2), min(groups, 3)
            size = [min(n, _SMALL[len(size)]) for n in size]
            channels = groups * min(channels // self.groups, _FEW_CHANNELS)
            outputs = groups * min(outputs // self.groups, _FEW_CHANNELS)
        return {
            "axes": len(size),
            "batch": batch,
            "size": tuple(size),
            "groups": groups,
            "channels": channels,
            "outputs": outputs,
            "kernel": self.kernel,
            "strides": self.stride,
            "pads_begin": self.pad,
            "pads_end": self.pad,
            "output_padding": self.output_padding,
        }


NETWORKS = (
    NetworkLayer("DCGAN, 64 pixels", (1, 512, 4, 4), 256, 4, 2, 1),
    NetworkLayer("pix2pix, U-Net 256", (1, 1024, 16, 16), 256, 4, 2, 1),
    NetworkLayer("CycleGAN, ResNet generator", (1, 256, 64, 64), 128, 3, 2, 1, 1),
    NetworkLayer("StyleGAN2, modulated, batch 2 as groups", (1, 1024, 32, 32), 1024, 3, 2, 0, 0, 2),
    NetworkLayer("U-Net", (1, 1024, 28, 28), 512, 2, 2),
    NetworkLayer("FCN-32s, bilinear per class", (1, 21, 16, 16), 21, 64, 32, 0, 0, 21),
    NetworkLayer("FCN-8s, bilinear per class", (1, 21, 34, 34), 21, 4, 2, 0, 0, 21),
    NetworkLayer("DeconvNet, deconv1_1", (1, 64, 224, 224), 64, 3, 1, 1),
    NetworkLayer("FSRCNN x3", (1, 56, 85, 85), 1, 9, 3, 4, 2),
    NetworkLayer("waifu2x upconv_7", (1, 256, 60, 60), 3, 4, 2, 3),
    NetworkLayer("Real-CUGAN x3", (1, 64, 100, 100), 3, 5, 3, 2),
    NetworkLayer("DBNet, text detection", (1, 64, 160, 160), 64, 2, 2),
    NetworkLayer("SimpleBaseline, pose", (1, 2048, 8, 6), 256, 4, 2, 1),
    NetworkLayer("CenterNet, ResNet-18", (1, 512, 16, 16), 256, 4, 2, 1),
    NetworkLayer("Mask R-CNN, mask head, 8 regions", (8, 256, 14, 14), 256, 2, 2),
    NetworkLayer("PointPillars, third block", (1, 256, 62, 54), 128, 4, 4),
    NetworkLayer("FlowNetS, deconv5", (1, 1024, 6, 8), 512, 4, 2, 1),
    NetworkLayer("HiFi-GAN V1, first", (1, 512, 32), 256, 16, 8, 4),
    NetworkLayer("WaveGAN, first", (1, 1024, 16), 512, 25, 4, 11, 1),
    NetworkLayer("WaveGlow, mel upsampling", (1, 80, 63), 80, 1024, 256),
    NetworkLayer("Demucs, last decoder", (1, 64, 2048), 8, 8, 4),
    NetworkLayer("3D U-Net", (1, 512, 9, 9, 7), 512, 2, 2),
    NetworkLayer("V-Net", (1, 256, 8, 8, 4), 128, 2, 2),
)


Row = dict[str, Any]
Allows = Callable[[Mapping[str, Any]], bool]
"""Whether a row may be, of which some factors may have no value yet: False is final."""

TRIES = 3000  # partial rows that are looked at to complete one
_Choice = tuple[str, int]  # a factor and the position of its value


@dataclass(frozen=True)
class Covering:
    """The rows, and the combinations of values for which no row was found."""

    rows: list[Row]
    impossible: list[Row]


def covering(factors: Mapping[str, Sequence[Any]], allows: Allows, strength: int = 2) -> Covering:
    """Return rows with every allowed combination of `strength` values, greedily."""
    return _Greedy(factors, allows, strength).run()


@dataclass
class _Greedy:
    factors: Mapping[str, Sequence[Any]]
    allows: Allows
    strength: int
    open: dict[frozenset[_Choice], tuple[_Choice, ...]] = field(default_factory=dict)
    tries: int = 0

    def run(self) -> Covering:
        for names in itertools.combinations(self.factors, self.strength):
            for places in itertools.product(*(range(len(self.factors[n])) for n in names)):
                choices = tuple(zip(names, places, strict=True))
                self.open[frozenset(choices)] = choices
        found = Covering([], [])
        while self.open:
            key, wanted = next(iter(self.open.items()))
            self.tries = TRIES
            chosen = self._complete(dict(wanted))
            if chosen is None:
                del self.open[key]
                found.impossible.append(self._row(dict(wanted)))
                continue
            for target in itertools.combinations(chosen.items(), self.strength):
                self.open.pop(frozenset(target), None)
            row = self._row(chosen)
            found.rows.append({name: row[name] for name in self.factors})
        return found

    def _row(self, chosen: Mapping[str, int]) -> Row:
        return {name: self.factors[name][place] for name, place in chosen.items()}

    def _complete(self, chosen: dict[str, int]) -> dict[str, int] | None:
        """Choose the other values, those first that cover most; None if there is no way."""
        self.tries -= 1
        if self.tries < 0 or not self.allows(self._row(chosen)):
            return None
        name = next((n for n in self.factors if n not in chosen), None)
        if name is None:
            return chosen
        places = range(len(self.factors[name]))
        for place in sorted(places, key=lambda p: -self._gain(chosen, (name, p))):
            found = self._complete({**chosen, name: place})
            if found is not None:
                return found
        return None

    def _gain(self, chosen: Mapping[str, int], new: _Choice) -> int:
        others = itertools.combinations(chosen.items(), self.strength - 1)
        return sum(frozenset((new, *rest)) in self.open for rest in others)


_UNEVEN = {"kernel": (4, 2, 3), "strides": (2, 3, 1), "dilations": (1, 3, 2)}
_SHARED: dict[str, tuple[Any, ...]] = {
    "axes": (2, 1, 3),
    "batch": (1, 2),
    "groups": (1, 2, 6),
    "channels": (6, 12),
    "outputs": (6, 12),
    "kernel": (3, 1, 2, _UNEVEN["kernel"]),
    "strides": (2, 1, 3, _UNEVEN["strides"]),
    "dilations": (1, 2, _UNEVEN["dilations"]),
    "auto_pad": ("explicit", "same_upper", "same_lower", "valid"),
    "pads_begin": (0, 1, (1, 0, 2), 5),
    "pads_end": (0, 1, (0, 2, 1), 5),
    "output_padding": (0, 1, (1, 0, 1)),
    "output_shape": ("none", "full", "smaller", "larger"),
    "element_type": ("f32", "f16"),
    "filter": ("constant", "input"),
    "bias": (False, True),
}
CHOSEN = {n: _SHARED[n] for n in ("auto_pad", "filter", "bias")}  # there are no other values
_OF: dict[str, dict[str, tuple[Any, ...]]] = {
    "openvino": {
        "pads_begin": (0, 1, (1, 0, 2), 5, (-1, 0, -2)),
        "pads_end": (0, 1, (0, 2, 1), 5, (0, -2, -1)),
        "element_type": ("f32", "f16", "bf16", "i32"),
    },
    "onednn": {"pads_end": (0, 1, (0, 2, 1), 5, -1)},
}


def factors(dialect: str) -> dict[str, tuple[Any, ...]]:
    """Return the values of every attribute that the grid crosses, the usual one first."""
    return {name: values for name, values in _possible(dialect).items() if len(values) > 1}


def fixed(dialect: str) -> dict[str, Any]:
    """Return the attributes that have one value in the grid."""
    return {name: values[0] for name, values in _possible(dialect).items() if len(values) == 1}


@cache
def _possible(dialect: str) -> dict[str, tuple[Any, ...]]:
    """Return the values that some layer of the dialect has, with at most one other unusual one."""
    every = _SHARED | {"element_type": TYPES[dialect]} | _OF.get(dialect, {}) | OWN[dialect]
    usual = {name: values[0] for name, values in every.items()}
    others = [{}, *({name: v} for name, values in every.items() for v in values)]
    return {
        name: tuple(
            v for v in values if any(not misfit(dialect, {**usual, **o, name: v}) for o in others)
        )
        for name, values in every.items()
    }


@cache
def grid(dialect: str, strength: int) -> Covering:
    """Return the rows in which every value (1) or every allowed pair of values (2) occurs."""
    return cover(dialect, factors(dialect), fixed(dialect), strength)


def cover(
    dialect: str,
    values: Mapping[str, Sequence[Any]],
    plain: Mapping[str, Any],
    strength: int | None,
) -> Covering:
    """Cross attributes of a dialect, all with all without a strength; all rows have `plain`."""

    @cache
    def wrong(*row: Any) -> tuple[Any, ...]:
        return misfit(dialect, {**plain, **dict(zip(values, row, strict=True))})

    def allows(row: Mapping[str, Any]) -> bool:
        """Whether the class accepts a row, with some values of the factors that it has not.

        These begin as the usual ones. One after another takes the value that leaves least wrong.
        """
        full = {name: row.get(name, some[0]) for name, some in values.items()}
        missing = {name: some for name, some in values.items() if name not in row}
        while why := wrong(*full.values()):
            tried = [(n, {**full, n: value}) for n, some in missing.items() for value in some]
            found = [(wrong(*other.values()), n, other) for n, other in tried]
            better = [one for one in found if one[0] != why and one[0][:2] <= why[:2]]
            if not better:
                return False
            _, name, full = min(better, key=lambda one: one[0])
            del missing[name]
        return True

    most = len(values)
    found = covering(values, allows, most if strength is None else min(strength, max(most, 1)))
    impossible = [] if strength is None else found.impossible
    return Covering([{**plain, **row} for row in found.rows], impossible)


SETS = {
    "quick": "every value of every attribute once",
    "pairs": "every pair of values of two attributes",
    "edges": "layers at the limits",
    "networks": "a layer of each of 23 published networks",
}
FULL = ("pairs", "edges", "networks")


@dataclass(frozen=True, kw_only=True)
class SuiteCase:
    """A layer with a name that files may have; `spoil` names the array that gets an infinity."""

    name: str
    set: str
    tests: str
    layer: SuiteLayer
    spoil: str | None = None


def chosen_sets(names: Sequence[str]) -> list[str]:
    """Return the sets of some names, "full" being all but quick; UsageError."""
    return _chosen("set", names, {name: (name,) for name in SETS} | {"full": FULL})


def chosen_dialects(names: Sequence[str]) -> list[str]:
    """Return the dialects of some names, "all" being all of them; UsageError."""
    return _chosen("dialect", names, {name: (name,) for name in DIALECTS} | {"all": (*DIALECTS,)})


def _chosen(kind: str, names: Sequence[str], meanings: Mapping[str, tuple[str, ...]]) -> list[str]:
    for name in names:
        if name not in meanings:
            message = f'there is no {kind} "{name}": {", ".join(meanings)}'
            raise misused(message, did_you_mean(name, meanings))
    return list(dict.fromkeys(member for name in names for member in meanings[name]))


def packaged(
    dialects: Sequence[str], sets: Sequence[str], *, full_size: bool = False
) -> list[SuiteCase]:
    """Return the packaged cases of some dialects and sets."""
    makers: dict[str, Callable[[str], Iterable[SuiteCase]]] = {
        "quick": lambda d: _crossed(d, "quick", 1),
        "pairs": lambda d: _crossed(d, "pairs", 2),
        "edges": _edges,
        "networks": lambda d: _networks(d, full_size),
    }
    return [case for d in dialects for s in sets for case in makers[s](d)]


def selected(cases: Sequence[SuiteCase], patterns: Sequence[str]) -> list[SuiteCase]:
    """Return the cases whose name fits one of the patterns (`*`, `?`); all without a pattern."""
    found = [c for c in cases if not patterns or any(fnmatchcase(c.name, p) for p in patterns)]
    if not found:
        raise misused(f"no case is named like {', '.join(patterns)}", "suite list shows the names")
    return found


def _crossed(dialect: str, name: str, strength: int) -> Iterator[SuiteCase]:
    for number, row in enumerate(grid(dialect, strength).rows, 1):
        layer = layer_of(dialect, row, grow=True)
        tests = SETS[name]
        yield SuiteCase(name=f"{dialect}-{name}-{number:03}", set=name, tests=tests, layer=layer)


def _first(dialect: str, *rows: Row) -> SuiteLayer | None:
    """Return the layer of the first row that the dialect has, None if it has none."""
    for row in rows:
        with suppress(Refused):
            return layer_of(dialect, row)
    return None


def _edges(dialect: str) -> Iterator[SuiteCase]:
    for edge in EDGES:
        layer = _first(dialect, edge.row)
        if layer is None:
            continue
        name = f"{dialect}-edge-{edge.name}"
        yield SuiteCase(name=name, set="edges", tests=edge.tests, layer=layer, spoil=edge.spoil)


def _networks(dialect: str, full_size: bool) -> Iterator[SuiteCase]:
    for network in NETWORKS:
        row = network.row(full_size=full_size)
        # Without output_padding, a smaller pad at the end does the same.
        smaller = {"output_padding": 0, "pads_end": row["pads_end"] - row["output_padding"]}
        layer = _first(dialect, row, row | smaller)
        if layer is None:
            continue
        size = "" if full_size else ", with few channels and elements"
        tests = f"{network.network}: K {network.kernel}, S {network.stride}, P {network.pad}{size}"
        name = f"{dialect}-network-{network.slug}"
        yield SuiteCase(name=name, set="networks", tests=tests, layer=layer)


def graph_of(case: SuiteCase, inputs: dict[str, Array], constants: dict[str, Array]) -> Graph:
    """Return the model of a case in its own dialect: the layer `deconv`, the output `y`."""
    graph = Graph()
    graph.info.name = case.name
    values = []
    for port in case.layer.port_shapes:
        dtype = ELEMENT_TYPES["i64"] if port == "output_shape" else case.layer.dtype
        if port in inputs:
            op: Any = Parameter(shape=inputs[port].shape, element_type=dtype)
        else:
            array = np.ascontiguousarray(constants[port])
            op = Const(element_type=dtype, shape=array.shape, data=ArrayData.of(array, dtype))
        made = graph.add(op, name=port)
        made.tensor_names = ((port,),)
        values.append(Value(made.id))
    node = graph.add(case.layer.op, values, name="deconv")
    node.tensor_names = (("y",),)
    graph.add(Result(), [Value(node.id)], name="y/sink_port_0")
    return graph
