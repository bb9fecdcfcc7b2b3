"""Known faults of runtimes that change a lowered graph: trigger, versions, correct spelling.

A proof is about exact arithmetic on the graph; these faults change the graph afterwards. It refuses
a lowered graph that meets a fault of f32. docs/disagreements.md lists them. Tests show those of
int8 (tests/rewrite/test_int8.py) and open bounds (tests/proof/test_proof_language_live.py) in the
installed version. The other two were seen on processors with AVX-512.
"""

from __future__ import annotations

from dataclasses import dataclass

from irdeconv.ops.core import Setting


@dataclass(frozen=True)
class RuntimeFault:
    """One fault; `seen` are versions that have it, `absent` versions that were tried and do not."""

    name: str
    runtime: str
    seen: tuple[str, ...]
    absent: tuple[str, ...]
    trigger: str
    result: str
    spelling: str

    @property
    def versions(self) -> str:
        """The versions that have it, and those that do not."""
        absent = f", not {', '.join(self.absent)}" if self.absent else ""
        return f"{', '.join(self.seen)}{absent}"

    def __str__(self) -> str:
        head = f"{self.runtime} ({self.versions}): {self.trigger}: {self.result}"
        return f"{head}. Instead: {self.spelling}"


PAD_OF_ONE = RuntimeFault(
    "pad-of-one",
    "OpenVINO CPU, int8",
    ("2023.0.2", "2024.0.0", "2026.4.1"),
    (),
    "a constant Pad of data with a zero point other than 0 that pads exactly one axis, if that "
    "axis has one element; a Pad that is fused into a single convolution is right",
    "the padded elements are -zero_point * scale instead of 0",
    "pad a second axis in the same Pad and crop it, or join zeros with Concat",
)
SCALE_PER_GROUP = RuntimeFault(
    "scale-per-group",
    "OpenVINO CPU, int8",
    ("2024.0.0", "2026.4.1"),
    (),
    "a GroupConvolution with several outputs a group whose i8 filter has one scale a group",
    "the model does not compile",
    "write a scale for each output of each group",
)
RESIZE_TIMES_MASK = RuntimeFault(
    "resize-times-mask",
    "OpenVINO CPU, int8",
    ("2023.0.2", "2024.0.0"),
    ("2026.4.1",),
    "quantized data behind a nearest Interpolate, multiplied by a mask over its spatial axes",
    "the model does not compile",
    "insert zeros with Pad or Concat",
)
ZERO_POINT_OF_DECONVOLUTION = RuntimeFault(
    "zero-point-of-deconvolution",
    "OpenVINO CPU, int8",
    ("2026.4.1",),
    ("2024.0.0",),
    "a deconvolution of data with a zero point whose kernel is no multiple of its stride, for "
    "some sizes: 4x5 by 4x4 stride 3; one element by 3 stride 2",
    "off by 38 % of the range and more",
    "lower it",
)
DEPTH_OF_ONE = RuntimeFault(
    "depth-of-one",
    "OpenVINO CPU, int8 and bf16",
    ("2026.4.1",),
    (),
    "a quantized 3-D convolution of data [N, 1, 1, H, W] that is padded in depth",
    "off by 60 to 100 % of the range; differs from run to run",
    "no pads in depth: keep only the filter's layer of depth that meets the data",
)
SUM_OF_PARTS = RuntimeFault(
    "sum-of-parts",
    "OpenVINO CPU, f32",
    ("2026.4.1",),
    (),
    "with open sizes, an Add of convolutions of which one reads part of a Split or VariadicSplit",
    "other sums on processors with AVX-512",
    "cut the parts with Slice, or join the convolutions in one",
)
STRIDE_OF_ONE_OUTPUT = RuntimeFault(
    "stride-of-one-output",
    "OpenVINO CPU, f32",
    ("2026.4.1",),
    (),
    "a convolution of one channel with a stride on its last axis, on which it has one output",
    "other elements are read on processors with AVX-512 (brgconv_avx512_f32)",
    "the stride 1; if the axis is open, compute two more outputs and crop them",
)
OPEN_BOUNDS = RuntimeFault(
    "open-bounds",
    "OpenVINO CPU",
    ("2026.4.1",),
    (),
    "Abs, Clamp, FloorMod, Minimum or a Convert to boolean of integers that depend on open sizes",
    "what the bounds seem to decide is folded, or left out",
    "Maximum, Select, Divide of numbers that are not negative",
)


def faults_of_quantized(s: Setting) -> tuple[RuntimeFault, ...]:
    """Return the faults that concern a deconvolution of quantized data, itself or lowered.

    Sizes that are not integers are unknown, and concern nothing.
    """
    strided = [n for n in s.strides if n > 1]
    rest = any(isinstance(k, int) and k % n for k, n in zip(s.kernel, s.strides, strict=True))
    rows = (
        (PAD_OF_ONE, 1 in s.size or len(strided) == 1),
        (SCALE_PER_GROUP, isinstance(s.outputs, int) and s.outputs > s.groups > 1),
        (ZERO_POINT_OF_DECONVOLUTION, rest),
        (DEPTH_OF_ONE, s.axes == 3 and s.size[0] == s.channels == 1),
    )
    return tuple(fault for fault, concerned in rows if concerned)
