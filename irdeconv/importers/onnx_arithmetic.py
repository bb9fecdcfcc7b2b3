"""ONNX's operations that consist of several arithmetic ones: CumProd, Det."""

from __future__ import annotations

from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder, Refusal
from irdeconv.importers.onnx_node import OnnxNode, Outputs, rule, wrap
from irdeconv.ops.elementwise import Add, Multiply, Subtract
from irdeconv.ops.padding import Pad12
from irdeconv.ops.slicing import Gather

LARGEST_MATRIX = 3  # rows of a matrix whose determinant is written out


@rule("CumProd", "26")
def cum_prod(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Products of what comes before: each step multiplies by what twice as far ahead has."""
    x = n[0]
    axis = wrap(int(b.need(b.as_scalar(n[1]), "axis")), b.rank(x))
    size = b.shape(x, 1)[axis]
    if not isinstance(size, int):
        raise Refusal(f"axis {axis} of open size")
    reverse = bool(n.integer("reverse", 0))
    if n.integer("exclusive", 0):
        x = _moved(b, x, axis, 1, reverse=reverse)
    step = 1
    while step < size:
        x = b.add(Multiply(), x, _moved(b, x, axis, step, reverse=reverse))
        step *= 2
    return x


def _moved(b: ImportBuilder, x: Value, axis: int, step: int, *, reverse: bool) -> Value:
    """Return the elements some places earlier along an axis, ones where there are none."""
    ahead = [step if a == axis else 0 for a in range(b.rank(x))]
    behind = [-s for s in ahead]
    ends = (behind, ahead) if reverse else (ahead, behind)
    return b.add(Pad12("constant"), x, *(b.ints(*e) for e in ends), b.like(1, x))


@rule("Det", "11 22")
def determinant(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The determinants of small square matrices."""
    x = n[0]
    rows, columns = b.shape(x, 2)[-2:]
    if rows != columns or not isinstance(rows, int) or not 1 <= rows <= LARGEST_MATRIX:
        raise Refusal(
            f"matrices of {rows} x {columns}: up to {LARGEST_MATRIX} x {LARGEST_MATRIX} are covered"
        )
    lines = [b.add(Gather(), x, b.scalar(i), b.scalar(-2)) for i in range(rows)]
    cells = [[b.add(Gather(), r, b.scalar(j), b.scalar(-1)) for j in range(rows)] for r in lines]
    return _determinant(b, cells)


def _determinant(b: ImportBuilder, cells: list[list[Value]]) -> Value:
    if len(cells) == 1:
        return cells[0][0]
    total: Value | None = None
    for j, head in enumerate(cells[0]):
        minor = [row[:j] + row[j + 1 :] for row in cells[1:]]
        term = b.add(Multiply(), head, _determinant(b, minor))
        if total is None:
            total = term
        else:
            total = b.add(Subtract(), total, term) if j % 2 else b.add(Add(), total, term)
    assert total is not None
    return total
