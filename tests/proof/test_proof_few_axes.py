"""Spellings with few axes and within limits of devices: accepted pairs compute the same."""

from pathlib import Path

import numpy as np
import pytest
from lxml import etree

from irdeconv.proof import pairing, reader, symbolic
from irdeconv.proof.model import Unproved
from pair_texts import kinds
from pair_truth import feeds
from support.runtime_truth import Compiled, RefusedError, same
from support.sweeps import parts

pytestmark = pytest.mark.oracles

KINDS = kinds("equal")
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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", parts(9, NAMES))
def test_every_changed_number_is_seen(name: str, tmp_path: Path) -> None:
    """What is accepted has to be equal where OpenVINO runs it."""
    pair = KINDS[name][-1]
    paths = pair.write(tmp_path)
    original, refused = Compiled(paths[0]), 0
    given = list(feeds(pair, original.model))
    wanted = [original.run(row) for row in given]
    candidates = changed(paths[1])
    for data in candidates:
        paths[1].with_suffix(".bin").write_bytes(data)
        if not passes(paths):
            refused += 1
            continue
        try:
            found = Compiled(paths[1])
            results = [found.run(row) for row in given]
        except RefusedError:
            continue  # some sizes are refused, which is no other result
        assert all(same(a, b) for a, b in zip(results, wanted, strict=True))
    assert refused > len(candidates) // 2


def test_what_is_claimed_of_products(tmp_path: Path) -> None:
    """Only a product of sizes of a tensor is taken to fit 32 bits, and the answer says so."""
    pair = KINDS["few axes: Reshape, Pad, Reshape"][-1]
    verdict = pairing.check(*(reader.read(p) for p in pair.write(tmp_path)))
    limits = "up to 16,777,216 per axis, and 2^31 - 1 elements per tensor"
    assert verdict.layers[0].proof.sizes == f"every size ({limits})"
