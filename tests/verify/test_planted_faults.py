"""Faults planted in a network with a layer of nearly every kind: `reduce` finds each of them.

It has found a fault where at most 3 layers are left and the broken one is among them. A blind check
sees less: only whether the outputs of a variant differ when this mistake is in this layer.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.graph import Graph
from support.planted import PLANTS, Fault, faults
from wide_network import wide_network

WHOLE = ird.infer(wide_network())
FAULTS = {f"{f.kind}-{f.layer}": f for f in faults(WHOLE)}
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


def outputs_differ(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether outputs differ by more than a thousandth of the largest value."""
    for x, y in zip(a.values(), b.values(), strict=True):
        scale = float(np.max(np.abs(x), initial=0))
        near = x.shape == y.shape and np.allclose(x, y, 1e-4, 1e-3 * scale, equal_nan=True)
        if not near:
            return True
    return False


def names_fault(fault: Fault, done: Any) -> bool:
    """Where the outputs of a layer were swapped, the layers that read them are as wrong."""
    readers = {WHOLE.node(i).name for i in WHOLE.successors(WHOLE.find(fault.layer)[0].id)}
    blamed = {fault.layer} | (readers if fault.kind == "split_order" else set())
    return len(done.layers) <= 3 and bool(blamed & {n.name for n in done.layers})


def blind_check(fault: Fault) -> Callable[[Graph, dict[str, Any]], bool]:
    def check(graph: Graph, inputs: dict[str, Any]) -> bool:
        broken = fault.planted(graph)
        if broken is None:
            return False
        return outputs_differ(*(ird.run(g, inputs, form=None, fuse=False) for g in (graph, broken)))

    return check


def test_every_kind_of_fault_applies_somewhere() -> None:
    assert {f.kind for f in FAULTS.values()} == set(PLANTS)
    assert {name for name, fault in FAULTS.items() if fault.planted(WHOLE) is None} == UNFIT
    shown = {FAULTS[name].kind for name in set(FAULTS) - UNFIT - INVISIBLE}
    assert len(shown) >= 30


def found(name: str, *, blind: bool) -> None:
    fault = FAULTS[name]
    if blind:
        done = ird.reduce(WHOLE, blind_check(fault))
    else:
        done = ird.reduce(WHOLE, compare=fault.planted(WHOLE))
    assert names_fault(fault, done)
    assert done.before.layers == 40
    assert done.stopped is None


@pytest.mark.sampled(4)
@pytest.mark.thorough
@pytest.mark.parametrize("name", SAMPLE)
def test_a_comparison_finds_it(name: str) -> None:
    found(name, blind=False)


@pytest.mark.sampled(2)
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
