"""Proposals of regions, and what Detectron makes of them; boxes are worked by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from op_cases import Case, Tensor, case, f32, i32, i64

LOG2 = math.log(2)
# Two anchors, the second moved by half its side and doubled in width: [2, 2, 10, 6].
ANCHORS = [[0, 0, 4, 4], [2, 2, 6, 6]]
DELTAS = [[0, 0.5], [0, 0], [0, LOG2], [0, 0]]
# Boxes that share half with sides of 3, six tenths with sides of 4.
NEAR = [[0, 0, 3, 3], [1, 0, 4, 3]]
APART = [[0, 0, 3, 4], [10, 0, 13, 4], [20, 0, 23, 4], [30, 0, 33, 4]]


def proposals(
    attributes: str,
    found: list[list[list[float]]],
    *,
    anchors: Any = ANCHORS,
    deltas: Any = DELTAS,
    scores: Any = (0.5, 0.75),
    info: Any = ((8, 10, 1),),
    kind: Any = i64,
    **more: Any,
) -> Case:
    """Write a row of anchors in a line; `found` has box and score of each image's proposals."""
    n, width = len(info), len(anchors)
    rows = [row for image in found for row in image]
    wanted = [
        f32([row[:4] for row in rows], (len(rows), 4)),
        f32([row[4] for row in rows]),
        kind([len(image) for image in found]),
    ]
    inputs = [
        f32(list(info)),
        f32(anchors, (1, width, 1, 4)),
        f32([deltas] * n, (n, 4, 1, width)),
        f32([scores] * n, (n, 1, 1, width)),
    ]
    return case("GenerateProposals-9", attributes, inputs, wanted, **more)


def limits(smallest: float, overlap: float, before: int, after: int) -> str:
    return (
        f'min_size="{smallest}" nms_threshold="{overlap}" '
        f'pre_nms_count="{before}" post_nms_count="{after}"'
    )


def single(attributes: str, anchors: Any, scores: list[float], found: list[list[float]]) -> Case:
    width = len(anchors)
    inputs = [
        f32([20, 30, 1]),
        f32(anchors),
        f32(np.zeros((4, 1, width))),
        f32(scores, (1, 1, width)),
    ]
    wanted = [f32([row[:4] for row in found]), f32([row[4] for row in found])]
    return case("ExperimentalDetectronGenerateProposalsSingleImage-6", attributes, inputs, wanted)


def detected(
    attributes: str, rois: Any, deltas: Any, scores: Any, found: list[list[float]]
) -> Case:
    """Write a row; `found` has class, score and box of every row of the outputs."""
    classes = len(scores[0])
    text = (
        f'num_classes="{classes}" nms_threshold="0.5" score_threshold="0.2" '
        f'max_delta_log_wh="{LOG2}" deltas_weights="10,10,5,5" '
        f'max_detections_per_image="{len(found)}" {attributes}'
    )
    inputs = [f32(rois), f32(deltas, (len(rois), 4 * classes)), f32(scores), f32([[40, 50, 1]])]
    wanted = [
        f32([row[2:] for row in found]),
        i32([row[0] for row in found]),
        f32([row[1] for row in found]),
    ]
    return case("ExperimentalDetectronDetectionOutput-6", text, inputs, wanted)


def ramp(size: int, step: int) -> Tensor:
    """Return (1, 2, size, size): step * y + x, and ten times that."""
    y, x = np.mgrid[:size, :size]
    plane = step * y + x
    return f32([[plane, 10 * plane]])


def features(attributes: str, rois: Any, levels: list[Tensor], planes: Any, **more: Any) -> Case:
    """Write a row; `planes` has the first channel of every region."""
    out = f32([[plane, np.multiply(plane, 10)] for plane in planes])
    name = "ExperimentalDetectronROIFeatureExtractor-6"
    return case(name, attributes, [f32(rois), *levels], [out, f32(rois)], **more)


NOTHING = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
REGIONS = [[0, 0, 9, 9], [1, 0, 10, 9], [20, 0, 29, 9], [3, 3, 3, 8]]
SCORES = [[0, 0.5, 0.875], [0, 0.75, 0.25], [0, 0.25, 0.8], [0, 1, 0]]
BEST = [[2, 0.875, *REGIONS[0]], [2, 0.8, *REGIONS[2]], [1, 0.75, *REGIONS[1]]]
GRID = "ExperimentalDetectronPriorGridGenerator-6"
PRIORS = f32([[-1, -2, 1, 3]])
TOP = "ExperimentalDetectronTopKROIs-6"
REGION = 'output_size="2" pyramid_scales="4,64"'

CASES = [
    proposals(limits(0, 0.7, 10, 5), [[[2, 2, 10, 6, 0.75], [0, 0, 4, 4, 0.5]]]),
    proposals(f'{limits(0, 0.7, 10, 1)} roi_num_type="i32"', [[[2, 2, 10, 6, 0.75]]], kind=i32),
    # The second image cuts to 3 x 3 and wants sides of 3 along x, of 2 along y.
    proposals(
        limits(2, 0.7, 10, 5),
        [[[2, 2, 10, 6, 0.75], [0, 0, 4, 4, 0.5]], [[0, 0, 3, 3, 0.5]]],
        info=((8, 10, 1, 1), (3, 3, 1, 1.5)),
    ),
    proposals(limits(4.5, 0.7, 10, 5), [[], []], info=((8, 10, 1), (8, 10, 2))),
    # An overlap of exactly the limit stays.
    proposals(
        limits(0, 0.5, 10, 5),
        [[[*NEAR[1], 0.75], [*NEAR[0], 0.5]]],
        anchors=NEAR,
        deltas=np.zeros((4, 2)),
    ),
    proposals(
        f'{limits(0, 0.5, 10, 5)} normalized="false"',
        [[[*NEAR[1], 0.75]]],
        anchors=NEAR,
        deltas=np.zeros((4, 2)),
    ),
    # Sorting a heap of four equal scores leaves 1, 3, 0, 2.
    proposals(
        limits(0, 0.5, 4, 4),
        [[[*APART[i], 0.5] for i in (1, 3, 0, 2)]],
        anchors=APART,
        deltas=np.zeros((4, 4)),
        scores=(0.5, 0.5, 0.5, 0.5),
        info=((10, 40, 1),),
    ),
    single(limits(0, 0.5, 9, 3), NEAR, [0.5, 0.75], [[*NEAR[1], 0.75], [*NEAR[0], 0.5], NOTHING]),
    single(limits(0, 0.4, 9, 2), NEAR, [0.5, 0.75], [[*NEAR[1], 0.75], NOTHING]),
    # A side below 5 makes the score 0; the side of a box from 0 to 3 is 4.
    single(
        limits(5, 0.5, 9, 2),
        [NEAR[0], [1, 0, 7, 5]],
        [0.75, 0.5],
        [[1, 0, 7, 5, 0.5], [*NEAR[0], 0]],
    ),
    # Class 1 grows to 20 along x, class 2 moves by 5 and -2; what is below 0 is cut.
    detected(
        'post_nms_count="5"',
        [REGIONS[0]],
        [[0] * 4, [0, 0, 99, 0], [5, -2, 0, 0]],
        [[1, 0.25, 0.5]],
        [[1, 0.25, 0, 0, 14, 9], [2, 0.5, 5, 0, 14, 7], NOTHING],
    ),
    # Regions 0 and 1 share 90 of 110 pixels; region 3 has no area.
    detected('post_nms_count="5"', REGIONS, np.zeros((4, 12)), SCORES, BEST),
    detected(
        'post_nms_count="-1"',
        REGIONS,
        np.zeros((4, 12)),
        SCORES,
        [BEST[2], [1, 0.25, *REGIONS[2]], *BEST[:2]],
    ),
    detected('post_nms_count="1"', REGIONS, np.zeros((4, 12)), SCORES, [BEST[2], BEST[0], NOTHING]),
    # Samples of a ramp have the mean of the bin's centre: 1.5 and 2.5 elements from the corner.
    features(
        f'{REGION} sampling_ratio="2"',
        [[4, 4, 12, 12], [5, 5, 5, 9]],
        [ramp(6, 7), ramp(3, 5)],
        [[[12, 13], [19, 20]], [[0, 0], [0, 0]]],
    ),
    features(
        f'{REGION} sampling_ratio="0" aligned="true"',
        [[4, 4, 12, 12]],
        [ramp(6, 7), ramp(3, 5)],
        [[[8, 9], [15, 16]]],
    ),
    # A side of 448 belongs to level 3, the last that there is; its bins are 3.5 elements wide.
    features(
        f'{REGION} sampling_ratio="0"',
        [[0, 0, 448, 448]],
        [ramp(6, 7), ramp(8, 4)],
        [[[8.75, 12.25], [22.75, 26.25]]],
    ),
    # Samples at x = -4, where nothing is read, and 4, at y = 0.5 and 1.5.
    features(
        'output_size="1" pyramid_scales="1" sampling_ratio="2"',
        [[-8, 0, 8, 2]],
        [ramp(6, 7)],
        [[[11 / 2]]],
    ),
]
