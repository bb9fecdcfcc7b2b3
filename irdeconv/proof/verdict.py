"""What was proved of two models."""

from __future__ import annotations

from dataclasses import dataclass

from irdeconv.proof.model import Port, Proof


@dataclass(frozen=True)
class LayerProof:
    """How a value of the source, `wanted`, is computed by `output`: by `proof`, or why not."""

    name: str
    type: str
    output: Port
    wanted: Port
    proof: Proof | None
    reason: str | None = None


@dataclass(frozen=True)
class ProofVerdict:
    """What was proved of two models.

    `unequal` are outputs that are not proved, `problems` says what else differs. `kept` are
    deconvolutions that both models have, `others` counts all other equal layers but constants.
    `rounding` is the largest relative difference of a weight. `bodies` are the verdicts on the
    bodies of equal layers, by tag and the places of the layers in both models; the numbers and what
    is assumed are without theirs.
    """

    layers: tuple[LayerProof, ...]
    problems: tuple[str, ...]
    unequal: tuple[str, ...]
    kept: tuple[str, ...]
    others: int
    twins: dict[Port, Port]
    assumed: tuple[str, ...]
    rounding: float
    bodies: tuple[tuple[str, int, int, ProofVerdict], ...] = ()

    @property
    def passed(self) -> bool:
        """Whether all is proved, for every size or those that the proofs name."""
        return not self.problems and not self.unequal

    @property
    def every(self) -> bool:
        """Whether what is proved holds for every size."""
        own = all(y.proof.every for y in self.layers if y.proof is not None)
        return own and all(v.every for _, _, _, v in self.bodies)

    @property
    def taken(self) -> tuple[str, ...]:
        """What is assumed, in bodies as well."""
        inner = (text for _, _, _, v in self.bodies for text in v.taken)
        return tuple(dict.fromkeys([*self.assumed, *inner]))

    @property
    def exit_code(self) -> int:
        """0: for every size; 3: for some sizes, or if what is assumed is so; 1: not proved."""
        return 1 if not self.passed else 0 if self.every and not self.taken else 3

    def lines(self) -> list[str]:
        """Return the verdict and what it rests on."""
        lines = [f"{self.others} equal layers, {len(self.kept)} deconvolutions as they were"]
        for tag, _, place, verdict in self.bodies:
            lines += [f"in the {tag} of layer {place}: {text}" for text in verdict.lines()[:-1]]
        for y in self.layers:
            how = f"{y.proof.form}, {y.proof.sizes}" if y.proof else f"not proved: {y.reason}"
            lines += [f'{y.type} "{y.name}": {how}', *(y.proof.maps if y.proof else ())]
        lines += [f"assumed: {text}" for text in self.assumed]
        if self.rounding:
            lines.append(f"weights are rounded, by up to {self.rounding:.2g} of each")
        end = "equal for every size" if self.every else "equal for the sizes above"
        end += ", if what is assumed is so" if self.taken else ""
        return [
            *lines,
            *(f"problem: {p}" for p in (*self.problems, *self.unequal)),
            end if self.passed else "not proved",
        ]
