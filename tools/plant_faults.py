"""Break copies of real networks in one place each and let `reduce` find it.

    python tools/plant_faults.py net.xml ...              2 faults in each network, chosen by --seed
    python tools/plant_faults.py net.xml --each 5 --blind
    python tools/plant_faults.py net.xml --list           the faults that can be planted there

A fault is a mistake of compilers and converters: a pad on the wrong side, a kernel that is not
flipped, channels in another order, another epsilon. The broken copy is the second model of
`reduce --compare`. With --blind the search sees less: a check that only says whether the outputs of
a variant differ when a backend makes this mistake in this layer. It has found a fault where at
most 3 layers are left and the broken one is among them. Faults that change no output are left out.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import checkout  # noqa: F401
import fault_filters
import fault_layers
import numpy as np

import irdeconv as ird
from irdeconv.ir.graph import Graph, Node
from irdeconv.verify.reduce_search import is_valid

MOST_LAYERS = 3
Plant = Callable[[Graph, Node], bool]  # changes a copy in place; False where it does not apply

HELPERS = (
    "array_of",
    "with_input",
    "with_op",
    "is_conv",
    "spatial",
    "swapped",
    "is_data",
    "rolled",
)
PLANTS: dict[str, Plant] = {
    name: plant
    for module in (fault_filters, fault_layers)
    for name, plant in vars(module).items()
    if getattr(plant, "__module__", "") == module.__name__ and name not in HELPERS
}


@dataclass(frozen=True)
class Fault:
    """A mistake in one layer."""

    kind: str
    layer: str
    type: str

    def planted(self, graph: Graph) -> Graph | None:
        """Return a broken copy; None where the graph has no such layer or does not fit then."""
        copy = graph.copy()
        found = [n for n in copy.find(self.layer) if n.type == self.type]
        try:
            if len(found) != 1 or not PLANTS[self.kind](copy, found[0]):
                return None
        except (IndexError, ValueError):
            return None
        return copy if is_valid(copy) else None


def faults(graph: Graph) -> Iterator[Fault]:
    """Yield every fault that applies to a layer; some do not fit together once they are planted."""
    copy = graph.copy()
    for node in graph.nodes():
        for kind, plant in PLANTS.items():
            fault = Fault(kind, node.name, node.type)
            if node.type not in ("Const", "Parameter", "Result") and _applies(plant, copy, node.id):
                yield fault
                copy = graph.copy()


def _applies(plant: Plant, copy: Graph, node: int) -> bool:
    try:
        return plant(copy, copy.node(node))
    except (IndexError, ValueError):
        return False


def outputs_differ(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether outputs differ by more than a thousandth of the largest value."""
    for x, y in zip(a.values(), b.values(), strict=True):
        if x.shape != y.shape:
            return True
        scale = float(np.max(np.abs(x), initial=0)) if x.dtype.kind == "f" else 0.0
        with np.errstate(invalid="ignore"):
            if not np.allclose(x, y, rtol=1e-4, atol=1e-3 * scale, equal_nan=True):
                return True
    return False


def names_fault(graph: Graph, fault: Fault, done: Any) -> bool:
    """Whether what is left is small and has the broken layer.

    Where the outputs of a layer were swapped, the layers that read them are as wrong.
    """
    readers = {graph.node(i).name for i in graph.successors(graph.find(fault.layer)[0].id)}
    blamed = {fault.layer} | (readers if fault.kind == "split_order" else set())
    return len(done.layers) <= MOST_LAYERS and bool(blamed & {n.name for n in done.layers})


def blind_check(fault: Fault) -> Callable[[Graph, dict[str, Any]], bool]:
    """Return a check that knows only whether outputs are wrong."""

    def check(graph: Graph, inputs: dict[str, Any]) -> bool:
        broken = fault.planted(graph)
        if broken is None:
            return False
        sides = (ird.run(g, inputs, form=None, fuse=False) for g in (graph, broken))
        return outputs_differ(*sides)

    return check


def chosen(graph: Graph, number: int, seed: int) -> list[Fault]:
    """Return faults in random order, one of each kind before a second one of any."""
    rng = np.random.default_rng(seed)
    found = list(faults(graph))
    rng.shuffle(found)
    order: dict[str, int] = {}
    rank = []
    for fault in found:
        order[fault.kind] = order.get(fault.kind, -1) + 1
        rank.append(order[fault.kind])
    return [f for _, f in sorted(zip(rank, found, strict=True), key=lambda pair: pair[0])][:number]


def main() -> int:
    """Plant, reduce, print a row each; 1 where a fault was not found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("models", nargs="+", metavar="FILE", type=Path)
    parser.add_argument("--each", type=int, default=2, help="faults per network (default: 2)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--blind", action="store_true", help="look at outputs only")
    parser.add_argument("--list", action="store_true", help="list the faults and plant none")
    args = parser.parse_args()
    missed = 0
    print(f"{'network':<22} {'fault':<17} {'layers':>9} {'checks':>6} {'s':>6}  found")
    for number, path in enumerate(args.models):
        graph = ird.infer(ird.read(path))
        name = path.parent.name if path.stem == "model" else path.stem
        if args.list:
            for fault in faults(graph):
                print(f"{name:<22} {fault.kind:<17} {fault.type} {fault.layer}")
            continue
        missed += _tried(graph, name, args, args.seed + number)
    return 1 if missed else 0


def _tried(graph: Graph, name: str, args: Any, seed: int) -> int:
    """Plant faults until `--each` of them showed; return how many of those were not found."""
    shown = missed = 0
    for fault in chosen(graph, 10 * args.each, seed):
        if shown == args.each:
            break
        broken = fault.planted(graph)
        if broken is None:
            continue
        start = time.perf_counter()
        try:
            if args.blind:
                done = ird.reduce(graph, blind_check(fault))
            else:
                done = ird.reduce(graph, compare=broken)
        except ird.NothingToReduceError:
            continue
        shown += 1
        found = names_fault(graph, fault, done)
        missed += not found
        layers = f"{done.before.layers} -> {done.after.layers}"
        spent = time.perf_counter() - start
        mark = "yes" if found else f"NO: {fault.layer} in {done}"
        print(
            f"{name:<22} {fault.kind:<17} {layers:>9} {done.checks:>6} {spent:>6.1f}  {mark}",
            flush=True,
        )
    return missed


if __name__ == "__main__":
    sys.exit(main())
