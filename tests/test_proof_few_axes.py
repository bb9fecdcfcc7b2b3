"""Spellings with few axes and within limits of devices: whatever is accepted computes the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lxml import etree

pytest.importorskip("openvino")

from irdeconv.proof import pairing, reader, symbolic
from irdeconv.proof.model import Unproved
from support import rewritings_few, rewritings_legal  # noqa: F401
from support.rewritings import KINDS
from support.sweeps import parts
from test_rewritings import differ, feeds, outputs

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
