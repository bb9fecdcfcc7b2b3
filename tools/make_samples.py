"""Write ir_samples/: small IRs for the demo, the README and the tests.

The numbers follow a fixed pattern, so that every run writes the same bytes:
python tools/make_samples.py [folder]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from checkout import ROOT

import irdeconv as ird
import irdeconv.ops.dialects
from irdeconv.formats.xml_writer import write_ir
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import of_numpy
from irdeconv.ir.graph import Graph, Info, Value
from irdeconv.ir.op import REGISTRY, parse_attributes
from irdeconv.ir.spec import parse_shape
from irdeconv.ops.basic import Const, Parameter, Result

SAMPLES = ROOT / "ir_samples"
F32 = of_numpy(np.dtype(np.float32))


def pattern(*shape: int, divisor: int = 1) -> Any:
    """Return small non-constant multiples of 1/divisor, between -7 and 7 of them."""
    count = int(np.prod(shape))
    steps = (np.arange(count) * 37 + np.arange(count) // 5 * 3 + 11) % 15 - 7
    return (steps / divisor).astype(np.float32).reshape(shape)


class Net:
    """A graph under construction."""

    def __init__(self, name: str) -> None:
        self.graph = Graph(Info(name=name))

    def input(self, name: str, shape: str) -> Value:
        """Add a model input."""
        node = self.graph.add(Parameter(shape=parse_shape(shape), element_type=F32), name=name)
        node.tensor_names = ((name,),)
        return Value(node.id)

    def const(self, name: str, array: Any) -> Value:
        """Add a constant."""
        dtype = of_numpy(array.dtype)
        op = Const(element_type=dtype, shape=array.shape, data=ArrayData.of(array, dtype))
        return Value(self.graph.add(op, name=name).id)

    def layer(
        self, name: str, type: str, opset: int | str, *inputs: Value, **attributes: str
    ) -> Value:
        """Add an operation of an opset or of a dialect; attributes as an IR spells them."""
        cls = REGISTRY[type, opset if isinstance(opset, str) else f"opset{opset}"]
        values, problems = parse_attributes(cls, attributes)
        assert not problems, problems
        node = self.graph.add(cls(**values), inputs, name=name)
        node.tensor_names = ((name,),)
        return Value(node.id)

    def deconvolution(self, name: str, x: Value, w: Any, *rest: Value, **changes: str) -> Value:
        """Add a (Group)ConvolutionBackpropData for a filter of known rank."""
        axes = w.ndim - 2 - ("group" in changes)
        type = "ConvolutionBackpropData"
        if changes.pop("group", None):
            type = f"Group{type}"
        attributes = {
            "strides": ",".join(["1"] * axes),
            "pads_begin": ",".join(["0"] * axes),
            "pads_end": ",".join(["0"] * axes),
            "dilations": ",".join(["1"] * axes),
            "auto_pad": "explicit",
        } | changes
        filter = self.const(f"{name}/filter", w)
        return self.layer(name, type, 1, x, filter, *rest, **attributes)

    def convolution(self, name: str, x: Value, w: Any, pads: str) -> Value:
        """Add a two-dimensional Convolution of stride 1 followed by ReLU."""
        filter = self.const(f"{name}/filter", w)
        y = self.layer(
            name,
            "Convolution",
            1,
            x,
            filter,
            strides="1,1",
            pads_begin=pads,
            pads_end=pads,
            dilations="1,1",
            auto_pad="explicit",
        )
        return self.layer(f"{name}/relu", "ReLU", 1, y)

    def closed(self, value: Value) -> Graph:
        """Make `value` the output and return the graph with all shapes."""
        name = self.graph.node(value.node).name
        self.graph.add(Result(), [value], name=f"{name}/result")
        return ird.infer(self.graph)

    def write(self, value: Value, path: Path) -> None:
        """Make `value` the output and write the files."""
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not ird.write: it would spell a dialect's layer in standard operations.
        write_ir(self.closed(value), path)
        # Samples are there to be edited, so they do not vouch for their weights.
        path.write_text(re.sub("\t<rt_info weights_.*\n", "", path.read_text("utf-8")), "utf-8")


def deconv_3x3_to_5x5(folder: Path) -> None:
    """3x3 ones over 3x3 data: each output counts the inputs that reach it."""
    net = Net("deconv_3x3_to_5x5")
    x = net.input("x", "1,1,3,3")
    y = net.deconvolution("deconv", x, np.ones((1, 1, 3, 3), np.float32))
    net.write(y, folder / "deconv_3x3_to_5x5.xml")


def deconv_224_to_447(folder: Path) -> None:
    """The first example of the specification."""
    net = Net("deconv_224_to_447")
    x = net.input("x", "1,20,224,224")
    y = net.deconvolution(
        "deconv", x, pattern(20, 10, 3, 3), strides="2,2", pads_begin="1,1", pads_end="1,1"
    )
    net.write(y, folder / "deconv_224_to_447.xml")


def group_deconv(folder: Path) -> None:
    """Two groups with C/g = 3 and M/g = 2, different numbers on each axis."""
    net = Net("group_deconv")
    x = net.input("x", "2,6,4,5")
    y = net.deconvolution(
        "deconv",
        x,
        pattern(2, 3, 2, 3, 2),
        group="yes",
        strides="2,3",
        pads_begin="1,0",
        pads_end="0,2",
        dilations="1,2",
        output_padding="1,0",
    )
    net.write(y, folder / "group_deconv.xml")


def same_upper_output_shape(folder: Path) -> None:
    """output_shape larger than the scatter: runtime and document give different numbers."""
    net = Net("same_upper_output_shape")
    x = net.input("x", "1,2,5,5")
    wanted = net.const("output_shape", np.array([9, 13], np.int64))
    y = net.deconvolution(
        "deconv", x, pattern(2, 3, 2, 2), wanted, strides="2,2", auto_pad="same_upper"
    )
    net.write(y, folder / "same_upper_output_shape.xml")


def dynamic(folder: Path) -> None:
    """Height between 3 and 9, any width."""
    net = Net("dynamic")
    x = net.input("x", "1,2,3..9,?")
    y = net.deconvolution(
        "deconv", x, pattern(2, 3, 4, 4), strides="2,2", pads_begin="1,1", pads_end="1,1"
    )
    net.write(y, folder / "dynamic.xml")


def segmentation_head(folder: Path) -> None:
    """An encoder with a skip connection and a decoder of two deconvolutions."""
    net = Net("segmentation_head")
    image = net.input("image", "1,3,32,32")
    c1 = net.convolution("conv1", image, pattern(8, 3, 3, 3, divisor=16), "1,1")
    p1 = _pool(net, "pool1", c1)
    c2 = net.convolution("conv2", p1, pattern(16, 8, 3, 3, divisor=32), "1,1")
    p2 = _pool(net, "pool2", c2)
    up1 = net.deconvolution(
        "up1",
        p2,
        pattern(16, 8, 4, 4, divisor=32),
        strides="2,2",
        pads_begin="1,1",
        pads_end="1,1",
    )
    joined = net.layer("joined", "Concat", 1, up1, p1, axis="1")
    up2 = net.deconvolution(
        "up2",
        joined,
        pattern(4, 4, 1, 3, 3, divisor=32),
        group="yes",
        strides="2,2",
        auto_pad="same_lower",
        output_padding="0,0",
        pads_begin="0,0",
        pads_end="0,0",
    )
    head = net.convolution("head", up2, pattern(2, 4, 2, 2, divisor=64), "0,0")
    net.write(net.layer("mask", "Sigmoid", 1, head), folder / "segmentation_head.xml")


def _pool(net: Net, name: str, x: Value) -> Value:
    return net.layer(
        name,
        "MaxPool",
        1,
        x,
        strides="2,2",
        pads_begin="0,0",
        pads_end="0,0",
        kernel="2,2",
        rounding_type="floor",
        auto_pad="explicit",
    )


ONNX_DATA = "1,1,3,3"
ONNX_ONES = (1, 2, 3, 3)
# The examples of ONNX's documentation: input shape, filter, attributes. Data counts from 0, the
# filter is of ones, but for `dilations`, whose filter is given (its data is 3 8 1 9 5 7 3 2 6).
ONNX: dict[str, tuple[str, Any, dict[str, str]]] = {
    "default": (ONNX_DATA, ONNX_ONES, {}),
    "1d": ("1,1,3", (1, 2, 3), {}),
    "3d": ("1,1,3,4,5", (1, 2, 3, 3, 3), {}),
    "output_shape": (ONNX_DATA, ONNX_ONES, {"strides": "3,2", "output_shape": "10,8"}),
    "output_padding": (ONNX_DATA, ONNX_ONES, {"strides": "3,2", "output_padding": "1,1"}),
    "kernel_shape": (
        ONNX_DATA,
        ONNX_ONES,
        {
            "strides": "3,2",
            "output_shape": "10,8",
            "kernel_shape": "3,3",
            "output_padding": "1,1",
        },
    ),
    "pads": (ONNX_DATA, ONNX_ONES, {"strides": "3,2", "pads": "1,2,1,2"}),
    "dilations": (
        ONNX_DATA,
        np.array([7, 2, 1, 9], np.float32).reshape(1, 1, 2, 2),
        {"dilations": "2,2"},
    ),
    "autopad_same": (ONNX_DATA, ONNX_ONES, {"strides": "2,2", "auto_pad": "SAME_UPPER"}),
    "group_2": ("1,2,3,3", (2, 1, 3, 3), {"group": "2"}),
}


def onnx(folder: Path) -> None:
    """The examples of ONNX's documentation, and version 1 whose formula differs from its prose."""
    for name, (shape, filter, attributes) in ONNX.items():
        filter = np.ones(filter, np.float32) if isinstance(filter, tuple) else filter
        dialect(folder / f"{name}.xml", "onnx_opset11", shape, filter, **attributes)
    odd = {"strides": "2,2", "auto_pad": "SAME_UPPER"}
    dialect(
        folder / "odd_total_version_1.xml", "onnx_opset1", ONNX_DATA, pattern(1, 2, 3, 3), **odd
    )


def upscaler(path: Path) -> None:
    """An ONNX file: image -> Conv -> Denoise of somebody's domain -> two deconvolutions -> out."""
    from onnx import TensorProto, helper, numpy_helper

    def info(name: str, *shape: Any) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    filters = {
        "conv/filter": pattern(8, 3, 3, 3, divisor=32),
        "up1/filter": pattern(8, 8, 4, 4, divisor=32),
        "up2/filter": pattern(8, 3, 2, 2, divisor=32),
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["image", "conv/filter"], ["features"], "conv", pads=[1, 1, 1, 1]),
        node("Denoise", ["features"], ["clean"], "denoise", domain="com.example", strength=0.5),
        node(
            "ConvTranspose", ["clean", "up1/filter"], ["twice"], "up1",
            strides=[2, 2], pads=[1, 1, 1, 1],
        ),
        node("Relu", ["twice"], ["positive"], "relu"),
        node("ConvTranspose", ["positive", "up2/filter"], ["out"], "up2", strides=[2, 2]),
    ]  # fmt: skip
    size = ("n", 8, "height", "width")
    graph = helper.make_graph(
        nodes,
        "upscaler",
        [info("image", "n", 3, "height", "width")],
        [info("out", None, 3, None, None)],
        [numpy_helper.from_array(v, k) for k, v in filters.items()],
        value_info=[info("clean", *size)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    path.write_bytes(made.SerializeToString(deterministic=True))


def dialect(
    path: Path, version: str, shape: str, filter: Any, bias: Any = None, **attributes: str
) -> None:
    """Write one layer of a dialect: data `x`, a constant filter and perhaps a bias."""
    net = Net(path.stem)
    inputs = [net.input("x", shape), net.const("deconv/filter", filter)]
    if bias is not None:
        inputs.append(net.const("deconv/bias", bias))
    type = "Deconvolution" if version == "tensorrt" else "ConvTranspose"
    net.write(net.layer("deconv", type, version, *inputs, **attributes), path)


def onednn(folder: Path) -> None:
    """Channels-last data with a filter in XIO, and groups under auto_pad with a filter in OIX."""
    lists = {"pads_begin": "1,1", "pads_end": "1,1", "dilations": "1,1"}
    dialect(
        folder / "xio_3x3_stride_2.xml", "onednn_graph_1", "1,4,4,2", pattern(3, 3, 2, 3),
        pattern(3), strides="2,2", output_padding="1,0", filter_format="XIO", **lists,
    )  # fmt: skip
    dialect(
        folder / "same_lower_groups.xml", "onednn_graph_1", "2,6,5,4", pattern(2, 6, 4, 3),
        strides="1,2", auto_pad="same_lower", groups="2", data_format="NCX", filter_format="OIX",
        **lists,
    )  # fmt: skip


def ort_nhwc(folder: Path) -> None:
    """Bias and a fused activation; an odd total that the runtime splits unlike the formula."""
    dialect(
        folder / "bias_leaky_relu.xml", "com.ms.internal.nhwc_11", "1,4,5,3", pattern(3, 2, 3, 3),
        pattern(2), strides="2,2", pads="1,1,1,1", output_padding="1,1", activation="LeakyRelu",
        activation_params="0.25",
    )  # fmt: skip
    dialect(
        folder / "same_upper_odd_total.xml", "com.ms.internal.nhwc_1", "1,4,4,2",
        pattern(2, 3, 3, 3), strides="2,2", auto_pad="SAME_UPPER",
    )  # fmt: skip


def tensorrt(folder: Path) -> None:
    """The example of the header: 3x3 data counting from 0, 3x3 ones; and groups with a bias."""
    dialect(
        folder / "deconv_3x3_to_5x5.xml", "tensorrt", "1,1,3,3", np.ones((1, 1, 3, 3), np.float32),
        kernel_size="3,3", num_output_maps="1",
    )  # fmt: skip
    dialect(
        folder / "same_lower_groups.xml", "tensorrt", "1,4,3,4", pattern(4, 3, 4, 2), pattern(6),
        kernel_size="4,2", num_output_maps="6", num_groups="2", stride="1,2", dilation="1,3",
        padding_mode="SAME_LOWER",
    )  # fmt: skip


def broken(good: Path, folder: Path) -> None:
    """Copies of good samples with mistakes that a reader should report."""
    folder.mkdir(parents=True, exist_ok=True)
    group = (good / "group_deconv.xml").read_text("utf-8")
    weights = (good / "group_deconv.bin").read_bytes()

    channels = _swap(group, 'shape="2,6,4,5"', 'shape="2,5,4,5"')
    channels = channels.replace("<dim>6</dim>", "<dim>5</dim>")
    (folder / "wrong_channels.xml").write_text(channels, "utf-8")
    (folder / "wrong_channels.bin").write_bytes(weights)

    typos = _swap(group, 'pads_begin="1,0"', 'pad_begin="1,0"')
    typos = _swap(typos, 'strides="2,3"', 'strides="2.5,3"')
    typos = _swap(typos, 'to-layer="2" to-port="1"', 'to-layer="7" to-port="1"')
    (folder / "typos.xml").write_text(typos, "utf-8")
    (folder / "typos.bin").write_bytes(weights)

    (folder / "short_weights.xml").write_text(group, "utf-8")
    (folder / "short_weights.bin").write_bytes(weights[:100])


def _swap(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, (old, text.count(old))
    return text.replace(old, new)


def main(folder: Path) -> None:
    """Write every sample below `folder`."""
    good = folder / "openvino"
    for make in (
        deconv_3x3_to_5x5,
        deconv_224_to_447,
        group_deconv,
        same_upper_output_shape,
        dynamic,
        segmentation_head,
    ):
        make(good)
    for system in (onednn, onnx, ort_nhwc, tensorrt):
        system(folder / system.__name__)
    upscaler(folder / "onnx" / "upscaler.onnx")
    broken(good, folder / "broken")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES)
