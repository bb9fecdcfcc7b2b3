"""A model that disagrees, made as small as it can be while it disagrees in the same way."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from fuzzing.shrink import least
from lxml import etree

import irdeconv as ird
from irdeconv.base.errors import IrdeconvError
from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Array
from support.differential.trial import Model, Outcome, attempt
from support.live_operations.runtime import Runtime

SECONDS = 60.0
TRIES = 300  # of files that irdeconv does not read
Shows = Callable[[Model], bool]


def shrink_into(folder: Path, number: int, model: Model | None, outcome: Outcome) -> str:
    """Write the smallest model that shows a disagreement into a folder; say what it is."""
    assert model is not None
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number}.xml"
    _write(path, model)
    with Runtime() as runtime:

        def shows(changed: Model) -> bool:
            return _alike(attempt(changed, runtime), outcome)

        if not shows(model):
            return f"{path}: as it was, for it does not show again"
        try:
            graph = ird.infer(ird.read(model.xml, model.weights))
        except IrdeconvError:
            return _without_lines(path, model, shows)
        return _with_fewer_layers(path, graph, model, shows)


def _with_fewer_layers(path: Path, graph: Graph, model: Model, shows: Shows) -> str:
    def check(graph: Graph, feeds: Mapping[str, Array]) -> bool:
        return shows(Model(*ir_bytes(graph), feeds))

    try:
        small = ird.reduce(graph, check, dict(model.feeds), seconds=SECONDS)
    except IrdeconvError as e:  # as irdeconv writes it anew, it does not show
        return f"{path}: as it was, for {e}"
    _write(path, Model(*ir_bytes(small.graph), small.inputs))
    return f"{path}: {small}\n{ird.dump(small.graph)}"


def _without_lines(path: Path, model: Model, shows: Shows) -> str:
    """Leave out Results, with all that only they need, and lines of a file that does not infer."""
    tries = count()

    def still(xml: bytes) -> bool:
        return next(tries) < TRIES and shows(replace(model, xml=xml))

    before = model.xml.splitlines(keepends=True)
    kept = _with_fewer_results(model.xml, still).splitlines(keepends=True)
    after = least(kept, lambda lines: still(b"".join(lines)))
    small = replace(model, xml=b"".join(after))
    _write(path, small)
    text = small.xml.decode("utf-8", "replace")
    return f"{path}: {len(before)} lines -> {len(after)}\n{text}"


def _with_fewer_results(xml: bytes, still: Callable[[bytes], bool]) -> bytes:
    try:
        root = etree.fromstring(xml)
    except etree.XMLSyntaxError:
        return xml
    results = [e.get("id") for e in root.findall("layers/layer[@type='Result']")]
    kept = least(results, lambda ids: still(_ending_in(root, ids)))
    return _ending_in(root, kept) if len(kept) < len(results) else xml


def _ending_in(root: Any, results: list[Any]) -> bytes:
    """Return a file without the layers that reach none of these Results; inputs stay."""
    root = copy.deepcopy(root)
    edges = root.findall("edges/edge")
    needed, before = set(results), -1
    while len(needed) != before:
        before = len(needed)
        needed |= {e.get("from-layer") for e in edges if e.get("to-layer") in needed}
    for e in root.findall("layers/layer"):
        if e.get("id") not in needed and e.get("type") != "Parameter":
            e.getparent().remove(e)
    for e in edges:
        if e.get("to-layer") not in needed:
            e.getparent().remove(e)
    return etree.tostring(root, encoding="utf-8")


def _write(path: Path, model: Model) -> None:
    path.write_bytes(model.xml)
    path.with_suffix(".bin").write_bytes(model.weights)
    np.savez(path.with_suffix(".npz"), **dict(model.feeds))


def _alike(now: Outcome, then: Outcome) -> bool:
    """Whether two outcomes are of one kind, layer and reason, and of one code if of any."""
    same = (now.kind, now.layer, now.why) == (then.kind, then.layer, then.why)
    return same and _code(now) == _code(then)


def _code(outcome: Outcome) -> list[str]:
    return re.findall(r"error\[(E\d+)\]", outcome.detail)[:1]
