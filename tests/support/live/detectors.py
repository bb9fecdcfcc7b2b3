"""Random samples of windows, cells, detectors and sequences, whose inputs belong together."""

from typing import Any

import numpy as np

from op_cases import Tensor, i64, tensor
from support.live.drawn import Drawing, Drawn, choices, flag, generates, index, kind, makes, text
from support.live.mutate import Rng, numbers, pick
from support.live.sample import Sample, given

# Operations of windows and of resized axes: convolutions, pooling, interpolation, grids.

REAL = ("f32", "f32", "f32", "f16", "bf16")
AUTO = ("explicit", "explicit", "explicit", "same_upper", "same_lower", "valid")


def _ints(rng: Rng, count: int, low: int, high: int) -> list[int]:
    return [int(v) for v in rng.integers(low, high + 1, count)]


@makes("Convolution GroupConvolution ConvolutionBackpropData GroupConvolutionBackpropData")
def convolution(rng: Rng, name: str, version: str) -> Drawing:
    """All four; the data is as large as the dilated kernel at least."""
    n, dtype = int(rng.integers(1, 4)), kind(rng, *REAL)
    kernel, strides, dilations = _ints(rng, n, 1, 3), _ints(rng, n, 1, 3), _ints(rng, n, 1, 2)
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    back = "Backprop" in name
    least = [1] * n if back else reach
    spatial = [r + int(rng.integers(0, 4)) for r in least]
    groups = int(rng.integers(2, 4)) if name.startswith("Group") else 1
    c, m = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    first = (groups,) if name.startswith("Group") else ()
    filter_shape = (*first, *((c, m) if back else (m, c)), *kernel)
    begin = [int(rng.integers(0, r)) for r in reach] if not back else [0] * n
    texts = {
        "strides": text(strides),
        "dilations": text(dilations),
        "pads_begin": text(begin),
        "pads_end": text(_ints(rng, n, 0, 1) if not back else [0] * n),
        "auto_pad": pick(rng, AUTO) if not back else "explicit",
        "output_padding": text([int(rng.integers(0, s)) for s in strides]),
    }
    data = numbers(rng, dtype, (int(rng.integers(1, 3)), groups * c, *spatial), 3)
    return texts, [data, numbers(rng, dtype, filter_shape, 3)], [1] if rng.random() < 0.6 else []


@makes("MaxPool AvgPool")
def pooling(rng: Rng, name: str, version: str) -> Drawing:
    n, number = int(rng.integers(1, 4)), int(version[5:])
    kernel, strides = _ints(rng, n, 1, 3), _ints(rng, n, 1, 3)
    dilated = number >= (8 if name == "MaxPool" else 16)
    dilations = _ints(rng, n, 1, 2) if dilated else [1] * n
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    rounding = ("floor", "ceil", "ceil_torch") if number >= 14 else ("floor", "ceil")
    texts = {
        "kernel": text(kernel),
        "strides": text(strides),
        "dilations": text(dilations),
        "pads_begin": text([int(rng.integers(0, k)) for k in kernel]),
        "pads_end": text([int(rng.integers(0, k)) for k in kernel]),
        "rounding_type": pick(rng, rounding),
        "auto_pad": pick(rng, AUTO),
    } | choices(rng, "exclude-pad=true|false index_element_type=i32|i64 axis=0|1|2|-1")
    size = (
        int(rng.integers(1, 3)),
        int(rng.integers(1, 4)),
        *(r + int(rng.integers(0, 5)) for r in reach),
    )
    whole = int(np.prod(size))
    dtype = kind(rng, "f32", "f32", "f16")
    data = Tensor(dtype, rng.permutation(whole).reshape(size).astype(dtype.container))
    outputs = 2 if name == "MaxPool" and number >= 8 else 1
    return texts, [data], (), outputs


@makes("AdaptiveAvgPool AdaptiveMaxPool")
def adaptive(rng: Rng, name: str, version: str) -> Drawing:
    n = int(rng.integers(1, 4))
    size = (2, 3, *_ints(rng, n, 1, 6))
    target = _ints(rng, n, 1, 4)
    texts = {"index_element_type": pick(rng, ("i32", "i64"))}
    data = Tensor(
        kind(rng, "f32"), rng.permutation(int(np.prod(size))).reshape(size).astype(np.float32)
    )
    outputs = 2 if "Max" in name else 1
    return texts, [data, index(rng, target)], [1], outputs


@makes("Interpolate")
def interpolate(rng: Rng, name: str, version: str) -> Drawing:
    """Versions 4 and 11 on the last one or two axes of images; version 1 with its own modes."""
    n, number, dtype = int(rng.integers(1, 3)), int(version[5:]), kind(rng, "f32", "f32", "f16")
    size = (int(rng.integers(1, 3)), int(rng.integers(1, 3)), *_ints(rng, 2, 1, 5))
    chosen = [3] if n == 1 else [2, 3]
    target = _ints(rng, n, 1, 7)
    image = numbers(rng, dtype, size)
    if number < 4:
        texts = {"axes": text(chosen), "mode": pick(rng, ("nearest", "linear")),
                 "align_corners": flag(rng), "antialias": "false",
                 "pads_begin": "0", "pads_end": "0"}  # fmt: skip
        return texts, [image, i64(target)], [1]
    by = pick(rng, ("sizes", "scales"))
    where = "half_pixel|pytorch_half_pixel|asymmetric|tf_half_pixel_for_nn|align_corners"
    texts = choices(
        rng,
        f"mode=nearest|linear|linear_onnx|cubic coordinate_transformation_mode={where} "
        "nearest_mode=round_prefer_floor|round_prefer_ceil|floor|ceil|simple cube_coeff=-0.75|-0.5",
    )
    texts |= {"shape_calculation_mode": by, "antialias": "false"}
    texts |= dict.fromkeys(("pads_begin", "pads_end"), "0,0,0,0")
    floats = kind(rng, "f32")
    # Scales that are exact in binary: of others the two sides round places differently.
    scales = np.array([pick(rng, (0.5, 1, 1.5, 2, 0.75, 3)) for _ in chosen], np.float32)
    if number >= 11:
        which = i64(target) if by == "sizes" else Tensor(floats, scales)
        return texts, [image, which, i64(chosen)], [1, 2]
    if by == "sizes":
        scales = np.array([t / size[a] for t, a in zip(target, chosen, strict=True)], np.float32)
    return texts, [image, i64(target), Tensor(floats, scales), i64(chosen)], [1, 2, 3]


@makes("GridSample")
def grid_sample(rng: Rng, name: str, version: str) -> Drawing:
    batch, dtype = int(rng.integers(1, 3)), kind(rng, "f32")
    data = numbers(rng, dtype, (batch, 2, *_ints(rng, 2, 1, 5)))
    places = rng.integers(-11, 12, (batch, *_ints(rng, 2, 1, 4), 2)) / 8
    modes = "mode=bilinear|bicubic|nearest padding_mode=zeros|border|reflection"
    texts = choices(rng, f"align_corners=true|false {modes}")
    grid = Tensor(dtype, places.astype(np.float32))
    return texts, [data, grid]


# Recurrent cells and sequences, whose matrices belong together.

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
FUNCTIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}


@makes("RNNCell RNNSequence GRUCell GRUSequence LSTMCell LSTMSequence")
def cell(rng: Rng, name: str, version: str) -> Drawing:
    family = next(f for f in GATES if name.startswith(f))
    batch, wide, hidden, steps = (int(v) for v in rng.integers(1, 5, 4))
    gates, dtype = GATES[family], kind(rng, "f32", "f32", "f16")
    whole = name.endswith("Sequence")
    direction = pick(rng, ("forward", "reverse", "bidirectional"))
    both = 2 if direction == "bidirectional" else 1
    reset = rng.random() < 0.5 and family == "GRU"
    known = ("sigmoid", "tanh", "relu")
    functions = [pick(rng, known) for _ in range(FUNCTIONS[family])]
    texts = {
        "hidden_size": hidden,
        "direction": direction,
        "activations": ",".join(functions * (both if whole else 1)),
        "clip": pick(rng, (None, None, 0.5)),
        "linear_before_reset": str(reset).lower() if family == "GRU" else None,
    }
    lead = (both,) if whole else ()

    def small(*size: int) -> Tensor:
        t = numbers(rng, dtype, size, 2)
        return Tensor(dtype, (t.values.astype("float32") / 4).astype(dtype.container))

    states = 2 if family == "LSTM" else 1
    inputs = [small(batch, *((steps, wide) if whole else (wide,)))]
    inputs += [small(batch, *lead, hidden) for _ in range(states)]
    if whole:
        inputs.append(index(rng, rng.integers(1, steps + 1, batch)))
    inputs += [small(*lead, gates * hidden, wide), small(*lead, gates * hidden, hidden)]
    inputs.append(small(*lead, (gates + reset) * hidden))
    first = 1 + states + whole
    lists = [first, first + 1, first + 2] if rng.random() < 0.7 else []
    return texts, inputs, lists, states + whole


# Detectors: boxes that are boxes, sizes that fit each other, images that there are.


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


@generates("PriorBox")
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


@generates("PriorBoxClustered")
def prior_box_clustered(rng: Rng, kind: str, version: str) -> Sample:
    width = _some(rng, 2, 50, 3)
    found: dict[str, Any] = {"width": width, "height": _some(rng, 2, 50, len(width), len(width))}
    found |= {name: rng.choice([0.0, 8.0, 11.5]) for name in ("step", "step_w", "step_h")}
    found |= {"offset": 0.5, "clip": _flag(rng), "variance": _some(rng, 0.05, 0.3, 4, 4)}
    sizes = [tensor("i32", rng.integers(1, 6, 2)), tensor("i32", rng.integers(10, 200, 2))]
    return _sample(kind, version, found, *sizes)


@generates("DetectionOutput")
def detection_output(rng: Rng, kind: str, version: str) -> Sample:
    images, priors, classes = (int(v) for v in rng.integers(1, [4, 30, 6]))
    shared, normalized, encoded, decrease = (_flag(rng) for _ in range(4))
    found: dict[str, Any] = {"background_label_id": 0 if decrease else rng.integers(-1, 2)}
    found |= choices(
        rng,
        "top_k=-1|3|8|100 keep_top_k=-1|2|5|20 nms_threshold=0.0|0.2|0.45|0.7 "
        "confidence_threshold=0.0|0.1|0.5 "
        "code_type=caffe.PriorBoxParameter.CORNER|caffe.PriorBoxParameter.CENTER_SIZE",
    )
    found |= {"share_location": shared, "normalized": normalized, "decrease_label_id": decrease}
    found["variance_encoded_in_target"] = encoded
    found |= {name: _flag(rng) for name in ("clip_before_nms", "clip_after_nms")}
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


@generates("Proposal")
def proposal(rng: Rng, kind: str, version: str) -> Sample:
    """At least 8 boxes take part: the plugin's process ends with fewer. No row stays free."""
    ratio, scale = _some(rng, 0.3, 3, 3), _some(rng, 0.5, 4, 3)
    images, height, width = (int(v) for v in rng.integers([1, 3, 3], [3, 7, 7]))
    found: dict[str, Any] = {"post_nms_topn": 1, "ratio": ratio, "scale": scale}
    found |= choices(
        rng,
        "base_size=8|16 pre_nms_topn=9|50|1000 nms_thresh=0.3|0.5|0.7 feat_stride=8|16 "
        "min_size=1|8|40 framework=|tensorflow box_size_scale=1.0|5.0 "
        "box_coordinate_scale=1.0|10.0",
    )
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


@generates("ROIAlign ROIAlignRotated")
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


@generates("ROIPooling PSROIPooling DeformablePSROIPooling")
def roi_pooling(rng: Rng, kind: str, version: str) -> Sample:
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


@generates("RegionYolo")
def region_yolo(rng: Rng, kind: str, version: str) -> Sample:
    classes, coords, regions = (int(v) for v in rng.integers([0, 1, 1], [5, 6, 4]))
    softmax, each = _flag(rng), classes + coords + 1
    found: dict[str, Any] = {"coords": coords, "classes": classes, "do_softmax": softmax, "axis": 1}
    found |= {"end_axis": rng.integers(1, 4), "num": regions if softmax else 9}
    found["mask"] = list(range(regions))
    shape = (int(rng.integers(1, 4)), regions * each, *map(int, rng.integers(1, 6, 2)))
    return _sample(kind, version, found, _numbers(rng, shape, 3))


@generates("ReorgYolo")
def reorg_yolo(rng: Rng, kind: str, version: str) -> Sample:
    side = int(rng.integers(1, 4))
    channels, height, width = (int(v) for v in rng.integers([side**2, 1, 1], [4 * side**2, 4, 4]))
    shape = (int(rng.integers(1, 3)), channels - channels % side**2, side * height, side * width)
    return _sample(kind, version, {"stride": side}, _numbers(rng, shape))


@generates("NV12toRGB NV12toBGR I420toRGB I420toBGR")
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


# Operations that choose boxes, and those that pool or correct them.


@generates("NonMaxSuppression NMSRotated")
def suppression(rng: Rng, kind: str, version: str) -> Sample:
    d, number = Drawn(rng), int(version.removeprefix("opset"))
    n, c, b = d.size(1, 2), d.size(1, 3), d.size(1, 20)
    rotated = kind == "NMSRotated"
    d.pick("sort_result_descending=true|false")
    if rotated:
        d.pick("clockwise=true|false")
        sides = np.concatenate([rng.random((n, b, 2)) * 20, 1 + 9 * rng.random((n, b, 2))], -1)
        d.data(np.concatenate([sides, rng.uniform(-3, 3, (n, b, 1))], -1), 1)
    else:
        d.pick("box_encoding=corner|center")
        d.data(d.boxes(n, b), 1)
    if number >= 3:
        d.pick("output_type=i64|i32")
    d.data(d.scores(n, c, b))
    d.constant("i64", d.size(1, 9))
    d.constant("f32", rng.choice([0.25, 0.5, 0.75]))
    d.constant("f32", rng.choice([0, 0.25]))
    if number >= 5 and not rotated and rng.random() < 0.5:
        d.constant("f32", rng.choice([0, 0.5]))
    return d.sample(kind, version, 3 if number >= 5 else 1)


@generates("MatrixNms MulticlassNms")
def by_class(rng: Rng, kind: str, version: str) -> Sample:
    d = Drawn(rng)
    d.real = "f32" if kind == "MatrixNms" else d.real
    n, c, b = d.size(1, 2), d.size(2, 3), d.size(2, 20)
    d.pick(
        "sort_result_type=none|score|classid sort_result_across_batch=true|false nms_top_k=-1|3|10 "
        "keep_top_k=-1|2|9 score_threshold=0.0|0.125 background_class=-1|0 normalized=true|false "
        "output_type=i64|i32"
    )
    if kind == "MatrixNms":
        d.pick("decay_function=linear|gaussian gaussian_sigma=2.0|0.5")
    else:
        d.pick("iou_threshold=0.25|0.5|0.75 nms_eta=1.0|0.875")
    if kind == "MulticlassNms" and version != "opset8" and rng.random() < 0.4:
        cuts = np.sort(rng.integers(0, b + 1, n))
        d.data(d.boxes(c, b), 1)
        d.data(d.scores(c, b))
        d.data(np.diff(cuts, prepend=0), kind="i64")
    else:
        d.data(d.boxes(n, b), 1)
        d.data(d.scores(n, c, b))
    return d.sample(kind, version, 3)


@generates("GenerateProposals ExperimentalDetectronGenerateProposalsSingleImage")
def proposals(rng: Rng, kind: str, version: str) -> Sample:
    d = Drawn(rng)
    h, w, a = d.size(1, 5), d.size(1, 5), d.size(1, 3)
    d.pick("min_size=0.0|2.0|4.0 nms_threshold=0.25|0.5|0.75")
    d.pick("pre_nms_count=3|20|100 post_nms_count=1|5|30")
    if kind == "GenerateProposals":
        n = d.size(1, 2)
        d.pick("normalized=true|false roi_num_type=i64|i32")
        d.data([[d.size(10, 40), d.size(10, 40), d.size(1, 2)] for _ in range(n)], 1)
        d.data(d.boxes(h, w, a), 1)
        d.data(rng.normal(0, 0.25, (n, 4 * a, h, w)))
        d.data(d.scores(n, a, h, w))
        return d.sample(kind, version, 3)
    d.data([d.size(10, 40), d.size(10, 40), 1], 1)
    d.data(d.boxes(h * w * a), 1)
    d.data(rng.normal(0, 0.25, (4 * a, h, w)))
    d.data(d.scores(a, h, w))
    return d.sample(kind, version, 2)


@generates("ExperimentalDetectronDetectionOutput")
def detected(rng: Rng, kind: str, version: str) -> Sample:
    d = Drawn(rng)
    r, c = d.size(1, 20), d.size(1, 4)
    d.attributes |= {"num_classes": str(c), "deltas_weights": "10,10,5,5"}
    d.pick(
        "score_threshold=0.0|0.25 nms_threshold=0.25|0.5|0.75 max_delta_log_wh=4.0|1.0 "
        "post_nms_count=3|20|-1 max_detections_per_image=2|10|50 "
        "class_agnostic_box_regression=true|false"
    )
    d.data(d.boxes(r), 1)
    d.data(rng.normal(0, 2, (r, 4 * c)), 1)
    d.data(d.scores(r, c), 1)
    d.data([[30, 40, 1]], 2)
    return d.sample(kind, version, 3)


@generates("ExperimentalDetectronPriorGridGenerator")
def grid(rng: Rng, kind: str, version: str) -> Sample:
    d = Drawn(rng)
    n, h, w = d.size(1, 2), d.size(1, 4), d.size(1, 4)
    d.pick("flatten=true|false")
    if rng.random() < 0.5:
        d.pick("stride_x=4.0|2.5 stride_y=3.0|8.0")
    if rng.random() < 0.5:
        d.attributes |= {"h": str(h), "w": str(w)}
    d.data(rng.normal(0, 9, (d.size(1, 3), 4)), 1)
    d.data(np.zeros((n, 2, h, w)))
    d.data(np.zeros((n, 3, d.size(8, 40), d.size(8, 40))))
    return d.sample(kind, version, 1)


@generates("ExperimentalDetectronTopKROIs")
def top(rng: Rng, kind: str, version: str) -> Sample:
    d, r = Drawn(rng), int(rng.choice([3, 16, 40, 100]))
    d.attributes["max_rois"] = str(d.size(1, r))
    d.data(d.boxes(r), 1)
    d.data(d.scores(r))
    return d.sample(kind, version, 1)


@generates("ExperimentalDetectronROIFeatureExtractor")
def pyramid(rng: Rng, kind: str, version: str) -> Sample:
    d, c = Drawn(rng), 2
    scales = [4 << i for i in range(d.size(1, 3))]
    d.attributes["pyramid_scales"] = ",".join(map(str, scales))
    d.pick("output_size=1|2|7 sampling_ratio=0|1|2|3 aligned=true|false")
    d.data(d.boxes(d.size(1, 5), reach=200) * 1.5, 1)
    for s in scales:
        d.data(rng.normal(0, 1, (1, c, 64 // s, 80 // s)), 3)
    return d.sample(kind, version, 2)


# Operations that read sequences of classes, and beams.


@generates("CTCGreedyDecoder CTCGreedyDecoderSeqLen")
def greedy(rng: Rng, kind: str, version: str) -> Sample:
    d = Drawn(rng)
    t, n, c = d.size(1, 8), d.size(1, 3), d.size(1, 5)
    if kind == "CTCGreedyDecoder":
        d.pick("ctc_merge_repeated=true|false")
        d.data(d.scores(t, n, c))
        d.data(rng.random((t, n)) < 0.8)
        return d.sample(kind, version, 1)
    types = ("i64", "i32")
    d.pick("merge_repeated=true|false classes_index_type=i64|i32 sequence_length_type=i64|i32")
    d.data(d.scores(n, t, c))
    d.data(rng.integers(0, t + 1, n), kind=str(rng.choice(types)))
    if rng.random() < 0.5:
        d.constant("i32", d.size(0, c - 1))
    return d.sample(kind, version, 2)


@generates("CTCLoss")
def loss(rng: Rng, kind: str, version: str) -> Sample:
    d = Drawn(rng)
    n, t, c = d.size(1, 3), d.size(1, 8), d.size(2, 5)
    d.pick("ctc_merge_repeated=true|false unique=true|false")
    d.pick("preprocess_collapse_repeated=true|false")
    steps = rng.integers(1, t + 1, n)
    d.data(rng.normal(0, 2, (n, t, c)))
    d.data(steps, kind="i32")
    d.data(rng.integers(0, c - 1, (n, t)), kind="i32")
    d.data(rng.integers(1, steps + 1), kind="i32")
    if rng.random() < 0.5:
        d.constant("i32", c - 1)
    return d.sample(kind, version, 1)


@generates("GatherTree")
def tree(rng: Rng, kind: str, version: str) -> Sample:
    d = Drawn(rng)
    t, n, b = d.size(1, 6), d.size(1, 3), d.size(1, 4)
    name = str(rng.choice(["i32", "f32", "i64"]))
    d.data(rng.integers(0, 6, (t, n, b)), kind=name)
    d.data(rng.integers(0, b, (t, n, b)), kind=name)
    d.data(rng.integers(1, t + 2, n), kind=name)
    d.constant(name, d.size(0, 7))
    return d.sample(kind, version, 1)
