"""Simpler attributes and numbers: neutral attributes, constants and inputs of ones and zeros."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from irdeconv.constant import ArrayData
from irdeconv.graph import Node
from irdeconv.op import Op, attributes
from irdeconv.ops.basic import Const, Opaque, Parameter
from irdeconv.reducing.search import Search
from irdeconv.reducing.variant import PASSIVE, Variant
from irdeconv.spec import Array

NEUTRAL = {"strides": 1, "dilations": 1, "pads_begin": 0, "pads_end": 0, "output_padding": 0}


def exact_shapes(search: Search) -> None:
    """Give open inputs the shapes of their values, if the fault does not need them open."""

    def edit(node: Node) -> Op | None:
        if not isinstance(node.op, Parameter) or node.name not in search.best.feeds:
            return None
        shape = search.best.feeds[node.name].shape
        return None if node.op.shape == shape else dataclasses.replace(node.op, shape=shape)

    search.fails(search.best.edited(edit))


def without_notes(search: Search) -> None:
    """Leave out what the file notes beside layers: rt_info, names of tensors, extra attributes."""
    graphs = tuple(g.copy() for g in search.best.graphs)
    for graph in graphs:
        graph.info = dataclasses.replace(graph.info, rt_info=None, extra=())
        for node in graph.nodes():
            node.rt_info, node.port_rt_info, node.extra = None, (), ()
    search.fails(Variant(graphs, search.best.feeds))


def plainer_attributes(search: Search) -> None:
    """Set attributes to what does nothing, or to their defaults, one by one."""
    for node in search.best.layers:
        for name, value in _plainer(node.op):
            search.fails(_with_attribute(search.best, node.name, name, value))


def _plainer(op: Op) -> Iterator[tuple[str, Any]]:
    if isinstance(op, Opaque):
        return
    for attribute in attributes(type(op)).values():
        value = getattr(op, attribute.name)
        if attribute.name in NEUTRAL and isinstance(value, tuple):
            plain: Any = (NEUTRAL[attribute.name],) * len(value)
        elif attribute.required:
            continue
        else:
            plain = attribute.default
        if plain != value:
            yield attribute.name, plain


def _with_attribute(variant: Variant, layer: str, name: str, value: Any) -> Variant | None:
    def edit(node: Node) -> Op | None:
        fits = node.name == layer and node.type not in PASSIVE and hasattr(node.op, name)
        if not fits or getattr(node.op, name) == value:
            return None
        return dataclasses.replace(node.op, **{name: value})

    return variant.edited(edit)


def simpler_numbers(search: Search) -> None:
    """Replace constants, then inputs, by zeros, ones or small whole numbers."""
    for node in list(search.best.graph.nodes()):
        for simple in _SIMPLE:
            if search.fails(_with_numbers(search.best, node, simple)):
                break


def _with_numbers(
    variant: Variant, chosen: Node, simple: Callable[[Array], Array]
) -> Variant | None:
    if isinstance(chosen.op, Parameter):
        old = variant.feeds[chosen.name]
        if not _real(old) or np.array_equal(new := simple(old), old):
            return None
        return variant.edited(lambda node: None, {chosen.name: new})

    def edit(node: Node) -> Op | None:
        op = node.op
        if node.name != chosen.name or not isinstance(op, Const) or not op.data.available:
            return None
        old = op.data.array()
        if not op.element_type.is_real or np.array_equal(new := simple(old), old):
            return None
        return dataclasses.replace(op, data=ArrayData.of(new, op.element_type))

    return variant.edited(edit)


def _real(array: Array) -> bool:
    return array.dtype.kind == "f" or (array.dtype.kind == "V" and array.dtype.isbuiltin == 2)


def _small(array: Array) -> Array:
    """Return whole numbers of one digit that keep the order of magnitude and the sign."""
    values = np.nan_to_num(array.astype(np.float64), posinf=1e9, neginf=-1e9)
    top = float(np.abs(values).max(initial=0.0))
    scaled = np.rint(values * (4 / top if top else 1.0))
    return np.asarray(scaled.astype(array.dtype))


_SIMPLE: tuple[Callable[[Array], Array], ...] = (
    lambda a: np.zeros(a.shape, a.dtype),
    lambda a: np.ones(a.shape, a.dtype),
    _small,
)
