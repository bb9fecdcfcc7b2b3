"""Run every verb on real models in a terminal and in a pipe of 80 columns, and look at the widths.

    python tools/check_terminal.py                       models of the packages onnx and openvino
    python tools/check_terminal.py FOLDER ...            and every .xml and .onnx in these folders
    python tools/check_terminal.py --verbs lower,run     some verbs only
    python tools/check_terminal.py --times               only the times of inspect

Prints the widest line of each verb, and the exit code is 1 where one is wider than 80 columns, a
verb ends in a bug (70) or a traceback, or `inspect` of 20,000 layers takes 5 s of processor time. A
single word alone on its line may be wider, for names are not broken; the widest is shown. A verb
without a row in ROWS is an error.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import resource
import select
import signal
import struct
import sys
import tempfile
import termios
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import checkout  # noqa: F401

from irdeconv.base.tables import columns, table
from irdeconv.cli.main import VERBS, main

COLUMNS = 80
MODELS = 10  # that have to be there at least
NUMBERED = 8  # columns that a number in front of a name takes, or an indent
LAYERS = (3_000, 20_000)
MOST_SECONDS = 5.0
TRUE = f"{sys.executable} -c pass {{}}"
FORMATS = ("text", "json", "dot", "html", "ir")
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")


@dataclass(frozen=True)
class Case:
    """A model, names of two of its layers, and a folder for what verbs write."""

    model: Path
    names: tuple[str, str]
    folder: Path

    def at(self, name: str) -> str:
        return str(self.folder / name)


Commands = list[list[str]]


def rows(case: Case) -> dict[str, Commands]:
    """Return the arguments with which each verb is run on a model; a verb has to have some."""
    model, lowered = str(case.model), case.at("lowered.xml")
    middle, last = case.names
    return {
        "validate": [[model]],
        "infer": [[model], [model, "--all"]],
        "lower": [
            [model, "-o", lowered, "--certify", "--force"],
            [model, "--form", "auto", "--explain-costs"],
            [model, "--form", "stacked", "--target", "no-depth-to-space"],
        ],
        "raise": [[lowered, "-o", case.at("raised.xml"), "--force", "--certify"]],
        "run": [[model], [model, "--trace"], [model, "nothing=ones"]],
        "bench": [[model, "--time", "0.01", "--requests", "2", "--histogram"]],
        "inspect": [[model], [model, "--constants"], [model, "--lower"]],
        "explain": [[model], [model, middle]],
        "check-certificate": [[model, lowered], [model, model]],
        "compare": [[model], [model, "--all", "--form", "phases"], [model, lowered]],
        "batch": [["validate", model, "--all"], ["lower", model, "--jobs", "0", "--all"]],
        "reduce": [
            [model, "--check", TRUE, "-o", case.at("small.xml"), "--max-checks", "3"],
            [model, "--compare", "openvino", "-o", case.at("small.xml"), "--max-checks", "3"],
        ],
        "convert": [[model, "-o", case.at("converted.xml"), "--force"]],
        "extract": [
            [model, "--from", middle, "--to", last, "-o", case.at("part.xml"), "--force"],
            [model, "--to", f"{middle}x", "-o", case.at("part.xml"), "--force"],
        ],
        "rename": [
            [model, f"layer:{middle}={middle}/renamed", "-o", case.at("renamed.xml"), "--force"],
            [model, "--pattern", "s/o/0/", "-o", case.at("renamed.xml"), "--force"],
        ],
        "simplify": [[model, "-o", case.at("simple.xml"), "--force"]],
        "suite": [["list"], ["make", case.at("suite"), "--only", "openvino*", "--force"]],
        "demo": [["-o", case.at("demo")], ["--list"], ["--samples", "openvino/dynamic"]],
        "completion": [],  # a script for a shell
        "doctor": [[]],
        "codes": [[], ["E302"]],
    }


# What does not look at a model is run once.
WITHOUT_MODEL = ("suite", "codes", "demo", "doctor")
# What computes is not run on large networks.
COMPUTES = ("run", "bench", "compare", "reduce")
MANY_PRODUCTS = 500_000_000


@dataclass
class Widths:
    """What was seen of one verb."""

    codes: Counter[str] = field(default_factory=Counter)
    terminal: tuple[int, str] = (0, "")
    pipe: tuple[int, str] = (0, "")
    word: tuple[int, str] = (0, "")
    broken: list[str] = field(default_factory=list)

    def see(self, text: str, command: str, *, terminal: bool) -> None:
        """Take note of the widths of all lines."""
        for line in re.split(r"[\r\n]", _CODES.sub("", text)):
            line = line.rstrip()
            seen = (columns(line), f"{command}: {line}")
            longest = max(map(columns, line.split()), default=0)
            if longest > COLUMNS - NUMBERED and COLUMNS < seen[0] <= longest + NUMBERED:
                self.word = max(self.word, seen)
            elif terminal:
                self.terminal = max(self.terminal, seen)
            else:
                self.pipe = max(self.pipe, seen)


def execute(args: Sequence[str], *, terminal: bool, seconds: float = 60.0) -> tuple[str, str]:
    """Run the command in a process of its own; returns its exit code and what it shows."""
    mine, theirs = pty.openpty() if terminal else os.pipe()
    if terminal:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    child = os.fork()  # everything is imported already
    if child == 0:
        _become(args, theirs)
    os.close(theirs)
    shown, end = b"", time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([mine], [], [], 0.1)[0]:
            try:
                part = os.read(mine, 1 << 16)
            except OSError:  # how Linux reports that the other side is closed
                break
            if not part:
                break
            shown += part
    else:
        os.kill(child, signal.SIGKILL)
    os.close(mine)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return "too long" if code < 0 else str(code), shown.decode("utf-8", "replace")


def _become(args: Sequence[str], stream: int) -> None:
    """Be the command; does not return."""
    code = 99
    try:
        os.setsid()
        for number in (1, 2):
            os.dup2(stream, number)
        for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
            os.environ.pop(name, None)
        os.environ["TERM"] = "xterm-256color"
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
        code = main(args)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def packaged_models(folder: Path) -> Iterator[Path]:
    """Yield public architectures that come with the package onnx, and some written here."""
    import onnx

    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    yield from sorted(p for p in light.glob("*.onnx") if p.stem != "light_vgg19")
    in_process(lambda: write_networks(folder))
    yield from sorted(folder.glob("*.xml"))


def in_process(call: Callable[[], object]) -> None:
    """Call in another process: threads of OpenVINO would not survive a fork."""
    child = os.fork()
    if child == 0:
        try:
            call()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit("a model could not be written")


NETWORKS = (
    ("unet", 1, 3),
    ("vae_decoder", -1, 2),
    ("segmentation", 1, 4),
    ("super_resolution", -1, 3),
    ("pose_hourglass", 2, 2),
)


def write_networks(folder: Path) -> None:
    """Write decoders as a converter does: long names of scopes, inputs of open and exact sizes."""
    import numpy as np
    import openvino as ov
    from openvino import opset13 as ops

    for kind, batch, depth in NETWORKS:
        x = ops.parameter([batch, 8, 16, 16], np.float32, name=f"{kind}_input_image")
        x.output(0).set_names({f"{kind}_input_image"})
        out = x
        for level in range(depth):
            scope = f"__module.{kind}.decoder.up_blocks.{level}.resnets.0"
            weights = np.full((8, 8, 4, 4), 0.01, np.float32)
            out = ops.convolution_backprop_data(
                out, weights, [2, 2], pads_begin=[1, 1], pads_end=[1, 1],
                name=f"{scope}.conv_transpose/aten::_convolution/ConvolutionBackpropData",
            )  # fmt: skip
            shift = ops.constant(np.zeros((1, 8, 1, 1), np.float32))
            out = ops.add(out, shift, name=f"{scope}.conv_transpose/aten::_convolution/Add")
            out = ops.relu(out, name=f"{scope}.nonlinearity.with.a.long.scope/aten::relu_/ReLU")
        ov.save_model(ov.Model([out], [x], f"{kind}_with_a_name"), folder / f"{kind}.xml", False)


def write_chain(path: Path, layers: int) -> None:
    """Write a network of so many layers, a third of them constants."""
    import numpy as np
    import openvino as ov
    from openvino import opset13 as ops

    x = ops.parameter([1, 8, 16, 16], np.float32, name="x")
    out = x
    for i in range(layers // 3):
        out = ops.relu(ops.add(out, np.full((1, 8, 1, 1), i, np.float32)))
    ov.save_model(ov.Model([out], [x], "chain"), path, False)


def described(model: Path, folder: Path) -> tuple[Case, bool] | None:
    """Return a model with names of layers, and whether it computes much; None if unreadable."""
    import irdeconv as ird

    try:
        inspection = ird.inspect(ird.infer(ird.read(model)))
    except ird.IrdeconvError as e:
        print(f"{model.name}: {str(e).splitlines()[0]}", file=sys.stderr)
        return None
    names = [r.name for r in inspection.layers if not r.constant and r.type != "Result"]
    chosen = names[len(names) // 2], names[-1]
    return Case(model, chosen, folder), inspection.totals.macs > MANY_PRODUCTS


def look(cases: Sequence[tuple[Case, bool]], verbs: Sequence[str]) -> dict[str, Widths]:
    """Run the verbs on all models."""
    seen = {verb: Widths() for verb in verbs}
    for case, large in cases:
        print(case.model, file=sys.stderr)
        for verb, commands in rows(case).items():
            if verb not in seen or (verb in WITHOUT_MODEL and case is not cases[0][0]):
                continue
            helps = [["--help"], ["--bogus"]] if case is cases[0][0] else []
            for args in [*helps, *(commands if not (large and verb in COMPUTES) else [])]:
                for terminal in (True, False):
                    _look_at(seen[verb], [verb, *args], terminal=terminal)
    return seen


def _look_at(widths: Widths, args: list[str], *, terminal: bool) -> None:
    code, text = execute(args, terminal=terminal)
    command = " ".join(args)
    widths.codes[code] += 1
    widths.see(text, command, terminal=terminal)
    if code in ("70", "99") or "Traceback" in text:
        widths.broken.append(f"irdeconv {command}: exit code {code}")


def report(seen: dict[str, Widths]) -> list[str]:
    """Print the widths and return what is wrong."""
    head = ("verb", "terminal", "pipe", "single word", "exit codes")
    lines = []
    for verb, w in seen.items():
        codes = ", ".join(f"{n} x {code}" for code, n in sorted(w.codes.items()))
        word = str(w.word[0]) if w.word[0] else ""
        lines.append((verb, str(w.terminal[0]), str(w.pipe[0]), word, codes))
    print(table(head, lines, ("terminal", "pipe", "single word")))
    wrong = []
    for w in seen.values():
        wide = [text for n, text in (w.terminal, w.pipe) if n > COLUMNS]
        wrong += [*w.broken, *(f"wider than {COLUMNS}: irdeconv {t}" for t in dict.fromkeys(wide))]
    return wrong


def times(folder: Path) -> list[str]:
    """Time inspect on long chains in every format; return what is too slow."""
    lines, wrong = [], []
    for layers in LAYERS:
        path = folder / f"chain_{layers}.xml"
        in_process(lambda p=path, n=layers: write_chain(p, n))  # type: ignore[misc]
        for form in FORMATS:
            before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            code, text = execute(["inspect", str(path), "--format", form], terminal=False)
            wall = time.monotonic() - start
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            lines.append((f"{layers:,}", form, f"{cpu:.1f}", f"{wall:.1f}", f"{len(text):,}", code))
            if cpu > MOST_SECONDS or code != "0":
                wrong.append(f"inspect --format {form} of {layers:,} layers: {cpu:.1f} s, {code}")
    head = ("layers", "inspect", "processor s", "wall s", "characters", "exit code")
    print(table(head, lines, [h for h in head if h != "inspect"]))
    return wrong


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, help="folders with more models")
    parser.add_argument("--verbs", default=",".join(VERBS), help="which (default: all)")
    parser.add_argument("--times", action="store_true", help="only time inspect")
    return parser.parse_args(argv)


def check(argv: Sequence[str] | None = None) -> int:
    """Look at everything; returns the exit code."""
    args = arguments(argv)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.times:
            wrong = times(folder)
        else:
            lacking = set(VERBS) - set(rows(Case(folder, ("", ""), folder)))
            if lacking:
                print(f"no row in ROWS for {', '.join(sorted(lacking))}", file=sys.stderr)
                return 1
            models = list(packaged_models(folder))
            for more in args.folders:
                models += sorted(p for p in more.rglob("*") if p.suffix in (".xml", ".onnx"))
            cases = [c for m in models if (c := described(m, folder)) is not None]
            if len(cases) < MODELS:
                print(f"only {len(cases)} models", file=sys.stderr)
                return 1
            wrong = report(look(cases, args.verbs.split(",")))
            wrong += times(folder) if args.verbs == ",".join(VERBS) else []
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(check())
