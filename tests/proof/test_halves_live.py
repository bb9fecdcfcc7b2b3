"""Totals that are halved at run time, in files that OpenVINO runs at both ends of open sizes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openvino")

import irdeconv as ird
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ir.spec import Interval
from support.layers import constant, numbers, parameter, result
from support.runtime_truth import Compiled

ENDS = ((2, 9), (5, 30))  # of height and width
FORMS = ("zero-insertion", "phases", "stacked")
PADS = ("explicit", "same_upper", "same_lower")


def deconvolution(group: bool, auto_pad: str, semantics: str, wanted: Any) -> Graph:
    """3x2 of strides 2 and 3; output_shape is `wanted`, or an input where it is None."""
    rng, g = np.random.default_rng(7), Graph()
    x = parameter(g, (1, 2, *(Interval(*e) for e in ENDS)), np.float32, "x")
    w = constant(g, numbers(rng, (1, 2, 3, 3, 2) if group else (2, 3, 3, 2), np.float32), "w")
    if wanted is None:
        shape = parameter(g, (2,), np.int64, "wanted")
    else:
        shape = constant(g, np.array(wanted), "shape")
    said = {"auto_pad": auto_pad, "semantics": semantics, "output_padding": (1, 2)}
    name = f"{'Group' * group}ConvolutionBackpropData"
    node = g.add(REGISTRY[name, "opset1"](strides=(2, 3), **said), [x, w, shape], name="deconv")
    result(g, Value(node.id))
    return ird.infer(g)


@pytest.mark.sampled(2)
@pytest.mark.oracles
@pytest.mark.parametrize("semantics", ["runtime", "document"])
@pytest.mark.parametrize("auto_pad", PADS)
@pytest.mark.parametrize("wanted", [None, (13, 40)], ids=["input", "constant"])
def test_openvino_computes_them(tmp_path: Path, wanted: Any, auto_pad: str, semantics: str) -> None:
    """Totals of both signs, even and odd: the outputs are larger or smaller than what is full."""
    for group, form in ((False, FORMS[0]), (True, FORMS[1]), (False, FORMS[2])):
        graph = deconvolution(group, auto_pad, semantics, wanted)
        low = ird.lower(graph, form).graph
        assert "FloorMod" not in {n.type for n in low.nodes()}
        ird.write(low, tmp_path / f"{form}.xml")
        compiled = Compiled(tmp_path / f"{form}.xml")
        for size in ((2, 5), (9, 30), (2, 30), (5, 14), (6, 13)):
            x = np.arange(2 * size[0] * size[1]).reshape(1, 2, *size) % 7 - np.float32(3)
            for shape in ((13, 40), (6, 15), (18, 91)) if wanted is None else (wanted,):
                feeds = [x] if wanted is not None else [x, np.array(shape)]
                names = [p.name for p in graph.parameters]
                expected = ird.run(graph, dict(zip(names, feeds, strict=True)))
                (found, _) = compiled.run(feeds)
                assert np.array_equal(found, next(iter(expected.values()))), (form, size, shape)
