"""Spellings with few axes and within limits of devices: accepted pairs compute the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lxml import etree

ov = pytest.importorskip("openvino")

import rewritings_few as few  # noqa: E402
from irdeconv.proof import pairing, reader, symbolic  # noqa: E402
from irdeconv.proof.model import Unproved  # noqa: E402
from rewritings import KINDS, Case, Value, deconvolution, floats, model, rank_of  # noqa: E402
from support.sweeps import parts  # noqa: E402
from test_rewritings import differ, feeds, outputs  # noqa: E402

pytestmark = pytest.mark.oracles

NAMES = [n for n in KINDS if n.startswith(("few axes", "legal"))]


def passes(paths: tuple[Path, Path]) -> bool:
    """Whether the argument for all sizes accepts a pair."""
    try:
        models = [reader.read(p) for p in paths]
    except Unproved:
        return False
    return pairing.check(*models, None, (symbolic.prove,)).passed


def changed(xml: Path) -> list[bytes]:
    """The constants with one integer more, less or exchanged with the next one."""
    data, out = xml.with_suffix(".bin").read_bytes(), []
    for d in etree.parse(xml).getroot().iter("data"):
        if d.get("element_type") != "i64":
            continue
        at, count = int(d.get("offset")), int(d.get("size")) // 8
        numbers = np.frombuffer(data, np.int64, count, at)
        rows = [
            numbers + step * np.eye(count, dtype=int)[i] for i in range(count) for step in (-1, 1)
        ]
        for i in range(count - 1):
            row = numbers.copy()
            row[[i, i + 1]] = row[[i + 1, i]]
            rows += [row] if (row != numbers).any() else []
        out += [data[:at] + row.tobytes() + data[at + 8 * count :] for row in rows]
    return list(dict.fromkeys(out))


@pytest.mark.parametrize("name", parts(9, NAMES))
def test_every_changed_number_is_seen(name: str, tmp_path: Path) -> None:
    """What is accepted has to be equal where OpenVINO runs it."""
    case = KINDS[name].cases[-1]
    paths = KINDS[name].write(case, case, tmp_path)
    given, refused = feeds(paths[0], case), 0
    wanted = outputs(paths[0], given)
    candidates = changed(paths[1])
    for data in candidates:
        paths[1].with_suffix(".bin").write_bytes(data)
        if not passes(paths):
            refused += 1
            continue
        try:
            found = outputs(paths[1], given)
        except RuntimeError:
            continue  # some sizes are refused, which is no other result
        assert not differ(wanted, found, False)
    assert refused > len(candidates) // 2


def wrong_zeros(case: Case, x: Value, front: bool, turned: bool) -> Value:
    """Zeros in front of the elements, or as many as another axis should get."""
    counts = [s - 1 for s in case.strides if s > 1]

    def zeros(y: Value, axis: int, count: int) -> Value:
        none = [0] * rank_of(y)
        count = counts[-1 - counts.index(count)] if turned else count
        some = [count if a == axis else 0 for a in range(len(none))]
        return few.old_pad(y, some if front else none, none if front else some)

    return few.convolved(case, few.spread(case, x, zeros))


def wrong_parts(case: Case, x: Value, order: int) -> Value:
    parts = [few.phase(case, x, r) for r in few.residues_of(case)]
    return few.cropped(case, few.zipped(case, parts[::-1] if order < 0 else parts[1:] + parts[:1]))


STEREO = Case((2, 4, 3, 5), (2, 2, 3, 3, 4), (2, 3), (1, 2), (2, 0), (1, 1), open_axes=(0, 2, 3))
SAME = Case((2, 4, 3, 5), (2, 2, 3, 2, 4), (2, 2), (1, 1), (0, 1), open_axes=(0, 2, 3))
SPACE = few.SPACE_OPEN
WRONG = {
    "zeros in front": (STEREO, lambda c, x: wrong_zeros(c, x, True, False)),
    "zeros in front, one axis": (few.LINE_OPEN, lambda c, x: wrong_zeros(c, x, True, False)),
    "residues first for last": (
        STEREO,
        lambda c, x: few.cropped(c, few.by_steps(c, few.stacked(c, x, True), False)),
    ),
    "residues last for first": (
        SAME,
        lambda c, x: few.cropped(c, few.at_once(c, few.stacked(c, x), True)),
    ),
    "space, residues first for last": (
        SPACE,
        lambda c, x: few.cropped(c, few.at_once(c, few.stacked(c, x, True), False)),
    ),
    "parts turned": (SAME, lambda c, x: wrong_parts(c, x, -1)),
    "parts moved on": (SAME, lambda c, x: wrong_parts(c, x, 1)),
}


@pytest.mark.parametrize("name", WRONG)
def test_near_misses_are_refused(name: str, tmp_path: Path) -> None:
    case, step = WRONG[name]
    compared(case, deconvolution, step, tmp_path)


def compared(case: Case, right: Any, wrong: Any, folder: Path) -> None:
    """Check that two models compute something else, and that none says that they are equal."""
    paths = folder / "a.xml", folder / "b.xml"
    for path, step in zip(paths, (right, wrong), strict=True):
        x = case.parameter()
        ov.save_model(model([x], step(case, x)), path, compress_to_fp16=False)
    given = feeds(paths[0], case)
    assert differ(outputs(paths[0], given), outputs(paths[1], given), False)
    assert not pairing.check(*(reader.read(p) for p in paths)).passed


@pytest.mark.parametrize("how", ["tiled", "phases"])
def test_a_bias_in_front_of_padded_zeros_is_refused(how: str, tmp_path: Path) -> None:
    """Of CROPS the output is longer than what inputs reach: these outputs are the bias, not 0."""
    case = few.CROPS_OPEN
    bias = few.bias_of(case)

    def right(case: Case, x: Value) -> Value:
        return few.op.add(deconvolution(case, x), floats(bias))

    step = few.biased_steps if how == "tiled" else few.biased_phases
    compared(case, right, lambda c, x: step(c, x, bias), tmp_path)


def test_what_is_claimed_of_products(tmp_path: Path) -> None:
    """Only a product of sizes of a tensor is taken to fit 32 bits, and the answer says so."""
    case = few.OPEN
    kind = KINDS["few axes: Reshape, Pad, Reshape"]
    models = [reader.read(p) for p in kind.write(case, case, tmp_path)]
    verdict = pairing.check(*models)
    limits = "up to 16,777,216 per axis, and 2^31 - 1 elements per tensor"
    assert verdict.layers[0].proof.sizes == f"every size ({limits})"
