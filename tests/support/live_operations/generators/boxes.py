"""Operations that choose boxes, and those that pool or correct them."""

from __future__ import annotations

import numpy as np

from support.live_operations.generators.drawn import FLAGS, Drawn
from support.live_operations.generators.tools import Generator, Rng
from support.live_operations.sample import Sample


def suppression(rng: Rng, kind: str, version: str) -> Sample:
    d, number = Drawn(rng), int(version.removeprefix("opset"))
    n, c, b = d.size(1, 2), d.size(1, 3), d.size(1, 20)
    rotated = kind == "NMSRotated"
    d.pick(sort_result_descending=FLAGS)
    if rotated:
        d.pick(clockwise=FLAGS)
        sides = np.concatenate([rng.random((n, b, 2)) * 20, 1 + 9 * rng.random((n, b, 2))], -1)
        d.data(np.concatenate([sides, rng.uniform(-3, 3, (n, b, 1))], -1), 1)
    else:
        d.pick(box_encoding=("corner", "center"))
        d.data(d.boxes(n, b), 1)
    if number >= 3:
        d.pick(output_type=("i64", "i32"))
    d.data(d.scores(n, c, b))
    d.constant("i64", d.size(1, 9))
    d.constant("f32", rng.choice([0.25, 0.5, 0.75]))
    d.constant("f32", rng.choice([0, 0.25]))
    if number >= 5 and not rotated and rng.random() < 0.5:
        d.constant("f32", rng.choice([0, 0.5]))
    return d.sample(kind, version, 3 if number >= 5 else 1)


def by_class(rng: Rng, kind: str, version: str) -> Sample:
    d = Drawn(rng)
    d.real = "f32" if kind == "MatrixNms" else d.real
    n, c, b = d.size(1, 2), d.size(2, 3), d.size(2, 20)
    d.pick(
        sort_result_type=("none", "score", "classid"),
        sort_result_across_batch=FLAGS,
        nms_top_k=(-1, 3, 10),
        keep_top_k=(-1, 2, 9),
        score_threshold=(0.0, 0.125),
        background_class=(-1, 0),
        normalized=FLAGS,
        output_type=("i64", "i32"),
    )
    if kind == "MatrixNms":
        d.pick(decay_function=("linear", "gaussian"), gaussian_sigma=(2.0, 0.5))
    else:
        d.pick(iou_threshold=(0.25, 0.5, 0.75), nms_eta=(1.0, 0.875))
    if kind == "MulticlassNms" and version != "opset8" and rng.random() < 0.4:
        cuts = np.sort(rng.integers(0, b + 1, n))
        d.data(d.boxes(c, b), 1)
        d.data(d.scores(c, b))
        d.data(np.diff(cuts, prepend=0), kind="i64")
    else:
        d.data(d.boxes(n, b), 1)
        d.data(d.scores(n, c, b))
    return d.sample(kind, version, 3)


def proposals(rng: Rng, kind: str, version: str) -> Sample:
    d = Drawn(rng)
    h, w, a = d.size(1, 5), d.size(1, 5), d.size(1, 3)
    d.pick(
        min_size=(0.0, 2.0, 4.0),
        nms_threshold=(0.25, 0.5, 0.75),
        pre_nms_count=(3, 20, 100),
        post_nms_count=(1, 5, 30),
    )
    if kind == "GenerateProposals":
        n = d.size(1, 2)
        d.pick(normalized=FLAGS, roi_num_type=("i64", "i32"))
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


def detected(rng: Rng, kind: str, version: str) -> Sample:
    d = Drawn(rng)
    r, c = d.size(1, 20), d.size(1, 4)
    d.attributes |= {"num_classes": str(c), "deltas_weights": "10,10,5,5"}
    d.pick(
        score_threshold=(0.0, 0.25),
        nms_threshold=(0.25, 0.5, 0.75),
        max_delta_log_wh=(4.0, 1.0),
        post_nms_count=(3, 20, -1),
        max_detections_per_image=(2, 10, 50),
        class_agnostic_box_regression=FLAGS,
    )
    d.data(d.boxes(r), 1)
    d.data(rng.normal(0, 2, (r, 4 * c)), 1)
    d.data(d.scores(r, c), 1)
    d.data([[30, 40, 1]], 2)
    return d.sample(kind, version, 3)


def grid(rng: Rng, kind: str, version: str) -> Sample:
    d = Drawn(rng)
    n, h, w = d.size(1, 2), d.size(1, 4), d.size(1, 4)
    d.pick(flatten=FLAGS)
    if rng.random() < 0.5:
        d.pick(stride_x=(4.0, 2.5), stride_y=(3.0, 8.0))
    if rng.random() < 0.5:
        d.attributes |= {"h": str(h), "w": str(w)}
    d.data(rng.normal(0, 9, (d.size(1, 3), 4)), 1)
    d.data(np.zeros((n, 2, h, w)))
    d.data(np.zeros((n, 3, d.size(8, 40), d.size(8, 40))))
    return d.sample(kind, version, 1)


def top(rng: Rng, kind: str, version: str) -> Sample:
    d, r = Drawn(rng), int(rng.choice([3, 16, 40, 100]))
    d.attributes["max_rois"] = str(d.size(1, r))
    d.data(d.boxes(r), 1)
    d.data(d.scores(r))
    return d.sample(kind, version, 1)


def pyramid(rng: Rng, kind: str, version: str) -> Sample:
    d, c = Drawn(rng), 2
    scales = [4 << i for i in range(d.size(1, 3))]
    d.attributes["pyramid_scales"] = ",".join(map(str, scales))
    d.pick(output_size=(1, 2, 7), sampling_ratio=(0, 1, 2, 3), aligned=FLAGS)
    d.data(d.boxes(d.size(1, 5), reach=200) * 1.5, 1)
    for s in scales:
        d.data(rng.normal(0, 1, (1, c, 64 // s, 80 // s)), 3)
    return d.sample(kind, version, 2)


DETECTRON = "ExperimentalDetectron"
GENERATORS: dict[str, Generator] = {
    "NonMaxSuppression": suppression,
    "NMSRotated": suppression,
    "MatrixNms": by_class,
    "MulticlassNms": by_class,
    "GenerateProposals": proposals,
    f"{DETECTRON}GenerateProposalsSingleImage": proposals,
    f"{DETECTRON}DetectionOutput": detected,
    f"{DETECTRON}PriorGridGenerator": grid,
    f"{DETECTRON}TopKROIs": top,
    f"{DETECTRON}ROIFeatureExtractor": pyramid,
}
