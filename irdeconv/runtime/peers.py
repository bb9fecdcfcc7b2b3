"""Other runtimes on the same model and the same inputs, one thread each."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from irdeconv.base.errors import (
    Diagnostic,
    IrdeconvError,
    UnsupportedError,
    UsageError,
    did_you_mean,
    misused,
)
from irdeconv.base.extras import ExtraError, extra, lacking
from irdeconv.base.opening import missing
from irdeconv.formats.onnx_container import OnnxFile
from irdeconv.formats.onnx_editing import outline
from irdeconv.formats.onnx_node import SCHEMA_TYPES
from irdeconv.formats.onnx_opaque import loaded
from irdeconv.formats.xml_writer import write_ir
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.spec import DYNAMIC, Array, Spec
from irdeconv.kernels.machine import installed
from irdeconv.ops.basic import Opaque
from irdeconv.ops.core import Deconvolution
from irdeconv.rewrite.infer_specs import inferred
from irdeconv.rewrite.lower_deconv import canonicalized
from irdeconv.rewrite.standardize import standardize
from irdeconv.runtime.feeds import Binder, Feeds
from irdeconv.runtime.fusion import FusedConvolution, Users, fuse_convolution
from irdeconv.runtime.schedule import fold

Outputs = Callable[[], Sequence[Array]]


@dataclass(frozen=True)
class Source:
    """A model for peers: its graph and its file (.xml with `weights`, or .onnx), if any."""

    graph: Graph
    path: Path | None = None
    weights: Path | None = None


@dataclass(frozen=True)
class Peer:
    """A runtime that is ready to run; if it cannot, `run` is None and `problem` says why."""

    name: str
    version: str
    run: Outputs | None
    problem: str | None = None


class _Impossible(Exception):
    """A peer cannot run this model."""


@contextmanager
def peers(names: Sequence[str], source: Source, inputs: Feeds) -> Iterator[list[Peer]]:
    """Yield the peers by name; UsageError for an unknown name, UnsupportedError without one."""
    for name in names:
        require_peer(name)
    binder = Binder.of(source.graph)
    arrays = dict(zip(binder.inputs, binder.bind(inputs), strict=True))
    with TemporaryDirectory() as folder:
        yield [_peer(name, source, arrays, Path(folder)) for name in names]


def require_side(side: str) -> None:
    """Raise UsageError for a word that is neither a file nor a runtime."""
    if not (re.search(r"[./\\]", side) or os.path.exists(side)):
        hint = _near(side) or "a file is a model, or an .npz of arrays"
        raise misused(f'"{side}" is neither a file nor {" or ".join(PEERS)}', hint)


def _near(name: str) -> str | None:
    return did_you_mean({"ort": "onnxruntime", "ov": "openvino"}.get(name, name), PEERS)


def require_peer(name: str) -> None:
    """Raise UsageError for an unknown name, UnsupportedError if a package of it is missing."""
    runtime, _, file = name.partition(":")
    if file and runtime in PEERS:
        raise misused(f"{runtime} executes the same model", f"write {runtime} alone")
    if name not in PEERS and "." in name:
        hint = "a report that bench --save wrote is a .json"
        raise misused(f"{name} is no report", hint) if Path(name).exists() else missing(name)
    if name not in PEERS:
        raise misused(f'there is no peer "{name}"', _near(name) or f"there are {', '.join(PEERS)}")
    for package in PEERS[name].packages:
        if installed(package) is None:
            raise lacking(f"comparing with {name}", package)


def _peer(name: str, source: Source, inputs: Mapping[str, Array], folder: Path) -> Peer:
    version = installed(name) or "unknown"
    try:
        run = PEERS[name].load(source, inputs, folder)
        run()
    except _Impossible as e:
        return Peer(name, version, None, str(e))
    except UsageError:
        raise
    except ExtraError as e:
        return Peer(name, version, None, f"a package that it needs {e}")
    except Exception as e:  # peers raise errors of many kinds
        return Peer(name, version, None, f"{type(e).__name__}: {first_line(str(e))}")
    return Peer(name, version, run)


def first_line(text: str, width: int = 200) -> str:
    """Return the first line that is not empty, shortened."""
    line = next((x.strip() for x in text.splitlines() if x.strip()), "")
    return line if len(line) <= width else f"{line[: width - 3]}..."


def last_line(text: str) -> str:
    """Return the last line that is not empty."""
    return next((x.strip() for x in reversed(text.splitlines()) if x.strip()), "")


def difference(own: Iterable[Array], other: Iterable[Array]) -> float:
    """Return the largest difference relative to each output's largest value; infinite if shapes
    or the number of outputs differ.
    """
    a, b = list(own), list(other)
    if [x.shape for x in a] != [x.shape for x in b]:
        return math.inf
    return max((_relative(x, y) for x, y in zip(a, b, strict=True)), default=0.0)


def _relative(a: Array, b: Array) -> float:
    if not a.size or np.array_equal(a, b):
        return 0.0
    if a.dtype == object or b.dtype == object:
        return math.inf
    x, y = a.astype(np.float64), b.astype(np.float64)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    with np.errstate(invalid="ignore"):
        gap = float(np.abs(np.where(same, 0, x - y)).max())
    scale = float(np.abs(y[np.isfinite(y)]).max(initial=0))
    return math.inf if math.isnan(gap) else gap / scale if scale else gap


def in_order(ends: Sequence[set[str]], inputs: Mapping[str, Array]) -> list[Array]:
    """Return the inputs for a peer's ports, by name if all names are known, else in order."""
    if len(ends) != len(inputs):
        raise _Impossible(f"it reads {len(ends)} inputs from the file, irdeconv {len(inputs)}")
    named = [next((inputs[n] for n in names if n in inputs), None) for names in ends]
    known = [a for a in named if a is not None]
    return known if len(known) == len(ends) else list(inputs.values())


def _openvino(source: Source, inputs: Mapping[str, Array], folder: Path) -> Outputs:
    """Load the file itself; a graph without a file is written by `irdeconv.write` first."""
    ov = extra("openvino", "Core")
    path, weights = source.path, source.weights
    if path is None:
        path = folder / "model.xml"
        write_ir(standardize(source.graph), path)
    core = ov.Core()
    model = core.read_model(str(path), str(weights)) if weights else core.read_model(str(path))
    ends = [{*port.names, port.get_node().friendly_name} for port in model.inputs]
    arrays = in_order(ends, inputs)
    shapes = [list(a.shape) for a in arrays]
    if [str(list(p.partial_shape)) for p in model.inputs] != [str(s) for s in shapes]:
        model.reshape(dict(zip(model.inputs, map(ov.PartialShape, shapes), strict=True)))
    options = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": 1,
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = core.compile_model(model, "CPU", options).create_infer_request()
    outputs = range(len(model.outputs))

    def run() -> list[Array]:
        request.infer(arrays)
        return [request.get_output_tensor(i).data for i in outputs]

    return run


def _onnxruntime(source: Source, inputs: Mapping[str, Array], folder: Path) -> Outputs:
    """Load the .onnx that the graph was made of, or spell a single deconvolution as a model."""
    if source.path is not None and source.path.suffix == ".onnx":
        model: Any = str(source.path)
    else:
        model = _conv_transpose(source.graph, inputs)
    session = onnx_session(model)
    names = [end.name for end in session.get_inputs()]
    feeds = dict(zip(names, in_order([{n} for n in names], inputs), strict=True))
    return lambda: session.run(None, feeds)


def onnx_session(model: str | bytes) -> Any:
    """Load an ONNX model, or the file of this name, into ONNX Runtime with one thread."""
    ort: Any = extra("onnxruntime", "InferenceSession")
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def onnx_outputs(
    model: OnnxFile, inputs: Mapping[str, Array], names: Sequence[str] = ()
) -> list[Array]:
    """Return the outputs that ONNX Runtime computes, or the tensors of `names`, in order.

    Raises UnsupportedError (E506) if it cannot, or is missing.
    """
    require_peer("onnxruntime")
    try:
        session = _session_of(model, names)
        ends = [i.name for i in session.get_inputs()]
        feeds = dict(zip(ends, in_order([{name} for name in ends], inputs), strict=True))
        return list(session.run(list(names) or None, feeds))
    except Exception as e:  # of any class
        message = f"ONNX Runtime does not run the model: {last_line(str(e))}"
        raise UnsupportedError(Diagnostic("E506", "error", message)) from None


def _session_of(model: OnnxFile, names: Iterable[str]) -> Any:
    """Load a model into ONNX Runtime; tensors of `names` become outputs, too."""
    proto = loaded(model)
    for name in {*names}.difference(o.name for o in proto.graph.output):
        proto.graph.output.add(name=name)
    return onnx_session(proto.SerializeToString())


def outlined(model: OnnxFile) -> Graph:
    """Return `outline`; ONNX Runtime, if it is installed, adds the types of unknown operations."""
    graph = outline(model)
    other = {i.name for i in model.proto.graph.value_info if not i.type.HasField("tensor_type")}
    values = {name: v for name, v in outputs_by_name(graph).items() if name not in other}
    unknown = {name for name, v in values.items() if graph.spec(v).dtype is None}
    ends: list[Any] = []
    with suppress(Exception):  # of any class; or it is not installed
        ends += _session_of(model, unknown).get_outputs() if unknown else []
    for end in (e for e in ends if e.name in unknown and e.type in SCHEMA_TYPES):
        node, port = graph.node(values[end.name].node), values[end.name].port
        shape = tuple(d if isinstance(d, int) else DYNAMIC for d in end.shape)
        specs = list(node.specs or ())
        specs[port] = Spec(SCHEMA_TYPES[end.type], shape)
        node.specs = tuple(specs)
        if isinstance(node.op, Opaque):
            graph.replace_op(node.id, replace(node.op, declared=node.specs))
    return graph


def outputs_by_name(graph: Graph) -> dict[str, Value]:
    """Return the tensors of a graph by each of their names."""
    ports = ((n.id, p, names) for n in graph.nodes() for p, names in enumerate(n.tensor_names))
    return {name: Value(node, port) for node, port, names in ports for name in names}


def _conv_transpose(graph: Graph, inputs: Mapping[str, Array]) -> bytes:
    """Return an ONNX model of a graph that is a single deconvolution."""
    layer, filter = _single(graph)
    w = layer.problem
    per_axis = zip(w.strides, w.shape[2:], w.dilations, w.kernel, w.begin, w.sizes, strict=True)
    ends = [s * (i - 1) + d * (k - 1) + 1 - b - o for s, i, d, k, b, o in per_axis]
    if min(w.begin) < 0:
        raise _Impossible("ConvTranspose has no negative pads")
    helper, to_tensor = extra("onnx.helper"), extra("onnx.numpy_helper").from_array
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(w.dtype))
    (name,) = inputs
    node = helper.make_node(
        "ConvTranspose",
        [name, "filter"],
        ["out"],
        strides=w.strides,
        dilations=w.dilations,
        pads=[*w.begin, *(max(e, 0) for e in ends)],
        output_padding=[max(-e, 0) for e in ends],
        group=w.groups,
    )
    data = helper.make_tensor_value_info(name, kind, w.shape)
    out = helper.make_tensor_value_info("out", kind, w.out_shape)
    made = helper.make_graph([node], "layer", [data], [out], [to_tensor(filter, "filter")])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9  # which all versions of ONNX Runtime from 1.16 on read
    return bytes(model.SerializeToString())


def _single(graph: Graph) -> tuple[FusedConvolution, Array]:
    """Return the only layer of a graph, and its filter as ConvTranspose wants it."""
    hint = "name the .onnx that the model was made of"
    problem = misused("ONNX Runtime runs only an .onnx, or an IR of a single deconvolution", hint)
    try:
        ready = canonicalized(inferred(graph))
        folded = fold(ready)
    except IrdeconvError as e:
        raise problem from e
    if len(folded.order) != 1 or not isinstance(folded.order[0].op, Deconvolution):
        raise problem
    layer = fuse_convolution(ready, folded.order[0], folded.constants, Users(ready, folded.order))
    if layer is None or layer.filter not in folded.constants:
        raise _Impossible("the deconvolution's sizes or filter are not constant")
    filter = layer.arrange(folded.constants[layer.filter])
    return layer, np.ascontiguousarray(filter.reshape(-1, *filter.shape[2:]))


@dataclass(frozen=True)
class _Loader:
    packages: tuple[str, ...]
    load: Callable[[Source, Mapping[str, Array], Path], Outputs]


PEERS: dict[str, _Loader] = {
    "openvino": _Loader(("openvino",), _openvino),
    "onnxruntime": _Loader(("onnxruntime", "onnx"), _onnxruntime),
}
