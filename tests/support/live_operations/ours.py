"""irdeconv's side of a sample: the layer is inferred as declared, then run."""

from __future__ import annotations

from typing import Any

import numpy as np

import irdeconv as ird
from irdeconv.base.errors import IrdeconvError, OpError
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import lookup, parse_attributes, ports
from irdeconv.ir.spec import DYNAMIC, Spec, bounds
from irdeconv.ops.basic import Const, Parameter, Result
from support.live_operations.runtime import Answer
from support.live_operations.sample import Given, Sample


class _NotOurs(Exception):
    """What irdeconv refuses before there is a graph."""


def build(sample: Sample) -> Graph:
    """A graph of the layer with a Result for each output."""
    cls = lookup(sample.type, sample.version)
    if cls is None:
        raise _NotOurs("the operation is not known")
    values, problems = parse_attributes(cls, sample.attributes)
    errors = [p for p in problems if p.severity == "error"]
    if not errors:
        op = cls(**values)
        errors = [p for p in op.check() if p.severity == "error"]
    if errors:
        raise _NotOurs("; ".join(f"{p.code}: {p.message}" for p in errors))
    if not ports(cls).fits(len(sample.inputs)):
        raise _NotOurs(f"{len(sample.inputs)} inputs")
    g = Graph()
    sources = [_source(g, given, i) for i, given in enumerate(sample.inputs)]
    node = g.add(op, sources, name="layer")
    for i in range(sample.outputs):
        g.add(Result(), [Value(node.id, i)], name=f"r{i}")
    return g


def _source(g: Graph, given: Given, i: int) -> Value:
    dtype, values = given.tensor.dtype, given.tensor.values
    if given.constant:
        return Value(g.add(Const(dtype, values.shape, ArrayData(values, dtype)), name=f"c{i}").id)
    declared = given.declared
    shape = None if declared is None else tuple(DYNAMIC if d < 0 else d for d in declared)
    made = Value(g.add(Parameter(shape, ELEMENT_TYPES[given.carried_as]), name=f"p{i}").id)
    if given.carried_as == dtype.name:
        return made
    convert = lookup("Convert", "opset1")
    assert convert is not None
    return Value(g.add(convert(destination_type=dtype), [made], name=f"b{i}").id)


def answer(sample: Sample) -> Answer:
    """Infer and run; what is not an error of irdeconv's own gets through."""
    try:
        graph = ird.infer(build(sample))
        specs = tuple(_spec(graph, i) for i in range(sample.outputs))
        arrays = ird.run(graph, sample.feeds, form=None)
    except (_NotOurs, IrdeconvError, OpError) as e:
        return Answer("refused", message=" ".join(str(e).split())[:800])
    except Exception as e:  # a fault of irdeconv, which the table shows
        return Answer("crashed", message=f"{type(e).__name__}: {e}")
    return Answer("ran", specs, tuple(np.asarray(a) for a in arrays.values()))


def _spec(graph: Graph, port: int) -> tuple[str, Any]:
    spec: Spec = graph.find("layer")[0].spec(port)
    if spec.shape is None:
        return str(spec.dtype), None
    pairs = (bounds(d) for d in spec.shape)
    return str(spec.dtype), tuple((lo, -1 if hi is None else hi) for lo, hi in pairs)
