"""A model that disagrees, made as small as it can be while it disagrees in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

import irdeconv as ird
from irdeconv.errors import IrdeconvError
from irdeconv.graph import Graph
from irdeconv.io.xml_writer import ir_bytes
from irdeconv.spec import Array
from support.differential.trial import Model, Outcome, attempt
from support.live_operations.runtime import Runtime

SECONDS = 60.0


def shrink_into(folder: Path, number: int, model: Model | None, outcome: Outcome) -> str:
    """Write the smallest model that shows a disagreement into a folder; say what it is."""
    assert model is not None
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number}.xml"
    path.write_bytes(model.xml)
    path.with_suffix(".bin").write_bytes(model.weights)
    with Runtime() as runtime:

        def shows(graph: Graph, feeds: Mapping[str, Array]) -> bool:
            now = attempt(Model(*ir_bytes(graph), feeds), runtime)
            return (now.kind, now.why) == (outcome.kind, outcome.why) and (
                now.layer == outcome.layer
            )

        try:
            small = ird.reduce(path, shows, dict(model.feeds), seconds=SECONDS)
        except IrdeconvError as e:
            return f"{path}: as it was, for {e}"
    ird.write(small.graph, path)
    np.savez(path.with_suffix(".npz"), **small.inputs)
    return f"{path}: {small}\n{ird.dump(small.graph)}"
