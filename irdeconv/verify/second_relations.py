"""What every operation reads: relations between the elements of its output and of its inputs.

An axis is a run of parts in row-major order, so that a Reshape only cuts and joins runs, also of
open sizes. A relation is a text for isl; its names are `o0_1` (axis, part) and `t0`, `t1`, ... for
the taps of a convolution: the input channel and the place on every axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any, NamedTuple

from irdeconv.verify.second_reading import (
    SecondLayer,
    SecondPort,
    SecondSize,
    Unfollowed,
    larger,
    smaller,
)

Run = tuple[SecondSize, ...]
Runs = list[Run]
ONE = SecondSize.of(1)
FUNCTIONS = ("ReLU", "Sigmoid", "Tanh", "PReLU", "Clamp", "HardSigmoid")


class SecondRead(NamedTuple):
    """An input and the relation from the output's elements (and taps) to its own."""

    port: SecondPort
    text: str


@dataclass
class SecondStep:
    """One operation: the axes of its output, and what an element of it is.

    kind: `move` (an element of one input, or 0), `sum` (with `signs`), `scale` (by the second
    input), `function` (of the first input), `block` (a sum over taps of products with a filter).
    """

    kind: str
    runs: Runs
    reads: list[SecondRead]
    signs: tuple[int, ...] = ()
    filter: SecondRead | None = None
    taps: tuple[int, ...] = ()
    bias: SecondRead | None = None
    function: tuple[Any, ...] | None = None


def run_of(size: Any) -> Run:
    """Return the run of an axis: none of size 1."""
    made = SecondSize.of(size)
    if (made.known or 0) < 0:
        raise Unfollowed("an axis of negative size")
    return () if made.known == 1 else (made,)


def product(sizes: Iterable[SecondSize]) -> SecondSize:
    """Return the number of elements."""
    return reduce(mul, sizes, ONE)


def names_of(runs: Runs) -> list[list[str]]:
    """Return the names of an output's parts by axis."""
    return [[f"o{a}_{i}" for i in range(len(run))] for a, run in enumerate(runs)]


def whole(names: Sequence[str], run: Run) -> str:
    """Return the position along an axis, of those of its parts."""
    text = names[0] if names else "0"
    for name, size in zip(names[1:], run[1:], strict=True):
        if size.known is None:
            raise Unfollowed("a Reshape merges axes of open sizes")
        text = f"({text})*{size.known} + {name}"
    return text


def parts(text: str, run: Run) -> list[str]:
    """Return the positions along the parts of an axis, of that along the axis."""
    made = []
    for i, size in enumerate(run):
        inner = product(run[i + 1 :]).known
        if inner is None or (i and size.known is None):
            raise Unfollowed("an axis of several open sizes is cut")
        one = f"floor(({text})/{inner})" if inner != 1 else f"({text})"
        made.append(f"({one} mod {size.known})" if i else one)
    return made


def relation(out: Runs, exprs: Iterable[str], conditions: Iterable[str] = (), taps: int = 0) -> str:
    """Return the text of a relation."""
    names = [n for axis in names_of(out) for n in axis] + [f"t{i}" for i in range(taps)]
    conds = " and ".join(conditions)
    return f"{{ [{', '.join(names)}] -> [{', '.join(exprs)}]{' : ' * bool(conds)}{conds} }}"


def read(
    port: SecondPort, runs: Runs, out: Runs, at: Mapping[int, str], bounds: Any = ()
) -> SecondRead:
    """Return what an output reads: at the position `at[axis]`, elsewhere at its own."""
    names, exprs = names_of(out), []
    for a, run in enumerate(runs):
        if a not in at and _alike(run, out[a]):
            exprs += names[a]
        else:
            exprs += parts(at.get(a) or whole(names[a], out[a]), run)
    return SecondRead(port, relation(out, exprs, bounds))


def _alike(a: Run, b: Run) -> bool:
    return len(a) == len(b) and all(map(SecondSize.same, a, b))


def inside(text: str, size: SecondSize) -> str:
    """Return that a position is one of an axis."""
    return f"0 <= {text} < {size.text}"


def plain(out: Runs, axis: int) -> str:
    """Return the position along an axis of an output."""
    return whole(names_of(out)[axis], out[axis])


Rule = Callable[[Any, SecondLayer, int], SecondStep]  # side, layer, output port


def _axis(y: SecondLayer, axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise Unfollowed(f"{y}: axis {axis} of rank {rank}")
    return axis % rank


def _move(
    y: SecondLayer, runs: Runs, changes: Mapping[int, tuple[SecondSize, str, bool]]
) -> SecondStep:
    """Return a step that changes axes: to a size, reading at a text of `{o}`, maybe outside."""
    out = [run_of(changes[a][0]) if a in changes else run for a, run in enumerate(runs)]
    texts = {a: c[1].format(o=f"({plain(out, a)})") for a, c in changes.items()}
    bounded = [inside(texts[a], product(runs[a])) for a, c in changes.items() if c[2]]
    return SecondStep("move", out, [read(y.inputs[0], runs, out, texts, bounded)])


def _same(s: Any, y: SecondLayer, port: int) -> SecondStep:
    return _move(y, s.runs(y.inputs[0]), {})


def _transpose(s: Any, y: SecondLayer, port: int) -> SecondStep:
    runs = s.runs(y.inputs[0])
    order = [_axis(y, a, len(runs)) for a in s.ints(y.inputs[1])] or [*range(len(runs))][::-1]
    if sorted(order) != [*range(len(runs))]:
        raise Unfollowed(f"{y}: its order is no permutation")
    out = [runs[a] for a in order]
    names = names_of(out)
    exprs = [n for a in range(len(runs)) for n in names[order.index(a)]]
    return SecondStep("move", out, [SecondRead(y.inputs[0], relation(out, exprs))])


def _reshape(s: Any, y: SecondLayer, port: int) -> SecondStep:
    runs = s.runs(y.inputs[0])
    dims = s.sizes(y.inputs[1])
    if y.text("special_zero", "false") in ("true", "1"):
        dims = [product(runs[i]) if d.known == 0 else d for i, d in enumerate(dims)]
    total = product(n for run in runs for n in run)
    for i, d in enumerate(dims):
        if d.known == -1:
            left = total.over(product(dims[:i] + dims[i + 1 :]))
            dims[i] = left if left is not None else SecondSize.of("?")
    return _regrouped(y, runs, dims)


def _regrouped(y: SecondLayer, runs: Runs, dims: Sequence[SecondSize]) -> SecondStep:
    """Cut and join runs; if cuts do not fit, go by the number of an element."""
    flat = [n for run in runs for n in run]
    if not product(flat).same(product(dims)):
        raise Unfollowed(f"{y}: its shape does not follow, or does not fit")
    if product(flat).known == 0:
        return SecondStep("move", [run_of(d) for d in dims], [])
    queue = [(i, n) for i, n in enumerate(flat)]
    pieces: list[list[tuple[str, SecondSize]]] = [[] for _ in flat]
    out: Runs = []
    for axis, d in enumerate(dims):
        run: list[SecondSize] = []
        while (need := d.over(product(run))) is None or need.known != 1:
            if not queue:
                return _linear(y, flat, dims)
            at, n = queue.pop(0)
            taken = n if need is not None and need.over(n) is not None else need
            left = None if taken is None else n.over(taken)
            if taken is None or left is None:
                return _linear(y, flat, dims)
            pieces[at].append((f"o{axis}_{len(run)}", taken))
            run.append(taken)
            queue[:0] = [(at, left)] if left.known != 1 else []
        out.append(tuple(run))
    exprs = [whole([n for n, _ in p], tuple(size for _, size in p)) for p in pieces]
    return SecondStep("move", out, [SecondRead(y.inputs[0], relation(out, exprs))])


def _linear(y: SecondLayer, flat: Sequence[SecondSize], dims: Sequence[SecondSize]) -> SecondStep:
    out = [run_of(d) for d in dims]
    names = [n for axis in names_of(out) for n in axis]
    text = whole(names, tuple(n for run in out for n in run))
    return SecondStep(
        "move", out, [SecondRead(y.inputs[0], relation(out, parts(text, tuple(flat))))]
    )


def _squeeze(s: Any, y: SecondLayer, port: int) -> SecondStep:
    runs = s.runs(y.inputs[0])
    axes = s.ints(y.inputs[1]) if len(y.inputs) > 1 else [a for a, r in enumerate(runs) if not r]
    lost = {_axis(y, a, len(runs)) for a in axes}
    return _regrouped(y, runs, [product(r) for a, r in enumerate(runs) if a not in lost])


def _unsqueeze(s: Any, y: SecondLayer, port: int) -> SecondStep:
    dims, axes = s.shape(y.inputs[0]), s.ints(y.inputs[1])
    for axis in sorted(_axis(y, a, len(dims) + len(axes)) for a in axes):
        dims.insert(axis, ONE)
    return _regrouped(y, s.runs(y.inputs[0]), dims)


def _pad(s: Any, y: SecondLayer, port: int) -> SecondStep:
    runs = s.runs(y.inputs[0])
    if y.text("pad_mode", "constant") != "constant" or any(s.array(p).any() for p in y.inputs[3:]):
        raise Unfollowed(f"{y} pads with something else than zeros")
    both = [s.sizes(p) for p in y.inputs[1:3]]
    if [len(v) for v in both] != [len(runs)] * 2:
        raise Unfollowed(f"{y}: its pads do not fit")
    rows = [
        (a, b, e) for a, (b, e) in enumerate(zip(*both, strict=True)) if {b.known, e.known} != {0}
    ]
    return _move(
        y, runs, {a: (product(runs[a]) + b + e, f"{{o}} - {b.text}", True) for a, b, e in rows}
    )


def _slice(s: Any, y: SecondLayer, port: int) -> SecondStep:
    runs = s.runs(y.inputs[0])
    start, stop, step = (s.sizes(p) for p in y.inputs[1:4])
    axes = s.ints(y.inputs[4]) if len(y.inputs) > 4 else [*range(len(start))]
    rows = zip([_axis(y, a, len(runs)) for a in axes], start, stop, step, strict=True)
    return _cut(s, y, runs, {a: (b, e, by) for a, b, e, by in rows})


def _strided_slice(s: Any, y: SecondLayer, port: int) -> SecondStep:
    runs = s.runs(y.inputs[0])
    start, stop = (s.sizes(p) for p in y.inputs[1:3])
    step = s.sizes(y.inputs[3]) if len(y.inputs) > 3 else [ONE] * len(start)
    masks = [y.ints(k, None) for k in ("new_axis_mask", "shrink_axis_mask", "ellipsis_mask")]
    if any(map(any, masks)) or len(start) > len(runs):
        raise Unfollowed(f"{y} has masks that are not followed")
    skips = [y.ints(k, None) + [0] * len(runs) for k in ("begin_mask", "end_mask")]
    cuts = {}
    for a, (b, e, by) in enumerate(zip(start, stop, step, strict=True)):
        back = (by.known or 1) < 0
        first = SecondSize.of(1 << 31) if back else SecondSize.of(0)
        last = SecondSize.of(-1 << 31) if back else SecondSize.of((1 << 31) - 1)
        cuts[a] = (first if skips[0][a] else b, last if skips[1][a] else e, by)
    return _cut(s, y, runs, cuts)


def _cut(
    s: Any,
    y: SecondLayer,
    runs: Runs,
    cuts: Mapping[int, tuple[SecondSize, SecondSize, SecondSize]],
) -> SecondStep:
    """Take elements from a start to a stop, counted from the end if negative."""
    changes = {}
    for axis, (start, stop, step) in cuts.items():
        size, by = product(runs[axis]), step.known
        known = [v.known for v in (size, start, stop)]
        if by == 1 and known[1:2] == [0] and (known[2] or 0) >= (1 << 31) - 1:
            continue
        if not by:
            raise Unfollowed(f"{y}: a step that is open or 0")
        if None not in known:
            n, b, e = (v or 0 for v in known)
            if by < 0 and b < -n:
                raise Unfollowed(f"{y} starts in front of the data")
            taken = range(n)[slice(b, e, by)]
            changes[axis] = SecondSize.of(len(taken)), f"{taken.start} + {by}*{{o}}", False
            continue
        begin, end = (s.from_end(v, size) for v in (start, stop))
        count = larger(smaller(end, size) - begin, 0)
        if by < 0:
            raise Unfollowed(f"{y}: an axis of open size is reversed")
        changes[axis] = (count + (by - 1)) // by, f"{begin.text} + {by}*{{o}}", True
    return _move(y, runs, changes)


def _concat(s: Any, y: SecondLayer, port: int) -> SecondStep:
    every = [s.runs(p) for p in y.inputs]
    axis, out = _axis(y, y.ints("axis", 1)[0], len(every[0])), list(every[0])
    for runs in every[1:]:
        for a, run in enumerate(runs):
            if a != axis and not (_alike(run, out[a])):
                s.demand(product(run), product(out[a]), y)
                out[a] = run_of(product(run))
    sizes = [product(runs[axis]) for runs in every]
    out[axis] = run_of(reduce(SecondSize.__add__, sizes))
    reads, begin = [], SecondSize.of(0)
    for p, runs, size in zip(y.inputs, every, sizes, strict=True):
        at = f"{plain(out, axis)} - {begin.text}"
        reads.append(read(p, runs, out, {axis: at}, [inside(at, size)]))
        begin += size
    return SecondStep("move", out, reads)


def _split(s: Any, y: SecondLayer, port: int) -> SecondStep:
    runs = s.runs(y.inputs[0])
    axis = _axis(y, s.ints(y.inputs[1])[0], len(runs))
    size = product(runs[axis])
    if y.type == "Split":
        lengths = [size // y.ints("num_splits", 1)[0]] * len(y.names)
    else:
        lengths = s.sizes(y.inputs[2])
        rest = size - reduce(
            SecondSize.__add__, [n for n in lengths if n.known != -1], SecondSize.of(0)
        )
        lengths = [rest if n.known == -1 else n for n in lengths]
    begin = reduce(SecondSize.__add__, lengths[:port], SecondSize.of(0))
    return _move(y, runs, {axis: (lengths[port], f"{{o}} + {begin.text}", False)})


def _depth_to_space(s: Any, y: SecondLayer, port: int) -> SecondStep:
    runs, block = s.runs(y.inputs[0]), y.ints("block_size", 1, 1)[0]
    axes = range(2, len(runs))
    count = product(runs[1]).known
    depth = block ** len(axes) if 0 < block < 1 << 12 and len(axes) < 4 else 0
    if not depth or count is None or count % depth:
        raise Unfollowed(f"{y}: blocks of {block} of its channels")
    more = () if block == 1 else (SecondSize.of(block),)
    out = [runs[0], run_of(count // depth), *(runs[a] + more for a in axes)]
    names = names_of(out)
    offsets = [names[a][-1] if more else "0" for a in axes]
    order = [(n, block) for n in offsets]
    channel = (plain(out, 1), count // depth)
    order = [*order, channel] if y.text("mode") == "blocks_first" else [channel, *order]
    text = reduce(lambda t, row: f"({t})*{row[1]} + {row[0]}", order, "0")
    exprs = [*names[0], *parts(text, runs[1])]
    exprs += [n for a in axes for n in names[a][: len(runs[a])]]
    return SecondStep("move", out, [SecondRead(y.inputs[0], relation(out, exprs))])


def _tile(s: Any, y: SecondLayer, port: int) -> SecondStep:
    runs, times = list(s.runs(y.inputs[0])), s.ints(y.inputs[1])
    runs[:0] = [()] * (len(times) - len(runs))
    times = [1] * (len(runs) - len(times)) + times
    rows = [(a, product(runs[a]), n) for a, n in enumerate(times) if n != 1]
    if any(n < 0 or not size.known for _, size, n in rows):
        raise Unfollowed(f"{y} repeats an open axis")
    return _move(
        y, runs, {a: (size * n, f"({{o}} mod {size.known})", False) for a, size, n in rows}
    )


def _broadcast(s: Any, y: SecondLayer, port: int) -> SecondStep:
    if y.text("mode", "numpy") != "numpy":
        raise Unfollowed(f"{y} has a mode that is not followed")
    out = [run_of(d) for d in s.sizes(y.inputs[1])]
    return SecondStep("move", out, [stretched(s, y, y.inputs[0], out)])


def stretched(s: Any, y: SecondLayer, port: SecondPort, out: Runs) -> SecondRead:
    """Return what an output reads of an input that is broadcast to it."""
    runs = s.runs(port)
    skipped = len(out) - len(runs)
    names, exprs = names_of(out), []
    for run, axis in zip(runs, range(skipped, len(out)), strict=True):
        if _alike(run, out[axis]):
            exprs += names[axis]
        elif run:
            s.demand(product(run), product(out[axis]), y)
            exprs += parts(plain(out, axis), run)
    return SecondRead(port, relation(out, exprs))


def _joined(s: Any, y: SecondLayer) -> Runs:
    """Return the runs of two broadcast inputs."""
    if y.text("auto_broadcast", "numpy") != "numpy":
        raise Unfollowed(f"{y} has an auto_broadcast that is not followed")
    a, b = sorted((s.runs(p) for p in y.inputs), key=len)
    a = [()] * (len(b) - len(a)) + a
    return [x if len(x) > len(z) or not z else z for x, z in zip(a, b, strict=True)]


def _add(s: Any, y: SecondLayer, port: int) -> SecondStep:
    out = _joined(s, y)
    reads = [stretched(s, y, p, out) for p in y.inputs]
    return SecondStep("sum", out, reads, (1, -1 if y.type == "Subtract" else 1))


def _multiply(s: Any, y: SecondLayer, port: int) -> SecondStep:
    out = _joined(s, y)
    known = [s.is_constant(p) for p in y.inputs]
    if sum(known) != 1:
        raise Unfollowed(f"{y} does not scale by a constant")
    ports = y.inputs if known[1] else y.inputs[::-1]
    return SecondStep("scale", out, [stretched(s, y, p, out) for p in ports])


def _function(s: Any, y: SecondLayer, port: int) -> SecondStep:
    arrays = [s.array(p) for p in y.inputs[1:]]
    if any(a.size != 1 for a in arrays):
        raise Unfollowed(f"{y} has parameters per channel")
    said = [float(y.attributes[k]) for k in ("min", "max", "alpha", "beta") if k in y.attributes]
    more = sorted(
        (k, v) for k, v in y.attributes.items() if k not in ("min", "max", "alpha", "beta")
    )
    function = (y.type, (*said, *(float(a.reshape(-1)[0]) for a in arrays)), *more)
    step = _same(s, y, port)
    return SecondStep("function", step.runs, step.reads, function=function)


def _interpolate(s: Any, y: SecondLayer, port: int) -> SecondStep:
    """Follow nearest-neighbour enlargement by whole scales, which repeats elements."""
    runs = s.runs(y.inputs[0])
    keys = "mode", "shape_calculation_mode", "coordinate_transformation_mode", "nearest_mode"
    pads = any(y.ints("pads_begin") + y.ints("pads_end"))
    if pads or [y.text(k) for k in keys] != ["nearest", "scales", "asymmetric", "floor"]:
        raise Unfollowed(f"{y} is not followed")
    scales = s.array(y.inputs[2]).reshape(-1).tolist()
    axes = s.ints(y.inputs[3]) if len(y.inputs) > 3 else [*range(len(runs))]
    changes = {}
    for axis, scale in zip([_axis(y, a, len(runs)) for a in axes], scales, strict=True):
        if scale != int(scale) or scale < 1:
            raise Unfollowed(f"{y} enlarges by {scale}")
        changes[axis] = product(runs[axis]) * int(scale), f"floor({{o}}/{int(scale)})", False
    return _move(y, runs, changes)


RULES: dict[str, Rule] = {
    "Identity": _same,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Pad": _pad,
    "Slice": _slice,
    "StridedSlice": _strided_slice,
    "Concat": _concat,
    "Split": _split,
    "VariadicSplit": _split,
    "DepthToSpace": _depth_to_space,
    "Tile": _tile,
    "Broadcast": _broadcast,
    "Interpolate": _interpolate,
    "Add": _add,
    "Subtract": _add,
    "Multiply": _multiply,
    **dict.fromkeys(FUNCTIONS, _function),
}
