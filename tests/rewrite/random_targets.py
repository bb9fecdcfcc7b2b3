"""Random targets: subsets of the operations, with conditions from a pool."""

import numpy as np

import legal_layers as legal
from irdeconv.rewrite.targets import Target
from support.dialect_layers import ONEDNN, TENSORRT

# How often an operation is listed, of 100, and its conditions.
TEXT = """
Convolution 95: spatial_axes == 2; kernel <= 3; kernel in (1, 3); kernel_h == kernel_w; \
    kernel % 2 == 1; dilation == 1; stride == 1; pad == 0; pad <= 1; pad <= kernel // 2; \
    pad_begin == pad_end; inputs <= 4; inputs % 2 == 0; outputs <= 5; outputs % 4 == 0; \
    inputs * kernel_h * kernel_w <= 12; size_w <= 16; size <= 9; constant_filter; not has_bias
GroupConvolution 40: depthwise; multiplier == 1; spatial_axes == 2; kernel <= 3; dilation == 1; \
    pad == 0; outputs % 2 == 0
Pad 70: rank <= 4; amount <= 4; amount_begin == 0; mode == 'constant'
Slice 70: step == 1; axis >= 2; axis != 0; rank <= 4
Concat 70: axis == 1; parts <= 4; rank <= 4; channels % 2 == 0
Transpose 70: rank <= 4; order in ((0, 2, 1, 3), (0, 1, 3, 2))
Reshape 80: rank <= 4; batch == 1
DepthToSpace 70: block == 2; mode == 'depth_first'; rank == 4
Interpolate 30: mode == 'nearest'; scale <= 2; scale == 2
Multiply 60: rank <= 4
Add 80: rank <= 4; channels <= 4
ConvolutionBackpropData 30: kernel == 3; kernel in (2, 4); kernel <= 2; stride == 2; \
    stride in (1, 2); output_padding == 0; output_padding == 1; pad == 0; pad == 1; \
    spatial_axes == 2; dilation == 1; inputs <= 4
GroupConvolutionBackpropData 15: depthwise; kernel == 3; stride == 2
ShapeOf 30:
Gather 40:
Broadcast 30:
Squeeze 10:
Unsqueeze 10:
"""
ROWS = [row.partition(":") for row in TEXT.strip().splitlines()]
POOL = {
    head.split()[0]: (int(head.split()[1]), [t.strip() for t in texts.split(";") if t.strip()])
    for head, _, texts in ROWS
}
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
