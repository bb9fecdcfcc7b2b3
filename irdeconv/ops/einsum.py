"""Einsum."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np

from irdeconv.errors import OpError, Problem
from irdeconv.op import Op, op
from irdeconv.ops.checks import one_type, want_type, widened
from irdeconv.spec import Array, Dim, Shape, Spec, broadcast, format_shape, merge

_TERM = re.compile(r"[A-Za-z]*(?:\.\.\.[A-Za-z]*)?")


@op("Einsum", since=7)
class Einsum(Op):
    """Sums of products over letters: "ij,jk->ik" is a matrix product; numbers of one type.

    Axes of one letter have one size or 1; a letter twice in a term is a diagonal, one that the
    output lacks is summed over. `...` stands for any axes, which broadcast. Without `->` the output
    has these axes and the letters that occur once, in alphabetical order.  [matrix/Einsum-7]
    """

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

    def infer(self, *inputs: Spec) -> Spec:
        for port, s in enumerate(inputs):
            want_type(s, "number", port, f"input {port}")
        dtype = one_type(*inputs, names=[f"input {port}" for port in range(len(inputs))])
        terms, out = self.subscripts()
        if len(terms) != len(inputs):
            raise OpError(
                f'"{self.equation}" has {len(terms)} inputs, there are {len(inputs)}',
                code="E304",
                attribute="equation",
            )
        sizes: dict[str, Shape] = {}
        open_rank = False
        for port, (term, s) in enumerate(zip(terms, inputs, strict=True)):
            if s.shape is None:
                open_rank = open_rank or "..." in term
                continue
            _check_diagonals(term, s.shape, port)
            for name, axes in _named(term, s.shape, port):
                sizes[name] = _joined(sizes.get(name, ()), axes, name, port)
        if ("..." in out and open_rank) or any(s.shape is None for s in inputs):
            return Spec(dtype, None)
        dims: list[Dim] = []
        for name in _names(out):
            dims += sizes.get(name, ())
        return Spec(dtype, tuple(dims))

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
        raise OpError(
            f'"{term}" does not fit {format_shape(shape)} of rank {len(shape)}',
            code="E301",
            port=port,
        )
    at = 0
    for name in names:
        count = more if name == "..." else 1
        yield name, shape[at : at + count]
        at += count


def _check_diagonals(term: str, shape: Shape, port: int) -> None:
    """Raise OpError where a letter that stands twice in a term has two sizes."""
    sizes: dict[str, Dim] = {}
    for name, axes in _named(term, shape, port):
        if name == "...":
            continue
        both = merge(sizes.setdefault(name, axes[0]), axes[0])
        if both is None:
            raise OpError(
                f'the diagonal of "{name}" in "{term}" has the sizes {sizes[name]} and {axes[0]}',
                code="E302",
                port=port,
            )


def _joined(have: Shape, axes: Shape, name: str, port: int) -> Shape:
    try:
        return broadcast(have, axes) or ()
    except ValueError as e:
        raise OpError(f'the sizes of "{name}": {e}', code="E302", port=port) from None
