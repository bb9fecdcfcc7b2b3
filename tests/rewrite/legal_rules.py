"""Targets that each force one rule of the lowering, or one spelling of it, and layers for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from irdeconv.rewrite.targets import Target
from legal_layers import FREE, Shapes, target_of

Ints = tuple[int, ...]
BOTH = ("Convolution", "GroupConvolution")
SIZES = (*FREE, "ShapeOf", "Gather", "Broadcast", "Multiply")  # what open sizes may take


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One target and what it forces.

    `uses` are the names of rules, one of which is applied, `nodes` of operations that are written.
    With `convolution` the layers are ordinary convolutions. `open` are axes whose sizes may be
    open. With `chained` a convolution may read another one's result, which the second checker does
    not follow.
    """

    name: str
    target: Target
    shapes: Shapes = Shapes()
    form: str | None = "zero-insertion"
    uses: Sequence[str] = ()
    nodes: Sequence[str] = ()
    absent: Sequence[str] = ()
    convolution: bool = False
    open: Ints = (0,)
    chained: bool = False

    def __str__(self) -> str:
        return self.name


def both(*conditions: str) -> dict[str, Sequence[str]]:
    return dict.fromkeys(BOTH, conditions)


SPARE = ("Interpolate", "Multiply", *BOTH, "Add", "Slice")
NATIVE = ("ConvolutionBackpropData", "GroupConvolutionBackpropData", "Slice", "Reshape")


def native(*conditions: str, listed: Sequence[str] = NATIVE, without: Sequence[str] = ()) -> Target:
    return target_of(
        dict.fromkeys((n for n in NATIVE[:2] if n not in without), conditions),
        listed=listed,
        without=without,
    )


CONVOLUTION_RULES = (
    Rule(
        name="1-D as 2-D",
        target=target_of(both("spatial_axes == 2"), listed=SIZES),
        shapes=Shapes(axes=(1,)),
        uses=["as_plane"],
        open=(0, 2),
    ),
    Rule(
        name="3-D as 2-D",
        target=target_of(both("spatial_axes == 2")),
        shapes=Shapes(axes=(3,)),
        uses=["as_planes"],
    ),
    Rule(
        name="3-D as 2-D, at most 4 axes",
        target=target_of(both("spatial_axes == 2"), head="max_rank = 5"),
        shapes=Shapes(axes=(3,), stride=(1, 2)),
        uses=["as_planes"],
    ),
    Rule(
        name="one dense filter",
        target=target_of(without=["GroupConvolution", "Concat"]),
        shapes=Shapes(grouped=True),
        uses=["dense"],
    ),
    Rule(
        name="group by group",
        target=target_of({"Convolution": ["inputs <= 3"]}, without=["GroupConvolution", "Add"]),
        shapes=Shapes(grouped=True, c=(2, 3)),
        uses=["group_by_group"],
    ),
    Rule(
        name="multiplier",
        target=target_of({"GroupConvolution": ["depthwise", "multiplier == 1"]}),
        shapes=Shapes(grouped=True),
        uses=["dense", "group_by_group"],
    ),
    Rule(
        name="dilation in the filter",
        target=target_of(both("dilation == 1")),
        shapes=Shapes(kernel=(2, 3), dilation=(2, 3)),
        uses=["undilated"],
    ),
    Rule(
        name="strides sliced",
        target=target_of(both("stride == 1")),
        shapes=Shapes(stride=(2, 3)),
        uses=["sliced_stride"],
        convolution=True,
    ),
    Rule(
        name="stride halved",
        target=target_of(both("stride <= 2")),
        shapes=Shapes(stride=(4, 4)),
        uses=["sliced_stride"],
        convolution=True,
    ),
    Rule(
        name="allowed kernels only",
        target=target_of(both("kernel in (3, 5)"), without=["Concat", "Add"]),
        shapes=Shapes(more=lambda layer: set(layer.kernel) & {1, 2, 4}),
        uses=["filled_kernel"],
    ),
    Rule(
        name="square kernels",
        target=target_of(both("kernel_h == kernel_w"), without=["Concat", "Add"]),
        shapes=Shapes(axes=(2,), more=lambda layer: layer.kernel[0] != layer.kernel[1]),
        uses=["filled_kernel"],
    ),
    Rule(
        name="a kernel in parts as channels",
        target=target_of(both("kernel <= 2"), without=["Add"]),
        shapes=Shapes(kernel=(3, 5)),
        uses=["kernel_as_channels"],
    ),
    Rule(
        name="a kernel as a sum",
        target=target_of(both("kernel <= 2"), without=["Concat"]),
        shapes=Shapes(kernel=(3, 5)),
        uses=["kernel_as_sum"],
    ),
    Rule(
        name="3x3 or 1x1",
        target=target_of(both("kernel in (1, 3)")),
        shapes=Shapes(kernel=(4, 5), dilation=(1, 1)),
        uses=["kernel_as_channels", "kernel_as_sum"],
    ),
    Rule(
        name="inputs in parts",
        target=target_of(both("inputs <= 2")),
        shapes=Shapes(grouped=False, c=(3, 5)),
        uses=["inputs_split"],
    ),
    Rule(
        name="outputs in parts",
        target=target_of(both("outputs <= 2")),
        shapes=Shapes(grouped=False, m=(3, 5)),
        uses=["outputs_split"],
    ),
    Rule(
        name="channels aligned",
        target=target_of(both("outputs % 4 == 0", "inputs % 2 == 0")),
        shapes=Shapes(grouped=False, c=(1, 3), m=(1, 3), more=lambda layer: layer.m % 4),
        uses=["filled_channels"],
    ),
    Rule(
        name="a product of kernel and inputs",
        target=target_of({"Convolution": ["inputs * kernel_h * kernel_w <= 8"]}),
        shapes=Shapes(axes=(2,), grouped=False, c=(2, 3), kernel=(2, 4), dilation=(1, 1)),
    ),
    Rule(
        name="equal pads",
        target=target_of(both("pad_begin == pad_end"), without=["Pad"]),
        shapes=Shapes(more=lambda layer: layer.pads_begin != layer.pads_end),
        open=(),
    ),
    Rule(
        name="equal pads of a strided convolution",
        target=target_of(both("pad_begin == pad_end"), without=["Pad", "Concat"]),
        shapes=Shapes(stride=(2, 3), more=lambda layer: layer.pads_begin != layer.pads_end),
        uses=["even_kernel_pads"],
        convolution=True,
    ),
    Rule(
        name="pads by convolutions",
        chained=True,
        target=target_of(both("pad <= 1"), listed=SPARE),
        shapes=Shapes(kernel=(3, 4), pads=(0, 0), dilation=(1, 2), output_padding=False),
        uses=["pads_by_convolution"],
        open=(),
    ),
    Rule(
        name="tiles",
        target=target_of(both("size_w <= 8")),
        shapes=Shapes(axes=(1, 2), kernel=(2, 3), stride=(2, 3), dilation=(1, 1)),
        open=(),
    ),
    Rule(
        name="pads apart",
        target=target_of(both("pad == 0"), listed=SIZES),
        shapes=Shapes(kernel=(2, 4), pads=(0, 0)),
        nodes=["Pad"],
        open=(0, 2, 3, 4),
    ),
    Rule(
        name="pads by Concat",
        target=target_of(both("pad == 0"), without=["Pad"]),
        shapes=Shapes(kernel=(3, 4), pads=(0, 1)),
        nodes=["Concat"],
        absent=["Pad"],
        open=(),
    ),
    Rule(
        name="crops of pads that are too small",
        target=target_of({}, without=["Pad"]),
        shapes=Shapes(kernel=(1, 2), pads=(2, 3)),
        absent=["Pad"],
        open=(),
    ),
)

SPELLINGS = (
    Rule(
        name="zeros by Pad",
        target=target_of(without=["Concat", "Interpolate"]),
        shapes=Shapes(stride=(2, 3)),
        nodes=["Reshape", "Pad", "Reshape"],
    ),
    Rule(
        name="zeros by Concat",
        target=target_of(without=["Pad"]),
        shapes=Shapes(stride=(2, 3)),
        nodes=["Reshape", "Concat"],
        absent=["Pad"],
        open=(),
    ),
    Rule(
        name="zeros by Interpolate",
        target=target_of(listed=SPARE),
        shapes=Shapes(stride=(2, 3)),
        nodes=["Multiply"],
        absent=["Reshape", "Pad", "Concat"],
        open=(),
    ),
    *(
        Rule(
            name=f"{form}: {name}",
            target=target_of(conditions, listed=SIZES, without=without, head=head),
            shapes=Shapes(stride=stride, grouped=grouped, equal_strides=True, axes=axes),
            form=form,
            nodes=nodes,
            absent=without,
        )
        for form in ("phases", "stacked")
        for name, conditions, without, head, nodes, stride, axes, grouped in (
            ("DepthToSpace", {}, ["Transpose"], "", ["DepthToSpace"], (2, 3), (2,), None),
            (
                "depth first",
                {"DepthToSpace": ["mode == 'depth_first'"]},
                [],
                "",
                [],
                (2, 3),
                (2,),
                None,
            ),
            (
                "blocks of 2",
                {"DepthToSpace": ["block == 2"]},
                ["Transpose"],
                "",
                ["DepthToSpace", "DepthToSpace"],
                (4, 4),
                (2,),
                False,
            ),
            (
                "Transpose",
                {"Concat": ["axis in (0, 1)"]},
                ["DepthToSpace"],
                "",
                ["Transpose"],
                (2, 3),
                (1, 2, 3),
                None,
            ),
            (
                "Transpose of 4 axes",
                {"Concat": ["axis in (0, 1)"]},
                ["DepthToSpace"],
                "max_rank = 4",
                ["Transpose"],
                (2, 3),
                (1, 2),
                None,
            ),
            (
                "Concat",
                {},
                ["DepthToSpace", "Transpose"],
                "",
                ["Concat"],
                (2, 3),
                (1, 2, 3),
                False,
            ),
        )
    ),
    Rule(
        name="phases: Concat of grouped ones",
        target=target_of(listed=SIZES, without=["DepthToSpace", "Transpose"]),
        shapes=Shapes(stride=(2, 3), grouped=True),
        form="phases",
        nodes=["Concat"],
    ),
    *(
        Rule(
            name=f"{form}: unlike strides",
            target=target_of(listed=SIZES, head="max_rank = 5"),
            shapes=Shapes(stride=(1, 4), axes=(2, 3), more=lambda layer: len({*layer.strides}) > 1),
            form=form,
            open=(0, 2, 3),
        )
        for form in ("phases", "stacked")
    ),
)

NATIVE_RULES = (
    Rule(
        name="native as it is",
        target=native(),
        form=None,
        nodes=["BackpropData"],
        open=(0,),
    ),
    Rule(
        name="native: 3 taps",
        target=native("kernel == 3"),
        shapes=Shapes(kernel=(1, 2)),
        form=None,
        uses=["filled_kernel"],
    ),
    Rule(
        name="native: 1-D as 2-D",
        target=native("spatial_axes == 2"),
        shapes=Shapes(axes=(1,)),
        form=None,
        uses=["as_plane"],
    ),
    Rule(
        name="native: one dense filter",
        target=native(without=["GroupConvolutionBackpropData"]),
        shapes=Shapes(grouped=True),
        form=None,
        uses=["dense"],
    ),
    Rule(
        name="native: group by group",
        target=native(
            "inputs <= 3",
            listed=[*NATIVE, "Concat"],
            without=["GroupConvolutionBackpropData"],
        ),
        shapes=Shapes(grouped=True, c=(2, 3)),
        form=None,
        uses=["group_by_group"],
    ),
    Rule(
        name="native: dilation in the filter",
        target=native("dilation == 1"),
        shapes=Shapes(kernel=(2, 3), dilation=(2, 2)),
        form=None,
        uses=["undilated"],
    ),
    Rule(
        name="native: pads as crops",
        target=native("pad == 0"),
        shapes=Shapes(pads=(1, 1), kernel=(2, 4)),
        form=None,
        nodes=["Slice"],
    ),
    Rule(
        name="native: a larger output",
        target=native("output_padding == 1", "stride == 2"),
        shapes=Shapes(stride=(2, 2), kernel=(2, 4)),
        form=None,
    ),
    Rule(
        name="native: no output padding",
        target=native("output_padding == 0"),
        shapes=Shapes(stride=(2, 3), kernel=(2, 4), dilation=(1, 1)),
        form=None,
    ),
    Rule(
        name="native: stride in steps",
        chained=True,
        target=native("stride in (1, 2)"),
        shapes=Shapes(stride=(4, 4)),
        form=None,
        uses=["stride_in_steps"],
    ),
    Rule(
        name="native: a kernel in parts",
        target=native("kernel <= 4", listed=[*NATIVE, "Concat", "Pad"], without=[]),
        shapes=Shapes(grouped=False, axes=(2,), kernel=(5, 6), stride=(1, 2), dilation=(1, 1)),
        form=None,
        uses=["kernel_in_parts"],
        open=(),
    ),
    Rule(
        name="native: a kernel in parts by a convolution",
        chained=True,
        target=native("kernel <= 4", listed=[*NATIVE, "Convolution"]),
        shapes=Shapes(grouped=False, axes=(2,), kernel=(5, 6), stride=(2, 2), dilation=(1, 1)),
        form=None,
        uses=["kernel_in_parts"],
        open=(),
    ),
    Rule(
        name="native: a stride by copies",
        chained=True,
        target=target_of(
            {
                "ConvolutionBackpropData": [
                    *("kernel == 3", "stride == 2", "pad in (0, 1, 2)", "output_padding == 1"),
                    "inputs * outputs <= 96",
                ],
                "Convolution": ["kernel in (1, 3)", "pad_begin == pad_end", "pad <= 2"],
            },
            listed=["ConvolutionBackpropData", "Convolution", "Add"],
        ),
        shapes=Shapes(
            axes=(2,),
            grouped=False,
            c=(1, 2),
            m=(1, 2),
            kernel=(16, 16),
            stride=(8, 8),
            pads=(4, 4),
            dilation=(1, 1),
            output_padding=False,
            products=20000,
        ),
        form=None,
        uses=["stride_by_copies"],
        open=(),
    ),
    Rule(
        name="native: 3x3 of stride 2, without pads",
        target=native("kernel == 3", "stride == 2", "pad == 0", "groups == 1", "dilation == 1"),
        shapes=Shapes(kernel=(1, 3), stride=(2, 2), dilation=(1, 1), pads=(0, 2), axes=(2,)),
        form=None,
    ),
)

COMBINED = (
    Rule(
        name="2-D, 3x3 or 1x1, one group, 4 axes",
        target=target_of(
            {"Convolution": ["spatial_axes == 2", "kernel in (1, 3)", "dilation == 1"]},
            without=["GroupConvolution"],
            head="max_rank = 4",
        ),
        shapes=Shapes(axes=(1, 2), products=1500),
        form=None,
    ),
    Rule(
        name="2-D, small pads, aligned, without Slices of the batch",
        chained=True,
        target=target_of(
            both("spatial_axes == 2", "pad <= 1", "outputs % 2 == 0") | {"Slice": ["axis != 0"]},
        ),
        shapes=Shapes(products=1500),
        form=None,
        open=(),
    ),
    Rule(
        name="kernels up to 3 with equal pads, depthwise only",
        target=target_of(
            {
                "Convolution": ["kernel <= 3", "pad_begin == pad_end", "dilation == 1"],
                "GroupConvolution": ["depthwise", "multiplier == 1", "kernel <= 3"],
            },
            without=["DepthToSpace"],
        ),
        shapes=Shapes(products=1500),
        form=None,
    ),
    Rule(
        name="convolutions of stride 1, without dilation and groups",
        target=target_of(
            {"Convolution": ["stride == 1", "dilation == 1", "kernel <= 3"]},
            without=["GroupConvolution"],
        ),
        shapes=Shapes(products=1500),
        convolution=True,
    ),
)
EVERY = (*CONVOLUTION_RULES, *SPELLINGS, *NATIVE_RULES, *COMBINED)
assert len({r.name for r in EVERY}) == len(EVERY)
