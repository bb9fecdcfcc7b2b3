"""More legacy layers with numbers worked by hand: images, order, shapes, reductions."""

from __future__ import annotations

import math

import numpy as np

from support.legacy import Case, channels, f, row

LINE = row(1, 2, 3, 4, 5)
NORMALIZATIONS = [
    Case(
        "batch normalization: weights are variances, biases means",
        "BatchNormalization",
        [channels(3, 10)],
        [channels(1, 2)],
        {"epsilon": 1},
        {"weights": f(3, 15), "biases": f(1, 2)},
        tag="batch_norm_data",
    ),
    Case(
        "normalize by channel",
        "Normalize",
        [f(3, 0, 4, 2).reshape(1, 2, 1, 2)],
        [f(1.2, 0, 2.4, 3).reshape(1, 2, 1, 2)],
        {"across_spatial": 0, "channel_shared": 0, "eps": 0},
        {"weights": f(2, 3)},
    ),
    Case(
        "normalize: eps is added, across the image, one weight",
        "Normalize",
        [f(1, 2, 2, 4).reshape(1, 2, 1, 2)],
        [f(2 / 6, 4 / 6, 4 / 6, 8 / 6).reshape(1, 2, 1, 2)],
        {"across_spatial": 1, "channel_shared": 1, "eps": 11},
        {"weights": f(2)},
    ),
    Case(
        "mvn",
        "MVN",
        [row(1, 3)],
        [row(-0.5, 0.5)],
        {"across_channels": 0, "normalize_variance": 1, "eps": 3},
    ),
    Case(
        "mvn without variance, across channels",
        "MVN",
        [channels(1, 3)],
        [channels(-1, 1)],
        {"across_channels": 1, "normalize_variance": 0},
    ),
    Case("softmax", "SoftMax", [f(0, math.log(3)).reshape(1, 2)], [f(0.25, 0.75).reshape(1, 2)]),
]
IMAGES = [
    Case(
        "interp: corners stay",
        "Interp",
        [row(0, 10)],
        [row(0, 5, 10)],
        {"align_corners": 1, "pad_beg": 0, "pad_end": 0, "width": 3, "height": 1},
    ),
    Case(
        "interp: corners stay where nothing is said",
        "Interp",
        [row(0, 10)],
        [row(0, 5, 10)],
        {"factor": 0, "pad_beg": 0, "pad_end": 0, "width": 3, "height": 1},
    ),
    Case(
        "interp: from the begin",
        "Interp",
        [row(0, 9)],
        [row(0, 6, 9)],
        {"align_corners": 0, "pad_beg": 0, "pad_end": 0, "width": 3, "height": 1},
    ),
    Case(
        "interp: negative pads cut the border off",
        "Interp",
        [np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)],
        [row(5, 5.5, 6)],
        {"align_corners": 1, "pad_beg": -1, "pad_end": -1, "width": 3, "height": 1},
    ),
    Case(
        "resample: nearest enlarges",
        "Resample",
        [row(1, 2)],
        [f(1, 1, 2, 2, 1, 1, 2, 2).reshape(1, 1, 2, 4)],
        {"type": "caffe.ResampleParameter.NEAREST", "factor": 2, "antialias": 0},
    ),
    Case(
        "resample: nearest rounds halves up",
        "Resample",
        [row(1, 2, 3, 4)],
        [row(2, 4)],
        {"type": "caffe.ResampleParameter.NEAREST", "factor": 0.5, "antialias": 0},
    ),
    Case(
        "resample: linear by half pixels",
        "Resample",
        [row(0, 10)],
        [row(0, 2.5, 7.5, 10)],
        {"type": "caffe.ResampleParameter.LINEAR", "width": 4, "height": 1, "antialias": 0},
    ),
    Case(
        "resample: linear smooths what it shrinks",
        "Resample",
        [row(0, 4, 8, 12)],
        [row(5 / 1.75, 12 - 5 / 1.75)],
        {"type": "caffe.ResampleParameter.LINEAR", "width": 2, "height": 1, "antialias": 1},
    ),
    Case(
        "upsampling",
        "Upsampling",
        [row(1, 2)],
        [f(1, 1, 2, 2, 1, 1, 2, 2).reshape(1, 1, 2, 4)],
        {"scale": 2},
    ),
]
ORDERING = [
    Case(
        "argmax: indices of all but the first axis",
        "ArgMax",
        [f(1, 5, 3, 4).reshape(1, 2, 1, 2)],
        [f(1, 3).reshape(1, 1, 2)],
        {"top_k": 2, "out_max_val": 0},
    ),
    Case(
        "argmax: indices, then values",
        "ArgMax",
        [f(1, 5, 3, 4).reshape(1, 2, 1, 2)],
        [f(1, 3, 5, 4).reshape(1, 2, 2)],
        {"top_k": 2, "out_max_val": 1},
    ),
    Case(
        "argmax: along an axis",
        "ArgMax",
        [f(1, 5, 3, 4).reshape(1, 2, 1, 2)],
        [f(1, 0).reshape(1, 1, 1, 2)],
        {"top_k": 1, "out_max_val": 0, "axis": 1},
    ),
    Case(
        "argmax: values along an axis",
        "ArgMax",
        [f(1, 5, 3, 4).reshape(1, 2, 1, 2)],
        [f(3, 5).reshape(1, 1, 1, 2)],
        {"top_k": 1, "out_max_val": 1, "axis": -3},
    ),
    Case(
        "topk: by index",
        "TopK",
        [f(3, 1, 5), np.array([2], np.int32)],
        [f(3, 5), f(0, 2)],
        {"axis": 0, "mode": "max", "sort": "index"},
        fixed=(1,),
    ),
    Case(
        "one hot",
        "OneHot",
        [f(1, 0)],
        [f(0, 2, 2, 0).reshape(2, 2)],
        {"depth": 2, "on_value": 2, "off_value": 0, "axis": -1},
    ),
    Case(
        "non-max suppression: rows that are left have -1",
        "NonMaxSuppression",
        [
            f(0, 0, 1, 1, 0, 0, 1, 1).reshape(1, 2, 4),
            f(0.5, 0.75).reshape(1, 1, 2),
            np.array([2], np.int32),
            f(0.5),
            f(0.1),
        ],
        [f(0, 0, 1, -1, -1, -1).reshape(2, 3)],
        {"center_point_box": 0, "sort_result_descending": 1},
        fixed=(2, 3, 4),
    ),
]
SHAPES = [
    Case(
        "reshape",
        "Reshape",
        [f(1, 2, 3, 4).reshape(1, 4)],
        [f(1, 2, 3, 4).reshape(1, 2, 2)],
        {"dim": "0,-1,2"},
    ),
    Case(
        "reshape by a second input of numbers",
        "Reshape",
        [f(1, 2, 3, 4), f(2, -1)],
        [f(1, 2, 3, 4).reshape(2, 2)],
        fixed=(1,),
    ),
    Case(
        "flatten: some axes",
        "Flatten",
        [np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)],
        [np.arange(8, dtype=np.float32).reshape(1, 4, 2)],
        {"axis": 1, "end_axis": 2},
    ),
    Case(
        "flatten: all",
        "Flatten",
        [np.arange(4, dtype=np.float32).reshape(1, 2, 2)],
        [np.arange(4, dtype=np.float32)],
    ),
    Case(
        "permute",
        "Permute",
        [np.arange(6, dtype=np.float32).reshape(1, 2, 3)],
        [np.arange(6, dtype=np.float32).reshape(1, 2, 3).transpose(2, 0, 1)],
        {"order": "2,0,1"},
    ),
    Case(
        "tile",
        "Tile",
        [f(1, 2).reshape(1, 2)],
        [f(1, 2, 1, 2).reshape(1, 4)],
        {"axis": 1, "tiles": 2},
    ),
    Case(
        "concat",
        "Concat",
        [f(1, 2).reshape(1, 2), f(3).reshape(1, 1)],
        [f(1, 2, 3).reshape(1, 3)],
    ),
    Case(
        "split: unequal parts",
        "Slice",
        [f(1, 2, 3).reshape(1, 3)],
        [f(1).reshape(1, 1), f(2, 3).reshape(1, 2)],
        {"axis": 1},
    ),
    Case(
        "split: equal parts",
        "Split",
        [f(1, 2).reshape(1, 2)],
        [f(1).reshape(1, 1), f(2).reshape(1, 1)],
        {"axis": 1},
    ),
    Case("crop: to a size", "Crop", [LINE], [row(2, 3)], {"axis": "3", "offset": "1", "dim": "2"}),
    Case(
        "crop: as a second input",
        "Crop",
        [LINE, row(0, 0, 0)],
        [row(3, 4, 5)],
        {"axis": "2,3", "offset": "0,2"},
        tag="crop-data",
    ),
    Case(
        "crop: both sides",
        "Crop",
        [LINE],
        [row(2, 3, 4)],
        {"axis": "3", "crop_begin": "1", "crop_end": "1"},
    ),
    Case(
        "strided slice: 0 in a mask means not",
        "StridedSlice",
        [f(1, 2, 3, 4), np.array([1]), np.array([2]), np.array([2])],
        [f(2, 4)],
        {"begin_mask": "1", "end_mask": "0"},
        fixed=(1, 2, 3),
    ),
    Case(
        "gather by numbers",
        "Gather",
        [f(1, 2, 3, 4).reshape(2, 2), f(1)],
        [f(3, 4).reshape(1, 2)],
        {"axis": 0},
        fixed=(1,),
    ),
    Case(
        "pad",
        "Pad",
        [f(1, 2)],
        [f(7, 1, 2, 7, 7)],
        {"pads_begin": 1, "pads_end": 2, "pad_value": 7},
    ),
    Case(
        "pad: reflect",
        "Pad",
        [f(1, 2)],
        [f(2, 1, 2)],
        {"pads_begin": 1, "pads_end": 0, "pad_mode": "reflect"},
    ),
    Case(
        "squeeze",
        "Squeeze",
        [f(1, 2).reshape(1, 2), np.array([0])],
        [f(1, 2)],
        fixed=(1,),
    ),
    Case(
        "unsqueeze by numbers",
        "Unsqueeze",
        [f(1, 2), f(0)],
        [f(1, 2).reshape(1, 2)],
        fixed=(1,),
    ),
    Case("shape", "Shape", [f(1, 2).reshape(1, 2)], [f(1, 2)]),
    Case(
        "broadcast",
        "Broadcast",
        [f(1), np.array([2, 2])],
        [f(1, 1, 1, 1).reshape(2, 2)],
        fixed=(1,),
    ),
    Case("fill", "Fill", [np.array([2]), f(3)], [f(3, 3)], fixed=(0, 1)),
    Case("range", "Range", [f(1), f(6), f(2)], [f(1, 3, 5)], fixed=(0, 1, 2)),
    Case(
        "depth to space: blocks first",
        "DepthToSpace",
        [channels(1, 2, 3, 4, 5, 6, 7, 8)],
        [f(1, 3, 5, 7, 2, 4, 6, 8).reshape(1, 2, 2, 2)],
        {"block_size": 2},
    ),
    Case(
        "shuffle channels",
        "ShuffleChannels",
        [channels(1, 2, 3, 4)],
        [channels(1, 3, 2, 4)],
        {"axis": 1, "group": 2},
    ),
    Case("copy", "Copy", [f(1, 2)], [f(1, 2)]),
]
_DATA = f(1, -2, 3, 4).reshape(2, 2)
_AXIS = np.array([1])
REDUCTIONS = [
    Case(
        f"{kind}",
        kind,
        [_DATA, _AXIS],
        [np.reshape(want, (2, 1))],
        {"keep_dims": "True"},
        fixed=(1,),
    )
    for kind, want in {
        "ReduceSum": f(-1, 7),
        "ReduceMean": f(-0.5, 3.5),
        "ReduceMax": f(1, 4),
        "ReduceMin": f(-2, 3),
        "ReduceProd": f(-2, 12),
        "ReduceL1": f(3, 7),
        "ReduceL2": f(math.sqrt(5), 5),
        "ReduceSumSquare": f(5, 25),
        "ReduceAnd": f(1, 1),
        "ReduceOr": f(1, 1),
        "ReduceLogSumExp": f(
            math.log(math.exp(1) + math.exp(-2)), math.log(math.exp(3) + math.exp(4))
        ),
    }.items()
]
