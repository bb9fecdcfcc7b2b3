"""Legacy layers of detectors, sequences and regions with numbers worked by hand."""

from __future__ import annotations

import math

import numpy as np

from support.legacy import Case, channels, f, row

NORMS = [
    Case(
        "norm: across channels, alpha by the size",
        "Norm",
        [channels(1, 2, 3)],
        [channels(0.375, 2 / (1 + 14 / 3), 0.5625)],
        {"region": "across", "local-size": 3, "alpha": 1, "beta": 1, "k": 1},
        tag="norm_data",
    ),
    Case(
        "norm: over a square of places, alpha by the size squared, k without its fraction",
        "Norm",
        [row(1, 2, 3)],
        [row(1 / (1 + 5 / 9), 2 / (1 + 14 / 9), 3 / (1 + 13 / 9))],
        {"region": "same", "local-size": 3, "alpha": 1, "beta": 1, "k": 1.9},
    ),
    Case("grn", "GRN", [channels(3, 4)], [channels(0.5, 4 / 6)], {"bias": 11}),
    Case(
        "logarithm of the softmax",
        "LogSoftmax",
        [f(0, math.log(3)).reshape(1, 2)],
        [f(math.log(0.25), math.log(0.75)).reshape(1, 2)],
        {"axis": 1},
    ),
]
BOXES = [
    Case(
        "prior boxes: a square, its mean with the larger, a ratio",
        "PriorBox",
        [channels(0), np.zeros((1, 3, 10, 20), np.float32)],
        # The centre is (10, 5): sizes 4, 6 = sqrt(4 * 9), 8 by 2 = 4 * sqrt(4), 4 / sqrt(4).
        [
            f(
                *(8 / 20, 3 / 10, 12 / 20, 7 / 10),
                *(7 / 20, 2 / 10, 13 / 20, 8 / 10),
                *(6 / 20, 4 / 10, 14 / 20, 6 / 10),
                *(0.1, 0.1, 0.2, 0.2) * 3,
            ).reshape(1, 2, 12)
        ],
        {
            "min_size": 4,
            "max_size": 9,
            "aspect_ratio": 4,
            "flip": 0,
            "clip": 0,
            "step": 0,
            "offset": 0.5,
            "variance": "0.1,0.1,0.2,0.2",
            "img_size": 0,
            "img_h": 0,
            "img_w": 0,
            "step_h": 0,
            "step_w": 0,
        },
    ),
    Case(
        "prior boxes: clustered, steps given",
        "PriorBoxClustered",
        [channels(0), np.zeros((1, 3, 10, 20), np.float32)],
        # The centre is (4, 2), half of the steps 8 and 4.
        [f(3 / 20, 0, 5 / 20, 4 / 10, 0.1, 0.1, 0.2, 0.2).reshape(1, 2, 4)],
        {
            "width": 2,
            "height": 4,
            "clip": 0,
            "step_w": 8,
            "step_h": 4,
            "offset": 0.5,
            "variance": "0.1,0.1,0.2,0.2",
        },
    ),
    Case(
        "prior boxes: clustered, the size of the image given",
        "PriorBoxClustered",
        [channels(0), np.zeros((1, 3, 10, 20), np.float32)],
        [f(0.25, 0.25, 0.75, 0.75, 0.5, 0.5, 0.5, 0.5).reshape(1, 2, 4)],
        {
            "width": 2,
            "height": 2,
            "clip": 0,
            "step": 4,
            "img_w": 4,
            "img_h": 4,
            "offset": 0.5,
            "variance": "0.5,0.5,0.5,0.5",
        },
    ),
    Case(
        "detections: one box that is left of two",
        "DetectionOutput",
        [
            np.zeros((1, 8), np.float32),
            f(0.1, 0.9, 0.2, 0.8).reshape(1, 4),
            f(0.1, 0.1, 0.5, 0.5, 0.1, 0.1, 0.5, 0.5, *(0.1,) * 8).reshape(1, 2, 8),
        ],
        [f(0, 1, 0.9, 0.1, 0.1, 0.5, 0.5).reshape(1, 1, 1, 7)],
        {
            "num_classes": 2,
            "share_location": 1,
            "background_label_id": 0,
            "nms_threshold": 0.5,
            "code_type": "caffe.PriorBoxParameter.CENTER_SIZE",
            "keep_top_k": 1,
            "top_k": 400,
            "confidence_threshold": 0.3,
            "variance_encoded_in_target": 0,
            "num_orient_classes": 8,
        },
    ),
]
SEQUENCES = [
    Case(
        "greedy decoder: repetitions and blanks go",
        "CTCGreedyDecoder",
        [
            f(9, 0, 0, 9, 0, 0, 0, 0, 9, 0, 9, 0).reshape(4, 1, 3),
            np.ones((4, 1), np.float32),
        ],
        [f(0, 1, -1, -1).reshape(1, 4, 1, 1)],
        {"ctc_merge_repeated": 1},
        fixed=(1,),
    ),
    Case(
        "reverse sequence",
        "ReverseSequence",
        [f(1, 2, 3, 4, 5, 6).reshape(2, 3), np.array([2, 3], np.int32)],
        [f(2, 1, 3, 6, 5, 4).reshape(2, 3)],
        {"seq_axis": 1, "batch_axis": 0},
        fixed=(1,),
    ),
    Case(
        "scatter update",
        "ScatterUpdate",
        [f(1, 2, 3), np.array([2], np.int32), f(9)],
        [f(1, 2, 9)],
        {"axis": 0},
        fixed=(1,),
    ),
    Case(
        "space to depth: blocks first",
        "SpaceToDepth",
        [f(1, 3, 5, 7, 2, 4, 6, 8).reshape(1, 2, 2, 2)],
        [channels(1, 2, 3, 4, 5, 6, 7, 8)],
        {"block_size": 2},
    ),
    Case(
        "deformable convolution: moved by a place to the right",
        "DeformableConvolution",
        [row(1, 2, 3), f(0, 0, 0, 1, 1, 1).reshape(1, 2, 1, 3)],
        [row(21, 31, 1)],
        {"kernel": "1,1", "output": 1, "deformable_group": 1},
        {"weights": f(10), "biases": f(1)},
    ),
]
SQUARE = f(1, 2, 3, 4).reshape(1, 1, 2, 2)
BOX = f(0, 0, 0, 1, 1).reshape(1, 5)
REGIONS = [
    Case(
        "regions: maxima",
        "ROIPooling",
        [SQUARE, BOX],
        [f(4).reshape(1, 1, 1, 1)],
        {"pooled_h": 1, "pooled_w": 1, "spatial_scale": 1, "method": "max"},
    ),
    Case(
        "regions: means, a group of channels for each cell",
        "PSROIPooling",
        [SQUARE, BOX],
        [f(2.5).reshape(1, 1, 1, 1)],
        {"output_dim": 1, "group_size": 1, "spatial_scale": 1},
    ),
    Case(
        "regions of yolo: softmax, flattened",
        "RegionYolo",
        [channels(0, 0, 7, 8, 0, 5)],
        [f(0.5, 0.5, 7, 8, 0.5, 1).reshape(1, 6)],
        {"classes": 1, "coords": 4, "num": 1, "do_softmax": 1, "axis": 1, "end_axis": 3},
    ),
    Case(
        "regions of yolo: those of a mask",
        "RegionYolo",
        [channels(0, 0, 7, 8, 0, 0)],
        [channels(0.5, 0.5, 7, 8, 0.5, 0.5)],
        {"classes": 1, "coords": 4, "num": 3, "do_softmax": 0, "mask": "0", "anchors": "1,2"},
    ),
    Case(
        "squares of places as channels",
        "ReorgYolo",
        [np.arange(16, dtype=np.float32).reshape(1, 4, 2, 2)],
        [channels(0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15)],
        {"stride": 2},
    ),
    Case(
        # The anchor is 0 to 3, 4 wide; a box of no offset ends at its centre plus half of 4.
        "proposals: the one anchor",
        "Proposal",
        [channels(0.2, 0.9), channels(0, 0, 0, 0), f(10, 10, 1).reshape(1, 3)],
        [f(0, 0, 0, 4, 4).reshape(1, 5)],
        {
            "feat_stride": 4,
            "base_size": 4,
            "min_size": 1,
            "ratio": "1.0",
            "scale": "1.0",
            "pre_nms_topn": 10,
            "post_nms_topn": 1,
            "nms_thresh": 0.7,
        },
    ),
    Case(
        "beams from their ends",
        "GatherTree",
        [
            f(1, 2, 3, 4).reshape(2, 1, 2),
            f(0, 0, 1, 0).reshape(2, 1, 2),
            f(2),
            np.float32(9).reshape(1),
        ],
        [f(2, 1, 3, 4).reshape(2, 1, 2)],
    ),
]
FUNCTIONS = [
    Case(kind, kind, [f(0.5, 0.25)], [np.float32([rule(0.5), rule(0.25)])])
    for kind, rule in {
        "Abs": abs,
        "Acos": math.acos,
        "Asin": math.asin,
        "Asinh": math.asinh,
        "Atan": math.atan,
        "Atanh": math.atanh,
        "Ceil": math.ceil,
        "Cos": math.cos,
        "Cosh": math.cosh,
        "Erf": math.erf,
        "Floor": math.floor,
        "Log": math.log,
        "Neg": lambda x: -x,
        "Sigmoid": lambda x: 1 / (1 + math.exp(-x)),
        "Sign": lambda x: 1,
        "Sin": math.sin,
        "Sinh": math.sinh,
        "Softplus": lambda x: math.log(1 + math.exp(x)),
        "Tan": math.tan,
        "TanH": math.tanh,
        "HardSigmoid": lambda x: 0.2 * x + 0.5,
        "Selu": lambda x: 1.05070098 * x,
    }.items()
]
MORE = [*NORMS, *BOXES, *SEQUENCES, *REGIONS, *FUNCTIONS]
