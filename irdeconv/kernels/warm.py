"""Compile the functions that this processor's kernels need, so that no run waits for it."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from irdeconv.base import progress
from irdeconv.kernels import jit
from irdeconv.kernels.candidate import Candidate, ConvProblem, FixedKernel
from irdeconv.kernels.eager import for_convolution, for_deconvolution
from irdeconv.kernels.panels import own_tiles, step_name
from irdeconv.kernels.threads import Threads, arithmetic


def _layer(
    channels: int, outputs: int, groups: int, kernel: int, stride: int, begin: int, size: int
) -> ConvProblem:
    return ConvProblem(
        shape=(1, channels, WARM_SIDE, WARM_SIDE),
        outputs=outputs,
        groups=groups,
        kernel=(kernel,) * 2,
        strides=(stride,) * 2,
        dilations=(1, 1),
        begin=(begin,) * 2,
        sizes=(size,) * 2,
    )


WARM_SIDE = 20  # of inputs; every tile and transform fits in
# Small layers for which every compiled kernel is a candidate: the micro-kernel's tiles have
# different numbers of rows, and depthwise layers have a loop of their own.
CONVOLUTIONS = (
    *(_layer(8, outputs, 1, 1, 1, 0, WARM_SIDE) for outputs in (6, 8, 12, 24)),
    _layer(16, 16, 1, 3, 1, 1, WARM_SIDE),
    _layer(16, 16, 1, 3, 2, 1, WARM_SIDE // 2),
    _layer(8, 8, 8, 3, 1, 1, WARM_SIDE),
    _layer(8, 8, 8, 3, 2, 1, WARM_SIDE // 2),
)
DECONVOLUTIONS = (
    _layer(16, 16, 1, 2, 2, 0, 2 * WARM_SIDE),
    _layer(16, 16, 1, 4, 2, 1, 2 * WARM_SIDE),
    _layer(4, 4, 1, 3, 3, 0, 3 * WARM_SIDE),
    _layer(8, 8, 8, 4, 2, 1, 2 * WARM_SIDE),
)


def compile_kernels() -> None:
    """Compile the calls of a table, then run every candidate of some layers; numba is there."""
    jit.load()
    import_module("irdeconv.kernels.compiled_recurrent")
    steps = import_module("irdeconv.kernels.compiled_records")
    steps.compile_all(map(step_name, own_tiles()))
    import_module("irdeconv.kernels.compiled_sharing").sharing()
    work = [(layer, c) for layer in CONVOLUTIONS for c in for_convolution(layer)]
    turned = [(layer, c) for layer in DECONVOLUTIONS for c in for_deconvolution(layer)]
    for layer, candidate in progress.each("trying kernels", work, name=_name):
        shape = layer.groups, layer.group_outputs, layer.group_inputs, *layer.kernel
        _run(layer, candidate, shape)
    for layer, candidate in progress.each("trying kernels", turned, name=_name):
        shape = layer.groups, layer.group_inputs, layer.group_outputs, *layer.kernel
        _run(layer, candidate, shape)


def _name(pair: tuple[ConvProblem, Candidate]) -> str:
    return pair[1].name


def _run(layer: ConvProblem, candidate: Candidate, shape: tuple[int, ...]) -> None:
    x, out = np.ones(layer.shape, np.float32), np.empty(layer.out_shape, np.float32)
    team = Threads(1)
    team.begin()
    kernel = candidate.prepare(np.ones(shape, np.float32))
    with arithmetic():
        kernel(x, out, None, team)
    if isinstance(kernel, FixedKernel):
        kernel.fixed(x, out, lambda tile, image, channels, positions: None)
