"""The search for a smaller variant that still fails, and its steps.

Steps: fewer layers, then smaller tensors, then simpler attributes and numbers. Layers: the suspects
alone, later outputs cut off, earlier layers, others. Tensors: all axes of one size lose elements
together. Numbers: neutral attributes; constants and inputs of ones and zeros.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from irdeconv.base import work
from irdeconv.base.errors import count
from irdeconv.base.progress import Advance
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.graph import Graph, Node, Value
from irdeconv.ir.op import Op, attributes
from irdeconv.ir.spec import Array, Shape
from irdeconv.ops.basic import Const, Opaque, Parameter
from irdeconv.ops.bodies import BodyOp, bodies_of
from irdeconv.verify.judge import is_real
from irdeconv.verify.reduce_checks import Check, Outcome
from irdeconv.verify.reduce_pieces import PASSIVE, Knife, Variant


@dataclass
class Hasher:
    """Fingerprints of variants; data that several of them share are read once."""

    _known: dict[int, tuple[Any, bytes]] = field(default_factory=dict)

    def of(self, variant: Variant) -> bytes:
        """Return a fingerprint of everything that a check can see."""
        total = hashlib.blake2b(digest_size=16)
        for graph in variant.graphs:
            self._graph(graph, total.update)
        for name in sorted(variant.feeds):
            total.update(repr((name, self._array(variant.feeds[name]))).encode())
        return total.digest()

    def _graph(self, graph: Graph, update: Callable[[bytes], None]) -> None:
        for node in graph.nodes():
            update(repr((node.id, node.name, *self._op(node.op))).encode())
            update(repr((graph.inputs_of(node.id), node.rt_info)).encode())
            for body in bodies_of(node):
                update(repr((body.tag, body.inputs, body.outputs, body.edges)).encode())
                self._graph(body.graph, update)

    def _op(self, op: Op) -> Iterable[Any]:
        if isinstance(op, Const):
            return op.element_type, op.shape, self._array(op.data)
        if isinstance(op, Opaque):  # whose body names places in a file
            return op.kind, op.data, op.sections
        if isinstance(op, BodyOp):  # whose bodies follow
            return op.type, op.version
        return (op,)

    def _array(self, data: Any) -> bytes:
        known = self._known.get(id(data))
        if known is None:
            array = data if isinstance(data, np.ndarray) else data.array()
            plain = array.astype(str) if array.dtype == object else np.ascontiguousarray(array)
            digest = hashlib.blake2b(repr((array.shape, str(array.dtype))).encode(), digest_size=16)
            digest.update(plain.tobytes())
            # Keeping the data keeps its id from being given to other data.
            known = self._known[id(data)] = (data, digest.digest())
        return known[1]


T = TypeVar("T")


class Exhausted(Exception):
    """A limit is reached; `str` says which."""


@dataclass
class Search:
    """The best variant so far, and the rules by which another one takes its place.

    `max_checks` and `seconds` are limits (None: none), `clock` returns the time in seconds.
    Variants that were tried before or do not fit together are not checked.
    """

    check: Check
    best: Variant
    outcome: Outcome
    max_checks: int | None = None
    seconds: float | None = None
    clock: Callable[[], float] = time.monotonic
    step: Advance | None = None
    checks: int = 0
    repeated: int = 0
    undecided: int = 0
    _hasher: Hasher = field(default_factory=Hasher)
    _seen: dict[bytes, Outcome] = field(default_factory=dict)
    _start: float = 0.0

    def __post_init__(self) -> None:
        self._start = self.clock()
        self._seen[self._hasher.of(self.best)] = self.outcome

    @property
    def elapsed(self) -> float:
        """Seconds since the search began."""
        return self.clock() - self._start

    @work.fresh
    def fails(self, variant: Variant | None) -> bool:
        """Whether the fault shows in a variant, which then is the best one; Exhausted."""
        if variant is None:
            return False
        key = self._hasher.of(variant)
        outcome = self._seen.get(key)
        self.repeated += outcome is not None
        if outcome is None:
            self._require_room()
            self.checks += 1
            if self.step is not None:
                self.step(detail=f"{count(len(self.best.layers), 'layer')} left")
            outcome = self._seen[key] = self.check(variant)
            self.undecided += not outcome.valid
        if outcome.fails:
            self.best, self.outcome = variant, outcome
        return outcome.fails

    def _require_room(self) -> None:
        if self.max_checks is not None and self.checks >= self.max_checks:
            raise Exhausted(f"the limit of {count(self.max_checks, 'check')} is reached")
        if self.seconds is not None and self.elapsed >= self.seconds:
            raise Exhausted(f"the limit of {self.seconds:g} s is reached")


def first_failing(length: int, fails: Callable[[int], bool]) -> int:
    """Return the least failing n in 1..length; `fails` counts as monotone, `length` fails."""
    low, high = 0, length
    while high - low > 1:
        middle = (low + high) // 2
        if fails(middle):
            high = middle
        else:
            low = middle
    return high


def minimized(items: Sequence[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """Return a minimal failing part of the items (ddmin), in order; all together do fail."""
    left, pieces = list(items), 2
    while len(left) > 1:
        pieces = min(pieces, len(left))
        bounds = [len(left) * i // pieces for i in range(pieces + 1)]
        chunks = [left[a:b] for a, b in pairwise(bounds)]
        alone = next((c for c in chunks if fails(c)), None)
        if alone is not None:
            left, pieces = alone, 2
            continue
        others = (chunks[:i] + chunks[i + 1 :] for i in range(len(chunks) if pieces > 2 else 0))
        rests = ([x for chunk in rest for x in chunk] for rest in others)
        rest = next((r for r in rests if fails(r)), None)
        if rest is not None:
            left, pieces = rest, max(pieces - 1, 2)
        elif pieces >= len(left):
            break
        else:
            pieces *= 2
    return left


SUSPECTS = 3  # that are tried by themselves before the search begins


def fewer_layers(search: Search) -> None:
    """Leave layers out as long as the fault shows."""
    try_suspects(search)
    cut_end(search)
    fewer_outputs(search)
    before = search.best
    cut_begin(search)
    if search.best is before:
        cut_begin(search, frozen=True)
    leave_out(search)
    leave_out(search, frozen=True)


def try_suspects(search: Search) -> None:
    """Try the layers that the check has named, each by itself, then all together."""
    knife = Knife(search.best)
    units = knife.named(search.outcome.suspects)
    if any(search.fails(knife.piece([unit])) for unit in units[:SUSPECTS]):
        return
    if 1 < len(units) < len(knife.units):
        search.fails(knife.piece(units))


def cut_end(search: Search) -> None:
    """Find the first layer behind which the fault shows: outputs at earlier layers."""
    knife = Knife(search.best)
    units = knife.units
    first_failing(len(units), lambda n: search.fails(knife.piece(units[:n])))


def fewer_outputs(search: Search) -> None:
    """Keep as few outputs as show the fault, first of all only those of the last layer."""
    knife = Knife(search.best)
    units = knife.units
    ends = knife.ends(units)
    last = [end for end in ends if end[0] == units[-1]] if units else []
    if last != ends and search.fails(knife.piece(units, last)):
        ends = last
    minimized(ends, lambda some: search.fails(knife.piece(units, some)))


def cut_begin(search: Search, *, frozen: bool = False) -> None:
    """Find the last layer with which the piece may begin; its inputs become the piece's."""
    knife = Knife(search.best, frozen=frozen)
    units = knife.units
    first_failing(len(units), lambda n: search.fails(knife.piece(units[-n:])))


def leave_out(search: Search, *, frozen: bool = False) -> None:
    """Leave out any layers that the fault does not need."""
    knife = Knife(search.best, frozen=frozen)
    minimized(knife.units, lambda some: search.fails(knife.piece(some)))


def bypass(search: Search) -> None:
    """Connect the input of a layer with its readers, if it has the same type and shape."""
    graph = search.best.graph
    for node in reversed(search.best.layers):
        if len(search.best.layers) < 2:
            return
        for port in range(len(graph.inputs_of(node.id))):
            if search.fails(bypassed(search.best, node.name, port)):
                break


def bypassed(variant: Variant, name: str, port: int) -> Variant | None:
    """Return a copy whose graphs read an input of the named layer in place of its output."""
    graphs = tuple(g for g in (_bypassed(g, name, port) for g in variant.graphs) if g is not None)
    if len(graphs) < len(variant.graphs):
        return None
    knife = Knife(Variant(graphs, variant.feeds))
    return knife.piece(knife.units)


def _bypassed(graph: Graph, name: str, port: int) -> Graph | None:
    found = [n for n in graph.find(name) if n.type not in PASSIVE]
    if len(found) != 1 or found[0].outputs != 1 or port >= len(graph.inputs_of(found[0].id)):
        return None
    source, old = graph.inputs_of(found[0].id)[port], Value(found[0].id)
    a, b = graph.spec(source), graph.spec(old)
    producer = graph.node(source.node).type
    if (a.dtype, a.shape) != (b.dtype, b.shape) or producer == "Const":
        return None
    readers = [graph.node(i).type for i, _ in graph.users(old)]
    if producer == "Parameter" and "Result" in readers:
        return None  # an output that no layer makes says nothing
    out = graph.copy()
    out.replace_uses(old, source)
    out.remove(old.node)
    return out


CHANNELS = 1  # their axis in data
AXES = 8  # ranks beyond which single axes are not tried

Place = tuple[str, int]  # a Parameter or Const by its name, and an axis


@dataclass(frozen=True)
class SizeChange:
    """Sizes `old` become `new`: at one place, or wherever they are.

    With `multiples` sizes that `old` divides shrink by the same factor (channels = groups x rest);
    beside a single place these are only channels of inputs.
    """

    old: int
    new: int
    place: Place | None = None
    inputs_only: bool = False
    multiples: bool = False

    def size(self, node: Node, axis: int, size: int) -> int:
        """Return the new size of an axis."""
        shrinks = self.place is None or self.place == (node.name, axis)
        if self.inputs_only and node.type != "Parameter":
            shrinks = False
        if shrinks and size == self.old:
            return self.new
        follows = self.place is None or (node.type == "Parameter" and axis == CHANNELS)
        if self.multiples and follows and size % self.old == 0:
            return size // self.old * self.new
        return size


def smaller(search: Search) -> None:
    """Shrink sizes as long as the fault shows, the largest first.

    All axes of one size shrink together or, if that fails, those of the inputs.
    """
    ways: tuple[dict[str, bool], ...] = ({}, {"inputs_only": True}, {"multiples": True})
    done: set[int] = set()
    while left := {size for _, size in _places(search.best)} - done:
        size = max(left)
        done.add(size)
        for way in ways:
            if _least(search, size, **way):
                break
    for place, size in list(_places(search.best)):
        if not _least(search, size, place=place):
            _least(search, size, place=place, multiples=True)


def _least(search: Search, size: int, **way: Any) -> bool:
    """Take the least of 1, 2, 4, ... with which the fault shows; whether there is one."""
    changes = (SizeChange(size, 1 << n, **way) for n in range((size - 1).bit_length()))
    return any(search.fails(resized(search.best, change)) for change in changes)


def _places(variant: Variant) -> Iterator[tuple[Place, int]]:
    for node in variant.graph.nodes():
        shape = _shape(node, variant)
        if len(shape) <= AXES:
            yield from (((node.name, axis), n) for axis, n in enumerate(shape) if n > 1)


def _shape(node: Node, variant: Variant) -> tuple[int, ...]:
    if isinstance(node.op, Parameter):
        return variant.feeds[node.name].shape
    if isinstance(node.op, Const) and node.op.data.available:
        return node.op.data.array().shape
    return ()


def resized(variant: Variant, resize: SizeChange) -> Variant | None:
    """Return a copy with smaller inputs and constants; None if they do not fit any more."""
    cut = {n.name: _cut(n, variant.feeds[n.name], resize) for n in variant.graph.parameters}
    feeds = {name: array for name, array in cut.items() if array is not variant.feeds[name]}

    def edit(node: Node) -> Op | None:
        if isinstance(node.op, Parameter) and node.name in feeds:
            return replace(node.op, shape=_refit(node.op.shape, feeds[node.name].shape))
        if isinstance(node.op, Const) and node.op.data.available:
            return _resized_constant(node, node.op, resize)
        return None

    return variant.edited(edit, feeds or None)


def _refit(shape: Shape | None, sizes: tuple[int, ...]) -> Shape | None:
    """Return the shape with other sizes for the exact ones; open ones stay open."""
    if shape is None:
        return None
    return tuple(n if isinstance(d, int) else d for d, n in zip(shape, sizes, strict=True))


def _resized_constant(node: Node, op: Const, resize: SizeChange) -> Op | None:
    old = op.data.array()
    new = _cut(node, old, resize)
    # A constant may be a shape: a short list of positive integers among others.
    lists_sizes = new.dtype.kind in "iu" and new.ndim <= 1 and 0 < new.size <= AXES
    if resize.place is None and not resize.inputs_only and lists_sizes:
        values = [resize.size(node, -1, int(v)) for v in new.reshape(-1)]
        if values != [int(v) for v in new.reshape(-1)]:
            new = np.array(values, new.dtype).reshape(new.shape)
    if new is old:
        return None
    return replace(op, shape=new.shape, data=ArrayData.of(new, op.element_type))


def _cut(node: Node, array: Array, resize: SizeChange) -> Array:
    sizes = [resize.size(node, axis, n) for axis, n in enumerate(array.shape)]
    if tuple(sizes) == array.shape:
        return array
    return np.ascontiguousarray(array[tuple(slice(n) for n in sizes)])


NEUTRAL = {"strides": 1, "dilations": 1, "pads_begin": 0, "pads_end": 0, "output_padding": 0}


def exact_shapes(search: Search) -> None:
    """Give open inputs the shapes of their values, if the fault does not need them open."""

    def edit(node: Node) -> Op | None:
        if not isinstance(node.op, Parameter) or node.name not in search.best.feeds:
            return None
        shape = search.best.feeds[node.name].shape
        return None if node.op.shape == shape else replace(node.op, shape=shape)

    search.fails(search.best.edited(edit))


def without_notes(search: Search) -> None:
    """Leave out the file's notes beside layers: rt_info, names of tensors, extra attributes."""
    graphs = tuple(g.copy() for g in search.best.graphs)
    for graph in graphs:
        graph.info = replace(graph.info, rt_info=None, extra=())
        for node in graph.nodes():
            node.rt_info, node.port_rt_info, node.extra = None, (), ()
    search.fails(Variant(graphs, search.best.feeds))


def plainer_attributes(search: Search) -> None:
    """Set attributes to values without effect, or to their defaults, one by one."""
    for node in search.best.layers:
        for name, value in _plainer(node.op):
            search.fails(_with_attribute(search.best, node.name, name, value))


def _plainer(op: Op) -> Iterator[tuple[str, Any]]:
    if isinstance(op, Opaque):
        return
    for attribute in attributes(type(op)).values():
        value = getattr(op, attribute.name)
        if attribute.name in NEUTRAL and isinstance(value, tuple):
            plain: Any = (NEUTRAL[attribute.name],) * len(value)
        elif attribute.required:
            continue
        else:
            plain = attribute.default
        if plain != value:
            yield attribute.name, plain


def _with_attribute(variant: Variant, layer: str, name: str, value: Any) -> Variant | None:
    def edit(node: Node) -> Op | None:
        fits = node.name == layer and node.type not in PASSIVE and hasattr(node.op, name)
        if not fits or getattr(node.op, name) == value:
            return None
        return replace(node.op, **{name: value})

    return variant.edited(edit)


def simpler_numbers(search: Search) -> None:
    """Replace constants, then inputs, by zeros, ones or small whole numbers."""
    for node in list(search.best.graph.nodes()):
        for simple in _SIMPLE:
            if search.fails(_numbered(search.best, node, simple)):
                break


def _numbered(variant: Variant, chosen: Node, simple: Callable[[Array], Array]) -> Variant | None:
    if isinstance(chosen.op, Parameter):
        old = variant.feeds[chosen.name]
        if not is_real(old) or np.array_equal(new := simple(old), old):
            return None
        return variant.edited(lambda node: None, {chosen.name: new})

    def edit(node: Node) -> Op | None:
        op = node.op
        if node.name != chosen.name or not isinstance(op, Const) or not op.data.available:
            return None
        old = op.data.array()
        if not op.element_type.is_real or np.array_equal(new := simple(old), old):
            return None
        return replace(op, data=ArrayData.of(new, op.element_type))

    return variant.edited(edit)


def _small(array: Array) -> Array:
    """Return whole numbers of one digit that keep the order of magnitude and the sign."""
    values = np.nan_to_num(array.astype(np.float64), posinf=1e9, neginf=-1e9)
    top = float(np.abs(values).max(initial=0.0))
    return np.asarray(np.rint(values * (4 / top if top else 1.0)).astype(array.dtype))


_SIMPLE: tuple[Callable[[Array], Array], ...] = (
    lambda a: np.zeros(a.shape, a.dtype),
    lambda a: np.ones(a.shape, a.dtype),
    _small,
)
