"""Recurrent cells and sequences, whose matrices belong together."""

from __future__ import annotations

from support.live_operations.generators.tools import (
    Generator,
    Rng,
    Sample,
    Tensor,
    index,
    kind,
    numbers,
    pick,
    sample,
)

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
FUNCTIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}


def cell(rng: Rng, name: str, version: str) -> Sample:
    family = next(f for f in GATES if name.startswith(f))
    batch, wide, hidden, steps = (int(v) for v in rng.integers(1, 5, 4))
    gates, dtype = GATES[family], kind(rng, "f32", "f32", "f16")
    whole = name.endswith("Sequence")
    direction = pick(rng, ("forward", "reverse", "bidirectional"))
    both = 2 if direction == "bidirectional" else 1
    reset = rng.random() < 0.5 and family == "GRU"
    known = ("sigmoid", "tanh", "relu")
    functions = [pick(rng, known) for _ in range(FUNCTIONS[family])]
    texts = {
        "hidden_size": hidden,
        "direction": direction,
        "activations": ",".join(functions * (both if whole else 1)),
        "clip": pick(rng, (None, None, 0.5)),
        "linear_before_reset": str(reset).lower() if family == "GRU" else None,
    }
    lead = (both,) if whole else ()

    def small(*size: int) -> Tensor:
        t = numbers(rng, dtype, size, 2)
        return Tensor(dtype, (t.values.astype("float32") / 4).astype(dtype.container))

    states = 2 if family == "LSTM" else 1
    inputs = [small(batch, *((steps, wide) if whole else (wide,)))]
    inputs += [small(batch, *lead, hidden) for _ in range(states)]
    if whole:
        inputs.append(index(rng, rng.integers(1, steps + 1, batch)))
    inputs += [small(*lead, gates * hidden, wide), small(*lead, gates * hidden, hidden)]
    inputs.append(small(*lead, (gates + reset) * hidden))
    first = 1 + states + whole
    lists = [first, first + 1, first + 2] if rng.random() < 0.7 else []
    return sample(rng, name, version, texts, inputs, lists, states + whole)


GENERATORS: dict[str, Generator] = dict.fromkeys(
    (f"{f}{k}" for f in GATES for k in ("Cell", "Sequence")), cell
)
