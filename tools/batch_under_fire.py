"""Run batches on Dask while workers are killed; their reports have to be those of one process.

    python tools/batch_under_fire.py FOLDER ... [--every SECONDS] [--jobs N] [--verbs validate,run]

Every folder is a collection: all .xml and .onnx below it. Each verb runs serially (--jobs 0), and
then on a cluster of Dask of which a worker is killed (SIGKILL) every few seconds. Where a
golden.npz lies beside a model, as in collections of test vectors, `run` gets its arrays that are
called in0_*. Exit code 1 where a report or a file that an item has made differs by a byte.
"""

from __future__ import annotations

import argparse
import difflib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

import checkout
import numpy as np

from irdeconv.base.tables import table
from irdeconv.cli.batch_items import found_files

VERBS = ("validate", "infer", "lower", "compare", "run", "check-certificate")
WORDS = {"lower": ["--certify"], "check-certificate": ["--against", "lower"]}
INPUT = re.compile(r"in0_(\d+)(?:_.*)?$")


def arranged(folders: list[Path], work: Path) -> None:
    """Copy the models into one folder, with inputs.npz of the numbered arrays of golden.npz."""
    for number, folder in enumerate(folders):
        for file in found_files([str(folder)], (".xml", ".onnx")):
            path = Path(file).resolve()
            place = work / "models" / f"{number}_{folder.name}" / path.parent.name
            place.mkdir(parents=True, exist_ok=True)
            for source in (path, path.with_suffix(".bin")):
                if source.exists():
                    shutil.copyfile(source, place / source.name)
            if (path.parent / "golden.npz").exists():
                inputs(path.parent / "golden.npz", place / "inputs.npz")


def inputs(golden: Path, target: Path) -> None:
    """Write the arrays in0_0, in0_1, ... in the order of their numbers."""
    with np.load(golden) as arrays:
        found = {int(m[1]): arrays[m[0]] for m in map(INPUT.match, arrays.files) if m}
    np.savez(target, **{f"in{number}": found[number] for number in sorted(found)})


def batch(verb: str, work: Path, where: str, how: list[str]) -> subprocess.Popen[bytes]:
    """Start a batch in a folder of its own."""
    folder = work / where
    folder.mkdir(exist_ok=True)
    words = ["../models", *WORDS.get(verb, [])]
    words += ["-i", "{folder}/inputs.npz"] if verb == "run" else []
    words += ["-o", verb, "--report", f"{verb}.json", "--force", "--quiet", *how]
    command = [sys.executable, "-m", "irdeconv", "batch", verb, *words]
    environment = {**os.environ, "PYTHONPATH": str(checkout.ROOT)}
    log = (folder / f"{verb}.log").open("wb")
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)


def workers(root: int) -> list[int]:
    """Return the workers of Dask below a process, by what Linux says of processes."""
    parents, lines = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                status = (entry / "stat").read_text()
                lines[int(entry.name)] = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            parents[int(entry.name)] = int(status.rpartition(")")[2].split()[1])
    return [p for p, line in lines.items() if b"spawn_main" in line and parents.get(p) == root]


def under_fire(
    process: subprocess.Popen[bytes], journal: Path, every: float, dice: random.Random
) -> int:
    """Kill one worker after the other, each once another item is done; return how many.

    Where workers take longer to start than `every` seconds, nothing would ever be done otherwise.
    """
    killed, last, known = 0, 0.0, 1
    while process.poll() is None:
        time.sleep(0.05)
        done = journal.read_bytes().count(b"\n") if journal.exists() else 0
        if done <= known or time.monotonic() - last < every:
            continue
        found = workers(process.pid)
        if found:
            os.kill(dice.choice(found), signal.SIGKILL)
            killed, last, known = killed + 1, time.monotonic(), done
    return killed


def difference(serial: Path, fire: Path) -> list[str]:
    """Return the first lines in which two reports differ."""
    if not (serial.exists() and fire.exists()):
        return ["a report is missing"]
    lines = (file.read_text().splitlines() for file in (serial, fire))
    return list(islice(difflib.unified_diff(*lines, "serial", "fire", lineterm="", n=4), 80))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--every", type=float, default=3.0, help="seconds between two kills")
    parser.add_argument("--jobs", default="2", help="workers of Dask")
    parser.add_argument("--verbs", default=",".join(VERBS))
    parser.add_argument("--retries", default="100")
    a = parser.parse_args()
    rows, dice, bad = [], random.Random(0), 0
    with tempfile.TemporaryDirectory(prefix="under-fire-") as name:
        work = Path(name)
        arranged(a.folders, work)
        for verb in a.verbs.split(","):
            start = time.monotonic()
            code = batch(verb, work, "serial", ["--jobs", "0"]).wait()
            middle = time.monotonic()
            how = ["--cluster", "local", "--jobs", a.jobs, "--retries", a.retries]
            process = batch(verb, work, "fire", how)
            kills = under_fire(process, work / "fire" / verb / "batch.journal", a.every, dice)
            took = time.monotonic() - middle
            one, two = (work / where / f"{verb}.json" for where in ("serial", "fire"))
            same = one.exists() and two.exists() and one.read_bytes() == two.read_bytes()
            bad += not (same and code == process.returncode)
            items = one.read_text().count('"item": ') if one.exists() else 0
            seconds = (f"{middle - start:.0f}", f"{took:.0f}")
            verdict = "the same bytes" if same else "DIFFERENT"
            rows.append([verb, str(items), *seconds, str(kills), str(code), verdict])
            print(*rows[-1], flush=True)
            if not same:
                print((work / "fire" / f"{verb}.log").read_text()[-2000:])
                print(*difference(one, two), sep="\n")
    head = ("verb", "items", "serial s", "on Dask s", "killed", "exit code", "reports")
    print(table(head, rows, head[1:6]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
