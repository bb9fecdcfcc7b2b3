"""FreshNames for what a rewriting adds: none of them is used in the model yet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class FreshNames:
    """The names of a graph or function with all graphs inside it."""

    taken: set[str]

    def fresh(self, wanted: str) -> str:
        """Return the wanted name, with a number behind it where something has it."""
        name, k = wanted, 2
        while name in self.taken:
            name, k = f"{wanted}_{k}", k + 1
        self.taken.add(name)
        return name
