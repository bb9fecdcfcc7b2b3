"""irdeconv, OpenVINO on the IR that it writes, and ONNX Runtime compute a model alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov

import irdeconv as ird
from support.onnx_models import convert, runtime

CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
CORE = ov.Core()


def real(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def integers(rng: np.random.Generator, dtype: Any, *shape: int) -> Any:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def openvino(graph: ird.Graph, feeds: dict[str, Any], path: Path) -> list[Any]:
    """OpenVINO's outputs of the IR that irdeconv writes."""
    ird.write(graph, path)
    compiled = CORE.compile_model(CORE.read_model(path), "CPU", CONFIG)
    found = compiled(feeds)
    return [found[o] for o in compiled.outputs]


def agree(made: Any, feeds: dict[str, Any], path: Path, *, steps: int = 0) -> None:
    """All compute the same: real numbers up to rounding, integers up to `steps`."""
    graph = convert(made)
    every = {
        "irdeconv": list(ird.run(graph, feeds).values()),
        "openvino": openvino(graph, feeds, path),
    }
    want = runtime(made, feeds)
    for name, got in every.items():
        assert len(got) == len(want)
        for mine, theirs in zip(got, want, strict=True):
            assert mine.shape == theirs.shape, name
            if theirs.dtype.kind == "f":
                np.testing.assert_allclose(mine, theirs, 1e-4, atol=1e-5, err_msg=name)
            else:
                gap = np.abs(mine.astype(np.int64) - theirs.astype(np.int64))
                assert gap.max(initial=0) <= steps, name
