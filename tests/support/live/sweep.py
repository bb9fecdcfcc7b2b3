"""The samples of every operation of every opset, both answers, and the table of them."""

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from irdeconv.ir.op import infer_op, lookup, parse_attributes
from irdeconv.ops import catalog
from op_cases import Case, all_cases
from support.live import detectors, generators
from support.live.differences import explanation
from support.live.drawn import GENERATORS
from support.live.judging import KINDS, Verdict, judge
from support.live.mutate import mutate, pick
from support.live.runtime import Runtime
from support.live.sample import Answer, Sample, answer, ir_of, plain_name

LAST = 16
assert GENERATORS, (detectors, generators)  # importing them fills it
# What a layer alone is not: ends of a model, bodies, states.
NO_LAYERS = {"Parameter", "Result", "Const", "Constant", "If", "Loop", "TensorIterator",
             "ReadValue", "Assign"}  # fmt: skip


@dataclass(frozen=True)
class Target:
    """An operation of an opset."""

    type: str
    opset: int

    @property
    def version(self) -> str:
        return f"opset{self.opset}"

    def __str__(self) -> str:
        return f"{self.type}-{self.opset}"


def targets() -> list[Target]:
    """Every operation of opset1 to the last one, but those that are no layers by themselves."""
    return [
        Target(name, n)
        for name in sorted(catalog.CATALOG)
        if name not in NO_LAYERS
        for n in catalog.opsets(name)
        if n <= LAST
    ]


def rows_of(target: Target) -> list[Case]:
    """The rows of op_cases for the class that the target is."""
    cls = lookup(target.type, target.version)
    rows = [r for r in all_cases().values() if r.type == target.type and not r.crash]
    return [r for r in rows if cls is not None and lookup(r.type, r.version) is cls]


def sample_of(target: Target, seed: int) -> Sample | None:
    """The sample of a seed; None where there is neither a generator nor a row."""
    rng = np.random.default_rng([zlib.crc32(str(target).encode()), seed])
    generate = GENERATORS.get(target.type)
    if generate is not None and rng.random() < 0.7:
        made = generate(rng, target.type, target.version)
        if made is not None:
            return made
    rows, cls = rows_of(target), lookup(target.type, target.version)
    if not rows or cls is None:
        return None
    return mutate(rng, pick(rng, rows), cls, target.version)


def verdict_of(sample: Sample, runtime: Runtime) -> Verdict:
    """Run a sample on both sides."""
    return judge(sample, live_answer(sample, runtime), answer(sample))


def live_answer(sample: Sample, runtime: Runtime) -> Answer:
    """Run a sample in OpenVINO."""
    text, blob = ir_of(sample, _results(sample))
    return runtime.ask(text, blob, sample.feeds)


def _results(sample: Sample) -> list[str | None]:
    """What outputs of types that no array has are converted to."""
    cls = lookup(sample.type, sample.version)
    if cls is None:
        return []
    try:
        op = cls(**parse_attributes(cls, sample.attributes)[0])
        outs = infer_op(op, tuple(g.tensor.spec for g in sample.inputs))
    except Exception:  # whatever is wrong with the sample, its verdict says
        return []
    return [plain_name(o.dtype) for o in outs]


def sweep(chosen: Iterable[Target], seeds: Sequence[int]) -> Iterator[tuple[Target, int, Verdict]]:
    """Run the samples of all seeds of the targets."""
    with Runtime() as runtime:
        for target in chosen:
            for seed in seeds:
                sample = sample_of(target, seed)
                if sample is not None:
                    yield target, seed, verdict_of(sample, runtime)


@dataclass
class Table:
    """Counts by operation, and what disagrees."""

    counts: dict[Target, Counter[str]] = field(default_factory=dict)
    found: list[tuple[Target, int, Verdict]] = field(default_factory=list)

    def add(self, target: Target, seed: int, verdict: Verdict) -> None:
        counter = self.counts.setdefault(target, Counter())
        counter[verdict.kind] += 1
        counter["wider"] += verdict.wider
        if verdict.kind not in ("agree", "both refuse"):
            self.found.append((target, seed, verdict))

    @property
    def unexplained(self) -> list[tuple[Target, int, Verdict]]:
        """Disagreements which the table does not explain."""
        return [f for f in self.found if f[2].disagrees and not explanation(f[2])]

    @property
    def rate(self) -> float:
        """Agreeing samples among those that OpenVINO runs, from 0 to 1."""
        total = sum(self.counts.values(), Counter())
        ran = total["agree"] + total["differ"] + total["only OpenVINO"]
        return total["agree"] / ran if ran else 1.0

    def rows(self) -> list[tuple[str, ...]]:
        """One row for each operation type, its opsets together, and their sum."""
        by_type: dict[str, Counter[str]] = {}
        for target, counter in self.counts.items():
            by_type.setdefault(target.type, Counter()).update(counter)
        by_type["all"] = sum(by_type.values(), Counter())
        return [(name, *(str(c[k]) for k in (*KINDS, "wider"))) for name, c in by_type.items()]
