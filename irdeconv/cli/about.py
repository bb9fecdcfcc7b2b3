"""Verbs about irdeconv itself: `codes`, `completion`, `doctor`; the packaged sample models."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, Literal, TypedDict

import irdeconv as ird
from irdeconv import __version__
from irdeconv.base import limits, progress
from irdeconv.base.code_pages import GROUPS, CodePage, CodeTitle, code_page
from irdeconv.base.codes import CODES
from irdeconv.base.errors import misused
from irdeconv.base.extras import INSTALLED_BY, needed
from irdeconv.base.json_form import Record
from irdeconv.base.tables import wrap
from irdeconv.cli.console import Answer, Console, has_colour
from irdeconv.cli.options import FORM_WORDS, RECORDS
from irdeconv.cli.verbs import VERBS, configure


def sample_folder() -> Path | None:
    """Return the folder of the samples, None if the installation has none."""
    package = Path(ird.__file__).resolve().parent
    folders = package / "_samples", package.parent / "ir_samples"
    return next((f for f in folders if any(f.glob("**/*.xml"))), None)


def samples() -> dict[str, Path]:
    """Return the samples by name (the path without `.xml`), sorted."""
    root = sample_folder()
    found = sorted(root.glob("**/*.xml")) if root is not None else []
    return {f.relative_to(root).with_suffix("").as_posix(): f for f in found if root is not None}


class CodeList(Record, document="codes/1"):
    """All codes."""

    codes: list[CodeTitle]  # in order


class CodePages(Record, document="codes/1"):
    """The requested codes."""

    codes: list[CodePage]  # in order


def run_codes(args: argparse.Namespace, console: Console) -> Answer:
    """List codes that begin with a text, or explain those that are named in full.

    Raises UsageError for a text with which no code begins.
    """
    for text in args.codes:
        if not text or not any(c.startswith(text.upper()) for c in CODES):
            raise misused(f'there is no diagnostic code "{text}"', _near_codes(text.upper()))
    starts = tuple(text.upper() for text in args.codes) or ("",)
    chosen = [c for c in CODES if c.startswith(starts)]
    if any(text.upper() in CODES for text in args.codes):
        pages = [code_page(code) for code in chosen]
        return Answer(lambda: CodePages(pages), partial(_code_pages, pages, console))
    titles = [CodeTitle(c, CODES[c].title) for c in chosen]
    return Answer(lambda: CodeList(titles), partial(_code_titles, chosen, console))


def _near_codes(text: str) -> str:
    """Say which codes have the same digits, or begin alike."""
    same = [c for c in CODES if text and c.endswith(text)]
    if same:
        return f"did you mean {' or '.join(same)}?"
    for end in range(len(text) - 1, 1, -1):
        if text[:end] in CODES:
            return f"did you mean {text[:end]}?"
        near = [c for c in CODES if c.startswith(text[:end])]
        if near:
            return f"there are {', '.join(near)}"
    return "irdeconv codes lists all of them"


def _code_titles(chosen: list[str], console: Console) -> None:
    """Print codes and titles below the headings of their groups."""
    for group, title in GROUPS.items():
        codes = [c for c in chosen if c.startswith(group)]
        if codes:
            console.text((title, "bold"))
            for code in codes:
                console.text(f"  {code}  {CODES[code].title}")
    console.text("\nirdeconv codes CODE explains one, with an example")


def _code_pages(pages: list[CodePage], console: Console) -> None:
    for number, page in enumerate(pages):
        console.text("\n" if number else "", (page.code, "bold"), f": {page.title}\n")
        console.text(wrap(page.why, console.width, 0) + "\n")
        console.text(wrap(f"How to fix it: {page.fix}", console.width, 0))
        if page.when:
            console.text("\n" + wrap(f"When it appears: {page.when}", console.width, 0))
        for name, body in page.files.items():
            file, _, element_type = name.partition(" ")
            console.text(f"\n{file} ({element_type}):\n" if element_type else f"\n{file}:\n")
            console.raw("".join(f"    {line}\n" for line in body.splitlines()))
        for step in page.steps:  # not indented: it is as wide as a pipe
            shown = f"{step.what}\nraises\n\n" if step.python else f"$ {step.what}\n"
            console.raw(f"\n{shown}{step.prints}")


SHELLS = ("bash", "zsh", "fish")
_FILES = re.compile(r"FILE|LOWERED|OTHER")  # placeholders of files in the usage


class CompletionDocument(Record, document="completion/1"):
    """The script."""

    shell: str  # its name
    script: str  # its text


def run_completion(args: argparse.Namespace, console: Console) -> Answer:
    """Print the script."""
    text = script(args.shell)
    return Answer(lambda: CompletionDocument(args.shell, text), lambda: console.raw(text))


def script(shell: str) -> str:
    """Return the script for a shell: that of one parser, each verb a command below it."""
    import shtab

    whole = argparse.ArgumentParser(prog="irdeconv", description="OpenVINO-style IR")
    whole.add_argument("-V", "--version", action="store_true", help="show the version")
    verbs = whole.add_subparsers(dest="verb")
    for verb, text in VERBS.items():
        parser = verbs.add_parser(verb, help=text, description=text)
        configure(parser, verb)
        own = (o.words for o in RECORDS[verb].options if o.key == "form")
        forms = next(own, FORM_WORDS)
        for action in parser._actions:
            _describe(action, forms)
    verbs.add_parser("help", help="show the help of a verb").add_argument("verb", choices=[*VERBS])
    made: str = shtab.complete(whole, shell)
    return made if made.endswith("\n") else f"{made}\n"


def _describe(action: Any, forms: str) -> None:
    """Add the values that an option or argument may have."""
    import shtab

    from irdeconv.rewrite.targets import target_names

    action.help = re.split("[:;] ", action.help or "")[0]  # a shell has little room
    known = {
        "--form": forms.split(),
        "--target": target_names(),
        "SAMPLE": sorted(samples()),
        "CODE": [*CODES],
    }
    names = [*action.option_strings, str(action.metavar)]
    choices = next((known[n] for n in names if n in known), None)
    if choices is not None and action.choices is None:
        action.choices = choices
    elif _FILES.search(str(action.metavar)):
        action.complete = shtab.FILE
    elif action.metavar == "DIR":
        action.complete = shtab.DIRECTORY


REQUIRED = "numpy filelock networkx lxml ml_dtypes pillow rich shtab threadpoolctl".split()
EXTRAS = {
    "numba": "compiled kernels",
    "openvino": "run the written IR in OpenVINO and compare results and times",
    "onnx": "convert ONNX models; check results against the ONNX node tests",
    "onnxruntime": "check results and compare times with ONNX Runtime",
    "distributed": "batch and map_blocks on a cluster of Dask",
    "zarr": "read the arrays of a .zarr",
    "islpy": "a second check of lowered layers, by relations between elements",
}
MODULES = {"pillow": "PIL.Image"}  # the module to import if its name differs


class PackageState(TypedDict):
    """A package."""

    version: str | None  # the installed one; null if there is none
    problem: str | None  # its fault; null if it has none


class ExtraState(PackageState):
    """A package of an extra."""

    adds: str  # its purpose
    extra: str  # the extra that installs it


class TerminalFacts(TypedDict):
    """Standard output."""

    tty: bool  # whether it is a terminal
    colour: bool  # whether colours are used


class ProfileFacts(TypedDict):
    """How fast the machine is, from which the costs of kernels are computed."""

    name: str  # of this processor's vectors
    product: float  # the time of a matrix product; with vectors of 256 bits it is 1


class InstallationFacts(TypedDict):
    """Versions, the platform and the packages."""

    irdeconv: str  # version
    python: str  # version
    executable: str  # of Python
    platform: str  # operating system
    cpus: int  # that may be used
    blas: str | None  # library and version; null if NumPy is broken
    profile: ProfileFacts | None  # how fast the machine is; null if NumPy is broken
    terminal: TerminalFacts  # of this process
    samples: int  # number of installed samples
    required: dict[str, PackageState]  # by name
    extras: dict[str, ExtraState]  # by name


class DoctorDocument(Record, document="doctor/2", keys="healthy *facts"):
    """This installation."""

    healthy: bool  # whether everything required works
    facts: InstallationFacts


class LimitRow(TypedDict):
    """A limit."""

    name: str  # by which `--limit` sets it
    value: int  # the limit in force
    default: int  # the value if nothing sets it
    source: Literal["default", "IRDECONV_LIMITS", "--limit"]  # what sets it
    what: str  # the limited quantity
    code: str  # the code of the error beyond it; empty if there is none


class LimitsDocument(Record, document="doctor/2"):
    """`--limits`: the limits in force."""

    limits: Annotated[list[dict[str, Any]], list[LimitRow]]  # in the order of the page


class WarmFacts(TypedDict):
    """Compiled kernels."""

    models: list[str]  # whose kernels were compiled; empty: the kernels that need no model
    folder: str | None  # the folder of compiled code; null if no folder is the user's own
    seconds: float  # how long it took


class WarmDocument(Record, document="doctor/2"):
    """`--warm`: the compiled kernels."""

    warm: WarmFacts  # the models, and the folder


def run_doctor(args: argparse.Namespace, console: Console) -> Answer:
    """Report; exit code 1 if a required package is missing or does not import."""
    if args.limits:
        return _limits(args, console)
    if args.warm is not None:
        return _warm(args.warm, console)
    facts = installation()
    broken = [n for n, p in facts["required"].items() if p["problem"]]
    document = DoctorDocument(not broken, facts)
    return Answer(lambda: document, lambda: _text(facts, broken, console), 1 if broken else 0)


def _limits(args: argparse.Namespace, console: Console) -> Answer:
    """Show the limits in force, and the source of each."""
    sources = dict.fromkeys((name for name, _ in limits.of_environment()), limits.ENVIRONMENT)
    sources |= dict.fromkeys((name for name, _ in args.limit), "--limit")
    rows = [{**row, "source": sources.get(row["name"], "default")} for row in limits.table()]
    keys = ("name", "value", "default", "source", "what", "code")

    def text() -> None:
        name = max(len(row["name"]) for row in rows)
        value = max(len(limits.shown(row)) for row in rows)
        for row in rows:
            code = row["code"] and f" ({row['code']})"
            source = "" if row["source"] == "default" else f"; set by {row['source']}"
            begin = f"{row['name']:<{name}}  {limits.shown(row):>{value}}"
            console.text(f"{begin}  {row['what']}{code}{source}")

    return Answer(lambda: LimitsDocument([{k: row[k] for k in keys} for row in rows]), text)


def installation() -> InstallationFacts:
    """Return versions, the platform and the state of every package."""
    import platform

    required = {name: _package(name) for name in REQUIRED}
    return {
        "irdeconv": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": "-".join([platform.system(), platform.release(), platform.machine()]),
        "cpus": _cpus(),
        "blas": None if required["numpy"]["problem"] else _blas(),
        "profile": None if required["numpy"]["problem"] else _profile_facts(),
        "terminal": {"tty": sys.stdout.isatty(), "colour": has_colour(sys.stdout)},
        "samples": len(samples()),
        "required": required,
        "extras": {
            name: {**_package(name, required=False), "adds": adds, "extra": INSTALLED_BY[name]}
            for name, adds in EXTRAS.items()
        },
    }


def _package(name: str, *, required: bool = True) -> PackageState:
    """Return version and problem; a missing package is one only if it is required."""
    from importlib.metadata import PackageNotFoundError, version

    installed = problem = None
    with suppress(PackageNotFoundError):
        installed = version(name)
    if installed is not None or required:
        try:
            import_module(MODULES.get(name, name))
        except Exception as e:  # a broken binary may raise anything
            problem = f"{type(e).__name__}: {e}"
    return {"version": installed, "problem": problem}


def _cpus() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _blas() -> str:
    import numpy as np

    config: Any = np.show_config(mode="dicts")
    blas = config.get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def _text(facts: InstallationFacts, broken: list[str], console: Console) -> None:
    for key, value in facts.items():
        if isinstance(value, str | int) or key == "blas":
            console.text(f"{key:<13} {value}")
    if facts["profile"] is not None:
        console.text(f"{'profile':<13} {facts['profile']['name']}")
    terminal = facts["terminal"]
    yes = ("not a terminal", "terminal without colours", "terminal with colours")
    console.text(f"{'terminal':<13} {yes[terminal['tty'] + terminal['colour']]}")
    for name, p in facts["required"].items():
        state = (p["problem"], "bold red") if p["problem"] else (str(p["version"]), "green")
        console.text(f"{name:<13} ", state)
    for name, p in facts["extras"].items():
        if p["problem"]:
            console.text(f"{name:<13} ", (f"{p['version']}: {p['problem']}", "bold red"))
        elif p["version"]:
            is_off = name == "numba" and os.environ.get("IRDECONV_FAST") == "0"
            off = "switched off by IRDECONV_FAST=0; adds: " if is_off else ""
            console.text(f"{name:<13} ", (p["version"], "green"), f" ({off}{p['adds']})")
        else:
            console.text(f"{name:<13} not installed; adds: {p['adds']}")
            console.text(f"{'':<13} pip install 'irdeconv[{p['extra']}]'")
    healthy = "all required packages are installed and work"
    console.text(("broken: " + ", ".join(broken), "bold red") if broken else healthy)


def _profile_facts() -> ProfileFacts:
    from irdeconv.kernels.machine import product_time, vector_bits

    return {"name": f"vectors of {vector_bits()} bits", "product": product_time()}


def _warm(models: Sequence[str], console: Console) -> Answer:
    """Compile the kernels that the models take, or all that kernels need."""
    from irdeconv.kernels import jit

    needed("--warm", "numba", "njit")
    if not jit.available():
        raise misused("--warm compiles nothing: IRDECONV_FAST=0 is set", "unset it")
    start = perf_counter()
    if models:  # each is run once, with random inputs and the kernels of a plan that runs often
        from irdeconv.cli.model import gather, inferred, read_file, specialize

        for path in progress.each("compiling for models", models, name=str):
            graph = inferred(read_file(path), ())
            inputs = gather(graph, [], 0, console)
            ird.compile(specialize(graph, inputs)).run(inputs)
    else:
        from irdeconv.kernels.eager import compile_kernels

        compile_kernels()
    seconds, folder = perf_counter() - start, jit.cache_folder()
    what = "these models take" if models else "kernels need"
    kept = "kept nowhere: no folder is the user's own" if folder is None else f"kept in {folder}"
    warm: WarmFacts = {"models": [*models], "folder": folder, "seconds": round(seconds, 3)}
    text = f"compiled in {seconds:.1f} s what {what}\n{kept}"
    return Answer(lambda: WarmDocument(warm), lambda: console.text(text))
