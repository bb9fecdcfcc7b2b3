"""From a number to a mutant: which seed, what is changed, which commands read it."""

from __future__ import annotations

import random
from dataclasses import dataclass

from fuzzing.formats import mutate
from fuzzing.seeds import FORMATS, Seed, seeds
from irdeconv.base.form_names import AUTO, CONDITIONS

# Of 40 mutants in a row so many have each format.
SHARES = {
    "ir": 16, "bin": 2, "onnx": 7, "onednn": 4, "npy": 2, "npz": 2, "toml": 2, "certificate": 1,
    "lowered": 1, "text": 3,
}  # fmt: skip
CYCLE = sum(SHARES.values())
FORMS = (*CONDITIONS, AUTO)

_LIMITS = "--threads 1 --max-memory 64M"
_MEMORY = "--limit memory=64M"  # what a comparison holds beside it is some times as much
_ANY = (
    "infer {m}", "infer {m} --format json --all", "infer {m} --no-weights", "inspect {m}",
    "inspect {m} --format json --operations", "inspect {m} --format dot",
    "inspect {m} --format html -o {o}.html", "inspect {m} --format ir", "inspect {m} --format svg",
    "inspect {m} --lower --format json", "inspect {m} --sort macs --constants", "explain {m}",
    "explain {m} --format json", "explain {m} --format svg", "explain {m} --solve 7",
    "validate {m} --format json", "validate {m} --format sarif", "validate {m} --format junit",
    "validate {m} --strict --semantics document", "validate {m} --no-weights",
    "lower {m} --format ir --form {f}", "lower {m} --format json --explain-costs --form auto",
    "lower {m} --target no-depth-to-space --form {f}", "raise {m} --format ir",
    f"run {{m}} {_LIMITS}", f"run {{m}} {_LIMITS} --form none --no-fuse --format json",
    f"run {{m}} {_LIMITS} --form {{f}} -o {{o}}.npz --force",
    f"compare {{m}} --form {{f}} {_MEMORY}",
)  # fmt: skip
_WRITING = (
    "infer {m} -o {o}.xml", "lower {m} --form {f} -o {o}.xml", "lower {m} --form {f} -o {o}.xml",
    "lower {m} --certify -o {o}.xml --form {f}", "simplify {m} -o {o}.xml", "raise {m} -o {o}.xml",
    "rename {m} --pattern s/e/EE/g -o {o}.xml", "convert {m} -o {o}.xml",
    "extract {m} --to layer -o {o}.xml", "extract {m} --from deconv -o {o}.xml",
)  # fmt: skip
_ARRAYS = (
    f"run {{m}} {{x}} {_LIMITS}", f"run {{m}} x=@{{x}} {_LIMITS}", f"compare {{m}} {{x}} {_MEMORY}",
    "extract {m} --inputs-from {x} -o {o}.xml", f"run {{m}} -i {{x}} {_LIMITS} --form none",
)  # fmt: skip
_TARGETS = (
    "lower {m} --target {x} --form auto --explain-costs", "lower {m} --target {x} --form {f}",
    f"compare {{m}} --target {{x}} --form auto {_MEMORY}",
)  # fmt: skip
_PROOFS = ("check-certificate {m} {l} --certificate {x}",)
_PAIRS = (
    "check-certificate {m} {l}",
    "check-certificate {m} {l} --probe --seed 1",
    f"compare {{m}} {{l}} {_MEMORY}",
)
_FOREIGN = (
    "convert {m} -o {o}.xml",
    "convert {m} -o {o}.xml",
    "convert {m} -o {o}.xml --weights random --limit random_weights=16M",
)


@dataclass(frozen=True)
class Case:
    """One mutant: its files by name and the command lines that read it, with `{d}` their folder."""

    format: str
    number: int
    seed: str
    main: str
    files: dict[str, bytes]
    commands: tuple[tuple[str, ...], ...]

    @property
    def name(self) -> str:
        """What `--only` takes."""
        return f"{self.format}:{self.number}"


def place(number: int) -> tuple[str, int]:
    """Return the format of a mutant by its number among all, and its number in the format."""
    cycle, at = divmod(number, CYCLE)
    format, first = _ORDER[at]
    return format, cycle * SHARES[format] + first


def _order() -> list[tuple[str, int]]:
    """Spread the formats over a cycle."""
    every = [((i + 0.5) / share, name, i) for name, share in SHARES.items() for i in range(share)]
    return [(name, i) for _, name, i in sorted(every)]


_ORDER = _order()


def make(format: str, number: int, seed: int) -> Case:
    """Return a mutant; the same numbers give the same one."""
    rng = random.Random(f"{seed} {format} {number}")
    found = seeds(format)
    start = found[number % len(found)]
    files = mutate(rng, format, start.main, start.files)
    return Case(format, number, start.name, start.main, files, _commands(rng, format, start))


def _commands(rng: random.Random, format: str, start: Seed) -> tuple[tuple[str, ...], ...]:
    """Choose one or two commands, the first of them the cheapest that reads the file."""
    first: list[str] = []
    if format in ("npy", "npz"):
        texts = _ARRAYS
    elif format == "toml":
        texts = _TARGETS
    elif format == "certificate":
        texts = _PROOFS
    elif format == "lowered":
        texts = _PAIRS
    else:
        first = ["validate {m}"]
        texts = _ANY if rng.random() < 0.65 else _WRITING
        if format in ("onnx", "onednn") and rng.random() < 0.4:
            texts = _FOREIGN
        if format == "onnx" and rng.random() < 0.25:
            texts = ("lower {m} -o {o}.onnx --form {f}",)
    names = {
        "m": "{d}/" + next(n for n in start.files if n.startswith("m.") and n != "m.bin"),
        "x": "{d}/" + start.main, "l": "{d}/low.xml", "o": "{d}/out", "f": rng.choice(FORMS),
    }  # fmt: skip
    return tuple(tuple(t.format(**names).split()) for t in (*first, rng.choice(texts)))


assert set(SHARES) == set(FORMATS)
