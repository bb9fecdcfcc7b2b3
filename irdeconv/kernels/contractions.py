"""Sums of products over letters (Einsum), as products of matrices of two tensors at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from irdeconv.ir.spec import Array
from irdeconv.kernels import jit
from irdeconv.kernels.candidate import Piece
from irdeconv.kernels.numpy_calls import NumPyCalls, Prepared, kept, moved
from irdeconv.kernels.recorded_calls import Repeated, complete, recorded_copy, recorded_products
from irdeconv.kernels.threads import Team

Ints = tuple[int, ...]
Known = tuple[Array | None, ...]
FEW_SUMS = 1 << 17  # multiply-adds, up to which calls of NumPy cost more


@dataclass(frozen=True)
class _Pair:
    """Two tensors, by number, as matrices `[B, M, K]` and `[B, K, N]`.

    `axes` are theirs in that order, `shapes` those of the matrices; the product has `sizes`, and
    its axes are `back` in the result.
    """

    numbers: tuple[int, int]
    axes: tuple[Ints, Ints]
    shapes: tuple[Ints, Ints]
    sizes: Ints
    back: Ints

    def views(self, values: Sequence[Array]) -> list[Array]:
        """Return the matrices, which are copies if a view will not do."""
        rows = zip(self.numbers, self.axes, self.shapes, strict=True)
        return [values[k].transpose(axes).reshape(shape) for k, axes, shape in rows]

    @property
    def shape(self) -> Ints:
        return (*self.shapes[0][:2], self.shapes[1][2])

    @property
    def macs(self) -> int:
        """The number of multiply-adds."""
        return math.prod(self.shapes[0]) * self.shapes[1][2]


@dataclass(frozen=True)
class Contraction:
    """Pairs, each of which appends its result to the values; `known` are constant inputs."""

    pairs: tuple[_Pair, ...]
    known: Known

    @staticmethod
    def of(
        terms: Sequence[str], out: str, shapes: Sequence[Ints], known: Known
    ) -> Contraction | None:
        """Plan it; None for letters that a term has twice or alone, and for axes that broadcast."""
        sizes: dict[str, int] = {}
        for term, shape in zip(terms, shapes, strict=True):
            for letter, size in zip(term, shape, strict=False):
                if "." in term or sizes.setdefault(letter, size) != size:
                    return None
        alone = {c for c in sizes if sum(c in t for t in (*terms, out)) < 2}
        if len(terms) < 2 or alone or any(len(set(t)) < len(t) for t in terms):
            return None
        left, terms, pairs = list(range(len(terms))), list(terms), []
        equation = f"{','.join(terms)}->{out}"
        path = np.einsum_path(equation, *(np.broadcast_to(np.float32(0), s) for s in shapes))[0]
        for step in path[1:]:
            chosen = [left.pop(k) for k in sorted(step, reverse=True)]
            while len(chosen) > 1:
                one, other = chosen.pop(), chosen.pop()
                rest = "".join(terms[k] for k in (*left, *chosen))
                pairs.append(_pair(terms, (one, other), out, rest, sizes))
                chosen.append(len(terms) - 1)
            left += chosen
        return Contraction(tuple(pairs), known)

    def __call__(self, *arrays: Array, out: Array, team: Team) -> None:
        """Write the sums into `out`."""
        values = list(arrays)
        for pair in self.pairs:
            product = np.matmul(*pair.views(values)).reshape(pair.sizes)
            values.append(product.transpose(pair.back))
        np.copyto(out, values[-1])

    def _calls(self, values: list[Array], out: Array) -> NumPyCalls:
        for pair in self.pairs:
            matrices = []
            for k, axes, shape in zip(pair.numbers, pair.axes, pair.shapes, strict=True):
                seen = values[k].transpose(axes)
                matrix = seen.reshape(shape)
                if not np.may_share_memory(matrix, seen):
                    yield moved, (seen,), matrix.reshape(seen.shape)
                matrices.append(matrix)
            left, right = matrices
            product = np.empty(pair.shape, np.float32)
            # A product of single elements takes longer than a multiplication.
            yield (np.multiply if left.shape[-1] == 1 else np.matmul), (left, right), product
            values.append(product.reshape(pair.sizes).transpose(pair.back))
        yield moved, (values[-1],), out
        return out

    def fixed(self, *arrays: Array, out: Array) -> Prepared | None:
        """See `FixedCall`; None unless it is small."""
        floats = all(x.dtype == np.float32 and x.size for x in (*arrays, out))
        if not floats or sum(p.macs for p in self.pairs) > FEW_SUMS:
            return None
        if not jit.available():
            return kept(out, self._calls(list(arrays), out))
        values, parts = list(arrays), list[Piece | None]()
        known = [*self.known, *(None for _ in self.pairs)]
        for pair in self.pairs if jit.works() else ():
            matrices = []
            for k, axes, shape in zip(pair.numbers, pair.axes, pair.shapes, strict=True):
                given = known[k]
                seen = (values[k] if given is None else given).transpose(axes)
                matrix = seen.reshape(shape)
                if given is None and not np.may_share_memory(matrix, seen):
                    parts.append(recorded_copy(seen, matrix.reshape(seen.shape)))
                matrices.append(matrix)
            product = np.empty(pair.shape, np.float32)
            constant = known[pair.numbers[1]] is not None
            left, right = matrices
            parts.append(recorded_products(left, right, product, known=constant))
            values.append(product.reshape(pair.sizes).transpose(pair.back))
        parts.append(recorded_copy(values[-1], out))
        return None if len(parts) == 1 else Repeated.of([complete(parts)])


def _pair(
    terms: list[str], numbers: tuple[int, int], out: str, rest: str, sizes: dict[str, int]
) -> _Pair:
    """Return the product of two terms, and append its term."""
    one, other = (terms[k] for k in numbers)
    kept = [c for c in dict.fromkeys((*out, *rest)) if c in one or c in other]
    if kept and kept[-1] in one and kept[-1] not in other:  # its axis becomes the last one
        one, other, numbers = other, one, numbers[::-1]
    both, rows, columns = (
        [c for c in kept if (c in one, c in other) == place]
        for place in ((True, True), (True, False), (False, True))
    )
    summed = [c for c in one if c not in kept]
    left, right, made = both + rows + summed, both + summed + columns, both + rows + columns
    terms.append("".join(kept))

    def many(letters: list[str]) -> int:
        return math.prod(sizes[c] for c in letters)

    return _Pair(
        numbers,
        (tuple(map(one.index, left)), tuple(map(other.index, right))),
        ((many(both), many(rows), many(summed)), (many(both), many(summed), many(columns))),
        tuple(sizes[c] for c in made),
        tuple(made.index(c) for c in kept),
    )
