"""Obligations of written models whose sizes are open: proved, or unknown with the reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from irdeconv.ir.graph import Value
from irdeconv.ir.op import REGISTRY
from irdeconv.verify.smt_solver import prove
from support import layers
from support.obligations import obligations
from test_smt import OPEN, SECONDS, layer, lowered, source_of

RUN_TIME = [
    (auto_pad, source) for auto_pad in ("explicit", "same_upper", "same_lower", "valid")
    for source in ("const", "input", "computed")
]  # fmt: skip


@pytest.mark.parametrize(("auto_pad", "shape_source"), RUN_TIME)
def test_pads_that_follow_from_sizes(auto_pad: str, shape_source: str) -> None:
    made = layer(auto_pad=auto_pad, output_shape=(9, 8), output_padding=(0, 1))
    for shape in ([2, 2, 4, 3], [None, 2, 4, 3], [2, 2, None, 3], [2, 2, 4, None]):
        graph = source_of(made, shape, shape_source)
        for standard in (False, True):
            (ob,) = obligations(graph, lowered(graph, "zero-insertion", standard=standard))
            answer, text = prove(ob, SECONDS)
            assert answer, (shape, str(answer))
            assert ("declare-const output_shape" in text) == (shape_source == "input")


@pytest.mark.parametrize(("auto_pad", "shape_source"), RUN_TIME)
def test_several_open_axes(auto_pad: str, shape_source: str) -> None:
    """ZeroInsertion keeps axes apart. What is written merges them: no answer, and never a wrong."""
    made = layer(auto_pad=auto_pad, output_shape=(9, 8), output_padding=(0, 1))
    graph = source_of(made, [None, 2, None, None], shape_source)
    (ob,) = obligations(graph, lowered(graph, "zero-insertion"))
    answer, _ = prove(ob, SECONDS)
    assert answer, str(answer)
    (ob,) = obligations(graph, lowered(graph, "zero-insertion", standard=True))
    answer, _ = prove(ob, SECONDS)
    assert answer.verdict == "unknown"
    assert answer.text == "the product of (* 2 x_0_0) and x_0_2 is not linear"


@pytest.mark.parametrize("form", ["phases", "stacked"])
@pytest.mark.parametrize("strides", [(2, 2), (2, 3)])
def test_interleaving_of_several_open_axes(form: str, strides: tuple[int, int]) -> None:
    """DepthToSpace is followed at every size, Transposes only with one open axis."""
    made = layer(strides=strides, dilations=(1, 1), output_padding=(0, 0))
    for shape, answered in (([2, 2, None, 3], True), ([None, 2, None, None], strides == (2, 2))):
        graph = source_of(made, shape)
        (ob,) = obligations(graph, lowered(graph, form, standard=True))
        answer, _ = prove(ob, SECONDS)
        assert answer.verdict == ("proved" if answered else "unknown"), str(answer)
        assert answered or OPEN.search(answer.text)


def test_a_computed_bound_that_may_be_negative_is_not_proved() -> None:
    """The StridedSlice of computed pads; with one more cropped its end counts from the end."""
    made = layer(auto_pad="explicit", output_shape=(9, 8), output_padding=(0, 1))
    graph = source_of(made, [2, 2, None, 3])
    low = lowered(graph, "zero-insertion", standard=True)
    (ob,) = obligations(graph, low)
    assert prove(ob, SECONDS)[0]
    (crop,) = low.nodes("StridedSlice")
    limit = layers.constant(low, np.array([0, 0, 1000, 0]), "limit")
    inputs = [low.inputs_of(crop.id)[2], limit]
    less = low.add(REGISTRY["Subtract", "opset1"](), inputs, name="less")
    low.set_input(crop.id, 2, Value(less.id))
    (ob,) = obligations(graph, low)
    assert prove(ob, SECONDS)[0].verdict != "proved"


def test_channels_that_depend_on_pads_of_open_size() -> None:
    """What is interleaved is cut by pads that follow at run time."""
    made = layer(groups=None, kernel=(4, 2), strides=(4, 2), dilations=(1, 1), size=(4, 3))
    made = replace(made, auto_pad="same_upper", output_shape=(15, 5), output_padding=(0, 0))
    for shape in ([None, 1, 4, 3], [1, 1, None, 3], [2, 1, 4, None]):
        graph = source_of(made, shape)
        (ob,) = obligations(graph, lowered(graph, "gemm", standard=True))
        answer, text = prove(ob, SECONDS)
        assert answer, (shape, str(answer))
        axis = shape.index(None)
        position = {0: "", 2: " for o1 = (- (+ (* 4 q1) 3) (", 3: " for o2 = (- (+ (* 2 q2) 1) ("}
        assert f"which taps read the same element{position[axis]}" in text
