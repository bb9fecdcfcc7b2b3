"""Kill writers, let two write at once, and run cycles without end; print what is found afterwards.

python tools/inject_faults.py [--kills 1000] [--pairs 400] [--cycles 10000] [--seed 0]

Writers are forked with their models in memory, and killed (SIGKILL) after a random part of the time
that writing takes. The exit code is 1 where a pair is mixed and reading does not say so, where
anything else is found, or where memory or descriptors grow.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import checkout as checkout
import numpy as np

import irdeconv as ird
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import of_numpy
from irdeconv.ir.graph import Graph, Value
from irdeconv.ops.basic import Const, Parameter, Result
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData

CHANNELS = 200  # of the filter that makes a pair: 1.4 MB
WARM = 0.1  # of the cycles, after which nothing may grow
GROWTH = 8 << 20  # bytes by which memory may, as allocators do


def model(value: float, channels: int) -> Graph:
    """Return a deconvolution whose filter has one value everywhere."""
    g = Graph()
    kind = of_numpy(np.dtype(np.float32))
    filter = np.full((channels, channels, 3, 3), value, np.float32)
    x = g.add(Parameter((1, channels, 4, 4), kind), name="x")
    w = g.add(Const(kind, filter.shape, ArrayData.of(filter)), name="w")
    y = g.add(ConvolutionBackpropData(strides=(2, 2)), [Value(x.id), Value(w.id)], name="y")
    g.add(Result(), [Value(y.id)], name="out")
    return ird.infer(g)


def found(path: Path, values: tuple[float, ...]) -> str:
    """Say what stands at a path: whose pair, a mix that reading tells, or something worse."""
    diagnostics = [d for d in ird.validate(path) if d.severity == "error"]
    if "E124" in {d.code for d in diagnostics}:
        return "mixed, and told (E124)"
    if diagnostics:
        return f"LOST: {diagnostics[0].code}"
    (node,) = ird.read(path).nodes(type="Const")
    assert isinstance(node.op, Const)
    held = np.unique(node.op.data.array())
    if held.size != 1 or float(held[0]) not in values:
        return "LOST: values of no writer"
    return "the new pair" if float(held[0]) != values[0] else "the old pair"


def child(work: Callable[[], None]) -> int:
    """Fork a process that does some work and ends; return its id."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return pid


def kills(count: int, rng: random.Random, folder: Path) -> Counter[str]:
    """Kill a writer `count` times while it replaces a pair."""
    old, new, path = model(1, CHANNELS), model(2, CHANNELS), folder / "m.xml"
    ird.write(old, path)
    start = time.perf_counter()
    ird.write(old, path)
    takes = time.perf_counter() - start
    out: Counter[str] = Counter()
    before = 2
    for _ in range(count):
        ird.write(old, path)
        pid = child(lambda: ird.write(new, path))
        time.sleep(rng.uniform(0, 3 * takes))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        out[found(path, (1.0, 2.0))] += 1
        now = len(list(folder.iterdir()))
        out["of them left temporaries behind"] += now > before
        before = now
    # A new process looks at the folder again.
    program = (
        "import sys, irdeconv as ird; ird.write(ird.read(sys.argv[1], sys.argv[2]), sys.argv[1])"
    )
    command = [sys.executable, "-c", program, str(path), str(path.with_suffix(".bin"))]
    subprocess.run(command, check=True)
    left = len(list(folder.iterdir())) - 2
    out["LOST: temporaries that the next process did not sweep"] += left
    return +out


def pairs(count: int, folder: Path) -> Counter[str]:
    """Let two processes write one pair at once, `count` times."""
    models, path = (model(1, 20), model(2, 20)), folder / "m.xml"
    out: Counter[str] = Counter()
    for _ in range(count):
        pids = [child(lambda m=m: ird.write(m, path)) for m in models]  # type: ignore[misc]
        ended = {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids}
        what = found(path, (1.0, 2.0))
        out["a whole pair" if what.startswith("the") and ended == {0} else what] += 1
    return out


def cycles(count: int, folder: Path) -> tuple[int, int]:
    """Read, lower and run a model again and again; return the growth in bytes and descriptors."""
    path = folder / "m.xml"
    ird.write(model(1, 4), path)
    x = {"x": np.ones((1, 4, 4, 4), np.float32)}
    before = (0, 0)
    for at in range(count):
        ird.run(ird.lower(ird.read(path)).graph, x)
        if at == int(WARM * count):
            before = usage()
    after = usage()
    return after[0] - before[0], after[1] - before[1]


def usage() -> tuple[int, int]:
    """Return the bytes in memory and the number of open descriptors of this process."""
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return resident * os.sysconf("SC_PAGESIZE"), len(os.listdir("/proc/self/fd"))


def main() -> int:
    """Inject all faults and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("kills", 1000), ("pairs", 400), ("cycles", 10_000), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    bad = False
    with TemporaryDirectory() as name:
        folders = [Path(name, n) for n in ("kills", "pairs", "cycles")]
        for folder in folders:
            folder.mkdir()
        if args.kills:
            counts = kills(args.kills, random.Random(args.seed), folders[0])
            bad |= show(f"writers killed: {args.kills}", counts)
        if args.pairs:
            bad |= show(f"two writers at once: {args.pairs}", pairs(args.pairs, folders[1]))
        if args.cycles:
            memory, descriptors = cycles(args.cycles, folders[2])
            print(f"read, lower, run: {args.cycles} cycles")
            print(f"  growth after the first tenth: {memory} bytes, {descriptors} descriptors")
            bad |= memory > GROWTH or descriptors > 0
    return int(bad)


def show(title: str, counts: Counter[str]) -> bool:
    """Print a row of the table; whether anything in it must not be."""
    print(title)
    for what, count in sorted(counts.items()):
        print(f"  {what}: {count}")
    sys.stdout.flush()
    return any(what.startswith("LOST") for what in counts)


if __name__ == "__main__":
    raise SystemExit(main())
