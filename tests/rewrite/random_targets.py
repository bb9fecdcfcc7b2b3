"""Random targets: subsets of the operations, with conditions from a pool."""

import numpy as np

import legal_layers as legal
from irdeconv.rewrite.targets import Target
from support.dialect_layers import ONEDNN, TENSORRT
from support.rows import tables

POOL = tables(__file__)  # how often an operation is listed, of 100, and its conditions
KINDS = ("IR", "IR", "ONNX", "ONNX", "oneDNN", "TensorRT", "IR Conv", "ONNX Conv")


def random_target(rng: np.random.Generator) -> Target:
    """A target; some list much and limit little."""
    easy = rng.random() < 0.3
    conditions: dict[str, list[str]] = {}
    for name, (often, pool) in POOL.items():
        if rng.random() * 100 < often + 20 * easy:
            most = min(1 if easy else 3, len(pool))
            count = int(rng.integers(0, most + 1)) if rng.random() < 0.6 else 0
            conditions[name] = [str(t) for t in rng.choice(pool, count, replace=False)]
    head = f"max_rank = {rng.integers(3, 6)}" if rng.random() < 0.4 else ""
    return legal.target_of(conditions, listed=(), head=head)


def random_subject(rng: np.random.Generator) -> tuple[legal.Subject, dict[str, bool]]:
    """A random layer in a random format, a third of them with open sizes, and options."""
    kind, bias = str(rng.choice(KINDS)), bool(rng.random() < 0.5)
    free = tuple(a for a in (0, 2, 3, 4) if rng.random() < 0.5) if rng.random() < 0.35 else ()
    if "Conv" in kind:
        conv = legal.random_convolution(rng)
        free = tuple(a for a in free if a < conv.axes + 2)
        made = legal.convolution_subject(rng, conv, bias=bias, onnx="ONNX" in kind, free=free)
        return made, {"convolutions": True}
    cut = kind == "IR" and rng.random() < 0.3
    plain = (
        legal.Shapes(axes=(2, 3), output_padding=False) if kind == "TensorRT" else legal.Shapes()
    )
    layer = legal.random_deconvolution(rng, legal.Shapes(pads=(-1, 3)) if cut else plain)
    free = tuple(a for a in free if a < layer.axes + 2)
    if kind == "IR":
        return legal.ir_subject(rng, layer, bias=bias, free=free), {}
    if kind == "ONNX":
        return legal.onnx_subject(rng, layer, bias=bias, free=free), {}
    version = ONEDNN if kind == "oneDNN" else TENSORRT
    return legal.dialect_subject(rng, layer, version, bias=bias, transposes=False), {}
