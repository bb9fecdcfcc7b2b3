"""ONNX's rules of ai.onnx.ml: scaling, linear models, trees and support vector machines.

All trees are walked at once. ONNX Runtime settles what ONNX leaves open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from irdeconv.formats.importing import ImportBuilder, Refusal, named_operations, source_node
from irdeconv.formats.onnx_node import OnnxNode, Outputs, rule
from irdeconv.ir.dtypes import f32, f64, i64, string
from irdeconv.ir.graph import Graph, Info, Value
from irdeconv.ir.spec import Array
from irdeconv.ops.activation import Clamp, Sigmoid, SoftMax
from irdeconv.ops.bodies import Body, BodyInput, BodyOutput
from irdeconv.ops.control import Loop
from irdeconv.ops.elementwise import (
    Abs,
    Equal,
    Exp,
    Greater,
    GreaterEqual,
    IsNaN,
    LogicalAnd,
    LogicalOr,
    Power,
    SquaredDifference,
    Tanh,
)
from irdeconv.ops.indexing import GatherElements
from irdeconv.ops.matrix import MatMul
from irdeconv.ops.movement import Broadcast, Concat
from irdeconv.ops.ordering import TopK
from irdeconv.ops.reduction import ReduceL1, ReduceL2, ReduceLogicalOr, ReduceMax, ReduceSum

ML = "ai.onnx.ml"
_COMPARISONS = "LEQ=LessEqual LT=Less GTE=GreaterEqual GT=Greater EQ=Equal NEQ=NotEqual"
COMPARISONS = {f"BRANCH_{word}": op for word, op in named_operations(_COMPARISONS)}
DEEPEST_TREE = 128  # levels, of which each becomes some ten operations


def _numbers(n: OnnxNode, b: ImportBuilder, name: str, *shape: int) -> Value:
    return b.const(np.array(n.numbers(name), np.float32).reshape(shape or (-1,)))


def _rows(n: OnnxNode, b: ImportBuilder) -> Value:
    """Return the data (N, features); a vector is one row."""
    return n[0] if b.rank(n[0]) > 1 else b.reshape(n[0], (1, -1))


rule("ArrayFeatureExtractor", "1", ML)(  # along the last axis
    lambda n, b: b.take(_rows(n, b), b.reshape(n[1], (-1,)), -1)
)


@rule("Binarizer", "1", ML)
def binarizer(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """1 if x is above the threshold, else 0."""
    above = b.add(Greater(), n[0], b.like(n.number("threshold", 0.0), n[0]))
    return b.select(above, b.like(1, n[0]), b.like(0, n[0]))


@rule("Scaler", "1", ML)
def scaler(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """(x - offset) * scale, numbers for all features or one for each."""
    centred = b.sub(b.convert(n[0], f32), _numbers(n, b, "offset"))
    return b.mul(centred, _numbers(n, b, "scale"))


@rule("Normalizer", "1", ML)
def normalizer(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Divide rows by their maximum or norm, unless it is 0."""
    x, norms = b.convert(n[0], f32), {"MAX": ReduceMax, "L1": ReduceL1, "L2": ReduceL2}
    size = b.add(n.meaning("norm", "MAX", norms)(keep_dims=True), x, b.ints(-1))
    empty = b.add(Equal(), size, b.like(0, size))
    return b.div(x, b.select(empty, b.like(1, size), size))


@rule("ZipMap", "1", ML)
def zip_map(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The probabilities as they are: a tensor instead of a sequence of maps by label."""
    n.accept("classlabels_int64s", "classlabels_strings")
    n.remarks.append("the output is the tensor of probabilities; ONNX Runtime returns maps of them")
    return n[0]


def _after(n: OnnxNode, b: ImportBuilder, y: Value) -> Value:
    ops = {"NONE": None, "LOGISTIC": Sigmoid(), "SOFTMAX": SoftMax(1)}
    op = n.meaning("post_transform", "NONE", ops)
    return y if op is None else b.add(op, y)


def _labels(n: OnnxNode, b: ImportBuilder, integers: str) -> Value:
    texts, numbers = n.texts("classlabels_strings"), n.ints(integers)
    return b.const(np.array(texts, object), string) if texts else b.ints(*numbers)


def _best(b: ImportBuilder, labels: Value, scores: Value) -> Value:
    """Return the label of the highest score, of equal ones the first."""
    place = b.outputs(TopK(1, "max", "value", True, i64), scores, b.scalar(1))[1]
    return b.take(labels, b.squeeze(place, 1), 0)


def _classified(n: OnnxNode, b: ImportBuilder, y: Value, labels: Value, *ends: float) -> Outputs:
    """Return labels and scores; of two classes by the second's score: its threshold, both's sum."""

    def both(total: float) -> Value:
        return b.add(Concat(1), b.sub(b.like(total, y), y), y)

    count, columns = b.size(labels, 0), b.size(y, 1)
    if (columns, count) == (1, 2):
        logistic = n.choice("post_transform", "NONE SOFTMAX LOGISTIC") == "LOGISTIC"
        scores = b.add(Sigmoid(), both(0)) if logistic else both(ends[1])
        return _best(b, labels, both(2 * ends[0])), scores
    if columns != count or count < 2:
        raise Refusal(f"{columns} scores for {count} labels")
    return _best(b, labels, y), _after(n, b, y)


def _linear(n: OnnxNode, b: ImportBuilder, rows: int) -> Value:
    x, weights = b.convert(_rows(n, b), f32), _numbers(n, b, "coefficients", rows, -1)
    y = b.add(MatMul(transpose_b=True), x, weights)
    return b.plus(y, _numbers(n, b, "intercepts")) if n.numbers("intercepts") else y


rule("LinearRegressor", "1", ML)(lambda n, b: _after(n, b, _linear(n, b, n.integer("targets", 1))))


@rule("LinearClassifier", "1", ML)
def linear_classifier(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Labels and scores: linear functions of the features, one for each class or of the second."""
    n.accept("multi_class")
    labels = _labels(n, b, "classlabels_ints")
    y = _linear(n, b, len(n.numbers("intercepts")) or b.size(labels, 0))
    return _classified(n, b, y, labels, 0, 1)


def _votes(n: OnnxNode, b: ImportBuilder, kind: str, columns: int) -> tuple[Value, Array]:
    """Return the sums (N, columns) of the weights of the leaves that rows reach; all weights."""
    n.accept("nodes_hitrates")
    trees, modes = n.ints("nodes_treeids"), n.texts("nodes_modes")
    number = {key: at for at, key in enumerate(zip(trees, n.ints("nodes_nodeids"), strict=True))}
    leaf, nexts = np.array(modes) == "LEAF", []
    for side in ("nodes_truenodeids", "nodes_falsenodeids"):
        nodes = enumerate(zip(leaf, trees, n.ints(side), strict=True))
        # A leaf follows itself.
        nexts.append(np.array([at if end else number[t, to] for at, (end, t, to) in nodes]))
    level = np.setdiff1d(np.arange(leaf.size), [side[~leaf] for side in nexts])
    step, depth = _step(n, b, nexts), 0
    rows = b.take(b.shape_of(_rows(n, b)), b.ints(0), 0)
    place = b.add(Broadcast("numpy"), b.const(level), b.add(Concat(0), rows, b.ints(level.size)))
    while (level := level[~leaf[level]]).size:
        if (depth := depth + 1) > DEEPEST_TREE:
            raise Refusal(f"trees of more than {DEEPEST_TREE} levels")
        place, level = step(place), np.unique([side[level] for side in nexts])
    weights = np.zeros((leaf.size, columns), np.float32)
    keys = zip(n.ints(f"{kind}_treeids"), n.ints(f"{kind}_nodeids"), strict=True)
    cells = [number[key] for key in keys], list(n.ints(f"{kind}_ids"))
    leaves = Counter(zip(trees, modes, strict=True))
    votes = Counter(zip(n.ints(f"{kind}_treeids"), cells[1], strict=True))
    partial = any(count != leaves[tree, "LEAF"] for (tree, _), count in votes.items())
    if partial and (n.numbers("base_values") or min(n.numbers(f"{kind}_weights")) < 0):
        raise Refusal("leaves of one tree with weights of different classes or targets")
    np.add.at(weights, cells, n.numbers(f"{kind}_weights"))
    if n.choice("aggregate_function", "SUM AVERAGE") == "AVERAGE":
        weights /= len(set(trees))
    found = b.take(b.const(weights), place, 0)
    y = b.add(ReduceSum(keep_dims=False), found, b.ints(1))
    base = _numbers(n, b, "base_values") if n.numbers("base_values") else None
    return b.plus(y, base), weights


def _step(n: OnnxNode, b: ImportBuilder, nexts: Sequence[Array]) -> Callable[[Value], Value]:
    """Return the function from nodes (N, trees) to those that follow."""
    kinds = {*n.texts("nodes_modes")} - {"LEAF"}
    if len(kinds) > 1:
        raise Refusal(f"the comparisons {', '.join(sorted(kinds))} in one ensemble")
    wide = f64 if b.dtype(n[0]) == f64 else f32
    x, edges = (b.convert(v, wide) for v in (_rows(n, b), _numbers(n, b, "nodes_values")))
    missing = np.array(n.ints("nodes_missing_value_tracks_true"), bool)
    feature = b.ints(*n.ints("nodes_featureids"))
    tables = [edges, *map(b.const, nexts), b.const(missing)]

    def step(place: Value) -> Value:
        def of(table: Value) -> Value:
            return b.take(table, place, 0)

        found = b.add(GatherElements(1), x, of(feature))
        goes = b.add(COMPARISONS[min(kinds)], found, of(tables[0]))
        if missing.any():
            lost = b.add(LogicalAnd(), b.add(IsNaN(), found), of(tables[3]))
            goes = b.add(LogicalOr(), goes, lost)
        return b.select(goes, of(tables[1]), of(tables[2]))

    return step


rule("TreeEnsembleRegressor", "1 3", ML)(
    lambda n, b: _after(n, b, _votes(n, b, "target", n.integer("n_targets", 1))[0])
)


@rule("TreeEnsembleClassifier", "1 3", ML)
def tree_classifier(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Labels and scores: sums of the trees' weights, of each class or the second of two."""
    labels, classes = _labels(n, b, "classlabels_int64s"), set(n.ints("class_ids"))
    count, base = b.size(labels, 0), len(n.numbers("base_values"))
    columns = 1 if count == 2 else count
    if classes != set(range(columns)) or base not in (0, columns):
        raise Refusal("systems differ in labels for these class_ids and base_values")
    y, weights = _votes(n, b, "class", columns)
    return _classified(n, b, y, labels, *((0.5, 1) if (weights >= 0).all() else (0, 0)))


def _kernel(n: OnnxNode, b: ImportBuilder, vectors: Array, kind: str) -> Value:
    """Return the kernel's values (N, vectors) of the rows and the support vectors."""
    x = b.convert(_rows(n, b), f32)
    gamma, start, degree = n.numbers("kernel_params") or (0.0, 0.0, 0.0)
    if kind == "RBF":
        apart = b.add(SquaredDifference(), b.unsqueeze(x, 1), b.const(vectors))
        squares = b.add(ReduceSum(keep_dims=False), apart, b.ints(2))
        return b.add(Exp(), b.times(squares, -gamma))
    y = b.add(MatMul(transpose_b=True), x, b.const(vectors))
    if kind == "LINEAR":
        return y
    y = b.plus(b.times(y, gamma), b.like(start, y))
    return b.add(Tanh(), y) if kind == "SIGMOID" else b.add(Power(), y, b.like(degree, y))


def _support(n: OnnxNode, b: ImportBuilder, count: int, rows: int) -> tuple[Value, Array]:
    """Return the kernel's values and the coefficients (rows, vectors).

    Without support vectors the coefficients take their place, and the kernel is linear.
    """
    kind = n.choice("kernel_type", "LINEAR POLY RBF SIGMOID")
    numbers = np.array(n.numbers("coefficients"), np.float32).reshape(rows, -1)
    if not count:
        return _kernel(n, b, numbers, "LINEAR"), numbers
    vectors = np.array(n.numbers("support_vectors"), np.float32).reshape(count, -1)
    return _kernel(n, b, vectors, kind), numbers


@rule("SVMRegressor", "1", ML)
def svm_regressor(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """The kernel's values times the coefficients, + rho; 1 or -1 by its sign for one class."""
    n.only("post_transform", "NONE")
    count = n.integer("n_supports")
    y, numbers = _support(n, b, count, 1)
    if count:
        y = b.add(MatMul(transpose_b=True), y, b.const(numbers))
    y = b.plus(y, _numbers(n, b, "rho"))
    if not n.flag("one_class", False):
        return y
    return b.select(b.add(Greater(), y, b.like(0, y)), b.like(1, y), b.like(-1, y))


@rule("SVMClassifier", "1", ML)
def svm_classifier(n: OnnxNode, b: ImportBuilder) -> Outputs:
    """Labels by the votes of all pairs of classes; scores of pairs, or probabilities of classes.

    Without support vectors each class has a linear score, and the highest one decides.
    """
    labels, counts = _labels(n, b, "classlabels_ints"), n.ints("vectors_per_class")
    classes, total = b.size(labels, 0), sum(counts)
    if classes < 2 or (total and len(counts) != classes):
        raise Refusal(f"{len(counts)} numbers of vectors_per_class for {classes} labels")
    values, numbers = _support(n, b, total, classes - 1 if total else classes)
    if not total:
        y = b.plus(values, b.like(n.numbers("rho")[0], values))
        return _highest(n, b, labels, y, positive=bool((numbers >= 0).all())), _after(n, b, y)
    y, votes = _pairs(n, b, values, numbers, counts)
    if n.numbers("prob_a"):
        scores = _after(n, b, _probabilities(n, b, y, classes))
    elif classes > 2:
        scores = _after(n, b, y)
    else:
        post = n.choice("post_transform", "NONE SOFTMAX LOGISTIC")
        scores = b.add(Concat(1), b.sub(b.like(post == "SOFTMAX", y), y), y)
        scores = b.add(Sigmoid(), scores) if post == "LOGISTIC" else scores
    return _best(b, labels, votes), scores


def _highest(n: OnnxNode, b: ImportBuilder, labels: Value, y: Value, *, positive: bool) -> Value:
    """Return the label of the highest score; of two classes the second's beyond a threshold."""
    best = _best(b, labels, y)
    n.accept("prob_b")
    if b.size(labels, 0) != 2 or n.numbers("prob_a"):
        return best
    top, op = b.add(ReduceMax(keep_dims=False), y, b.ints(1)), (Greater, GreaterEqual)[positive]
    second = b.take(labels, b.scalar(1), 0)
    return b.select(b.add(op(), top, b.like(positive / 2, top)), second, best)


def _pairs(
    n: OnnxNode, b: ImportBuilder, values: Value, numbers: Array, counts: Sequence[int]
) -> tuple[Value, Value]:
    """Return the scores (N, pairs) of classes i < j, and the votes (N, classes).

    Row j - 1 of the coefficients has those of class i against j, row i those of j against i.
    """
    ends, pairs = np.cumsum((0, *counts)), list(combinations(range(len(counts)), 2))
    weights = np.zeros((len(pairs), int(ends[-1])))
    wins, losses = np.zeros((2, len(pairs), len(counts)), np.float32)
    for at, (i, j) in enumerate(pairs):
        for own, row in ((i, j - 1), (j, i)):
            part = slice(ends[own], ends[own + 1])
            weights[at, part] = numbers[row, part]
        wins[at, i] = losses[at, j] = 1
    # ONNX Runtime adds in f64.
    y = b.add(MatMul(transpose_b=True), b.convert(values, f64), b.const(weights))
    y = b.plus(y, b.convert(_numbers(n, b, "rho"), f64))
    first = b.convert(b.add(Greater(), y, b.like(0, y)), f32)
    second = b.sub(b.like(1, first), first)
    votes = (b.add(MatMul(), v, b.const(w)) for v, w in ((first, wins), (second, losses)))
    return b.convert(y, f32), b.plus(*votes)


def _probabilities(n: OnnxNode, b: ImportBuilder, y: Value, classes: int) -> Value:
    """Return the probabilities p (N, classes) that fit those of the pairs, r.

    They minimise the sum over pairs of (r_ji p_i - r_ij p_j)^2, which is p'Qp, by steps along one
    class after another (Wu, Lin and Weng 2004).
    """
    z = b.mul(y, _numbers(n, b, "prob_a"))
    z = b.add(Sigmoid(), b.plus(z, _numbers(n, b, "prob_b")))
    won = b.add(Clamp(1e-7, 1 - 1e-7), b.sub(b.like(1, z), z))
    each = b.add(Concat(1), won, b.sub(b.like(1, won), won), b.times(won, 0))
    pairs = list(combinations(range(classes), 2))
    place = np.full((classes, classes), 2 * len(pairs))
    for at, (i, j) in enumerate(pairs):
        place[i, j], place[j, i] = at, at + len(pairs)
    r, transposed = (b.take(each, b.const(v), 1) for v in (place, place.T))
    squares = b.add(ReduceSum(keep_dims=True), b.mul(r, r), b.ints(1))
    unit = b.const(np.eye(classes, dtype=np.float32))
    q = b.sub(b.mul(squares, unit), b.mul(r, transposed))
    nothing = b.take(b.times(q, 0), b.ints(0), 1)
    start = b.plus(nothing, b.like(1 / classes, q))
    body = _coupling(b, q, start)
    p = b.add(Loop(bodies=(body,)), b.scalar(100), b.const(np.array(True)), start, q)
    return b.squeeze(p, 1)


def _coupling(b: ImportBuilder, q: Value, start: Value) -> Body:
    """Return a round of steps of p (N, 1, classes) along each class, with Q (N, classes, classes).

    Rows of the batch whose error is small keep p: their steps are 0. Without others it is over.
    """
    name, graph = b.source.name, Graph(Info(name=b.source.name, file=b.graph.info.file))
    inner = ImportBuilder(graph, source_node(name, b.source.location))
    classes = b.size(q, 2)
    p, q = (inner.stand_in(*pair) for pair in (("p", b.spec(start)), ("q", b.spec(q))))
    entries = (BodyInput(p.node, 2), BodyInput(q.node, 3))

    first, f = p, inner.add(MatMul(), p, q)
    s = inner.add(MatMul(transpose_b=True), p, f)
    error = inner.add(Abs(), inner.sub(f, s))
    error = inner.add(ReduceMax(keep_dims=True), error, inner.ints(2))
    going = inner.add(GreaterEqual(), error, inner.like(0.005 / classes, s))
    for i in range(classes):
        row = inner.take(q, inner.ints(i), 1)
        own, slope = (inner.take(v, inner.ints(i), 2) for v in (row, f))
        step = inner.div(inner.sub(s, slope), own)
        step = inner.select(going, step, inner.like(0, s))
        total = inner.plus(inner.like(1, s), step)
        gain = inner.plus(inner.mul(step, own), inner.times(slope, 2))
        s = inner.plus(s, inner.mul(step, gain))
        s = inner.div(inner.div(s, total), total)
        f = inner.div(inner.plus(f, inner.mul(step, row)), total)
        unit = inner.const(np.eye(classes, dtype=np.float32)[i])
        p = inner.div(inner.plus(p, inner.mul(step, unit)), total)
    more = inner.add(ReduceLogicalOr(keep_dims=False), going, inner.ints(0, 1, 2))
    for name, value in (("more", more), ("next", p)):
        inner.result(value, name)
    condition, after = (n.id for n in graph.results)
    inner.finish()
    outputs = BodyOutput(condition, condition=True), BodyOutput(after, 0)
    return Body(graph, entries, outputs, ((after, first.node),))
