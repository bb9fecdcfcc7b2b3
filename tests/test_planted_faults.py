"""Faults planted in a network with a layer of nearly every kind: `reduce` finds each of them.

The plants are those of tools/plant_faults.py, which does the same with networks that are files.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

import irdeconv as ird
from support.scripts import script
from support.wide_network import wide_network

planted: Any = script("plant_faults")
WHOLE = ird.infer(wide_network())
FAULTS = {f"{f.kind}-{f.layer}": f for f in planted.faults(WHOLE)}
# Changes that no output shows, and those that do not fit together.
INVISIBLE = {"rounding_type-avgpool31", "rounding_type-maxpool32"}
UNFIT = {"reduce_axes-reducemean35", "reduce_axes-reducemax59"}
SMALL = {"pad_mode-pad48", "eps_mode-normalizel229"}  # less than what the blind check notices
SAMPLE = (
    "dilation-convolution7",
    "epsilon-mvn26",
    "layer_dropped-clamp30",
    "softmax_axis-softmax76",
    "slice_start-stridedslice52",
    "stride_start-convolutionbackpropdata16",
)
assert sys.modules["plant_faults"] is planted


def test_every_kind_of_fault_applies_somewhere() -> None:
    assert {f.kind for f in FAULTS.values()} == set(planted.PLANTS)
    unfit = {name for name, fault in FAULTS.items() if fault.planted(WHOLE) is None}
    assert unfit == UNFIT
    shown = {FAULTS[name].kind for name in set(FAULTS) - UNFIT - INVISIBLE}
    assert len(shown) >= 30


def found(name: str, *, blind: bool) -> None:
    fault = FAULTS[name]
    if blind:
        done = ird.reduce(WHOLE, planted.blind_check(fault))
    else:
        done = ird.reduce(WHOLE, compare=fault.planted(WHOLE))
    assert planted.names_fault(WHOLE, fault, done)
    assert done.before.layers == 40
    assert done.stopped is None


@pytest.mark.thorough
@pytest.mark.parametrize("name", SAMPLE)
def test_a_comparison_finds_it(name: str) -> None:
    found(name, blind=False)


@pytest.mark.thorough
@pytest.mark.parametrize("name", SAMPLE[::2])
def test_a_check_that_only_knows_outputs_finds_it(name: str) -> None:
    found(name, blind=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(FAULTS) - UNFIT - INVISIBLE))
def test_a_comparison_finds_every_fault(name: str) -> None:
    found(name, blind=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(FAULTS) - UNFIT - INVISIBLE - SMALL))
def test_a_blind_check_finds_every_fault(name: str) -> None:
    found(name, blind=True)


@pytest.mark.parametrize("name", sorted(INVISIBLE))
def test_what_changes_nothing_is_no_fault(name: str) -> None:
    with pytest.raises(ird.NothingToReduceError, match="both sides agree"):
        ird.reduce(WHOLE, compare=FAULTS[name].planted(WHOLE))
