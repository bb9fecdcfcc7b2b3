"""MatMul, Einsum and Inverse."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from irdeconv.base.errors import OpError, Problem
from irdeconv.ir.op import SUM, Bound, Op, op
from irdeconv.ir.ports import Fit
from irdeconv.ir.spec import Array, Dim, Shape, Spec, format_shape, is_static, merge
from irdeconv.kernels.attention import MatrixProduct
from irdeconv.kernels.eager import accumulator
from irdeconv.ops.checks import is_computed, joint_shape, shape_of, widened

MANY_PRODUCTS = 1 << 12  # products of integers, from which on converting takes less


@op("MatMul")
class MatMul(Op):
    """Matrix product of the last two axes: [.., M, K] x [.., K, N] -> [.., M, N].

    The axes before them broadcast. `transpose_a`, `transpose_b` swap the last two axes first. A
    vector is [1, K] on the left and [K, 1] on the right; the result lacks its axis of 1.
    Any numbers of one type.  [matrix/MatMul-1]
    """

    rounding = SUM
    signature = "a: number t [*A:1..]; b: t [*B:1..] -> t [*O]"
    transpose_a: bool = False
    transpose_b: bool = False

    def complete(self, at: Fit, a: Spec, b: Spec) -> None:
        if a.shape is None or b.shape is None:
            return
        left = _matrix(a.shape, (1, *a.shape), self.transpose_a)
        right = _matrix(b.shape, (*b.shape, 1), self.transpose_b)
        if merge(left[-1], right[-2]) is None:
            text = f"a {format_shape(a.shape)} has {left[-1]} columns and "
            text += f"b {format_shape(b.shape)} has {right[-2]} rows; they must be equal"
            raise OpError(text, code="E302", port=1)
        text = f"batch axes of a {format_shape(a.shape)} and b {format_shape(b.shape)}"
        batch = joint_shape(left[:-2], right[:-2], text, 1) or ()
        rows: Shape = () if len(a.shape) == 1 else (left[-2],)
        columns: Shape = () if len(b.shape) == 1 else (right[-1],)
        at.groups["O"] = (*batch, *rows, *columns)

    def _depth(self, a: tuple[int, ...]) -> int:
        """Return K for the shape of `a`."""
        return a[-2 if self.transpose_a and len(a) > 1 else -1]

    def evaluate(self, a: Array, b: Array) -> Array:
        if self.transpose_a and a.ndim > 1:
            a = a.swapaxes(-1, -2)
        if self.transpose_b and b.ndim > 1:
            b = b.swapaxes(-1, -2)
        if a.dtype.kind not in "iu" and a.dtype.itemsize < 4:
            return np.asarray(np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype))
        with np.errstate(all="ignore"):
            if a.dtype.kind in "iu" and a.size and b.size and a.size * b.shape[-1] >= MANY_PRODUCTS:
                # NumPy multiplies integers in loops; floats that hold every sum go through BLAS.
                kind = accumulator(a, b, a.shape[-1])
                if kind.kind == "f":
                    found = np.matmul(a.astype(kind), b.astype(kind))
                    return np.asarray(found.astype(np.int64).astype(a.dtype))
            return np.asarray(np.matmul(a, b))

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        if not is_computed(*inputs):
            return None
        swap_a = self.transpose_a and len(shape_of(inputs[0])) > 1
        swap_b = self.transpose_b and len(shape_of(inputs[1])) > 1
        return Bound(MatrixProduct((swap_a, swap_b), inputs[1].known))

    def terms(self, inputs: Sequence[Array], output: Array) -> int:
        return self._depth(inputs[0].shape)

    def macs(self, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> int | None:
        shape, out = inputs[0].shape, outputs[0].shape
        if not is_static(shape) or not is_static(out):
            return None
        return math.prod(out) * self._depth(shape)


def _matrix(shape: Shape, of_vector: Shape, swap: bool) -> Shape:
    """Return the shape of a factor: that of a vector, or with the last two axes swapped."""
    if len(shape) == 1:
        return of_vector
    return (*shape[:-2], shape[-1], shape[-2]) if swap else shape


_TERM = re.compile(r"[A-Za-z]*(?:\.\.\.[A-Za-z]*)?")


@op("Einsum", since=7)
class Einsum(Op):
    """Sums of products over letters: "ij,jk->ik" is a matrix product; numbers of one type.

    Axes of one letter have one size or 1; a letter twice in a term is a diagonal, one that the
    output lacks is summed over. `...` means any axes, which broadcast. Without `->` the output
    has these axes and the letters that occur once, in alphabetical order.  [matrix/Einsum-7]
    """

    signature = "input+: number t -> t [*O]"
    equation: str

    def check(self) -> Iterator[Problem]:
        terms, out = self.subscripts()
        for term in (*terms, out):
            if not _TERM.fullmatch(term):
                yield Problem("E210", f'"{term}" is no term of letters', attribute="equation")
        for letter in sorted(set(out) - set("".join(terms))):
            text = f'the output has "{letter}", which no input has'
            yield Problem("E210", text, attribute="equation")
        if max(Counter(out.replace(".", "")).values(), default=0) > 1:
            text = f'the output "{out}" has a letter twice'
            yield Problem("E210", text, attribute="equation")

    def subscripts(self) -> tuple[list[str], str]:
        """Return the letters of every input and of the output."""
        left, arrow, out = self.equation.replace(" ", "").partition("->")
        if not arrow:
            counts = Counter(left.replace(",", "").replace(".", ""))
            once = "".join(sorted(c for c, n in counts.items() if n == 1))
            out = ("..." if "..." in left else "") + once
        return left.split(","), out

    def complete(self, at: Fit, *inputs: Spec) -> None:
        terms, out = self.subscripts()
        if len(terms) != len(inputs):
            text = f'"{self.equation}" has {len(terms)} inputs, there are {len(inputs)}'
            raise OpError(text, code="E304", attribute="equation")
        sizes: dict[str, Shape] = {}
        open_rank = False
        for port, (term, s) in enumerate(zip(terms, inputs, strict=True)):
            if s.shape is None:
                open_rank = open_rank or "..." in term
                continue
            _check_diagonals(term, s.shape, port)
            for name, axes in _named(term, s.shape, port):
                have = sizes.get(name, ())
                sizes[name] = joint_shape(have, axes, f'the sizes of "{name}"', port) or ()
        if ("..." in out and open_rank) or any(s.shape is None for s in inputs):
            return
        dims: list[Dim] = []
        for name in _names(out):
            dims += sizes.get(name, ())
        at.groups["O"] = tuple(dims)

    def evaluate(self, *inputs: Array) -> Array:
        terms, out = self.subscripts()
        dtype = inputs[0].dtype
        wide = [widened(x) for x in inputs]
        with np.errstate(all="ignore"):
            summed = np.einsum(f"{','.join(terms)}->{out}", *wide, optimize=True)
        return np.asarray(summed, dtype)


def _names(term: str) -> list[str]:
    return re.findall(r"\.\.\.|[A-Za-z]", term)


def _named(term: str, shape: Shape, port: int) -> Iterator[tuple[str, Shape]]:
    """Yield the axes of an input by letter, those of the ellipsis together."""
    names = _names(term)
    more = len(shape) - len(names) + ("..." in names)
    if more < 0 or ("..." not in names and more):
        text = f'"{term}" does not fit {format_shape(shape)} of rank {len(shape)}'
        raise OpError(text, code="E301", port=port)
    at = 0
    for name in names:
        count = more if name == "..." else 1
        yield name, shape[at : at + count]
        at += count


def _check_diagonals(term: str, shape: Shape, port: int) -> None:
    """Raise OpError if a letter that is twice in a term has two sizes."""
    sizes: dict[str, Dim] = {}
    for name, axes in _named(term, shape, port):
        if name == "...":
            continue
        if merge(sizes.setdefault(name, axes[0]), axes[0]) is None:
            text = f'the diagonal of "{name}" in "{term}" has the sizes {sizes[name]} and {axes[0]}'
            raise OpError(text, code="E302", port=port)


def _inverses(x: Array) -> Array:
    """Return the inverses of [..., n, n], by elimination if one of them is singular."""
    try:
        return np.linalg.inv(x)
    except np.linalg.LinAlgError:
        return _eliminated(x) if x.ndim == 2 else np.stack([_inverses(one) for one in x])


def _eliminated(x: Array) -> Array:
    """Solve for the identity with the largest pivots; those that are 0 leave Inf and NaN."""
    upper, right = x.copy(), np.eye(len(x))
    for k in range(len(x)):
        best = k + int(np.argmax(np.abs(upper[k:, k])))
        for rows in (upper, right):
            rows[[k, best]] = rows[[best, k]]
        factors = (upper[k + 1 :, k] / upper[k, k])[:, None]
        upper[k + 1 :, k:] -= factors * upper[k, k:]
        right[k + 1 :] -= factors * right[k]
    for k in reversed(range(len(x))):
        for j in range(k + 1, len(x)):
            right[k] -= upper[k, j] * right[j]
        right[k] /= upper[k, k]
    return right


@op("Inverse", since=14)
class Inverse(Op):
    """Inverse matrices: (..., n, n) -> (..., n, n), floating-point; with `adjoint` transposed.

    Computed in double precision. Singular matrices give Inf and NaN.  [matrix/Inverse-14]
    """

    signature = "data: real t [*B, N, N] -> t [*B, N, N]"
    adjoint: bool = False

    def evaluate(self, data: Array) -> Array:
        with np.errstate(all="ignore"):
            found = _inverses(data.astype(np.float64)).astype(data.dtype)
        return np.ascontiguousarray(found.swapaxes(-1, -2)) if self.adjoint else found
