"""Kinds of equal rewritings are proved element by element, their near misses are not."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("openvino")

import rewritings  # noqa: F401
import rewritings_around  # noqa: F401
import rewritings_few  # noqa: F401
import rewritings_files  # noqa: F401
import rewritings_sums  # noqa: F401
from irdeconv.proof.linear import prove
from irdeconv.proof.model import Model, Obligation, Port, Unproved
from irdeconv.proof.reader import read
from rewritings import KINDS, Case, Kind

pytestmark = pytest.mark.oracles

# Whole networks, for pairing; operations that are not in the list; products that are not followed.
BEYOND = {
    "dilation: SpaceToBatch, convolution, BatchToSpace",
    "files: other names",
    "filter: reversed by ReverseSequence",
    "layers: two in a row with ReLU between",
    "layers: two of one filter",
    "layers: two on the same data share the zeros",
    "legal: copies by a convolution, a deconvolution",
    "legal: windows as channels by a convolution",
    "legal: zeros by a deconvolution of one tap",
    "nothing: Pad, Slice, StridedSlice",
    "phases: ScatterUpdate",
    "scale: BatchNormInference folded",
    "taps: a separable filter as two convolutions",
    "zeros: ScatterElementsUpdate",
    "zeros: ScatterUpdate",
    "zeros: product with a matrix of zeros and ones",
}


def obligations(a: Model, b: Model) -> list[Obligation]:
    """All outputs of two models as single obligations; inputs are twins in their order."""
    twins = {Port(j): Port(i) for i, j in zip(a.parameters, b.parameters, strict=True)}
    ends = zip(a.results, b.results, strict=True)
    return [
        Obligation(
            source=a,
            lowered=b,
            wanted=a.layers[i].inputs[0],
            output=b.layers[j].inputs[0],
            twins=twins,
            fact=lambda p: a.layers[p.layer].outputs[p.port],
        )
        for i, j in ends
    ]


def judge(kind: Kind, cases: tuple[Case, ...], folder: Path) -> None:
    for case in cases:
        for what, target in kind.variants(case).items():
            pairs = obligations(*map(read, kind.write(case, target, folder)))
            if what == "equal" and kind.name not in BEYOND:
                assert any(prove(ob).rounding > 0 for ob in pairs) == kind.rounds, case
            else:
                with pytest.raises(Unproved):
                    print([prove(ob) for ob in pairs], what, case)


@pytest.mark.parametrize("name", list(KINDS)[::3])
def test_kinds_of_rewriting(name: str, tmp_path: Path) -> None:
    judge(KINDS[name], KINDS[name].cases[-1:], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_kinds_of_rewriting_in_all_cases(name: str, tmp_path: Path) -> None:
    judge(KINDS[name], KINDS[name].cases, tmp_path)


def test_few_kinds_are_beyond() -> None:
    assert set(KINDS) >= BEYOND
    assert len(BEYOND) <= len(KINDS) // 8
