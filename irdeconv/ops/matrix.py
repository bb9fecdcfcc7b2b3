"""MatMul, Einsum, Inverse, ScaledDotProductAttention."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irdeconv.base.errors import OpError, Problem, attribute_error, attribute_problem, size_error
from irdeconv.ir.op import SUM, Bound, Op, op
from irdeconv.ir.ports import Fit, want_rank
from irdeconv.ir.spec import (
    Array,
    Dim,
    Shape,
    Spec,
    broadcasts_into,
    format_shape,
    is_static,
    merge,
)
from irdeconv.kernels.contractions import Contraction
from irdeconv.kernels.eager import accumulator
from irdeconv.kernels.numpy_calls import Prepared
from irdeconv.kernels.reductions import Attention, MatrixProduct
from irdeconv.kernels.threads import Threads
from irdeconv.ops.checks import inferred_shape, is_computed, joint_shape, shape_of, widened

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
            raise size_error(1, text)
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
            yield attribute_problem("equation", f'the output has "{letter}", which no input has')
        if max(Counter(out.replace(".", "")).values(), default=0) > 1:
            yield attribute_problem("equation", f'the output "{out}" has a letter twice')

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
            raise attribute_error("equation", text)
        sizes: dict[str, Shape] = {}
        open_rank = False
        for port, (term, s) in enumerate(zip(terms, inputs, strict=True)):
            if s.shape is None:
                open_rank = open_rank or "..." in term
                continue
            named = list(_named(term, s.shape, port))
            _check_diagonals(term, named, port)
            for name, axes in named:
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

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        if not is_computed(*inputs):
            return None
        known = tuple(s.known for s in inputs)
        plan = Contraction.of(*self.subscripts(), list(map(shape_of, inputs)), known)
        return None if plan is None else Bound(plan)


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


def _check_diagonals(term: str, named: Sequence[tuple[str, Shape]], port: int) -> None:
    """Raise OpError if a letter that is twice in a term has two sizes."""
    sizes: dict[str, Dim] = {}
    for name, axes in named:
        if name == "...":
            continue
        if merge(sizes.setdefault(name, axes[0]), axes[0]) is None:
            text = f'the diagonal of "{name}" in "{term}" has the sizes {sizes[name]} and {axes[0]}'
            raise size_error(port, text)


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


_NAMES = ("query", "key", "value", "attention_mask", "scale", "sink")


def _agree(wanted: Dim, found: Dim, what: str) -> None:
    """Require the mask to have a size that other inputs have as well, or 1."""
    if merge(wanted, found) is None and merge(found, 1) is None:
        text = f"attention_mask has {found} {what}, the inputs before it have {wanted}"
        raise size_error(3, text)


def _joint_batch(batch: Shape | None, more: Shape | None, port: int) -> Shape | None:
    return joint_shape(batch, more, f"{_NAMES[port]} has batch axes {format_shape(more)}", port)


@op("ScaledDotProductAttention", since=13)
class ScaledDotProductAttention(Op):
    """softmax(query key^T scale + mask) value, matrices of at least one batch axis that broadcast.

    query (.., L, E), key (.., S, E), value (.., S, V) -> (.., L, V), one floating-point type. A
    mask (.., L or 1, S or 1) is added to the scores. A boolean mask is true for visible keys. A
    scalar is no mask. `scale`, one value, is 1 / sqrt(E) by default. Under `causal` query i sees
    keys 0 to i, and the mask is ignored. A sink (.., L or 1, 1) is one more score; its weight is
    multiplied by no value. A query that sees no key gives NaN.
    [sequence/ScaledDotProductAttention-13]
    """

    signature = (
        "query: real t [?, *Q, L, E]; key: t [?, *K, S, E]; value: t [?, *V, S, W]; "
        "attention_mask?: any; scale?: t; sink?: t -> t [*B, L, W]"
    )
    causal: bool

    def complete(self, at: Fit, *inputs: Spec | None) -> None:
        mask, scale, sink = (*inputs[3:], None, None, None)[:3]
        if mask is not None and mask.shape and not self.causal:
            want_rank(mask.shape, 2, None, 3, "attention_mask")
        if scale is not None and scale.size not in (None, 1):
            raise size_error(4, f"scale has {scale.size} values; it must have one")
        batch: Shape | None = ()
        for port, spec in enumerate(inputs[:3]):
            shape = None if spec is None else spec.shape
            batch = _joint_batch(batch, None if shape is None else shape[:-2], port)
        if mask is not None and not self.causal:
            if mask.shape is None:
                return
            if mask.shape:
                batch = _joint_batch(batch, mask.shape[:-2], 3)
                _agree(at["L"], mask.shape[-2], "queries")
                _agree(at["S"], mask.shape[-1], "keys")
        query = inputs[0]
        if sink is not None and query is not None and query.shape is not None:
            want_rank(sink.shape, len(query.shape), len(query.shape), 5, "sink")
        if batch is not None and sink is not None and sink.shape is not None:
            scores = (*batch, at["L"], 1)  # of one key
            if not broadcasts_into(sink.shape, scores):
                text = f"sink {format_shape(sink.shape)} does not broadcast to "
                raise OpError(text + format_shape(scores), code="E302", port=5)
        at.groups["B"] = batch

    def signature_for(self, inputs: tuple[Any, ...]) -> str:
        mask = inputs[3].dtype if len(inputs) > 3 and inputs[3] is not None else None
        kind = "any" if mask is None or mask.kind == "bool" else "t"
        return self.signature.replace("attention_mask?: any", f"attention_mask?: {kind}")

    def evaluate(self, *inputs: Array) -> Array:
        dtype = inputs[0].dtype
        kind = np.float64 if dtype == np.float64 else np.float32
        out = np.empty(inferred_shape(self, *inputs), kind)
        arrays = tuple(x.astype(kind, copy=False) for x in inputs[:3])
        self._compute(arrays, inputs[3:], out, Threads())
        return out.astype(dtype, copy=False)

    def _compute(self, arrays: Any, more: Sequence[Array | None], out: Array, team: Any) -> None:
        mask, scale, sink = (*more, None, None, None)[:3]
        bias = None
        if mask is not None and mask.ndim and not self.causal:
            bias = mask.astype(out.dtype, copy=False)
            if mask.dtype == bool:
                bias = np.where(mask, out.dtype.type(0), out.dtype.type(-np.inf))
        factor = None if scale is None else float(scale.item())
        if out.size:
            sinks = None if sink is None else sink.astype(out.dtype, copy=False)
            with np.errstate(all="ignore"):
                Attention(factor, self.causal).run(arrays, bias, sinks, out, team)

    def bind(self, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Bound | None:
        return Bound(_AttentionCall(self)) if is_computed(*inputs[:3]) else None

    def terms(self, inputs: Sequence[Array], output: Array) -> int:
        return int(inputs[0].shape[-1] + inputs[1].shape[-2])

    def macs(self, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> int | None:
        query, key, out = inputs[0].shape, inputs[1].shape, outputs[0].shape
        if not is_static(query) or not is_static(key) or not is_static(out):
            return None
        return math.prod(out[:-1]) * key[-2] * (query[-1] + out[-1])


@dataclass(frozen=True)
class _AttentionCall:
    op: ScaledDotProductAttention

    def __call__(self, *arrays: Array, out: Array, team: Any) -> None:
        self.op._compute(arrays[:3], arrays[3:], out, team)

    def fixed(self, *arrays: Array, out: Array) -> Prepared | None:
        if len(arrays) > 3:
            return None
        query, key, value = arrays
        return Attention(None, self.op.causal).fixed(query, key, value, out)
