"""Detectors: boxes that are boxes, sizes that fit each other, images that there are."""

from __future__ import annotations

from typing import Any

import numpy as np

from op_cases import Tensor, tensor
from support.live_operations.generators.tools import Generator, Rng
from support.live_operations.sample import Sample, given


def _sample(kind: str, version: str, attributes: dict[str, Any], *inputs: Tensor) -> Sample:
    texts = {
        k: ",".join(map(str, v)) if isinstance(v, list) else str(v) for k, v in attributes.items()
    }
    outputs = 2 if kind == "Proposal" and version not in ("opset1", "opset2", "opset3") else 1
    given_inputs = tuple(given(t, constant=kind.startswith("PriorBox")) for t in inputs)
    return Sample(kind, version, texts, given_inputs, outputs, made="generated")


def _some(rng: Rng, low: float, high: float, most: int, least: int = 1) -> list[float]:
    return [float(v) for v in np.round(rng.uniform(low, high, rng.integers(least, most + 1)), 3)]


def _flag(rng: Rng) -> bool:
    return bool(rng.random() < 0.5)


def _numbers(rng: Rng, shape: tuple[int, ...], scale: float = 1.0, kind: str = "f32") -> Tensor:
    return tensor(kind, rng.normal(size=shape) * scale)


def prior_box(rng: Rng, kind: str, version: str) -> Sample:
    """Sizes as constants, as in every network; kinds of attributes that go together."""
    style = rng.choice(["sizes", "dense", "fractions"])
    ratios = [float(v) for v in rng.choice([1, 2, 3, 0.5, 1.5], rng.integers(0, 4))]
    found: dict[str, Any] = {"aspect_ratio": ratios, "flip": _flag(rng), "clip": _flag(rng)}
    if style == "sizes":
        found["min_size"] = _some(rng, 2, 30, 3)
        found["max_size"] = _some(rng, 30, 60, len(found["min_size"]), 0)
        found["step"] = rng.choice([0.0, 8.0, 12.5])
    elif style == "dense":
        found["fixed_size"] = [float(2 * v) for v in rng.integers(2, 20, rng.integers(1, 3))]
        found["density"] = [int(v) for v in rng.integers(1, 4, len(found["fixed_size"]))]
    else:
        found["min_size"] = _some(rng, 0.1, 0.9, 3)
        found |= {"scale_all_sizes": False, "step": rng.choice([-1.0, 0.125, 0.0])}
    found |= {"offset": rng.choice([0.5, 0.25]), "variance": _some(rng, 0.05, 0.3, 1, 0)}
    if int(version.removeprefix("opset")) >= 8:
        found["min_max_aspect_ratios_order"] = _flag(rng)
    sizes = [tensor("i64", rng.integers(1, 6, 2)), tensor("i64", rng.integers(10, 200, 2))]
    return _sample(kind, version, found, *sizes)


def prior_box_clustered(rng: Rng, kind: str, version: str) -> Sample:
    width = _some(rng, 2, 50, 3)
    found: dict[str, Any] = {"width": width, "height": _some(rng, 2, 50, len(width), len(width))}
    found |= {name: rng.choice([0.0, 8.0, 11.5]) for name in ("step", "step_w", "step_h")}
    found |= {"offset": 0.5, "clip": _flag(rng), "variance": _some(rng, 0.05, 0.3, 4, 4)}
    sizes = [tensor("i32", rng.integers(1, 6, 2)), tensor("i32", rng.integers(10, 200, 2))]
    return _sample(kind, version, found, *sizes)


def detection_output(rng: Rng, kind: str, version: str) -> Sample:
    images, priors, classes = (int(v) for v in rng.integers(1, [4, 30, 6]))
    shared, normalized, encoded, decrease = (_flag(rng) for _ in range(4))
    found: dict[str, Any] = {
        "background_label_id": 0 if decrease else rng.integers(-1, 2),
        "top_k": rng.choice([-1, 3, 8, 100]),
        "keep_top_k": rng.choice([-1, 2, 5, 20]),
        "nms_threshold": rng.choice([0.0, 0.2, 0.45, 0.7]),
        "confidence_threshold": rng.choice([0.0, 0.1, 0.5]),
        "code_type": f"caffe.PriorBoxParameter.{rng.choice(['CORNER', 'CENTER_SIZE'])}",
        "share_location": shared,
        "normalized": normalized,
        "variance_encoded_in_target": encoded,
        "decrease_label_id": decrease,
        "clip_before_nms": _flag(rng),
        "clip_after_nms": _flag(rng),
    }
    height, width = (1, 1) if normalized else rng.integers(1, 100, 2)
    found |= {"input_height": height, "input_width": width, "objectness_score": 0.3}
    if version in [f"opset{n}" for n in range(1, 8)]:
        found["num_classes"] = classes
    low = rng.uniform(0, 0.6, (priors, 2))
    boxes = np.concatenate([low, low + rng.uniform(0.1, 0.4, (priors, 2))], 1)
    if not normalized:
        first = np.where(np.arange(priors) < priors - rng.integers(0, 2), 0, -1)
        boxes = np.insert(boxes * [width, height, width, height], 0, first, 1)
    rows = [boxes.reshape(-1), rng.uniform(0.05, 0.3, boxes.size)][: 1 if encoded else 2]
    scores = rng.random((images, priors * classes))
    scores = scores if _flag(rng) else np.round(scores * 8) / 8
    logits = (images, 4 * priors * (1 if shared else classes))
    inputs = [_numbers(rng, logits, 0.5), tensor("f32", scores), tensor("f32", [rows])]
    if rng.random() < 0.3:
        inputs += [tensor("f32", rng.random((images, 2 * priors))), _numbers(rng, logits, 0.3)]
    return _sample(kind, version, found, *inputs)


def proposal(rng: Rng, kind: str, version: str) -> Sample:
    """At least 8 boxes take part: the plugin's process ends with fewer. No row stays free."""
    ratio, scale = _some(rng, 0.3, 3, 3), _some(rng, 0.5, 4, 3)
    images, height, width = (int(v) for v in rng.integers([1, 3, 3], [3, 7, 7]))
    found: dict[str, Any] = {
        "base_size": rng.choice([8, 16]),
        "pre_nms_topn": rng.choice([9, 50, 1000]),
        "post_nms_topn": 1,
        "nms_thresh": rng.choice([0.3, 0.5, 0.7]),
        "feat_stride": rng.choice([8, 16]),
        "min_size": rng.choice([1, 8, 40]),
        "ratio": ratio,
        "scale": scale,
        "framework": rng.choice(["", "tensorflow"]),
        "box_size_scale": rng.choice([1.0, 5.0]),
        "box_coordinate_scale": rng.choice([1.0, 10.0]),
    }
    found |= {n: _flag(rng) for n in ("clip_before_nms", "clip_after_nms", "normalize")}
    if version in ("opset1", "opset2", "opset3"):
        found["post_nms_topn"] = rng.integers(1, 40)
    grid = (len(ratio) * len(scale), height, width)
    scores = rng.random((images, 2 * grid[0], *grid[1:]))
    scores = scores if _flag(rng) else np.round(scores * 6) / 6
    shifts = _numbers(rng, (images, 4 * grid[0], *grid[1:]), 0.4)
    image = [*rng.integers(30, 200, 2), 1.0, 0.5][: rng.integers(3, 5)]
    return _sample(kind, version, found, tensor("f32", scores), shifts, tensor("f32", image))


def _regions(rng: Rng, count: int, side: float) -> Any:
    low = rng.uniform(-2, side, (count, 2))
    return np.concatenate([low, low + rng.uniform(0, side, (count, 2))], 1)


def roi_align(rng: Rng, kind: str, version: str) -> Sample:
    images, channels, height, width = (int(v) for v in rng.integers([1, 1, 2, 2], [4, 9, 16, 16]))
    count, scale = int(rng.integers(1, 5)), float(rng.choice([0.25, 0.5, 1, 2]))
    rois = _regions(rng, count, max(height, width)) / scale
    found: dict[str, Any] = dict(zip(("pooled_h", "pooled_w"), rng.integers(1, 5, 2), strict=True))
    found |= {"sampling_ratio": rng.integers(0, 4), "spatial_scale": scale}
    if kind == "ROIAlignRotated":
        rois = np.concatenate([np.abs(rois) + 0.5, rng.uniform(-4, 4, (count, 1))], 1)
        found["clockwise_mode"] = _flag(rng)
    else:
        found["mode"] = rng.choice(["avg", "max"])
        if int(version.removeprefix("opset")) >= 9:
            modes = ["asymmetric", "half_pixel", "half_pixel_for_nn"]
            found["aligned_mode"] = rng.choice(modes)
    element = str(rng.choice(["f32", "f16"])) if kind == "ROIAlign" else "f32"
    at = tensor(str(rng.choice(["i32", "i64"])), rng.integers(0, images, count))
    maps = _numbers(rng, (images, channels, height, width), kind=element)
    return _sample(kind, version, found, maps, tensor(element, rois), at)


def roi_pooling(rng: Rng, kind: str, version: str) -> Sample:
    """ROIPooling, PSROIPooling and DeformablePSROIPooling."""
    images, outputs, side = (int(v) for v in rng.integers(1, [4, 4, 4]))
    height, width, count = (int(v) for v in rng.integers([2, 2, 1], [16, 16, 5]))
    bins, scale = rng.integers(1, 4, 2), float(rng.choice([0.25, 0.5, 1, 2]))
    found: dict[str, Any] = {"spatial_scale": scale}
    boxes = _regions(rng, count, max(height, width)) / scale
    points = np.sort(rng.uniform(-0.1, 1.1, (count, 2, 2)), 1).reshape(count, 4)
    channels, fractions = outputs * side**2, _flag(rng) and kind != "DeformablePSROIPooling"
    if kind == "ROIPooling":
        found |= dict(zip(("pooled_h", "pooled_w"), rng.integers(1, 5, 2), strict=True))
        found["method"] = "bilinear" if fractions else "max"
        boxes = points if fractions else boxes
    else:
        found |= {"output_dim": outputs, "group_size": side}
        found |= {"spatial_bins_x": bins[0], "spatial_bins_y": bins[1]}
    if kind == "PSROIPooling":
        found["mode"] = "bilinear" if fractions else "average"
        channels = outputs * int(bins.prod()) if fractions else channels
        boxes = points / scale if fractions else boxes
    table = np.insert(boxes, 0, rng.integers(0, images, count), 1)
    inputs = [_numbers(rng, (images, channels, height, width)), tensor("f32", table)]
    if kind == "DeformablePSROIPooling" and _flag(rng):
        part = int(rng.integers(1, 5))
        found |= {"part_size": part, "trans_std": 0.5}
        inputs.append(_numbers(rng, (count, 2 * outputs, part, part), 0.3))
    return _sample(kind, version, found, *inputs)


def region_yolo(rng: Rng, kind: str, version: str) -> Sample:
    classes, coords, regions = (int(v) for v in rng.integers([0, 1, 1], [5, 6, 4]))
    softmax, each = _flag(rng), classes + coords + 1
    found: dict[str, Any] = {"coords": coords, "classes": classes, "do_softmax": softmax, "axis": 1}
    found |= {"end_axis": rng.integers(1, 4), "num": regions if softmax else 9}
    found["mask"] = list(range(regions))
    shape = (int(rng.integers(1, 4)), regions * each, *map(int, rng.integers(1, 6, 2)))
    return _sample(kind, version, found, _numbers(rng, shape, 3))


def reorg_yolo(rng: Rng, kind: str, version: str) -> Sample:
    side = int(rng.integers(1, 4))
    channels, height, width = (int(v) for v in rng.integers([side**2, 1, 1], [4 * side**2, 4, 4]))
    shape = (int(rng.integers(1, 3)), channels - channels % side**2, side * height, side * width)
    return _sample(kind, version, {"stride": side}, _numbers(rng, shape))


def colours(rng: Rng, kind: str, version: str) -> Sample:
    images, height, width = int(rng.integers(1, 3)), *(2 * int(v) for v in rng.integers(1, 12, 2))
    element = str(rng.choice(["u8", "f32"]))

    def plane(*shape: int) -> Tensor:
        values = rng.integers(0, 256, shape) if element == "u8" else rng.uniform(-9, 270, shape)
        return tensor(element, values)

    small = (images, height // 2, width // 2)
    if _flag(rng):
        return _sample(kind, version, {}, plane(images, height * 3 // 2, width, 1))
    others = [plane(*small, 2)] if kind.startswith("NV12") else [plane(*small, 1), plane(*small, 1)]
    return _sample(kind, version, {}, plane(images, height, width, 1), *others)


GENERATORS: dict[str, Generator] = {
    "PriorBox": prior_box,
    "PriorBoxClustered": prior_box_clustered,
    "DetectionOutput": detection_output,
    "Proposal": proposal,
    "ROIAlign": roi_align,
    "ROIAlignRotated": roi_align,
    "ROIPooling": roi_pooling,
    "PSROIPooling": roi_pooling,
    "DeformablePSROIPooling": roi_pooling,
    "RegionYolo": region_yolo,
    "ReorgYolo": reorg_yolo,
    **dict.fromkeys(("NV12toRGB", "NV12toBGR", "I420toRGB", "I420toBGR"), colours),
}
