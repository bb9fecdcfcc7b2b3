"""From a number to a mutant: which seed, what is changed, which commands read it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fuzzing.formats import mutate
from fuzzing.seeds import FORMATS, Seed, seeds
from irdeconv.base.form_names import AUTO, CONDITIONS
from irdeconv.cli.options import RECORDS
from irdeconv.cli.verbs import VERBS

# Of 40 mutants in a row so many have each format.
SHARES = {
    "ir": 16, "bin": 2, "onnx": 7, "onednn": 4, "npy": 2, "npz": 2, "toml": 2, "certificate": 1,
    "lowered": 1, "text": 3,
}  # fmt: skip
CYCLE = sum(SHARES.values())
FORMS = (*CONDITIONS, AUTO)

_LIMITS = "--threads 1 --max-memory 64M"
_MEMORY = "--limit memory=64M"  # what a comparison holds beside it is some times as much
_MORE = {  # what verbs need that read any model
    "run": _LIMITS,
    "compare": f"--form {{f}} {_MEMORY}",
    "extract": "--to layer",
    "rename": "--pattern s/e/EE/g",
}


def reading(*, writes: bool) -> Iterator[str]:
    """Yield commands that read one model: of each verb those with one flag, form or format.

    Those that write an IR do so with `writes`.
    """
    for verb in set(VERBS) - {"bench", "reduce"}:
        options = RECORDS[verb].options
        required = [o.name for o in options if o.required or not (o.names or o.value[0] == "[")]
        read = any(o.reads == "model" or verb == "validate" for o in options)
        writer = any(o.name == "-o" and o.writes.startswith("model") for o in options)
        if not read or not {"FILE", "-o"}.issuperset(required) or (writes and not writer):
            continue
        command = f"{verb} {{m}} {_MORE.get(verb, '')}"
        if writes or "-o" in required:
            yield f"{command} -o {{o}}.xml"
            continue
        yield command
        for option in options:
            if option.key in ("form", "format") and option.name not in command:
                words = ["{f}"] if option.key == "form" else option.value.split("|")
                yield from (f"{command} {option.name} {word}" for word in words)
            elif option.name == "--watch":  # which never ends
                continue
            elif not (option.value or option.needs or "FILE" in option.excludes.split()):
                yield f"{command} {option.name}"


_ANY = (
    *sorted(reading(writes=False)), "explain {m} --solve 7",
    "inspect {m} --format html -o {o}.html", "inspect {m} --lower --format json --form {f}",
    "lower {m} --target no-depth-to-space --convolutions --best-effort",
    "validate {m} --strict --semantics document",
    f"run {{m}} {_LIMITS} --form none --no-fuse -o {{o}}.npz --force",
)  # fmt: skip
_WRITING = (
    *sorted(reading(writes=True)), "lower {m} --certify -o {o}.xml --form {f}",
    "extract {m} --from deconv -o {o}.xml",
)  # fmt: skip
_ARRAYS = (
    f"run {{m}} {{x}} {_LIMITS}", f"run {{m}} x=@{{x}} {_LIMITS}", f"compare {{m}} {{x}} {_MEMORY}",
    "extract {m} --inputs-from {x} -o {o}.xml", f"run {{m}} -i {{x}} {_LIMITS} --form none",
)  # fmt: skip
_TARGETS = (
    "lower {m} --target {x} --form auto --explain-costs", "lower {m} --target {x} --form {f}",
    f"compare {{m}} --target {{x}} --form auto {_MEMORY}",
)  # fmt: skip
_PAIRS = (
    "check-certificate {m} {l}", "check-certificate {m} {l} --probe --seed 1",
    f"compare {{m}} {{l}} {_MEMORY}",
)  # fmt: skip
_CONVERT = "convert {m} -o {o}.xml"
_FOREIGN = (_CONVERT, _CONVERT, f"{_CONVERT} --weights random --limit random_weights=16M")
_TEXTS = {  # of formats that need a model beside them
    "npy": _ARRAYS, "npz": _ARRAYS, "toml": _TARGETS, "lowered": _PAIRS,
    "certificate": ("check-certificate {m} {l} --certificate {x}",),
}  # fmt: skip


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

    def write(self, folder: Path) -> None:
        """Write the files into a folder, which is made."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self.files.items():
            (folder / name).write_bytes(data)


# The formats, spread over a cycle.
_SPREAD = [((i + 0.5) / share, name, i) for name, share in SHARES.items() for i in range(share)]
_ORDER = [(name, i) for _, name, i in sorted(_SPREAD)]


def place(number: int) -> tuple[str, int]:
    """Return the format of a mutant by its number among all, and its number in the format."""
    cycle, at = divmod(number, CYCLE)
    format, first = _ORDER[at]
    return format, cycle * SHARES[format] + first


def make(format: str, number: int, seed: int) -> Case:
    """Return a mutant; the same numbers give the same one."""
    rng = random.Random(f"{seed} {format} {number}")
    found = seeds(format)
    start = found[number % len(found)]
    files = mutate(rng, format, start.main, start.files)
    return Case(format, number, start.name, start.main, files, _commands(rng, format, start))


def _commands(rng: random.Random, format: str, start: Seed) -> tuple[tuple[str, ...], ...]:
    """Choose one or two commands, the first of them the cheapest that reads the file."""
    first = [] if format in _TEXTS else ["validate {m}"]
    if format in _TEXTS:
        texts = _TEXTS[format]
    else:
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
