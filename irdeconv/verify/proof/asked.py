"""Provers that remember what they were asked, and what of that only a file declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from irdeconv.proof.model import Fact, Obligation, Port, Proof, Unproved
from irdeconv.verify.proof.region import originals, read_by

Prover = Callable[[Obligation], Proof]
Believed = Callable[[Port], bool]


class AskedProver:
    """A prover that remembers what it was asked, with what was known then.

    Its proofs list the types and shapes that they use and that are only `believed`.
    """

    def __init__(self, prover: Prover, believed: Believed) -> None:
        self._prover, self._believed = prover, believed
        self.asked: dict[tuple[Port, Port], Obligation] = {}
        self.unproved: dict[tuple[Port, Port], str] = {}

    def __call__(self, task: Obligation) -> Proof:
        """Prove; raises Unproved as the prover does."""
        key = task.wanted, task.output
        self.asked[key] = task
        try:
            return self._prove(task)
        except Unproved as e:
            self.unproved[key] = str(e)
            fewer = _needed_twins(task)
            if fewer == task.twins:
                raise
            # What both models compute may be read by one of them only.
            self.asked[key] = replace(task, twins=fewer)
            return self._prove(self.asked[key])

    def _prove(self, task: Obligation) -> Proof:
        assumed: dict[str, None] = {}

        def fact(port: Port) -> Fact:
            found = task.fact(port)
            if self._believed(port):
                assumed[_as_declared(task, port, found)] = None
            return found

        proof = self._prover(replace(task, fact=fact))
        return replace(proof, assumed=(*proof.assumed, *assumed))


def _as_declared(task: Obligation, port: Port, fact: Fact) -> str:
    shape = "any rank" if fact.shape is None else str(list(fact.shape))
    return f"{task.source.of(port)} computes {fact.type} {shape}, as its file declares"


def _needed_twins(task: Obligation) -> Mapping[Port, Port]:
    """Return the twins of what the source's layers themselves read."""
    read = read_by(task.source, originals(task), frozenset(task.twins.values()))
    return {output: wanted for output, wanted in task.twins.items() if wanted in read}
