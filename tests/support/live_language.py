"""Single operations in live OpenVINO: folded, run on parameters, and run with vectors unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from irdeconv.proof.language import MOVES, output_type
from irdeconv.proof.model import Layer, TypedArray

Mode = Literal["folded", "run", "unknown"]
PRECISION = {"f32": "FP32", "f64": "FP64", "f16": "FP16", "bf16": "BF16", "boolean": "BOOL"}
NATIVE = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "boolean": np.bool_}
NATIVE |= {f"{k}{8 * b}": np.dtype(f"{k}{b}").type for k in "iu" for b in (1, 2, 4, 8)}


class LiveCase(NamedTuple):
    """One operation and its inputs."""

    layer: Layer
    inputs: list[TypedArray]

    def __str__(self) -> str:
        given = ", ".join(f"{x.type}{x.array.tolist()}" for x in self.inputs)
        said = " ".join(f"{k}={v}" for k, v in self.layer.attributes.items())
        return f"{self.layer.type} {self.layer.version} {said}: {given}"


def raw(x: TypedArray) -> bytes:
    """Return elements as a .bin file holds them; bf16 is held in float32, i4 and u4 in bytes."""
    if x.type == "bf16":
        return (
            (np.ascontiguousarray(x.array, np.float32).view(np.uint32) >> 16)
            .astype("<u2")
            .tobytes()
        )
    if x.type in ("i4", "u4"):
        low = np.asarray(x.array, np.int64).reshape(-1) & 15
        pairs = np.append(low, low[:0] if low.size % 2 == 0 else [0]).astype(int).reshape(-1, 2)
        return (pairs[:, 0] | pairs[:, 1] << 4).astype(np.uint8).tobytes()
    return np.ascontiguousarray(x.array, NATIVE[x.type]).tobytes()


class _Text:
    """The XML and the bytes of a model of many cases."""

    def __init__(self) -> None:
        self.layers: list[str] = []
        self.edges: list[str] = []
        self.blob = b""
        self.fed: list[TypedArray] = []

    def add(self, text: str) -> int:
        self.layers.append(text.replace("{id}", str(len(self.layers))))
        return len(self.layers) - 1

    def source(self, x: TypedArray, mode: Mode, carried: bool) -> int:
        port = f'<output><port id="0" precision="{PRECISION.get(x.type, x.type.upper())}">'
        if mode == "folded" or (mode == "run" and not carried) or x.type in ("i4", "u4"):
            data = raw(x)
            shape, at = ",".join(map(str, x.array.shape)), len(self.blob)
            self.blob += data or b"\0"
            size = max(len(data), 1) if x.array.size else 0
            said = f'element_type="{x.type}" shape="{shape}" offset="{at}" size="{size}"'
            dims = "".join(f"<dim>{d}</dim>" for d in x.array.shape)
            kind = "Const"
        else:
            known = mode == "run" or not carried
            sizes = x.array.shape if known else ("?",) * x.array.ndim
            said = f'element_type="{x.type}" shape="{",".join(map(str, sizes))}"'
            dims = "".join(f"<dim>{-1 if d == '?' else d}</dim>" for d in sizes)
            kind = "Parameter"
            self.fed.append(x)
        return self.add(
            f'<layer id="{{id}}" name="s{{id}}" type="{kind}" version="opset1"><data {said}/>'
            f"{port}{dims}</port></output></layer>"
        )

    def case(self, case: LiveCase, mode: Mode, outputs: int) -> None:
        kind = case.layer.type
        ports = MOVES.get(kind, range(99))
        sources = [self.source(x, mode, p in ports) for p, x in enumerate(case.inputs)]
        said = " ".join(f'{k}="{v}"' for k, v in case.layer.attributes.items())
        ins = "".join(f'<port id="{p}"/>' for p in range(len(sources)))
        out = output_type(case.layer, [x.type for x in case.inputs])
        precision = f'precision="{PRECISION.get(out, out.upper())}"'
        outs = "".join(f'<port id="{len(sources) + o}" {precision}/>' for o in range(outputs))
        here = self.add(
            f'<layer id="{{id}}" name="y{{id}}" type="{kind}" version="{case.layer.version}">'
            f"<data {said}/><input>{ins}</input><output>{outs}</output></layer>"
        )
        for p, s in enumerate(sources):
            self.edge(s, 0, here, p)
        for o in range(outputs):
            self.result(here, len(sources) + o, out)

    def result(self, source: int, port: int, type: str) -> None:
        if type == "bf16":  # which no NumPy array holds
            here = self.add(
                '<layer id="{id}" name="c{id}" type="Convert" version="opset1"><data '
                'destination_type="f32"/><input><port id="0"/></input><output><port id="1" '
                'precision="FP32"/></output></layer>'
            )
            self.edge(source, port, here, 0)
            source, port = here, 1
        result = self.add(
            '<layer id="{id}" name="r{id}" type="Result" version="opset1"><input><port id="0"/>'
            "</input></layer>"
        )
        self.edge(source, port, result, 0)

    def edge(self, a: int, i: int, b: int, j: int) -> None:
        ends = f'from-layer="{a}" from-port="{i}" to-layer="{b}" to-port="{j}"'
        self.edges.append(f"<edge {ends}/>")

    def xml(self) -> bytes:
        layers, edges = "".join(self.layers), "".join(self.edges)
        return (
            f'<net name="n" version="11"><layers>{layers}</layers><edges>{edges}</edges></net>'
        ).encode()


def live(cases: Sequence[LiveCase], mode: Mode, outputs: Sequence[int]) -> list[Any]:
    """Return for each case its outputs in OpenVINO as arrays, or why it is refused, as a text."""
    try:
        got = _together(cases, mode, outputs)
    except RuntimeError as e:
        if len(cases) == 1:
            return [str(e)]
        half = len(cases) // 2
        return live(cases[:half], mode, outputs[:half]) + live(cases[half:], mode, outputs[half:])
    each = iter(got)
    return [[next(each) for _ in range(n)] for n in outputs]


def _together(cases: Sequence[LiveCase], mode: Mode, outputs: Sequence[int]) -> list[Any]:
    import openvino as ov
    from openvino.passes import ConstantFolding, Manager

    text = _Text()
    for case, n in zip(cases, outputs, strict=True):
        text.case(case, mode, n)
    blob = np.frombuffer(text.blob or b"\0", np.uint8)
    core = ov.Core()
    model = core.read_model(text.xml(), ov.Tensor(blob.copy()))
    if mode == "folded":
        manager = Manager()
        manager.register_pass(ConstantFolding())
        manager.run_passes(model)
        sources = [r.input_value(0).get_node() for r in model.get_results()]
        if any(s.get_type_name() != "Constant" for s in sources):
            raise RuntimeError("not folded")
        return [np.array(s.get_data()) for s in sources]
    hints = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    compiled = core.compile_model(model, "CPU", hints)
    fed = []
    for x in text.fed:
        memory = np.frombuffer(raw(x) or b"\0", np.uint8).copy()
        fed.append(ov.Tensor(memory, list(x.array.shape), getattr(ov.Type, x.type)))
    request = compiled.create_infer_request()
    for i, tensor in enumerate(fed):
        request.set_input_tensor(i, tensor)
    request.infer()
    return [np.array(request.get_output_tensor(i).data) for i in range(len(compiled.outputs))]
