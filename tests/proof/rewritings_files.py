"""Kinds with several layers, and kinds of files."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import openvino as ov
from openvino import opset13 as op

import irdeconv as ird
from rewritings import (
    FEW,
    OPEN,
    S2,
    Case,
    Pair,
    Value,
    correlate,
    deconvolution,
    flipped,
    floats,
    model,
    pair,
    spread_out,
)
from rewritings_around import bias_of, both, lowered
from rewritings_sums import FLAT, FLAT_OPEN, WIDE

# Several layers


@both("layers: two in a row with ReLU between", *FEW)
def in_a_row(case: Case, x: Value, original: bool) -> Value:
    second = Case(
        (1, case.channels, *[1] * case.rank),
        (1, case.channels, 2, *[3] * case.rank),
        (2,) * case.rank,
        (1,) * case.rank,
        (1,) * case.rank,
        changed=case.changed,
    )
    one = deconvolution if original else lowered
    return one(second, op.relu(one(case, x)))


@both("layers: two of one filter", *FEW)
def shared(case: Case, x: Value, original: bool) -> Value:
    """The original has the filter once, the other twice; the zeros are inserted once."""
    if original:
        weights = floats(case.weights if case.groups > 1 else case.weights[0])
        y = deconvolution(case, x, weights)
        return op.add(y, deconvolution(replace(case, begin=case.begin), op.relu(x), weights))
    return op.add(lowered(case, x), lowered(case, op.relu(x)))


@both("layers: two on the same data share the zeros", S2, OPEN)
def shared_zeros(case: Case, x: Value, original: bool) -> Value:
    if original:
        second = deconvolution(case, x, floats(case.weights[0] * 2 + 1))
        return op.multiply(deconvolution(case, x), second)
    spread = spread_out(case, x)
    second = correlate(case, spread, case.trailing, flipped(case.weights * 2 + 1))
    return op.multiply(correlate(case, spread, case.trailing), second)


@both("layers: two merged by channels", S2, OPEN)
def merged_layers(case: Case, x: Value, original: bool) -> Value:
    if original:
        second = deconvolution(case, x, floats(case.weights[0] * 2 + 1))
        return op.concat([deconvolution(case, x), second], 1)
    filters = np.concatenate([case.weights, case.weights * 2 + 1], 2)
    return lowered(case, x, filters)


@both("layers: one split into two deconvolutions", S2, OPEN)
def split_layers(case: Case, x: Value, original: bool) -> Value:
    if original:
        return deconvolution(case, x)
    shifted = replace(
        case, begin=tuple(b for b, _ in case.edges), end=tuple(e for _, e in case.edges), extra=()
    )
    halves = np.split(case.weights[0], 2, 1)
    return op.concat([deconvolution(shifted, x, floats(w)) for w in halves], 1)


# Files


def renamed(built: ov.Model) -> ov.Model:
    """Give new names to all layers but inputs and results."""
    for i, node in enumerate(built.get_ordered_ops()):
        if node.get_type_name() not in ("Parameter", "Result"):
            node.set_friendly_name(f"n{i * 7 % 101}_{i}")
    return built


@pair("files: other names", *FEW)
def other_names(source: Case, target: Case) -> Pair:
    x, z = source.parameter(), target.parameter()
    first = model([x], op.relu(op.add(deconvolution(source, op.abs(x)), floats(bias_of(source)))))
    second = model([z], op.relu(op.add(lowered(target, op.abs(z)), floats(bias_of(target)))))
    return first, renamed(second)


def own(form: str) -> Any:
    """Add a kind: what `irdeconv.lower` writes, read and saved by OpenVINO."""

    def build(source: Case, target: Case) -> Pair:
        x, z = source.parameter(), target.parameter()
        if target.moved:
            begin = tuple(b for b, _ in target.edges)
            end = tuple(e for _, e in target.edges)
            target = target.within(begin, end)
        first = model([x], op.relu(deconvolution(source, x)))
        second = model([z], op.relu(deconvolution(target, z)))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            ov.save_model(second, path / "a.xml", compress_to_fp16=False)
            ird.write(ird.lower(path / "a.xml", form).graph, path / "b.xml")
            text, weights = (path / "b.xml").read_bytes(), (path / "b.bin").read_bytes()
        return first, ov.Core().read_model(text, weights)

    cases = (WIDE, FLAT, FLAT_OPEN)
    return pair(f"files: our own {form}, saved by OpenVINO", *cases)(build)


for _form in ("zero-insertion", "phases", "stacked"):
    own(_form)


@pair("files: fp16", *(replace(c, scale=0.1) for c in FEW), half=(False, True))
def compressed(source: Case, target: Case) -> Pair:
    x, z = source.parameter(), target.parameter()
    return model([x], deconvolution(source, x)), model([z], lowered(target, z))


@pair("files: both fp16", *(replace(c, scale=0.1) for c in FEW), half=(True, True))
def both_compressed(source: Case, target: Case) -> Pair:
    return compressed(source, target)


def reordered(text: str) -> str:
    """Layers in the opposite order, inputs and results as they were."""
    root = ElementTree.fromstring(text)
    layers = root.find("layers")
    assert layers is not None
    kept = [e for e in layers if e.get("type") in ("Parameter", "Result")]
    others = [e for e in layers if e.get("type") not in ("Parameter", "Result")]
    layers[:] = [*others[::-1], *kept]
    return ElementTree.tostring(root, "unicode")


@pair("files: layers in another order", *FEW, edit=reordered)
def other_order(source: Case, target: Case) -> Pair:
    return compressed(source, target)


def renumbered(text: str) -> str:
    """Other ids."""
    root = ElementTree.fromstring(text)
    for element in root.iter():
        for key in ("from-layer", "to-layer", *(["id"] if element.tag == "layer" else [])):
            if key in element.attrib:
                element.set(key, str(1000 - 3 * int(element.attrib[key])))
    return ElementTree.tostring(root, "unicode")


@pair("files: other ids", *FEW, edit=renumbered)
def other_ids(source: Case, target: Case) -> Pair:
    return compressed(source, target)
