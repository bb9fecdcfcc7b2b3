"""Which constants stand behind a layer, and how large they are."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from irdeconv.constant import FileData
from irdeconv.graph import Graph, Value
from irdeconv.op import Op
from irdeconv.ops.basic import Const
from irdeconv.passes.layer_counts import constant_layers
from irdeconv.spec import Array, is_static

_FEW = 16  # constants that are added up one by one


class ConstantSources:
    """The nodes of a graph that depend on constants alone, and the constants behind each.

    Constants that meet before they reach a layer are a group. What stands behind a node is a set of
    bits, one for each constant of its group: most groups are one constant, and where thousands are
    added up before anything else reads them, sets of their ids would take gigabytes.
    """

    def __init__(self, graph: Graph, inputs: dict[int, tuple[Value, ...]]) -> None:
        self.own: dict[int, tuple[int, int]] = {}
        self._bits: dict[int, int] = {}
        self._sizes: dict[int, tuple[list[int], list[int]]] = {}
        self._arrays: dict[int, tuple[Array, Array]] = {}
        constant = constant_layers(graph, inputs)
        self._group = _groups(constant)
        for node, producers in constant.items():
            if producers:
                bits = 0
                for p in producers:
                    bits |= self._bits[p]
            else:
                counts, stored = self._sizes.setdefault(self._group[node], ([], []))
                bits = 1 << len(counts)
                size = self.own[node] = const_size(graph.node(node).op)
                counts.append(size[0])
                stored.append(size[1])
            self._bits[node] = bits

    def __contains__(self, node: int) -> bool:
        return node in self._bits

    def behind(self, nodes: Iterable[int]) -> tuple[int, int]:
        """Return elements and bytes of all constants behind the nodes; none counts twice."""
        bits: dict[int, int] = {}
        for node in nodes:
            if node in self._bits:
                group = self._group[node]
                bits[group] = bits.get(group, 0) | self._bits[node]
        totals = [self._total(group, mask) for group, mask in bits.items()]
        return sum(n for n, _ in totals), sum(b for _, b in totals)

    def _total(self, group: int, bits: int) -> tuple[int, int]:
        sizes = self._sizes[group]
        if bits.bit_count() <= _FEW:
            return _sum(sizes[0], bits), _sum(sizes[1], bits)
        if group not in self._arrays:
            exact = np.int64 if sum(map(sum, sizes)) < 1 << 62 else object
            self._arrays[group] = np.array(sizes[0], exact), np.array(sizes[1], exact)
        counts, stored = self._arrays[group]
        return _masked_sum(counts, bits), _masked_sum(stored, bits)


def _sum(sizes: list[int], bits: int) -> int:
    """Return the sum of the sizes whose bits are set."""
    total = 0
    while bits:
        lowest = bits & -bits
        total += sizes[lowest.bit_length() - 1]
        bits ^= lowest
    return total


def _masked_sum(sizes: Array, bits: int) -> int:
    """Return the same for many bits."""
    chosen = np.frombuffer(bits.to_bytes(-(-sizes.size // 8), "little"), np.uint8)
    return int(sizes[np.unpackbits(chosen, count=sizes.size, bitorder="little") == 1].sum())


def _groups(constant: dict[int, list[int]]) -> dict[int, int]:
    """Return a number for every node: the same for nodes that edges between them connect."""
    near: dict[int, list[int]] = {node: [] for node in constant}
    for node, producers in constant.items():
        for p in producers:
            near[node].append(p)
            near[p].append(node)
    group: dict[int, int] = {}
    for first in constant:
        stack = [] if first in group else [first]
        while stack:
            node = stack.pop()
            if node not in group:
                group[node] = first
                stack += near[node]
    return group


def const_size(op: Op) -> tuple[int, int]:
    """Return elements and stored bytes of a constant; zeros for other operations."""
    if not isinstance(op, Const) or not is_static(op.shape):
        return 0, 0
    count = math.prod(op.shape)
    if isinstance(op.data, FileData):
        return count, op.data.size
    return count, op.element_type.nbytes(count)
