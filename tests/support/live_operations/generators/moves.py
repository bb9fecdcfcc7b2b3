"""Operations that move elements: shapes, pieces, padding, repetition."""

from __future__ import annotations

import math

from support.live_operations.generators.tools import (
    Generator,
    Rng,
    Sample,
    anything,
    axes,
    axis,
    index,
    kind,
    numbers,
    pick,
    sample,
    shape,
    text,
)


def transpose(rng: Rng, name: str, version: str) -> Sample:
    size = shape(rng, 1)
    order = [] if rng.random() < 0.2 else [int(a) for a in rng.permutation(len(size))]
    return sample(
        rng, name, version, {}, [numbers(rng, anything(rng), size), index(rng, order)], [1]
    )


def reshape(rng: Rng, name: str, version: str) -> Sample:
    size = shape(rng, 1, 4)
    total, target = math.prod(size), []
    for _ in range(int(rng.integers(0, 3))):
        found = [d for d in range(1, total + 1) if total and total % d == 0] or [1]
        target.append(int(pick(rng, found)))
        total //= target[-1]
    target.append(total)
    special = rng.random() < 0.5 and math.prod(size) > 0
    if special and rng.random() < 0.5:
        target = [0, -1]
    elif rng.random() < 0.4 and math.prod(size):
        target[int(rng.integers(len(target)))] = -1
    inputs = [numbers(rng, anything(rng), size), index(rng, target)]
    return sample(rng, name, version, {"special_zero": str(special).lower()}, inputs, [1])


def squeeze(rng: Rng, name: str, version: str) -> Sample:
    size = [1 if rng.random() < 0.5 else d for d in shape(rng, 1)]
    ones = [a for a, d in enumerate(size) if d == 1]
    chosen = [a - (len(size) if rng.random() < 0.3 else 0) for a in ones if rng.random() < 0.6]
    x = numbers(rng, anything(rng), size)
    inputs = [x, index(rng, chosen)] if chosen else [x]
    return sample(rng, name, version, {}, inputs, [1])


def unsqueeze(rng: Rng, name: str, version: str) -> Sample:
    size, more = shape(rng, 0, 3), int(rng.integers(1, 3))
    rank = len(size) + more
    chosen = [int(a) - (rank if rng.random() < 0.3 else 0) for a in rng.permutation(rank)[:more]]
    return sample(
        rng, name, version, {}, [numbers(rng, anything(rng), size), index(rng, chosen)], [1]
    )


def tile(rng: Rng, name: str, version: str) -> Sample:
    size = shape(rng, 1, 4)
    repeats = [int(v) for v in rng.integers(1, 4, int(rng.integers(1, len(size) + 2)))]
    return sample(
        rng, name, version, {}, [numbers(rng, anything(rng), size), index(rng, repeats)], [1]
    )


def broadcast(rng: Rng, name: str, version: str) -> Sample:
    target = shape(rng, 1, 4)
    first = int(rng.integers(0, len(target)))
    size = tuple(1 if rng.random() < 0.3 else d for d in target[first:])
    x = numbers(rng, anything(rng), size)
    if rng.random() < 0.3:
        mapping = sorted(int(a) for a in rng.permutation(len(target))[: len(size)])
        x = numbers(rng, anything(rng), [target[a] for a in mapping])
        inputs = [x, index(rng, target), index(rng, mapping)]
        return sample(rng, name, version, {"mode": "explicit"}, inputs, [1, 2])
    mode = "numpy" if int(version[5:]) < 3 else pick(rng, ("numpy", "bidirectional"))
    return sample(rng, name, version, {"mode": mode}, [x, index(rng, target)], [1])


def concat(rng: Rng, name: str, version: str) -> Sample:
    size, dtype = list(shape(rng, 1, 4)), anything(rng)
    at, parts = axis(rng, len(size)), []
    for _ in range(int(rng.integers(1, 5))):
        size[at] = int(rng.integers(0 if rng.random() < 0.1 else 1, 4))
        parts.append(numbers(rng, dtype, size))
    return sample(rng, name, version, {"axis": at}, parts)


def split(rng: Rng, name: str, version: str) -> Sample:
    size, count = list(shape(rng, 1, 4)), int(rng.integers(2, 4))
    at = axis(rng, len(size))
    lengths = [int(v) for v in rng.integers(0 if rng.random() < 0.1 else 1, 4, count)]
    size[at] = sum(lengths) if name == "VariadicSplit" else count * int(rng.integers(1, 4))
    x = numbers(rng, anything(rng), size)
    if name == "Split":
        inputs, lists = [x, index(rng, at)], [1]
    else:
        if rng.random() < 0.3:
            lengths[int(rng.integers(count))] = -1
        inputs, lists = [x, index(rng, at), index(rng, lengths)], [1, 2]
    return sample(rng, name, version, {"num_splits": count}, inputs, lists, count)


def pad(rng: Rng, name: str, version: str) -> Sample:
    size = shape(rng, 1, 4)
    mode = pick(rng, ("constant", "edge", "reflect", "symmetric"))
    low = -1 if int(version[5:]) >= 12 and rng.random() < 0.3 else 0

    def amounts() -> list[int]:
        least = [max(low, 1 - d) if d else 0 for d in size]
        most = [min(2, d - 1) if mode == "reflect" else min(2, d) for d in size]
        return [int(rng.integers(a, max(a, b) + 1)) for a, b in zip(least, most, strict=True)]

    begin, end = amounts(), [max(v, 0) for v in amounts()]
    dtype = kind(rng, "f32", "f32", "f16", "i32", "i64", "u8", "i8")
    inputs = [numbers(rng, dtype, size), index(rng, begin), index(rng, end)]
    if mode == "constant" and rng.random() < 0.6:
        inputs.append(numbers(rng, dtype, ()))
    return sample(rng, name, version, {"pad_mode": mode}, inputs, [1, 2, 3])


def strided(rng: Rng, name: str, version: str) -> Sample:
    """StridedSlice, and Slice with the axes named."""
    size = shape(rng, 1, 4, 6)
    count = int(rng.integers(1, len(size) + 1))
    chosen = sorted(int(a) for a in rng.permutation(len(size))[:count])
    if name == "StridedSlice":
        chosen = list(range(count))
    steps = [int(pick(rng, (1, 1, 2, 3, -1, -2))) for _ in chosen]
    ends = [[int(v) for v in rng.integers(-size[a] - 1, size[a] + 2, 2)] for a in chosen]
    begin, end = [e[0] for e in ends], [e[1] for e in ends]
    x = numbers(rng, anything(rng), size)
    lists = [index(rng, v).values.astype("int64") for v in (begin, end, steps)]
    inputs = [x, *(index(rng, v) for v in lists)]
    same = inputs[1].dtype
    inputs[2:] = [type(t)(same, t.values.astype(same.container)) for t in inputs[2:]]
    if name == "Slice":
        named = index(rng, chosen)
        return sample(rng, name, version, {}, [*inputs, named], [1, 2, 3, 4])
    masks = {
        f"{what}_mask": text([int(rng.random() < chance) for _ in chosen])
        for what, chance in (
            ("begin", 0.3), ("end", 0.3), ("new_axis", 0.1), ("shrink_axis", 0.1), ("ellipsis", 0),
        )
    }  # fmt: skip
    return sample(rng, name, version, masks, inputs, [1, 2, 3])


def channels(rng: Rng, name: str, version: str) -> Sample:
    """DepthToSpace, SpaceToDepth, ShuffleChannels."""
    block, spatial = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    sizes = [int(v) for v in rng.integers(1, 4, spatial)]
    mode = pick(rng, ("blocks_first", "depth_first"))
    texts = {"block_size": block, "mode": mode, "axis": 1, "group": block}
    if name == "SpaceToDepth":
        size = (2, 3, *(block * d for d in sizes))
    elif name == "DepthToSpace":
        size = (2, 2 * block**spatial, *sizes)
    else:
        size = (2, 2 * block, 3, 2)
    return sample(rng, name, version, texts, [numbers(rng, anything(rng), size)])


def blocks(rng: Rng, name: str, version: str) -> Sample:
    """SpaceToBatch, BatchToSpace."""
    steps = [1, int(rng.integers(1, 3)), int(rng.integers(1, 4))]
    begin, end = [0, int(rng.integers(0, 2)), 0], [0, 0, int(rng.integers(0, 2))]
    sizes = [int(rng.integers(2, 4)) * s for s in steps[1:]]
    if name == "SpaceToBatch":
        size = (2, *(d - b - e for d, b, e in zip(sizes, begin[1:], end[1:], strict=True)))
    else:
        size = (2 * math.prod(steps), *sizes)
    lists = [index(rng, v) for v in (steps, begin, end)]
    kept = lists[0].dtype
    lists = [type(t)(kept, t.values.astype(kept.container)) for t in lists]
    return sample(rng, name, version, {}, [numbers(rng, anything(rng), size), *lists], [1, 2, 3])


def roll(rng: Rng, name: str, version: str) -> Sample:
    size = shape(rng, 1, 4)
    chosen = axes(rng, len(size), 1)
    shifts = [int(v) for v in rng.integers(-5, 6, len(chosen))]
    inputs = [numbers(rng, anything(rng), size), index(rng, shifts), index(rng, chosen)]
    return sample(rng, name, version, {}, inputs, [1, 2])


def reverse_sequence(rng: Rng, name: str, version: str) -> Sample:
    size = [int(v) for v in rng.integers(1, 5, 3)]
    batch, along = (int(a) for a in rng.permutation(3)[:2])
    lengths = [int(v) for v in rng.integers(1, size[along] + 1, size[batch])]
    texts = {"batch_axis": batch, "seq_axis": along}
    return sample(
        rng, name, version, texts, [numbers(rng, anything(rng), size), index(rng, lengths)], [1]
    )


def shape_of(rng: Rng, name: str, version: str) -> Sample:
    texts = {"output_type": pick(rng, ("i64", "i32"))}
    return sample(rng, name, version, texts, [numbers(rng, anything(rng), shape(rng))])


GENERATORS: dict[str, Generator] = {
    "Transpose": transpose,
    "Reshape": reshape,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Tile": tile,
    "Broadcast": broadcast,
    "Concat": concat,
    "Split": split,
    "VariadicSplit": split,
    "Pad": pad,
    "StridedSlice": strided,
    "Slice": strided,
    "DepthToSpace": channels,
    "SpaceToDepth": channels,
    "ShuffleChannels": channels,
    "SpaceToBatch": blocks,
    "BatchToSpace": blocks,
    "Roll": roll,
    "ReverseSequence": reverse_sequence,
    "ShapeOf": shape_of,
}
