"""Raising: every decomposition of one deconvolution becomes one again; a report has the reasons.

With the prover `unproved` only proved deconvolutions are kept; all others are put back. To the
proof the raised graph is the original, the given graph its lowering.

A resize is a depthwise deconvolution of stride S if its output o is the sum over i of h[o - S*i]
x[i] along each axis. Copies by whole factors are, at every size. With linear weights a resize
repeats the border, while a deconvolution continues with zeros, so the sizes decide: aligned corners
with O = S(I-1) + 1 end with the data. Such a resize is found and proved at exact sizes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from functools import reduce
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

import numpy as np

from irdeconv.base import progress, work
from irdeconv.base.errors import OpError, count, did_you_mean, misused
from irdeconv.base.form_names import FALLBACK, PHASES
from irdeconv.base.hints import hinted
from irdeconv.base.json_form import Record
from irdeconv.base.markup import html_table, line
from irdeconv.base.tables import printable
from irdeconv.ir.dtypes import ElementType, of_numpy
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import require_fit
from irdeconv.ir.spec import Array, Spec, compatible, is_static
from irdeconv.kernels.interpolation import axis_weights, dense_matrix, nearest_of
from irdeconv.ops.basic import Convert, convert
from irdeconv.ops.dialect_openvino import BackpropData, backprop_data
from irdeconv.ops.elementwise import Add
from irdeconv.proof.definition import CONVOLUTIONS
from irdeconv.proof.model import Unproved, need
from irdeconv.rewrite import builder, emit
from irdeconv.rewrite.compressed_filters import constant
from irdeconv.rewrite.infer_specs import infer_specs, inferred, layer_count
from irdeconv.rewrite.standardize import with_split_pads
from irdeconv.verify.adapter import side_of
from irdeconv.verify.check import checked
from irdeconv.verify.raising_site import Decomposition, RaisingSite, TapAxis, known_type, spelled

PATTERNS = {
    FALLBACK: "zeros inserted into the data of a convolution",
    PHASES: "several convolutions joined along the channels, then interleaved in space",
    "depth-to-space": "a convolution, its channels then interleaved in space",
    "resize": "data enlarged by repeating elements, then a convolution",
    "upsample": "data enlarged by repeating or weighing neighbours, alone",
}
# A resize alone multiplies nothing: it becomes a deconvolution only for who asks for it.
USUAL = tuple(name for name in PATTERNS if name != "upsample")


class RaisedLayer(Record, keys="name type pattern reason macs_before ... attributes", repr=False):
    """The result for one decomposition."""

    name: str  # of the layer
    # of the deconvolution; of the convolution, or of the Concat of several, if it stays
    type: Annotated[str, str | None]
    pattern: str | None  # the kind of decomposition; null if it stays
    reason: str | None = None  # why it stays
    attributes: Annotated[tuple[tuple[str, str], ...], dict[str, str]] = ()  # of the deconvolution
    macs_before: int | None = None  # multiply-accumulates of the decomposition
    macs_raised: int | None = None  # multiply-accumulates of the deconvolution
    exact: bool = True  # whether no weight was rounded
    note: str | None = None  # how sums of weights round, if any are summed

    def __repr__(self) -> str:
        result = f"{self.pattern} -> {self.type}" if self.pattern else f"stays: {self.reason}"
        return line(self, self.name, result)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return super().to_dict() | {"attributes": dict(self.attributes)}


class RaisingReport(Record, repr=False):
    """One record per decomposition: the raised ones, then those that stay."""

    layers: tuple[RaisedLayer, ...]  # one for each decomposition

    @property
    def verdict(self) -> str:
        """One line: how many decompositions were raised."""
        if not self.layers:
            return "no decompositions, nothing to raise"
        done = sum(r.pattern is not None for r in self.layers)
        return f"{count(done, 'decomposition')} of {len(self.layers)} raised"

    def __repr__(self) -> str:
        return line(self, None, self.verdict)

    def _repr_html_(self) -> str:
        rows = [(r.name, r.pattern or "", r.type, r.reason or r.note or "") for r in self.layers]
        return html_table(self.verdict, ("layer", "pattern", "becomes", "remarks"), rows)

    def __iter__(self) -> Iterator[RaisedLayer]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __str__(self) -> str:
        rows = ((r, f"{r.pattern} -> {r.type}") for r in self.layers)
        lines = [f"{r.name}: {s}" if r.pattern else f"{r.name} stays: {r.reason}" for r, s in rows]
        return printable("\n".join(lines) or "no decompositions of deconvolutions")


@hinted
class Raised(NamedTuple):
    """The graph with deconvolutions and the report: `graph, report = ...`."""

    graph: Graph
    report: RaisingReport

    def __repr__(self) -> str:
        return line(self, self.graph.info.name, self.report.verdict, layer_count(self.graph))

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


CORES = (*CONVOLUTIONS, "Concat")
RAISED = 2**16  # units of work for an attempt


Prover = Callable[[Graph, Graph], Mapping[str, str]]


def raise_deconvolutions(
    graph: Graph, only: Collection[str] | None = None, prove: Prover | None = None
) -> Raised:
    """Return a copy of the graph in which decompositions are deconvolutions again.

    `only` names the patterns to look for, by default all but upsample. `prove(raised, source)`
    returns the deconvolutions that are not proved, with the reason; their decompositions stay.
    Raises UsageError for an unknown pattern, InferenceError if the graph does not fit together.
    """
    only = None if only is None else tuple(only)
    for name in only or ():
        if name not in PATTERNS:
            form = {"stacked": "depth-to-space"}.get(name, name)  # where stacked leaves its traces
            hint = did_you_mean(form, PATTERNS) or f"there are {', '.join(PATTERNS)}"
            raise misused(f'there is no pattern "{name}"', hint)
    wanted = frozenset(USUAL if only is None else only)
    source = inferred(graph)
    kept: dict[int, str] = {}
    while True:
        made = _RaisingAttempt(source, wanted, kept)
        refused = made.refused(source, prove)
        if not refused:
            return made.result()
        kept |= refused


class _RaisingAttempt:
    """One attempt: all decompositions are raised but those at `kept` cores, given with reasons."""

    def __init__(self, source: Graph, wanted: Collection[str], kept: Mapping[int, str]) -> None:
        self.graph = source.copy()
        self.layers: list[tuple[RaisedLayer, int | None]] = []  # and the new deconvolutions
        self.made: dict[int, int] = {}  # deconvolutions: their cores
        self._named = {n.id for n in source.nodes()}
        self._dead = self._named - self.graph.live()
        # Declarations of unknown operations are no evidence.
        infer_specs(self.graph, believe=False)
        types = (*CORES, "Interpolate") if "upsample" in wanted else CORES
        known = (n for n in source.topological() if known_type(n) in types)
        cores = [n for n in known if n.id not in self._dead]
        # Joined convolutions come before single ones, which may take a resize with them.
        cores.sort(key=lambda n: {"Concat": 0, "Interpolate": 2}.get(n.type, 1))
        for core in progress.each("raising", cores, name=attrgetter("name")):
            if core.id in kept:
                self.layers.append((RaisedLayer(core.name, core.type, None, kept[core.id]), None))
                continue
            while core.id in self.graph:  # the core's decomposition, then the one around the result
                node = self.graph.node(core.id)
                # Each time, the whole graph is searched for what nothing needs any more.
                work.take(RAISED + 256 * len(self.graph), f'to raise "{core.name}"')
                layer, made = _raise_one(self.graph, node, wanted, self._named)
                if layer is not None:
                    self.layers.append((layer, made))
                    builder.remove_dead(self.graph, self._dead)
                if made is None:
                    break
                self.made[made] = core.id
        builder.unique_names(self.graph, self._named)
        self.problems = [d for d in infer_specs(self.graph) if d.severity == "error"]
        self.graph.lint()
        # A deconvolution that another one covers as well is gone again.
        self.made = {i: core for i, core in self.made.items() if i in self.graph}

    def refused(self, source: Graph, prove: Prover | None) -> dict[int, str]:
        """Return the cores whose decompositions have to stay, and why."""
        if not self.made:
            return {}
        if self.problems:
            why = f"the raised graph would not fit together: {self.problems[0].message}"
            return dict.fromkeys(self.made.values(), why)
        unproved = prove(self.graph, source) if prove else {}
        names = {i: self.graph.node(i).name for i in self.made}
        return {self.made[i]: unproved[n] for i, n in names.items() if n in unproved}

    def result(self) -> Raised:
        """Return the graph and the report, raised layers first."""
        left = [r for r, made in self.layers if made is None or made in self.made]
        layers = sorted(left, key=lambda r: r.pattern is None)
        return Raised(self.graph, RaisingReport(tuple(layers)))


def _raise_one(
    graph: Graph, core: Node, wanted: Collection[str], named: set[int]
) -> tuple[RaisedLayer | None, int | None]:
    """Raise the decomposition of a core; return the record and the id of the new deconvolution.

    There is no record if nothing suggests a deconvolution. `named` gets the node that takes over
    a name.
    """
    try:
        resize = core.type == "Interpolate"
        found = upsampling(graph, core) if resize else RaisingSite(graph, core).best()
        if found is None or _pattern(core, found) not in wanted:
            return None, None
        return _replace(graph, core, found, named)
    except OpError as e:
        reason = f"the deconvolution would be wrong: {e}"
    except Unproved as e:
        reason = str(e)
    return RaisedLayer(core.name, core.type, None, reason), None


def _pattern(core: Node, decomposition: Decomposition) -> str:
    if core.type == "Interpolate":
        return "upsample"
    if decomposition.repeats:
        return "resize"
    if core.type == "Concat":
        return PHASES
    return "depth-to-space" if decomposition.interleaves else FALLBACK


def _replace(
    graph: Graph, core: Node, made: Decomposition, named: set[int]
) -> tuple[RaisedLayer, int | None]:
    """Put the deconvolution in the place of the last node of its decomposition.

    Raises OpError if it would not be a valid one, or OpenVINO would not accept it.
    """
    end = graph.node(made.end)
    names = ("strides", "pads_begin", "pads_end", "dilations", "output_padding")
    op = backprop_data(made.filter.shape[0])(**{name: getattr(made, name) for name in names})
    require_fit(op)  # of OpenVINO
    before = builder.products(graph, made.convolutions)
    change = builder.replace_node(graph, end, _building(made, op, end.spec()))
    if change.skipped:
        return RaisedLayer(core.name, core.type, None, change.skipped), None
    new = next(n for n in map(graph.node, change.made) if n.type == op.type)
    named.add(change.made[-1])
    if end.type in CONVOLUTIONS:
        new.name = new.name.replace(end.type, op.type)
    record = RaisedLayer(
        name=new.name if made.bias is None else end.name,
        type=op.type,
        pattern=_pattern(core, made),
        attributes=tuple(op.to_attributes().items()),
        macs_before=before,
        macs_raised=builder.products(graph, [new]),
        exact=made.exact,
        note=_note(made),
    )
    return record, new.id


def _building(
    made: Decomposition, op: BackpropData, wanted: Spec
) -> Callable[..., Value | emit.Skip]:
    """Return a function that adds the deconvolution and its bias for a value of spec `wanted`."""

    def build(_: Any, b: builder.GraphBuilder, *__: Any) -> Value | emit.Skip:
        filter = made.filter[0] if made.filter.shape[0] == 1 else made.filter
        y = b.add(op, made.data, _constant(b, filter, made.compressed))
        if not compatible(b.spec(y).shape, wanted.shape):
            return emit.Skip(f"the output would be {b.spec(y)} in the place of {wanted}")
        if made.bias is None:
            return y
        bias = made.bias.reshape(1, -1, *(1,) * len(made.strides))
        return b.add(Add(), y, b.const(bias))

    return build


def _constant(b: builder.GraphBuilder, filter: Array, compressed: ElementType | None) -> Value:
    """Return the filter as a constant, in the element type of a compressed one if it fits."""
    if compressed is not None:
        with np.errstate(all="ignore"):
            small = convert(filter, compressed)
        if np.array_equal(convert(small, of_numpy(filter.dtype)), filter):
            return b.keep(Convert(of_numpy(filter.dtype)), b.const(small))
    return b.const(filter)


def _note(made: Decomposition) -> str | None:
    """Describe the rounding of sums in the filter."""
    if made.summed == 1:
        return None
    count = f"{made.summed} filter elements"
    if made.exact:
        return f"up to {count} are summed, exactly; products are rounded after the sum, not before"
    return f"equal up to rounding: sums of up to {count} are rounded"


def unproved(raised: Graph, source: Graph) -> dict[str, str]:
    """Return the deconvolutions not proved equal to `source`, all if others differ; why."""
    before = {n.name for n in source.nodes() if n.op.deconvolution}
    new = [n for n in raised.nodes() if n.op.deconvolution and n.name not in before]
    report = checked(side_of(with_split_pads(raised)), side_of(with_split_pads(source)))
    if report.problems:
        return {n.name: f"it is not proved: {report.problems[0]}" for n in new}
    done = {c.layer: c for c in report.layers}
    out: dict[str, str] = {}
    for node in new:
        if any(n.type == "Interpolate" for n in source.find(node.name)):
            why = resize_unproved(raised, node, source)
            out |= {} if why is None else {node.name: f"it is not proved: {why}"}
            continue
        proof = done.get(node.name)
        if proof is None:
            out[node.name] = "it is not proved: the proof does not find it"
        elif proof.reason is not None:
            out[node.name] = f"it is not proved: {proof.reason}"
        elif not proof.every:
            out[node.name] = f"it is proved for {proof.proved}"
    return out


LARGEST_SIDE = 1 << 12  # positions of an axis, taps of a filter
SIDES_TOO_LARGE = "its axes are too large to be looked at"


def upsampling(graph: Graph, node: Node) -> Decomposition:
    """Return the deconvolution of an Interpolate; Unproved if it is none."""
    data = graph.inputs_of(node.id)[0]
    name, spec, out = f'Interpolate "{node.name}"', graph.spec(data), node.spec().shape
    shape, dtype = spec.shape, spec.dtype
    known = shape is not None and 3 <= len(shape) <= 5 and isinstance(shape[1], int)
    need(known, "the channels of the data are not known")
    if dtype is None or not dtype.is_real:
        raise Unproved(f"the data are {dtype}")
    if not is_static(shape) or not is_static(out):
        raise Unproved(f"{name} ends otherwise for other sizes: they are open")
    need(shape[:2] == out[:2], "it enlarges batch or channels")
    need(max(*shape[2:], *out[2:]) <= LARGEST_SIDE, SIDES_TOO_LARGE)
    weights, rule = _resized(graph, node, shape, out)
    lines = [_line(name, w, rule) for w in weights]
    need(any(line.stride > 1 for line, _ in lines), "it enlarges no axis")
    spellings = [spelled(np.array(line.places), line) for line, _ in lines]
    each = [
        np.array([h.get(line.low + t, Fraction(0)) for t in taps], object)
        for (line, h), (taps, *_) in zip(lines, spellings, strict=True)
    ]
    kernel: Any = reduce(np.multiply.outer, each)
    filter = kernel.astype(float).astype(dtype.container)
    exact = all(Fraction(float(a)) == b for a, b in zip(filter.flat, kernel.flat, strict=True))
    need(exact, f"its weights are no numbers of {dtype}")
    tiled = np.tile(filter, (shape[1], 1, 1, *(1,) * kernel.ndim))
    _, dilations, begin, end, extra = zip(*spellings, strict=True)
    return Decomposition(
        data=data,
        end=node.id,
        filter=tiled,
        strides=tuple(line.stride for line, _ in lines),
        dilations=dilations,
        pads_begin=begin,
        pads_end=end,
        output_padding=extra,
    )


def _line(name: str, weights: Array, rule: str) -> tuple[TapAxis, dict[int, Fraction]]:
    """Return stride and taps of an axis with h; Unproved if the weights differ by position."""
    count, size = weights.shape
    if count == size:
        return TapAxis(1, 0, (0,), 0), {0: Fraction(1)}
    for stride in {count // size, (count - 1) // max(size - 1, 1)} - {0, 1}:
        last = stride * (size - 1)
        with suppress(Unproved):
            met = _taps(weights, count + last, stride, 1, last)
            h = {k - last: weight for k, weight in met.items() if weight}
            places = tuple(range(max(h) - min(h) + 1))
            return TapAxis(stride, min(h), places, count - stride * size), h
    text = f"{name} weighs neighbours by position ({size} elements become {count}, {rule}); "
    raise Unproved(text + "a deconvolution weighs all alike, and zeros beyond the borders")


def resize_unproved(raised: Graph, deconvolution: Node, source: Graph) -> str | None:
    """Return why a deconvolution is not proved equal to the resize of its name; None if it is."""
    found = [n for n in source.find(deconvolution.name) if n.type == "Interpolate"]
    if len(found) != 1:
        return "no resize has its name"
    if raised.inputs_of(deconvolution.id)[0] != source.inputs_of(found[0].id)[0]:
        return "it reads something else"
    try:
        _compare(raised, deconvolution, source, found[0])
    except Unproved as e:
        return str(e)
    return None


def _compare(raised: Graph, node: Node, source: Graph, resize: Node) -> None:
    shape, out = source.spec(source.inputs_of(resize.id)[0]).shape, resize.spec().shape
    filter = constant(raised, raised.inputs_of(node.id)[1])
    if not is_static(shape) or not is_static(out) or filter is None:
        raise Unproved("sizes are open, or the filter is no constant")
    kernel = filter.shape[2 - len(shape) :]
    each = shape[:2] == out[:2] and filter.size == shape[1] * math.prod(kernel)
    need(each, "it is no filter for each channel")
    need(max(*shape[2:], *out[2:], *kernel) <= LARGEST_SIDE, SIDES_TOO_LARGE)
    need(node.spec().shape == out, "the sizes of the outputs differ")
    weights, _ = _resized(source, resize, shape, out)
    op: Any = node.op
    terms = (weights, kernel, op.strides, op.dilations, op.pads_begin)
    taps = [_taps(*axis) for axis in zip(*terms, strict=True)]
    kernels = filter.reshape(shape[1], *kernel).astype(np.float64)
    alike = np.isfinite(kernels).all() and (kernels == kernels[:1]).all()
    need(alike, "the channels have different filters")
    for at in itertools.product(*(range(n) for n in kernels.shape[1:])):
        wanted = [t[k] for t, k in zip(taps, at, strict=True) if k in t]
        met = len(wanted) == len(taps)
        same = not met or math.prod(wanted) == Fraction(float(kernels[(0, *at)]))
        need(same, f"tap {list(at)} differs")


def _taps(
    weights: Array, count: int, stride: int, dilation: int, begin: int
) -> dict[int, Fraction]:
    """Return the value of each tap that any pair of positions meets, along an axis."""
    o, i = np.ogrid[: weights.shape[0], : weights.shape[1]]
    k, between = np.divmod(o + begin - stride * i, dilation)
    met = (between == 0) & (k >= 0) & (k < count)
    need(not weights[~met].any(), "an output reads an input that no tap meets")
    taps = np.zeros(count)
    taps[k[met]] = weights[met]
    need((taps[k[met]] == weights[met]).all(), "outputs weigh their inputs differently")
    return {int(t): Fraction(float(taps[t])) for t in np.unique(k[met])}


def _resized(
    source: Graph, resize: Node, shape: tuple[int, ...], out: tuple[int, ...]
) -> tuple[list[Array], str]:
    """Return the weights [O, I] along each spatial axis, and the rule of coordinates.

    They are those of the kernel, so that coordinates are rounded as OpenVINO rounds them.
    """
    op: Any = resize.op
    plain = not (any(op.pads_begin) or any(op.pads_end) or getattr(op, "antialias", False))
    need(plain, "a resize with pads or antialias is not followed")
    others = [source.spec(v).known for v in source.inputs_of(resize.id)[1:]]
    need(all(v is not None for v in others), "the sizes of the resize are not constant")
    resizes, rules = op.resizes(shape, *others)
    followed = rules.mode in ("nearest", "linear", "linear_onnx")
    need(followed, f"the mode {rules.mode} is not followed")
    made = [np.eye(n) for n in shape[2:]]
    for r in resizes:
        if r.axis >= 2 and rules.mode == "nearest":
            made[r.axis - 2] = np.eye(shape[r.axis])[nearest_of(r, shape[r.axis], rules)]
        elif r.axis >= 2:
            size = shape[r.axis]
            made[r.axis - 2] = dense_matrix(axis_weights(r, size, rules), size, np.float64)
    return made, rules.transformation
