"""One deconvolution layer of each of a number of published networks, with its hyper-parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from irdeconv.attributes import Ints

_SMALL = {1: 12, 2: 6, 3: 4}  # elements of an axis, by the number of axes
_FEW_CHANNELS = 4  # of a group


@dataclass(frozen=True)
class NetworkLayer:
    """A layer of a network; all its axes have the same K, S, P and op, dilation 1.

    `inputs` are N, C, *I; `outputs` is M.
    """

    network: str
    inputs: Ints
    outputs: int
    kernel: int
    stride: int
    pad: int = 0
    output_padding: int = 0
    groups: int = 1

    @property
    def slug(self) -> str:
        """The network's name as part of a file's name."""
        return re.sub(r"[^a-z0-9]+", "-", self.network.lower()).strip("-")

    def row(self, *, full_size: bool) -> dict[str, Any]:
        """Return the layer; unless at full size with few channels and elements."""
        batch, channels, *size = self.inputs
        row = {
            "axes": len(size),
            "batch": batch,
            "size": tuple(size),
            "groups": self.groups,
            "channels": channels,
            "outputs": self.outputs,
            "kernel": self.kernel,
            "strides": self.stride,
            "pads_begin": self.pad,
            "pads_end": self.pad,
            "output_padding": self.output_padding,
        }
        if full_size:
            return row
        groups = min(self.groups, 3)
        return row | {
            "batch": min(batch, 2),
            "size": tuple(min(n, _SMALL[len(size)]) for n in size),
            "groups": groups,
            "channels": groups * min(channels // self.groups, _FEW_CHANNELS),
            "outputs": groups * min(self.outputs // self.groups, _FEW_CHANNELS),
        }


NETWORKS = (
    NetworkLayer("DCGAN, 64 pixels", (1, 512, 4, 4), 256, 4, 2, 1),
    NetworkLayer("pix2pix, U-Net 256", (1, 1024, 16, 16), 256, 4, 2, 1),
    NetworkLayer("CycleGAN, ResNet generator", (1, 256, 64, 64), 128, 3, 2, 1, 1),
    NetworkLayer("StyleGAN2, modulated, batch 2 as groups", (1, 1024, 32, 32), 1024, 3, 2, 0, 0, 2),
    NetworkLayer("U-Net", (1, 1024, 28, 28), 512, 2, 2),
    NetworkLayer("FCN-32s, bilinear per class", (1, 21, 16, 16), 21, 64, 32, 0, 0, 21),
    NetworkLayer("FCN-8s, bilinear per class", (1, 21, 34, 34), 21, 4, 2, 0, 0, 21),
    NetworkLayer("DeconvNet, deconv1_1", (1, 64, 224, 224), 64, 3, 1, 1),
    NetworkLayer("FSRCNN x3", (1, 56, 85, 85), 1, 9, 3, 4, 2),
    NetworkLayer("waifu2x upconv_7", (1, 256, 60, 60), 3, 4, 2, 3),
    NetworkLayer("Real-CUGAN x3", (1, 64, 100, 100), 3, 5, 3, 2),
    NetworkLayer("DBNet, text detection", (1, 64, 160, 160), 64, 2, 2),
    NetworkLayer("SimpleBaseline, pose", (1, 2048, 8, 6), 256, 4, 2, 1),
    NetworkLayer("CenterNet, ResNet-18", (1, 512, 16, 16), 256, 4, 2, 1),
    NetworkLayer("Mask R-CNN, mask head, 8 regions", (8, 256, 14, 14), 256, 2, 2),
    NetworkLayer("PointPillars, third block", (1, 256, 62, 54), 128, 4, 4),
    NetworkLayer("FlowNetS, deconv5", (1, 1024, 6, 8), 512, 4, 2, 1),
    NetworkLayer("HiFi-GAN V1, first", (1, 512, 32), 256, 16, 8, 4),
    NetworkLayer("WaveGAN, first", (1, 1024, 16), 512, 25, 4, 11, 1),
    NetworkLayer("WaveGlow, mel upsampling", (1, 80, 63), 80, 1024, 256),
    NetworkLayer("Demucs, last decoder", (1, 64, 2048), 8, 8, 4),
    NetworkLayer("3D U-Net", (1, 512, 9, 9, 7), 512, 2, 2),
    NetworkLayer("V-Net", (1, 256, 8, 8, 4), 128, 2, 2),
)
