"""What OpenVINO says of a written IR: whether it is one, its interface, what it computes."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

# With a single thread the plugin dies after some dozen models in one process.
CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 2}
Interface = tuple[Any, ...]


class RefusedError(Exception):
    """OpenVINO does not read, compile or run a model; the text has its first line."""


@cache
def core() -> Any:
    """The runtime. Importing it takes half a second, so nothing here does it before."""
    import openvino

    return openvino.Core()


def _model(model: Any) -> Any:
    if isinstance(model, tuple):
        import openvino

        xml, weights = model
        held = np.frombuffer(weights or b"\0", np.uint8).copy()
        return core().read_model(xml, openvino.Tensor(held))
    return core().read_model(model) if isinstance(model, Path) else model


def compiled(model: Any) -> Any:
    """A model that OpenVINO runs in f32: of a path, of the two files' bytes, or one of its own."""
    return core().compile_model(_model(model), "CPU", CONFIG)


def outputs(model: Any, feeds: Any = ()) -> list[Any]:
    """What a model computes, output by output; feeds by place or by name."""
    made = compiled(model)
    found = made(feeds)
    return [np.array(found[o]) for o in made.outputs]


def joined(parts: Sequence[Any]) -> Any:
    """One model of several without common layers, which compiles in the time of one."""
    import openvino

    for number, part in enumerate(parts):
        for node in part.get_ops():
            node.set_friendly_name(f"{number}/{node.get_friendly_name()}")
    results = [r for part in parts for r in part.get_results()]
    return openvino.Model(results, [p for part in parts for p in part.get_parameters()])


def outputs_of_each(models: Sequence[tuple[Any, Any]]) -> list[list[Any]]:
    """What each of several models computes from its feeds, by place or by name."""
    parts = [_model(model) for model, _ in models]
    feeds = []
    for part, (_, fed) in zip(parts, models, strict=True):
        names = [p.get_friendly_name() for p in part.get_parameters()]
        feeds += [fed[name] for name in names] if isinstance(fed, dict) else fed
    found = iter(outputs(joined(parts), feeds))
    return [[next(found) for _ in part.get_results()] for part in parts]


def lowered_defect(layer: Any) -> str | None:
    """Why the plugin computes the lowered layer wrongly, or None."""
    single = layer.axes == 3 and (layer.groups or 1) == layer.c == layer.m == 1
    if single and layer.dilations[0] != layer.dilations[1]:
        return "3D Convolution with C = M = 1 and unlike dilations on the first two axes"
    return None


class Compiled:
    """A model that OpenVINO accepts."""

    def __init__(self, path: Path) -> None:
        try:
            self.model = core().read_model(path)
            self.interface = _interface(self.model)
            self.weights = _weights(self.model)
            self.compiled = core().compile_model(self.model, "CPU", CONFIG)
        except Exception as e:  # whatever the runtime throws
            raise RefusedError(first_line(e)) from None

    def run(self, feeds: Sequence[Any]) -> list[Any]:
        """Return the outputs and states of two runs in a row on the inputs in their order."""
        try:
            request = self.compiled.create_infer_request()
            out = []
            for _ in range(2):
                done = request.infer(dict(enumerate(feeds)), share_outputs=False)
                out += [np.array(v) for v in done.values()]
                states = sorted(request.query_state(), key=lambda s: s.name)
                out += [np.array(s.state.data) for s in states]
        except Exception as e:
            raise RefusedError(first_line(e)) from None
        return out


def first_line(e: Exception) -> str:
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    return lines[-1] if lines else type(e).__name__


def _interface(model: Any) -> Interface:
    """Names and types of inputs and outputs in their order, shapes of inputs, the variables.

    What the runtime infers of the outputs' shapes is no part: runs show these.
    """
    inputs = tuple(
        (sorted(p.names), str(p.element_type), str(p.partial_shape), _order(p))
        for p in model.inputs
    )
    outputs = tuple((sorted(p.names), str(p.element_type), _order(p)) for p in model.outputs)
    variables = sorted(
        (v.info.variable_id, str(v.info.data_shape), str(v.info.data_type))
        for v in model.get_variables()
    )
    return inputs, outputs, tuple(variables)


def _order(port: Any) -> list[str]:
    """What an input or output tells users of OpenVINO's old API of its axes and type."""
    return sorted(k for k in port.get_node().get_rt_info() if str(k).startswith("old_api_map"))


def _weights(model: Any) -> dict[str, Any]:
    """The constants that are real numbers, by name."""
    found = [n for n in model.get_ops() if n.get_type_name() == "Constant"]
    return {
        n.get_friendly_name(): n.data.copy()
        for n in found
        if n.get_element_type().to_string() in ("f64", "f32", "f16")
    }


def same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two runs gave equal arrays, element for element."""
    return len(a) == len(b) and all(
        x.shape == y.shape and x.dtype == y.dtype and np.array_equal(x, y)
        for x, y in zip(a, b, strict=True)
    )
