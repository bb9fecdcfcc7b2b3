"""Legacy reductions over the axes that the second input names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from irdeconv.graph import Value
from irdeconv.importers.builder import ImportBuilder
from irdeconv.importers.legacy.layer import LegacyLayer, Outputs, integers, layer, standard, truth
from irdeconv.ops.elementwise import Multiply
from irdeconv.ops.unary import Exp, Log

_PLAIN = ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")
_OF_TRUTHS = {"ReduceAnd": "ReduceLogicalAnd", "ReduceOr": "ReduceLogicalOr"}


def _reduced(n: LegacyLayer, b: ImportBuilder, x: Value, kind: str) -> Value:
    op = standard(kind, "opset4", keep_dims=n.flag("keep_dims", True))
    return b.add(op, x, integers(b, n[1]))


def _plain(kind: str, n: LegacyLayer, b: ImportBuilder) -> Outputs:
    return _reduced(n, b, n[0], kind)


def _of_truths(kind: str, n: LegacyLayer, b: ImportBuilder) -> Outputs:
    return _reduced(n, b, truth(b, n[0]), kind)


def _register(
    names: dict[str, str], rule: Callable[[str, LegacyLayer, ImportBuilder], Outputs]
) -> None:
    for name, kind in names.items():
        layer(name)(partial(rule, kind))


_register(dict(zip(_PLAIN, _PLAIN, strict=True)), _plain)
_register(_OF_TRUTHS, _of_truths)


@layer("ReduceLogSum")
def reduce_log_sum(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Logarithm of the sum."""
    return b.add(Log(), _reduced(n, b, n[0], "ReduceSum"))


@layer("ReduceLogSumExp")
def reduce_log_sum_exp(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Logarithm of the sum of exp(x)."""
    return b.add(Log(), _reduced(n, b, b.add(Exp(), n[0]), "ReduceSum"))


@layer("ReduceSumSquare")
def reduce_sum_square(n: LegacyLayer, b: ImportBuilder) -> Outputs:
    """Sum of squares."""
    return _reduced(n, b, b.add(Multiply(), n[0], n[0]), "ReduceSum")
