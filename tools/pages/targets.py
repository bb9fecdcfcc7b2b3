"""docs/targets/, a page for each packaged device, and the generated parts of docs/targets.md.

The layers are made here from LAYERS. Each is lowered for each device. For a refused layer the page
says why it is impossible, or that the search finds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

import irdeconv as ird
from irdeconv.ir.graph import Graph
from irdeconv.ir.op import REGISTRY
from irdeconv.rewrite import legalising
from irdeconv.rewrite.target_conditions import OPERATIONS, Facts, Name, names_of
from irdeconv.rewrite.targets import Target, load_target, target_names
from pages import DOCS, MARK, table, with_parts
from support.layers import Layer, sequential

NO_DEVICES = ("generic", "no-depth-to-space", "zero-insertion-hardware")


def _square(
    size: tuple[int, ...],
    channels: tuple[int, int],
    kernel: int,
    stride: int,
    pad: int = 0,
    *,
    groups: int | None = None,
    dilation: int = 1,
    output_padding: int = 0,
) -> Layer:
    """Return a layer with the same kernel, stride and pads on each axis."""
    lists = ((v,) * len(size) for v in (kernel, stride, dilation, pad, pad, output_padding))
    c, m = (n // (groups or 1) for n in channels)
    return Layer(1, size, groups, c, m, *lists)


# Deconvolutions with a bias; lists have an entry per spatial axis.
LAYERS = {
    "dcgan_k4s2p1": _square((8, 8), (64, 32), 4, 2, 1),
    "unet_k2s2": _square((16, 16), (64, 32), 2, 2),
    "outpad_k3s2op1": _square((16, 16), (32, 16), 3, 2, 1, output_padding=1),
    "asympads_k5s2": replace(_square((9, 12), (16, 8), 5, 2), pads_begin=(0, 1), pads_end=(3, 2)),
    "same_k5s2": replace(_square((7, 9), (16, 8), 5, 2), pads_begin=(1, 1), pads_end=(2, 2)),
    "mixed_k4x2s4x2": replace(_square((6, 10), (16, 8), 4, 4), kernel=(4, 2), strides=(4, 2)),
    "strideover_k2s3": _square((8, 8), (16, 8), 2, 3),
    "dilated_k3s2d2": _square((10, 10), (16, 8), 3, 2, 2, dilation=2),
    "fsrcnn_k9s3": _square((32, 32), (56, 1), 9, 3, 4, output_padding=2),
    "depthwise_k4s2": _square((16, 16), (21, 21), 4, 2, 1, groups=21),
    "fcn32_k64s32_dw": _square((4, 4), (21, 21), 64, 32, 16, groups=21),
    "grouped_k4s2_g4": _square((8, 8), (32, 32), 4, 2, 1, groups=4),
    "hifigan1d_k16s8": _square((32,), (64, 32), 16, 8, 4),
    "unet3d_k2s2": _square((4, 8, 8), (16, 8), 2, 2),
    "grouped3d_k4s2_g2": _square((3, 6, 6), (8, 8), 4, 2, 1, groups=2),
}


def _described(layer: Layer) -> str:
    """Return a layer in words."""
    groups, dilation, extra = layer.groups or 1, layer.dilations[0], layer.output_padding[0]
    begin, end = layer.pads_begin, layer.pads_end
    parts = [
        f"{layer.c * groups} channels of {_times(layer.size)} to {layer.m * groups}",
        f"kernel {_times(layer.kernel)}",
        f"stride {_times(layer.strides)}",
        f"pads {_pads(begin, end)}" if any((*begin, *end)) else "",
        f"dilation {dilation}" if dilation > 1 else "",
        f"output_padding {extra}" if extra else "",
        "depthwise" if layer.c == 1 else "",
        f"{groups} groups" if groups > 1 and layer.c > 1 else "",
    ]
    return ", ".join(filter(None, parts))


def _graph(layer: Layer) -> Graph:
    """Return a model of a layer and its bias."""
    rng, add = np.random.default_rng(1), REGISTRY["Add", "opset1"]()
    w = rng.integers(1, 5, layer.filter_shape).astype(np.float32)
    outputs = layer.m * (layer.groups or 1)
    bias = rng.integers(1, 5, (1, outputs, *(1,) * layer.axes)).astype(np.float32)
    return sequential(layer.data_shape, ("deconv", layer.op, {"w": w}), ("y", add, {"b": bias}))


AXES = (
    "No convolution of the device reads data with {rank} axes, and the device has no operation "
    "that changes the number of axes (Reshape, Squeeze, Unsqueeze)."
)
RANK = "The data have {rank} axes, tensors of the device at most {most}: no operation reads them."
ENLARGE = (
    "For data with {rank} axes nothing there enlarges a tensor by a stride. The device lacks "
    "{lacking}. Each listed operation turns a map that is constant in space into another one, "
    "apart from borders and from the seams of a Concat. A deconvolution whose stride is above 1 "
    "does not, unless the taps of all residues have the same sum."
)
STRIDES = (
    "The only operation that enlarges a tensor is the deconvolution of stride 2 on both axes. A "
    "chain of these enlarges both axes by the same power of 2, never by {stride}."
)
NOT_FOUND = "The search finds nothing. No argument says that it is impossible."


@dataclass(frozen=True)
class Outcome:
    """What became of a layer: form and operations, or why it is refused."""

    form: str | None
    operations: tuple[str, ...]
    reason: str = ""


@cache
def outcome(target: str, layer: Layer) -> Outcome:
    """Lower a layer for a target."""
    try:
        (record,) = ird.lower(_graph(layer), target=target).report
    except ird.TargetError:
        return Outcome(None, (), impossible(load_target(target), layer))
    return Outcome(record.form, record.nodes)


def impossible(target: Target, layer: Layer) -> str:
    """Return why no graph of listed operations computes a layer."""
    rank, listed = len(layer.size) + 2, target.operations or {}
    if target.max_rank is not None and rank > target.max_rank:
        return RANK.format(rank=rank, most=target.max_rank)
    windows = [op for op in listed if "Convolution" in op and _reads(target, op, rank - 2)]
    if not windows and not {"Reshape", "Squeeze", "Unsqueeze"} & listed.keys():
        return AXES.format(rank=rank)
    moving = ["Reshape", "Transpose", "DepthToSpace", "Multiply"]
    lacking = [op for op in moving if op not in listed]
    enlarging = [op for op in windows if op in legalising.OPERATIONS]
    if lacking == moving and not enlarging:
        return ENLARGE.format(rank=rank, lacking=f"{', '.join(lacking[:-1])} and {lacking[-1]}")
    alike = len(set(layer.strides)) == 1 and layer.strides[0].bit_count() == 1
    if lacking == moving and enlarging and not alike:
        return STRIDES.format(stride=_times(layer.strides))
    return NOT_FOUND


def _reads(target: Target, operation: str, axes: int) -> bool:
    """Whether no condition on the number of axes refuses data with so many spatial axes."""
    facts = Facts({"spatial_axes": axes})
    conditions = (target.operations or {}).get(operation, ())
    return not any(
        "known only" not in text for c in conditions if (text := c.failure(facts)) is not None
    )


def pages() -> dict[Path, str]:
    """Return the text of every page by its path."""
    names = [name for name in target_names() if name not in NO_DEVICES]
    layers = ((name, _described(layer)) for name, layer in LAYERS.items())
    rules = re.findall(r"^ {4}(\d)  +(.+?)  +(.+)$", legalising.__doc__ or "", re.M)
    devices = ("`--target`", "device", "layers that fit", "refused")
    parts = {
        "operations": table(("operation", "names"), _operations()),
        "rules": table(("stage", "rule", "starts from a condition on"), rules),
        "devices": table(devices, map(_device, names)),
        "layers": table(("layer", "deconvolution"), layers),
    }
    page = with_parts(DOCS / "targets.md", parts)
    return page | {DOCS / "targets" / f"{name}.md": page_of(name) for name in names}


def _operations() -> Iterator[tuple[str, str]]:
    """Yield the names of each operation's conditions; operations with equal names share a row."""
    shared = names_of("ReLU")
    rows: dict[str, list[str]] = {}
    for operation in OPERATIONS:
        names = names_of(operation)
        if names is shared:
            continue
        base, front = shared, "as all others"
        if operation in legalising.OPERATIONS:
            base, front = names_of("Convolution"), "as Convolution"
        elif "channels" not in names:
            front += " without `channels`"
        own = {n: v for n, v in names.items() if base.get(n) is not v}
        rows.setdefault(f"{front}; {_names(own)}", []).append(f"`{operation}`")
    yield "all others", _names(shared)
    yield from ((", ".join(operations), text) for text, operations in rows.items())


def _names(names: dict[str, Name]) -> str:
    return ", ".join(f"`{name}` ({_about(n)})" for name, n in names.items())


def _about(name: Name) -> str:
    choices = f": {', '.join(name.choices)}" if 1 < len(name.choices) < 8 else ""
    axes = "; for each axis" if name.absent is not None and not name.each else ""
    return f"{name.about}{axes}{choices}"


def _device(name: str) -> tuple[str, ...]:
    refused = [n for n, layer in LAYERS.items() if outcome(name, layer).form is None]
    fit = f"{len(LAYERS) - len(refused)} of {len(LAYERS)}"
    what = "all" if len(refused) == len(LAYERS) else ", ".join(refused)
    return f"[{name}](targets/{name}.md)", load_target(name).description, fit, what


def page_of(name: str) -> str:
    """Return the page of a device."""
    target = load_target(name)
    file = (files("irdeconv.rewrite") / "profiles" / f"{name}.toml").read_text("utf-8")
    found = {n: outcome(name, layer) for n, layer in LAYERS.items()}
    rows = ((n, o.form or "refused", _becomes(o)) for n, o in found.items())
    lines = [
        f"{MARK}# {name}: {target.description}",
        f"Source: {target.source}.",
        "What is not listed below cannot run there. A comment names the entry of the source that a "
        f"condition comes from. `irdeconv lower MODEL --target {name}` uses this file.",
        f"```toml\n{file.rstrip()}\n```",
        "## Which layers fit",
        "[The fifteen layers](../targets.md#the-layers-of-the-device-pages), each with a bias. "
        "`native` is the deconvolution of the device.",
        table(("layer", "form", "becomes"), rows),
    ]
    reasons: dict[str, list[str]] = {}
    for layer, o in found.items():
        if o.form is None:
            reasons.setdefault(o.reason, []).append(layer)
    if reasons:
        lines.append("## Why the others are refused")
        lines += [f"- {', '.join(layers)}: {reason}" for reason, layers in reasons.items()]
    return "\n\n".join(lines) + "\n"


def _becomes(found: Outcome) -> str:
    """Return the operations of a layer, repeated ones with their number."""
    counts = {op: found.operations.count(op) for op in found.operations}
    return ", ".join(f"{n} {op}" if n > 1 else op for op, n in counts.items())


def _times(values: tuple[int, ...]) -> str:
    return "x".join(map(str, values))


def _pads(begin: tuple[int, ...], end: tuple[int, ...]) -> str:
    every = {*begin, *end}
    if len(every) == 1:
        return str(begin[0])
    return f"{', '.join(map(str, begin))} in front and {', '.join(map(str, end))} behind"
