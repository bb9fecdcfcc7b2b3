"""Legacy layers that look for the largest: ArgMax, TopK."""

from __future__ import annotations

from irdeconv.dtypes import i32
from irdeconv.importers.builder import ImportBuilder
from irdeconv.importers.legacy.layer import LegacyLayer, Outputs, integers, layer
from irdeconv.ops.movement import Concat
from irdeconv.ops.ordering import TopK3
from irdeconv.ops.shape import Unsqueeze


@layer("ArgMax")
def arg_max(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The `top_k` largest along an axis: their indices, or with out_max_val their values.

    Without an axis they are those of all axes but the first: indices [N, 1, top_k], or [N, 2,
    top_k] with the values behind. Indices are numbers of the data's type.
    """
    count, valued = n.integer("top_k"), n.flag("out_max_val", False)
    dtype = b.dtype(n[0])
    if "axis" in n:
        op = TopK3(axis=n.axis(b, n[0]), mode="max", sort="value", index_element_type=i32)
        values, indices = b.outputs(op, n[0], b.scalar(count))
        return values if valued else b.convert(indices, dtype)
    flat = b.flatten(n[0], 1)
    op = TopK3(axis=1, mode="max", sort="value", index_element_type=i32)
    values, indices = b.outputs(op, flat, b.scalar(count))
    parts = [b.convert(indices, dtype), *((values,) if valued else ())]
    rows = [b.add(Unsqueeze(), part, b.ints(1)) for part in parts]
    y = rows[0] if len(rows) == 1 else b.add(Concat(axis=1), *rows)
    return y if b.shape(y) == n.shape else b.reshape(y, n.shape)


@layer("TopK")
def top_k(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """The largest or smallest along an axis, by value or by index, and their indices.

    A single output has the values, or the indices where it is declared an integer.
    """
    op = TopK3(
        axis=n.axis(b, n[0], default=-1),
        mode="max" if n.word("mode", "max", "max min") == "max" else "min",
        sort="value" if n.word("sort", "index", "index value none") == "value" else "index",
        index_element_type=i32,
    )
    values, indices = b.outputs(op, n[0], b.as_scalar(integers(b, n[1])))
    if len(n.declared) > 1:
        return values, indices
    dtype = n.declared[0].dtype
    return indices if dtype is not None and dtype.is_integral else values
