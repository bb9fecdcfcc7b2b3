"""Show the versions of all packages, what this installation can do and by which profile of the
machine kernels are chosen; or the limits.

--calibrate measures the machine, in a few seconds if it is idle, and keeps the numbers where only
the user may write; from then on kernels are chosen by them. IRDECONV_CALIBRATED=0 in the
environment ignores them.

--warm compiles the kernels of the extra `fast` for this processor, or what the given models take,
so that no first run waits for it. IRDECONV_FAST=0 in the environment does without them.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from irdeconv import __version__
from irdeconv.base import limits
from irdeconv.base.extras import INSTALLED_BY
from irdeconv.base.limits import shown
from irdeconv.cli.console import Console, has_colour
from irdeconv.cli.doctor_machine import calibrate, profile_facts, show_profile, warm
from irdeconv.cli.verbs import Verb

REQUIRED = ("numpy", "networkx", "lxml", "ml_dtypes", "pillow", "rich", "shtab", "threadpoolctl")
EXTRAS = {
    "numba": "compiled kernels",
    "openvino": "run the written IR in OpenVINO and compare results and times",
    "onnx": "convert ONNX models; check results against the ONNX node tests",
    "onnxruntime": "check results and compare times with ONNX Runtime",
    "distributed": "batch and map_blocks on a cluster of Dask",
    "zarr": "read the arrays of a .zarr",
    "z3-solver": "a second proof of lowered layers, by an SMT solver",
}
MODULES = {"pillow": "PIL.Image", "z3-solver": "z3"}  # what to import where it is called otherwise


VERB = Verb(
    """
    --limits  show the limits for models instead: each with its name, which --limit takes
    --calibrate  measure how fast this machine is, for the choice of kernels, and show the numbers
        beside those of the packaged profile
    --warm [MODEL ...]  compile the kernels of this processor, or only what these models take
    + FORMAT
    + LIMIT
    """,
    no="a required package is missing or broken",
    example="irdeconv doctor",
    differs=True,
    models=False,
    one_of="--limits --calibrate --warm",
)


def run(args: argparse.Namespace, console: Console) -> int:
    """Report; exit code 1 where a required package is missing or does not import."""
    if args.limits:
        return _limits(args, console)
    if args.calibrate:
        return calibrate(console)
    if args.warm is not None:
        return warm(args.warm, console)
    facts = gather()
    broken = [n for n, p in facts["required"].items() if p["problem"]]
    if console.wants_json:
        console.json("doctor", {"healthy": not broken, **facts})
    else:
        _text(facts, broken, console)
    return 1 if broken else 0


def _limits(args: argparse.Namespace, console: Console) -> int:
    """Show the limits in force, and what has set them."""
    sources = dict.fromkeys((name for name, _ in limits.of_environment()), limits.ENVIRONMENT)
    sources |= dict.fromkeys((name for name, _ in args.limit), "--limit")
    rows = [{**row, "source": sources.get(row["name"], "default")} for row in limits.table()]
    if console.wants_json:
        keys = ("name", "value", "default", "source", "what", "code")
        console.json("doctor", {"limits": [{k: row[k] for k in keys} for row in rows]})
        return 0
    widths = [max(map(len, texts)) for texts in ([r["name"] for r in rows], [*map(shown, rows)])]
    for row in rows:
        code = row["code"] and f" ({row['code']})"
        source = "" if row["source"] == "default" else f"; set by {row['source']}"
        begin = f"{row['name']:<{widths[0]}}  {shown(row):>{widths[1]}}"
        console.text(f"{begin}  {row['what']}{code}{source}")
    return 0


def gather() -> dict[str, Any]:
    """Return versions, the platform and the state of every package."""
    from irdeconv.cli.samples import samples

    required = {name: _package(name) for name in REQUIRED}
    return {
        "irdeconv": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "cpus": _cpus(),
        "blas": None if required["numpy"]["problem"] else _blas(),
        "profile": None if required["numpy"]["problem"] else profile_facts(),
        "terminal": {"tty": sys.stdout.isatty(), "colour": has_colour(sys.stdout)},
        "samples": len(samples()),
        "required": required,
        "extras": {n: _extra(n, adds) for n, adds in EXTRAS.items()},
    }


def _extra(name: str, adds: str) -> dict[str, str | None]:
    module = MODULES.get(name, name).partition(".")[0]
    return _package(name, required=False) | {"adds": adds, "extra": INSTALLED_BY[module]}


def _package(name: str, *, required: bool = True) -> dict[str, str | None]:
    """Return version and problem; a missing package is one only if it is required."""
    installed, problem = _version(name), None
    if installed is not None or required:
        try:
            import_module(MODULES.get(name, name))
        except Exception as e:  # a broken binary may raise anything
            problem = f"{type(e).__name__}: {e}"
    return {"version": installed, "problem": problem}


def _is_off(name: str) -> bool:
    return name == "numba" and os.environ.get("IRDECONV_FAST") == "0"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _cpus() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _blas() -> str:
    import numpy as np

    config: Any = np.show_config(mode="dicts")
    blas = config.get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def _text(facts: dict[str, Any], broken: list[str], console: Console) -> None:
    for key in ("irdeconv", "python", "executable", "platform", "cpus", "blas", "samples"):
        console.text(f"{key:<13} {facts[key]}")
    if facts["profile"] is not None:
        show_profile(facts["profile"], console)
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
            off = "switched off by IRDECONV_FAST=0; adds: " if _is_off(name) else ""
            console.text(f"{name:<13} ", (p["version"], "green"), f" ({off}{p['adds']})")
        else:
            console.text(f"{name:<13} not installed; adds: {p['adds']}")
            console.text(f"{'':<13} pip install 'irdeconv[{p['extra']}]'")
    healthy = "all required packages are installed and work"
    console.text(("broken: " + ", ".join(broken), "bold red") if broken else healthy)
