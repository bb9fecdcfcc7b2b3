"""One command in this process, with its time, memory and output; what of that is wrong."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import sys
import sysconfig
import time
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from xml.etree import ElementTree

import irdeconv as ird
from irdeconv.cli import main

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Code, and data that come with it.
INSTALLED = map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib"))
OWN = (os.path.join(ROOT, name) for name in ("irdeconv", "tools", "tests"))
CODE = tuple(os.path.realpath(path) + os.sep for path in (*OWN, *INSTALLED))
HARMLESS = ("/dev/null", "/proc/self/status", "/proc/meminfo", "/proc/cpuinfo", "/proc/self/mounts")
NEVER = (
    "socket.", "subprocess.", "os.system", "os.exec", "os.spawn", "os.posix_spawn", "os.fork",
    "os.forkpty", "os.putenv", "os.kill", "pickle.find_class", "ctypes.dlopen", "shutil.unpack",
    "urllib.Request", "http.client", "ftplib.", "smtplib.", "webbrowser.", "code.__new__",
    "pty.spawn", "marshal.loads.",
)  # fmt: skip
# Their first argument is a path, some have two.
PATHS = {
    "os.remove": 1, "os.rename": 2, "os.mkdir": 1, "os.rmdir": 1, "os.chmod": 1, "os.chown": 1,
    "os.link": 2, "os.symlink": 2, "os.truncate": 1, "os.utime": 1, "shutil.rmtree": 1,
    "shutil.copyfile": 2, "shutil.move": 2, "tempfile.mkstemp": 1, "tempfile.mkdtemp": 1,
    "os.listdir": 1, "os.scandir": 1, "os.mknod": 1,
}  # fmt: skip
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Guard:
    """Keeps what is done outside of a folder while it is on; nothing of it is let through."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.realpath(folder)
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on:
            return
        problem = self._problem(event, args)
        if problem:
            self.seen.append(problem)
            raise PermissionError(f"guard: {problem}")

    def _problem(self, event: str, args: tuple[Any, ...]) -> str:
        if event == "open":
            path, mode, flags = args
            fine = self._allowed(path, bool(flags & _WRITES))
            return "" if fine else f"open {path!s} {mode} {flags:#x}"
        if event in PATHS:
            paths = args[: PATHS[event]]
            reads = event in ("os.listdir", "os.scandir")
            fine = all((reads and p in sys.path) or self._allowed(p, not reads) for p in paths)
            return "" if fine else f"{event} {[str(p) for p in paths]}"
        if event.startswith(NEVER):
            return f"{event} {str(args)[:200]}"
        if event == "import" and args[1] and not self._allowed(args[1], False):
            return f"import of {args[0]} from {args[1]}"
        return ""

    def _allowed(self, path: Any, writes: bool) -> bool:
        if path is None or isinstance(path, int):
            return True
        real = os.path.realpath(os.fsdecode(path))
        if real == self.folder or real.startswith(self.folder + os.sep):
            return True
        if writes:
            return real == "/dev/null"
        return (real + os.sep).startswith(CODE) or real in HARMLESS


SLOW = 1.0  # seconds of processor time
NEVER_ENDS = 8.0
CODES = (0, 1, 2, 3, 4, 5, 6, 7)
PACKAGE = str(Path(ird.__file__).parent)
# Control characters and those that change what is seen of others.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\U000e0000-\U000e007f]"
)


class EndlessError(BaseException):
    """A command that goes on and on; no handler of the package takes it."""


@dataclass
class Attempt:
    """What a command did."""

    args: tuple[str, ...]
    code: int = -1
    out: str = ""
    err: str = ""
    seconds: float = 0.0
    error: BaseException | None = None
    stack: str = ""  # where it was when its time was over
    seen: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)


def attempt(args: tuple[str, ...], guard: Guard) -> Attempt:
    """Run a command; every way in which it ends is kept."""
    made = Attempt(args)
    out, err = io.StringIO(), io.StringIO()

    def late(_: int, frame: FrameType | None) -> None:
        if made.stack:
            raise EndlessError
        made.stack = _place(traceback.extract_stack(frame))
        signal.setitimer(signal.ITIMER_PROF, NEVER_ENDS - SLOW)

    def kept(verb: str, console: Any, error: Exception) -> int:
        made.error = error
        return report(verb, console, error)

    report = main._report
    main._report = kept
    signal.signal(signal.SIGPROF, late)
    start = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, SLOW)
    guard.seen, guard.on = made.seen, True
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            warnings.catch_warnings(record=True) as warned,
        ):
            warnings.simplefilter("always")
            made.code = main.main(args)
    except BaseException as e:
        made.error = e
    finally:
        guard.on = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        main._report = report
    made.seconds = time.process_time() - start
    made.out, made.err = out.getvalue(), err.getvalue()
    made.warned = [_warning(w) for w in warned]
    return made


def _warning(warned: warnings.WarningMessage) -> str:
    """Name a warning by its place; one of a file that nobody closed comes anywhere, later."""
    if issubclass(warned.category, ResourceWarning):
        return re.sub(r"/\S*/|0x\w+|=\d+", "", str(warned.message))
    return f"{warned.category.__name__} at {_short(warned.filename)}:{warned.lineno}"


def _short(path: str) -> str:
    return os.path.relpath(path, Path(PACKAGE).parent) if path.startswith(PACKAGE) else path


def _place(frames: traceback.StackSummary, count: int = 2) -> str:
    """Name the innermost frames in the package."""
    ours = [f for f in frames if f.filename.startswith(PACKAGE)][-count:]
    return " < ".join(f"{_short(f.filename)}:{f.lineno} {f.name}" for f in reversed(ours))


@dataclass(frozen=True)
class Fault:
    """What is wrong with an answer: its kind, a key that is the same for one cause, details."""

    kind: str
    key: str
    detail: str


def faults(made: Attempt, folder: Path) -> list[Fault]:
    """Judge an attempt."""
    verb, out = made.args[0], []
    if isinstance(made.error, EndlessError):
        out.append(Fault("endless", made.stack, f"more than {NEVER_ENDS} s"))
    elif made.code == 70 or (made.error is not None and made.code == -1):
        assert made.error is not None
        text = "".join(traceback.format_exception(made.error))
        key = f"{type(made.error).__name__} {_where(made.error)}"
        out.append(Fault("exception", key, text))
    elif made.code not in CODES:
        out.append(Fault("code", f"{verb} {made.code}", made.err))
    if isinstance(made.error, MemoryError) and not isinstance(made.error, ird.IrdeconvError):
        out.append(Fault("memory", _where(made.error), str(made.error)))
    if made.seconds > SLOW and not isinstance(made.error, EndlessError):
        out.append(Fault("slow", made.stack, f"{made.seconds:.1f} s"))
    out += [Fault("guard", re.sub(r"\d+|/tmp/\S+", "N", text), text) for text in made.seen]
    out += [Fault("warning", text, text) for text in made.warned]
    if made.code in (1, 2, 3, 4, 5, 6) and not re.search(r"\S", made.err + made.out):
        out.append(Fault("silent", f"{verb} {made.code}", ""))
    if made.code in (2, 3, 5, 6) and "error" not in made.err + made.out:
        out.append(Fault("no diagnostic", f"{verb} {made.code}", made.err))
    return out + _ill_formed(made) + _written(made, folder)


def _where(error: BaseException) -> str:
    return _place(traceback.extract_tb(error.__traceback__)) or type(error).__name__


def _ill_formed(made: Attempt) -> list[Fault]:
    args = made.args
    form = args[args.index("--format") + 1] if "--format" in args else "text"
    verb = f"{args[0]} {form}"
    shown = [made.err] if form in ("json", "sarif", "ir", "html") else [made.err, made.out]
    out = []
    for text in shown:
        found = _UNSAFE.search(text)
        if found:
            at = ascii(text[max(0, found.start() - 40) : found.end() + 20])
            out.append(Fault("unsafe character", f"{verb} {found.group()!a}", at))
            break
    if made.code in (0, 1, 7) and made.out:
        try:
            _parse(form, made.out)
        except Exception as e:
            first = f"{type(e).__name__}: {e}".splitlines()[0]
            key = re.sub(r"\d+", "N", first)[:90]
            out.append(Fault("ill-formed", f"{verb} {key}", first))
    return out


def _parse(form: str, text: str) -> None:
    if form in ("json", "sarif"):
        json.loads(text, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
    elif form in ("junit", "svg"):
        ElementTree.fromstring(text)
    elif form == "ir":
        ird.parse(text)


def _written(made: Attempt, folder: Path) -> list[Fault]:
    """Hold what was written against `validate`, what else lies in the folder against a name."""
    out = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            out.append(Fault("left behind", f"{made.args[0]}", path.name))
    for path in (folder / "out.xml", folder / "out.onnx"):
        if path.exists() and made.code in (0, 4, 7):
            wrong = [d for d in ird.validate(path) if d.severity == "error"]
            # An unknown operation of the input is written as it was read.
            own = ird.validate(made.args[1]) if wrong else ()
            if not {d.code for d in wrong} <= {d.code for d in own if d.severity == "error"}:
                key = f"{made.args[0]} {wrong[0].code} {wrong[0].render().splitlines()[0]}"
                key = re.sub(r"\"[^\"]*\"|\S*/\S*|[\d.]+", "N", key)
                out.append(Fault("written model", key[:120], wrong[0].render()))
    return out


assert sys.platform != "win32"
