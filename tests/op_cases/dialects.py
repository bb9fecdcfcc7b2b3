"""oneDNN Graph, ONNX, ONNX Runtime channels-last, TensorRT: scatters worked by hand.

ROW has the elements 1, 2, 3; the kernel 1, 10, 100 shows which tap an output comes from. Its
scatter at stride 2 is 1 10 102 20 203 30 300, at stride 1 it is 1 12 123 230 300.
"""

from __future__ import annotations

from op_cases import bf16, case, f16, f32, f64, i8

ROW, TAPS = f32([1, 2, 3], (1, 1, 3)), f32([1, 10, 100], (1, 1, 3))
ROW_LAST = f32([1, 2, 3], (1, 3, 1))
TAPS_FIRST = f32([1, 10, 100], (3, 1, 1))
# Two groups of two inputs and three outputs: 1*1 + 2*2, ten and a hundred times that, then
# 3*3 + 4*5 likewise. Filters are (C, M/g, *K).
GROUPED, GROUPED_LAST = f32([1, 2, 3, 4], (1, 4, 1)), f32([1, 2, 3, 4], (1, 1, 4))
GROUPS = f32([1, 10, 100, 2, 20, 200, 3, 30, 300, 5, 50, 500], (4, 3, 1))
SUMS = [5, 50, 500, 29, 290, 2900]
HUNDREDS = f32([100, 200, 300, 400, 500, 600], (6,))
WITH_BIAS = [105, 250, 800, 429, 790, 3500]
# Depthwise: two groups of one input and two outputs, two taps.
DEPTH = f32([1, 2, 3, 5], (1, 2, 2))
DEPTH_TAPS = f32([1, 10, 2, 20, 3, 30, 5, 50], (2, 2, 2))
DEPTHWISE = f32([1, 12, 20, 2, 24, 40, 9, 105, 150, 15, 175, 250], (1, 4, 3))
# The two axes differ: rows are 2 apart, columns next to each other.
PLANE, PAIR = f32([1, 2, 3, 4], (1, 1, 2, 2)), f32([1, 10], (1, 1, 1, 2))


def onednn(strides: str, begin: str = "0", end: str = "0", more: str = "", d: str = "1") -> str:
    return f'strides="{strides}" pads_begin="{begin}" pads_end="{end}" dilations="{d}" {more}'


NCX = 'data_format="NCX" weights_format="IOX"'
ONEDNN = "ConvTranspose-onednn_graph_1"

ONEDNN_CASES = [
    # Defaults: NXC data, XIO filter.
    case(ONEDNN, onednn("2"), [ROW_LAST, TAPS_FIRST],
         f32([1, 10, 102, 20, 203, 30, 300], (1, 7, 1))),
    case(ONEDNN, onednn("1", "1", "0", NCX), [ROW, TAPS], f32([12, 123, 230, 300], (1, 1, 4))),
    case(ONEDNN, onednn("2", "1", "2", f'{NCX} output_padding="1"'), [ROW, TAPS],
         f32([10, 102, 20, 203, 30], (1, 1, 5))),
    # The end may be below 0 by less than the stride.
    case(ONEDNN, onednn("2", "1", "-1", NCX), [ROW, TAPS],
         f32([10, 102, 20, 203, 30, 300, 0], (1, 1, 7))),
    # The total DK - S = 1: same_upper cuts it off at the end, same_lower at the begin.
    case(ONEDNN, onednn("2", "5", "5", f'{NCX} auto_pad="same_upper"'), [ROW, TAPS],
         f32([1, 10, 102, 20, 203, 30], (1, 1, 6))),
    case(ONEDNN, onednn("2", "5", "5", f'{NCX} auto_pad="SAME_LOWER"'), [ROW, TAPS],
         f32([10, 102, 20, 203, 30, 300], (1, 1, 6))),
    case(ONEDNN, onednn("2", "0", "0", f'{NCX} auto_pad="same_lower" output_padding="1"'),
         [ROW, TAPS], f32([10, 102, 20, 203, 30, 300, 0], (1, 1, 7))),
    # A kernel shorter than the stride: the total is clamped to 0.
    case(ONEDNN, onednn("3", "0", "0", f'{NCX} auto_pad="same_upper"'),
         [ROW, f32([5, 7], (1, 1, 2))], f32([5, 7, 0, 10, 14, 0, 15, 21], (1, 1, 8))),
    case(ONEDNN, onednn("2", "5", "5", f'{NCX} auto_pad="valid"'), [ROW, TAPS],
         f32([1, 10, 102, 20, 203, 30, 300], (1, 1, 7))),
    case(ONEDNN, onednn("1", more=NCX, d="2"), [ROW, TAPS],
         f32([1, 2, 13, 20, 130, 200, 300], (1, 1, 7))),
    # Groups in every layout of the filter, channels last.
    case(ONEDNN, onednn("1", more='groups="2" weights_format="IOX"'),
         [GROUPED_LAST, GROUPS, HUNDREDS], f32(WITH_BIAS, (1, 1, 6))),
    case(ONEDNN, onednn("1", more='groups="2" weights_format="XOI"'),
         [GROUPED_LAST, f32([1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500], (1, 3, 4))],
         f32(SUMS, (1, 1, 6))),
    case(ONEDNN, onednn("1", more='groups="2" filter_format="OIX" data_format="ncx"'),
         [GROUPED, f32([1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500], (3, 4, 1))],
         f32(SUMS, (1, 6, 1))),
    case(ONEDNN, onednn("1", more='groups="2" filter_format="XIO"'),
         [GROUPED_LAST, f32([1, 10, 100, 2, 20, 200, 3, 30, 300, 5, 50, 500], (1, 4, 3))],
         f32(SUMS, (1, 1, 6))),
    case(ONEDNN, onednn("2,1", "0,1", "0,0", NCX, "1,1"), [PLANE, PAIR],
         f32([12, 20, 0, 0, 34, 40], (1, 1, 3, 2))),
    # Bias also where no tap falls.
    case(ONEDNN, onednn("2", more=NCX),
         [f16([1, 2], (1, 1, 2)), f16([4], (1, 1, 1)), f16([8], (1,))],
         f16([12, 8, 16], (1, 1, 3))),
    case(ONEDNN, onednn("2", more=NCX), [bf16([1, 2], (1, 1, 2)), bf16([1, 2, 4], (1, 1, 3))],
         bf16([1, 2, 6, 4, 8], (1, 1, 5))),
]  # fmt: skip


def onnx_rows(op: str) -> list[object]:
    """Rows that hold for every version of ONNX."""
    return [
        case(op, "", [ROW, TAPS], f32([1, 12, 123, 230, 300], (1, 1, 5))),
        case(op, 'strides="2" pads="1,2" output_padding="1" kernel_shape="3"', [ROW, TAPS],
             f32([10, 102, 20, 203, 30], (1, 1, 5))),
        # The total 7 - 6 = 1: SAME_UPPER cuts it off at the end, SAME_LOWER at the begin.
        case(op, 'strides="2" auto_pad="SAME_UPPER"', [ROW, TAPS],
             f32([1, 10, 102, 20, 203, 30], (1, 1, 6))),
        case(op, 'strides="2" auto_pad="SAME_LOWER"', [ROW, TAPS],
             f32([10, 102, 20, 203, 30, 300], (1, 1, 6))),
        # output_padding belongs to the total, so the size stays 6: 2 are split evenly.
        case(op, 'strides="2" auto_pad="SAME_UPPER" output_padding="1"', [ROW, TAPS],
             f32([10, 102, 20, 203, 30, 300], (1, 1, 6))),
        case(op, 'strides="2" auto_pad="VALID" output_padding="1"', [ROW, TAPS],
             f32([1, 10, 102, 20, 203, 30, 300, 0], (1, 1, 8))),
        # A kernel shorter than the stride: FULL is below I*S and stays.
        case(op, 'strides="3" auto_pad="SAME_LOWER"', [ROW, f32([5, 7], (1, 1, 2))],
             f32([5, 7, 0, 10, 14, 0, 15, 21], (1, 1, 8))),
        # output_shape: the total is 7 - 4 = 3, the larger part at the begin but for SAME_UPPER.
        case(op, 'strides="2" output_shape="4" pads="5,5"', [ROW, TAPS],
             f32([102, 20, 203, 30], (1, 1, 4))),
        case(op, 'strides="2" output_shape="4" auto_pad="SAME_UPPER"', [ROW, TAPS],
             f32([10, 102, 20, 203], (1, 1, 4))),
        case(op, 'strides="2" output_shape="4" auto_pad="SAME_LOWER"', [ROW, TAPS],
             f32([102, 20, 203, 30], (1, 1, 4))),
        case(op, 'strides="2" output_shape="4" auto_pad="VALID" output_padding="1"', [ROW, TAPS],
             f32([102, 20, 203, 30], (1, 1, 4))),
        case(op, 'strides="2" output_shape="8"', [ROW, TAPS],
             f32([1, 10, 102, 20, 203, 30, 300, 0], (1, 1, 8))),
        case(op, 'dilations="2"', [ROW, TAPS], f32([1, 2, 13, 20, 130, 200, 300], (1, 1, 7))),
        case(op, 'group="2"', [GROUPED, GROUPS, HUNDREDS], f32(WITH_BIAS, (1, 6, 1))),
        case(op, 'group="2"', [DEPTH, DEPTH_TAPS], DEPTHWISE),
        case(op, 'strides="2,1" pads="0,1,0,0"', [PLANE, PAIR],
             f32([12, 20, 0, 0, 34, 40], (1, 1, 3, 2))),
        case(op, 'strides="1,1,2"', [f32([1, 2], (1, 1, 1, 1, 2)), f32([3], (1, 1, 1, 1, 1))],
             f32([3, 0, 6], (1, 1, 1, 1, 3))),
        case(op, "", [f64([1, 2], (1, 1, 2)), f64([0.5], (1, 1, 1))], f64([0.5, 1], (1, 1, 2))),
        case(op, "", [f16([1, 2], (1, 1, 2)), f16([0.5], (1, 1, 1))], f16([0.5, 1], (1, 1, 2))),
    ]  # fmt: skip


ONNX_CASES = [
    *(row for version in (1, 11, 22) for row in onnx_rows(f"ConvTranspose-onnx_opset{version}")),
    # Four axes, which OpenVINO has not.
    case("ConvTranspose-onnx_opset11", "",
         [f32([1, 2], (1, 1, 2, 1, 1, 1)), f32([3, 4], (1, 1, 2, 1, 1, 1))],
         f32([3, 10, 8], (1, 1, 3, 1, 1, 1)), defect="deconvolutions of four axes"),
    # Batch and channels before the sizes.
    case("ConvTranspose-onnx_opset1", 'strides="2" output_shape="1,1,4"', [ROW, TAPS],
         f32([102, 20, 203, 30], (1, 1, 4))),
    case("ConvTranspose-onnx_opset22", 'strides="2"',
         [bf16([1, 2], (1, 1, 2)), bf16([1, 2, 4], (1, 1, 3))], bf16([1, 2, 6, 4, 8], (1, 1, 5))),
]  # fmt: skip

LEFT, RIGHT = f32([-2, 1], (1, 2, 1)), f32([4], (1, 1, 1))


def nhwc_rows(op: str) -> list[object]:
    """Rows of the channels-last operation; the scatter of LEFT and RIGHT is -8, 4."""
    return [
        case(op, 'strides="2"', [ROW_LAST, TAPS], f32([1, 10, 102, 20, 203, 30, 300], (1, 7, 1))),
        case(op, 'group="2"', [GROUPED_LAST, GROUPS, HUNDREDS], f32(WITH_BIAS, (1, 1, 6))),
        case(op, 'strides="2" auto_pad="SAME_UPPER"', [ROW_LAST, TAPS],
             f32([1, 10, 102, 20, 203, 30], (1, 6, 1))),
        case(op, 'strides="2" output_shape="4"', [ROW_LAST, TAPS],
             f32([102, 20, 203, 30], (1, 4, 1))),
        case(op, 'strides="2" output_shape="1,1,4" kernel_shape="3"',
             [ROW_LAST, TAPS], f32([102, 20, 203, 30], (1, 4, 1))),
        case(op, 'strides="2,1" pads="0,1,0,0"', [f32([1, 2, 3, 4], (1, 2, 2, 1)), PAIR],
             f32([12, 20, 0, 0, 34, 40], (1, 3, 2, 1))),
        # The bias comes before the activation: -8 + 3, 4 + 3.
        case(op, 'activation="Relu"', [LEFT, RIGHT, f32([3], (1,))], f32([0, 7], (1, 2, 1))),
        case(op, 'activation="Relu" activation_params="0,3.4e38"', [LEFT, RIGHT],
             f32([0, 4], (1, 2, 1))),
        case(op, 'activation="LeakyRelu" activation_params="0.25"', [LEFT, RIGHT],
             f32([-2, 4], (1, 2, 1))),
        case(op, 'activation="Clip" activation_params="-3,2.5"', [LEFT, RIGHT],
             f32([-3, 2.5], (1, 2, 1))),
        case(op, 'activation="HardSigmoid" activation_params="0.0625,0.25"', [LEFT, RIGHT],
             f32([0, 0.5], (1, 2, 1))),
        case(op, 'activation="Tanh"', [LEFT, f32([0.25], (1, 1, 1))],
             f32([-0.46211716, 0.24491866], (1, 2, 1))),
        case(op, 'activation="Sigmoid"', [LEFT, f32([0.5], (1, 1, 1))],
             f32([0.26894142, 0.62245933], (1, 2, 1))),
        case(op, 'activation="LeakyRelu" activation_params="0.25"',
             [f16([-2, 1], (1, 2, 1)), f16([4], (1, 1, 1))], f16([-2, 4], (1, 2, 1))),
    ]  # fmt: skip


TENSORRT = "Deconvolution-tensorrt"


def tensorrt(kernel: str, maps: int = 1, more: str = "") -> str:
    return f'kernel_size="{kernel}" num_output_maps="{maps}" {more}'


# One row of data, two axes: TensorRT has no 1D.
FLAT, FLAT_TAPS = f32([1, 2, 3], (1, 1, 1, 3)), f32([1, 10, 100], (1, 1, 1, 3))
SCATTER = [1, 10, 102, 20, 203, 30, 300]

TENSORRT_CASES = [
    # The worked example of the header: ones over 3x3 give 5x5.
    case(TENSORRT, tensorrt("3,3"), [f32(range(1, 10), (1, 1, 3, 3)), f32([1] * 9, (1, 1, 3, 3))],
         f32([1, 3, 6, 5, 3,
              5, 12, 21, 16, 9,
              12, 27, 45, 33, 18,
              11, 24, 39, 28, 15,
              7, 15, 24, 17, 9], (1, 1, 5, 5))),
    *(case(TENSORRT, tensorrt("1,3", more=f'stride="1,2" padding_mode="{mode}" '
                                          'pre_padding="0,1" post_padding="0,2"'),
           [FLAT, FLAT_TAPS], f32([10, 102, 20, 203], (1, 1, 1, 4)))
      for mode in ("EXPLICIT_ROUND_DOWN", "EXPLICIT_ROUND_UP", "kEXPLICIT_ROUND_UP")),
    *(case(TENSORRT, tensorrt("1,3", more=f'stride="1,2" padding_mode="{mode}" padding_nd="0,1"'),
           [FLAT, FLAT_TAPS], f32(SCATTER[1:-1], (1, 1, 1, 5)))
      for mode in ("CAFFE_ROUND_DOWN", "CAFFE_ROUND_UP", "EXPLICIT_ROUND_DOWN")),
    # SAME_*: DK - S = 1 is cut off, given paddings count for nothing.
    case(TENSORRT, tensorrt("1,3", more='stride="1,2" padding_mode="SAME_UPPER" padding_nd="1,1"'),
         [FLAT, FLAT_TAPS], f32(SCATTER[:-1], (1, 1, 1, 6))),
    case(TENSORRT, tensorrt("1,3", more='stride="1,2" padding_mode="kSAME_LOWER"'),
         [FLAT, FLAT_TAPS], f32(SCATTER[1:], (1, 1, 1, 6))),
    case(TENSORRT, tensorrt("1,3", more='dilation="1,2"'), [FLAT, FLAT_TAPS],
         f32([1, 2, 13, 20, 130, 200, 300], (1, 1, 1, 7))),
    case(TENSORRT, tensorrt("1,1", 6, 'num_groups="2"'),
         [f32([1, 2, 3, 4], (1, 4, 1, 1)), f32(GROUPS.values, (4, 3, 1, 1)), HUNDREDS],
         f32(WITH_BIAS, (1, 6, 1, 1))),
    case(TENSORRT, tensorrt("1,2", 4, 'num_groups="2"'),
         [f32(DEPTH.values, (1, 2, 1, 2)), f32(DEPTH_TAPS.values, (2, 2, 1, 2))],
         f32(DEPTHWISE.values, (1, 4, 1, 3))),
    case(TENSORRT, tensorrt("1,1,1", more='stride="1,1,2"'),
         [f32([1, 2], (1, 1, 1, 1, 2)), f32([3], (1, 1, 1, 1, 1))],
         f32([3, 0, 6], (1, 1, 1, 1, 3))),
    case(TENSORRT, tensorrt("1,3", more='stride="1,2"'),
         [f16([1, 2], (1, 1, 1, 2)), f16([1, 2, 4], (1, 1, 1, 3))],
         f16([1, 2, 6, 4, 8], (1, 1, 1, 5))),
    # Each of four outputs is the sum of four inputs.
    case(TENSORRT, tensorrt("1,1", 4),
         [i8([1, 2, 3, 4], (1, 4, 1, 1)), i8([1, 2, 3, 4] * 4, (4, 4, 1, 1))],
         i8([10, 20, 30, 40], (1, 4, 1, 1))),
]  # fmt: skip

CASES = [
    *ONEDNN_CASES,
    *ONNX_CASES,
    *(
        row
        for version in (1, 11)
        for row in nhwc_rows(f"ConvTranspose-com.ms.internal.nhwc_{version}")
    ),
    *TENSORRT_CASES,
]
