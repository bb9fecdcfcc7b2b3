"""Change lowered files in one way each and compare the checker's answer with OpenVINO's.

    python tools/mutate_lowered.py --count 20000 --seed 7 --jobs 2
    python tools/mutate_lowered.py --seed 7 --mutant 33:9     one of them, as a report names it

Each model is a random deconvolution of any system, often with open sizes, beside a loop, a state
and plain layers, lowered in a random form and written. Then its layers are changed (`MUTANTS` and
`PLANTS` of tests/support, or other wires), or the values of its file, the spelling of its
attributes, or its ids. OpenVINO decides if the mutant is a model with the same interface and the
same integers at several sizes. Exit code 1 if anything was accepted wrongly or crashed, or if more
than 2 % of the equal ones were refused, apart from those refused by design (BY_DESIGN).
"""

from __future__ import annotations

import argparse
import difflib
import multiprocessing
import random
import re
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import checkout  # noqa: F401
import numpy as np
from fuzzing import formats

import irdeconv as ird
from irdeconv.ir.dtypes import f32
from irdeconv.ir.graph import Graph, Value
from irdeconv.ops.activation import ReLU
from irdeconv.ops.basic import Convert
from irdeconv.ops.elementwise import Abs, Negative
from support import mutants, planted
from support.ir_edit import Ir
from support.mutation_bases import Base, random_base
from support.runtime_truth import Compiled, RefusedError, same
from support.verdicts import ACCEPTED, CRASHED, REFUSED, answer, core_answer

SPAWN = multiprocessing.get_context("spawn")
PER_MODEL = 12
PER_PROCESS = 80  # models
MOST_MEMORY = 6 << 30  # bytes of a process
EQUAL, VALUES, INTERFACE, INVALID = "equal", "other values", "other interface", "invalid"
UNSEEN = "weights differ"  # but what is computed does not: they are too small
UNPROVED = "not proved before"  # equal to a lowered file that is refused as well
DEADLY = "deadly"  # the runtime dies of it
NEW = (ReLU, Abs, Negative, lambda: Convert(f32))
SOME = 40  # of the mutants of one kind
MOST_REFUSED = 2.0  # percent of the equal ones
# What stays refused although it is equal: damaged files, whose meaning OpenVINO guesses; layers
# that no lowering has; another mode of a Pad that pads nothing; other spellings of numbers.
BY_DESIGN = "values|texts|wires (ReLU|Abs|Negative|Convert) |mistake pad_mode|constants (runn|odd)"


@dataclass(frozen=True)
class Outcome:
    """One mutant: `truth` by the runtime, `verdict` of the checker, `reason` in its words."""

    kind: str
    text: str
    truth: str
    verdict: str
    reason: str = ""

    @property
    def wrong(self) -> bool:
        """Whether the checker says equal of what is not, or says nothing."""
        return self.verdict == CRASHED or (self.verdict == ACCEPTED and self.truth != EQUAL)


def layers(rng: random.Random, g: Graph) -> tuple[str, Graph | None]:
    """A mutant of a lowered layer."""
    found = list(islice(rng.choice(mutants.KINDS)(g), SOME))
    return rng.choice(found) if found else ("", None)


def mistake(rng: random.Random, g: Graph) -> tuple[str, Graph | None]:
    """A mistake of compilers in a layer."""
    pairs = [(n, kind) for n in g.nodes() if g.inputs_of(n.id) for kind in planted.PLANTS]
    rng.shuffle(pairs)
    made = ((f"{kind} {n.name}", planted.broken(g, n, kind)) for n, kind in pairs)
    return next((found for found in made if found[1] is not None), ("", None))


def wires(rng: random.Random, g: Graph) -> tuple[str, Graph | None]:
    """A layer left out, put in or read by nobody; inputs exchanged, or from another layer."""
    out, node = g.copy(), rng.choice([n for n in g.nodes() if g.inputs_of(n.id)])
    inputs, way = g.inputs_of(node.id), rng.randrange(6)
    port = rng.randrange(len(inputs))
    if way == 0 and node.type != "Result":
        return f"without {node.name}", mutants.bypassed(g, node)
    if way == 1 and len(inputs) > 1:
        other = rng.choice([p for p in range(len(inputs)) if p != port])
        return f"{node.name} inputs {port}, {other}", mutants.exchanged(g, node, port, other)
    if way == 2:
        source = rng.choice([n for n in g.nodes() if n.type != "Result" and n.id != node.id])
        out.set_input(node.id, port, Value(source.id))
        return f"{node.name} reads {source.name}", out
    op = rng.choice(NEW)()
    new = out.add(op, [inputs[port]], name="new")
    if way > 3:  # else nobody reads it
        out.set_input(node.id, port, Value(new.id))
    return f"{op.type} before {node.name}{'' if way > 3 else ', not read'}", out


def constants(rng: random.Random, g: Graph) -> tuple[str, Graph | None]:
    """One element, two, the shape or the type of a constant."""
    held = [
        (n, p, mutants.array_of(g, v)) for n in g.nodes() for p, v in enumerate(g.inputs_of(n.id))
    ]
    held = [row for row in held if row[2] is not None and row[2].size]
    if not held:
        return "", None
    node, port, a = rng.choice(held)
    a, i, j, way = np.array(a), rng.randrange(a.size), rng.randrange(a.size), rng.randrange(5)
    with np.errstate(all="ignore"):
        if way == 0:
            a.flat[[i, j]] = a.flat[[j, i]]
        elif way == 1:
            a = a.reshape(rng.choice(((a.size,), (1, *a.shape), (*a.shape, 1), a.shape[::-1])))
        elif way == 2:
            a = a.astype(rng.choice((np.float32, np.float16, np.int64, np.int32, np.uint8)))
        elif a.dtype.kind == "f":
            a.flat[i] = rng.choice((np.nan, np.inf, -0.0, 0, -a.flat[i], a.flat[i] + 0.25))
        else:
            a.flat[i] = rng.choice((a.flat[i] + 1, a.flat[i] - 1, 0, -a.flat[i]))
    return f"{node.name} input {port}, way {way}", mutants.with_input(g, node, port, a)


def attribute(rng: random.Random, g: Graph) -> tuple[str, Graph | None]:
    """One number of an attribute is 1 or 2 more or less."""
    found = [
        (n, k, v if isinstance(v, tuple) else (v,), isinstance(v, tuple))
        for n in g.nodes()
        for k, v in vars(n.op).items()
        if v and all(type(i) is int for i in (v if isinstance(v, tuple) else (v,)))
    ]
    node, name, numbers, many = rng.choice(found)
    at, by = rng.randrange(len(numbers)), rng.choice((-2, -1, 1, 2))
    new = tuple(n + by * (i == at) for i, n in enumerate(numbers))
    return f"{node.name} {name} {new}", mutants.with_op(g, node, **{name: new if many else new[0]})


def values(rng: random.Random, base: Base, path: Path) -> str:
    """The file's attributes, texts, elements or weights."""
    xml, weights = (base.lowered.with_suffix(s).read_bytes() for s in (".xml", ".bin"))
    before = formats.write_xml(formats.read_xml(xml)).decode().splitlines()
    made, blob = formats.mutate_ir(rng, xml, weights, times=1)
    path.write_bytes(made)
    path.with_suffix(".bin").write_bytes(blob)
    after = made.decode("utf-8", "replace").splitlines()
    changed = [s for s in difflib.ndiff(before, after) if s[0] in "+-"] if after != before else []
    return " ".join(changed)[:300] or f"weights {blob != weights}"


SPELLINGS = "+{}/ {}/{} /0{}/{}.0/{}./{}.5/0.{}e1/{}0e-1/{}e0/0x{}/{}a/-{}/{},/,{}/{};{}//nan/1e400"
SPELLINGS += f"/{{}}{'0' * 19}/{{}}_0/true/none/True/yes"


def texts(rng: random.Random, base: Base, path: Path) -> str:
    """One attribute in another spelling, or a version of another set."""
    ir = base.ir.copy()
    found = [(e, k) for la in ir.layers for e in la.iter("data", "layer") for k in e.attrib]
    element, name = rng.choice([f for f in found if f[1] not in "id name type offset size".split()])
    old = element.get(name)
    parts = old.split(",")
    at = rng.randrange(len(parts))
    parts[at] = rng.choice(SPELLINGS.split("/")).replace("{}", parts[at])
    new = rng.choice((",".join(parts), ",".join(parts), old.upper(), old.title(), f" {old}"))
    if name == "version":
        new = rng.choice(("irdeconv_1", "extension", f"opset{rng.randrange(19)}"))
    element.set(name, new)
    ir.write(path)
    return f"{name}={old!r} is {new!r}"


def spelling(rng: random.Random, base: Base, path: Path) -> str:
    """Other ids, edges in another order: the file says the same."""
    ir = base.ir.copy()
    order = rng.sample(range(10, 10 + len(ir.layers)), len(ir.layers))
    names = {la.get("id"): str(i) for la, i in zip(ir.layers, order, strict=True)}
    by, parent = rng.choice((0, 3)), ir.root.find("edges")
    for layer in ir.layers:
        layer.set("id", names[layer.get("id")])
        for port in layer.findall("*/port") if layer.find("body") is None else ():
            port.set("id", str(int(port.get("id")) + by))
    whole = {la.get("id") for la in ir.layers if la.find("body") is not None}
    for edge in rng.sample(ir.edges, len(ir.edges)):
        parent.append(edge)
        for end in ("from", "to"):
            edge.set(f"{end}-layer", names[edge.get(f"{end}-layer")])
            moved = 0 if edge.get(f"{end}-layer") in whole else by
            edge.set(f"{end}-port", str(int(edge.get(f"{end}-port")) + moved))
    ir.write(path)
    return f"other ids, ports by {by}"


GRAPHS = (layers, mistake, wires, constants, attribute)
FILES = (values, values, values, texts, spelling)
KINDS: tuple[Any, ...] = tuple(kind for pair in zip(GRAPHS, FILES, strict=True) for kind in pair)


def edited(base: Base, g: Graph, rng: random.Random, turn: int, path: Path) -> tuple[str, str]:
    """Write a mutant; kinds take turns, and one that finds nothing gives way to the next."""
    for step in range(3 * len(KINDS)):
        kind = KINDS[(turn + step) % len(KINDS)]
        if kind in FILES:
            return kind.__name__, kind(rng, base, path)
        text, made = kind(rng, g)
        try:
            if made is not None:
                ird.write(ird.infer(made), path)
                return kind.__name__, text
        except (ird.IrdeconvError, ValueError):  # does not fit together
            continue
    raise AssertionError("every model can be edited")


def judge(seed: int, number: int, count: int, first: int, core: bool) -> Iterator[Outcome]:
    """Judge `count` mutants of the random model `number`, from `first` on.

    Each comes twice: with what the checker says (the trusted core alone, if asked for), then also
    with what the runtime says, which some files kill.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = random_base(np.random.default_rng([seed, number]), folder)
        graph = ird.infer(ird.read(base.lowered))
        plain, _ = ask(base, base.lowered, core)
        for i in range(first, count):
            rng = random.Random(f"{seed} {number} {i}")
            # A name of its own: the runtime maps files, and may still hold the last one.
            path = folder / f"mutant{i}.xml"
            kind, text = edited(base, graph, rng, number * count + i, path)
            verdict, reason = ask(base, path, core)
            if kind == spelling.__name__ and verdict != plain:
                verdict, reason = CRASHED, f"{plain} as it was, not so spelled otherwise: {reason}"
            where = f"--seed {seed} {number}:{i} {text}; {base.text}"
            outcome = Outcome(kind, where, DEADLY, verdict, reason)
            yield outcome
            truth, weights = judged(base, path)
            had = base.compiled.weights
            if truth == EQUAL and verdict == REFUSED and weights.keys() == had.keys():
                alike = all(np.array_equal(had[k], v) for k, v in weights.items())
                truth = UNSEEN if not alike else EQUAL if plain == ACCEPTED else UNPROVED
            yield replace(outcome, truth=truth)


def ask(base: Base, path: Path, core: bool) -> tuple[str, str]:
    """Return what the checker says; of the core alone, if what the original declares is so."""
    a = base.original
    return core_answer(a, path, assuming=True) if core else answer(a, path)


def judged(base: Base, path: Path) -> tuple[str, dict[str, Any]]:
    """Return what the runtime says of a mutant beside the file it was made of, and its weights."""
    try:
        if Ir.read(path).has_cycle():  # of these the runtime dies
            return INVALID, {}
        mutant = Compiled(path)
    except (RefusedError, SyntaxError, AttributeError, TypeError):  # as XML, or without layers
        return INVALID, {}
    if mutant.interface != base.compiled.interface:
        return INTERFACE, {}
    for feeds, wanted in zip(base.feeds, base.wanted, strict=True):
        try:
            if not same(mutant.run(feeds), wanted):
                return VALUES, {}
        except RefusedError:
            return VALUES, {}
    return EQUAL, mutant.weights


def work(send: Connection, seed: int, models: range, first: int, core: bool) -> None:
    """Judge the mutants of some models, telling each before and behind what may kill."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    for number in models:
        send.send((number, first, None))
        judged = judge(seed, number, PER_MODEL, first, core)
        for i in range(first, PER_MODEL):
            send.send((number, i, next(judged)))
            send.send((number, i + 1, next(judged)))
        first = 0
    send.close()


class Worker:
    """A process on some models, from mutant `first` of the first one on."""

    def __init__(self, seed: int, core: bool, models: range, first: int = 0) -> None:
        self.seed, self.core, self.models, self.first = seed, core, models, first
        self.number, self.i = models[0], first
        self.half: Outcome | None = None
        self.receive, send = SPAWN.Pipe(duplex=False)
        self.process = SPAWN.Process(target=work, args=(send, seed, models, first, core))
        self.process.start()
        send.close()

    def heir(self) -> tuple[Worker | None, Outcome | None]:
        """Return who goes on where this one died, and the mutant of which it surely died.

        What the runtime did before may kill it later: a mutant is tried again in a new process.
        """
        self.process.join()
        if self.process.exitcode == 0:
            return None, None
        left = range(self.number, self.models.stop)
        if (self.number, self.i) != (self.models[0], self.first):
            return Worker(self.seed, self.core, left, self.i), None
        where = f"--seed {self.seed} {self.number}:{self.i}"
        outcome = self.half or Outcome("process", where, DEADLY, CRASHED, "the checker died")
        if self.i + 1 < PER_MODEL:
            return Worker(self.seed, self.core, left, self.i + 1), outcome
        return Worker(self.seed, self.core, left[1:]) if left[1:] else None, outcome


def outcomes(count: int, seed: int, jobs: int, *, core: bool = False) -> Iterator[Outcome]:
    """Judge `count` mutants on some processes."""
    models = -(-count // PER_MODEL)
    size = min(PER_PROCESS, -(-models // jobs))
    waiting = iter([range(n, min(n + size, models)) for n in range(0, models, size)])
    running = [Worker(seed, core, chunk) for _, chunk in zip(range(jobs), waiting, strict=False)]
    while running:
        for receive in wait([w.receive for w in running]):
            (worker,) = (w for w in running if w.receive is receive)
            try:
                worker.number, worker.i, outcome = worker.receive.recv()
            except EOFError:
                running.remove(worker)
                after, outcome = worker.heir()
                chunk = next(waiting, range(0)) if after is None else range(0)
                if after or chunk:
                    running.append(after or Worker(seed, core, chunk))
            else:
                worker.half = outcome if outcome and outcome.truth == DEADLY else None
                outcome = None if worker.half else outcome
            if outcome:
                yield outcome


def report(found: Sequence[Outcome]) -> int:
    """Print what was found; 1 if the checker was wrong, or refused too much."""
    print(f"{'edit':<20}{'equal':>7}{'refused':>9}{'differ':>8}{'accepted':>10}{'crashed':>9}")
    for kind in sorted({o.kind for o in found}):
        _row(kind, [o for o in found if o.kind == kind])
    _row("all", found)
    wrong = {
        f"accepted, {truth}": [o for o in found if o.verdict == ACCEPTED and o.truth == truth]
        for truth in (VALUES, INTERFACE, INVALID, DEADLY)
    } | {CRASHED: [o for o in found if o.verdict == CRASHED]}
    for title, some in wrong.items():
        print(f"{title}: {len(some)}")
        for o in some[:40]:
            print(f"    {o.kind}: {o.text}{o.reason and chr(10) + 8 * ' '}{o.reason}")
    print(f"the runtime itself died of {sum(o.truth == DEADLY for o in found)}")
    share = _refusals([o for o in found if o.truth == EQUAL])
    return 1 if share > MOST_REFUSED or any(o.wrong for o in found) else 0


def _row(kind: str, found: Sequence[Outcome]) -> None:
    equal = [o.verdict for o in found if o.truth == EQUAL]
    differ = [o.verdict for o in found if o.truth != EQUAL]
    refused, accepted = equal.count(REFUSED), differ.count(ACCEPTED)
    crashed = (equal + differ).count(CRASHED)
    print(f"{kind:<20}{len(equal):>7}{refused:>9}{len(differ):>8}{accepted:>10}{crashed:>9}")


def _refusals(equal: Sequence[Outcome]) -> float:
    """Print why equal ones were refused; return the share that is not by design in percent."""
    causes: dict[tuple[str, str], list[Outcome]] = {}
    for o in (o for o in equal if o.verdict == REFUSED):
        cause = re.sub(r"/\S+\.xml[:\d]*", "FILE", re.sub(r'"[^"]*"', '"..."', o.reason))
        causes.setdefault((o.kind, re.sub(r"-?\d+", "#", cause)[:110]), []).append(o)
    refused = sum(map(len, causes.values()))
    print(f"refused although equal: {refused} of {len(equal)}")
    for (kind, cause), found in sorted(causes.items(), key=lambda item: -len(item[1]))[:60]:
        print(f"{len(found):>6}  {kind}: {cause}\n        {found[0].text[:150]}")
    # Behind the seed and the number of the mutant.
    said = [f"{o.kind} {o.text.split(' ', 3)[-1]}" for o in equal if o.verdict == REFUSED]
    share = 100 * sum(not re.match(BY_DESIGN, text) for text in said) / max(len(equal), 1)
    print(f"not by design: {share:.1f} %, of which {MOST_REFUSED} % are allowed")
    return share


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge `--count` mutants and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--core", action="store_true", help="ask irdeconv.proof alone")
    parser.add_argument("--mutant", help="judge this one alone (MODEL:NUMBER)")
    args = parser.parse_args(arguments)
    start = time.perf_counter()
    if args.mutant:
        number, i = map(int, args.mutant.split(":"))
        # Each comes twice, the second time with what the runtime says.
        found = [*islice(judge(args.seed, number, PER_MODEL, i, args.core), 1, 2)]
        print(*found, sep="\n")
    else:
        found = list(outcomes(args.count, args.seed, args.jobs, core=args.core))
    failed = report(found)
    print(f"{len(found)} mutants in {time.perf_counter() - start:.0f} s")
    return failed


if __name__ == "__main__":
    sys.exit(main())
