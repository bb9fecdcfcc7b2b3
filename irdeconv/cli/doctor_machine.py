"""What `doctor` says and does about the speed of this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from errno import EACCES
from pathlib import Path
from time import perf_counter
from typing import Any

from irdeconv.base import progress
from irdeconv.base.errors import misused
from irdeconv.base.extras import needed
from irdeconv.base.opening import unwritable
from irdeconv.cli.console import Console
from irdeconv.kernels.jit import FILE_MODE, private_folder

TIMES_OF_MACHINE = {
    "product": "a multiply-add of NumPy's matrix product",
    "sums": "a vector of the micro-kernel's products",
    "copy": "an element copied in a cache",
    "far": "an element copied from memory to memory",
    "strided": "an element written beside another",
    "added": "an element of a sum of two arrays",
    "call": "a call of NumPy",
    "compiled": "a call of a compiled function",
    "wake": "a thread that wakes up",
}


def profile_facts() -> dict[str, Any]:
    """Return the profile in force and where it comes from."""
    from irdeconv.kernels.machine import calibrated, packaged_name, profile

    found = calibrated()
    return {
        "source": "packaged" if found.profile is None else "calibrated",
        "name": packaged_name(),
        "file": None if found.path is None else str(found.path),
        "problem": found.problem or None,
        "nanoseconds": asdict(profile()),
    }


def calibrate(console: Console) -> int:
    """Measure this machine, keep the profile and show it.

    UsageError where the environment ignores calibrations: nothing would come of it.
    """
    from irdeconv.formats.atomic import failures, write_file
    from irdeconv.kernels.machine import IGNORED, forget, heeded, profile_text, take
    from irdeconv.runtime.machine import calibrate as measured
    from irdeconv.runtime.measure import Clock

    if not heeded():
        raise misused(f"--calibrate changes nothing: {IGNORED}=0 is set", "unset it")
    path = _place()
    console.log("measuring this machine, which takes a few seconds; it should be idle")
    found = measured(Clock())
    with failures(path):
        write_file(path, profile_text(found).encode())
        path.chmod(FILE_MODE)  # whatever the umask allows
    forget()
    take(None)
    facts = profile_facts()
    if console.wants_json:
        console.json("doctor", {"profile": facts})
    else:
        show_profile(facts, console, whole=True)
    return 0


def warm(models: Sequence[str], console: Console, clock: Callable[[], float] = perf_counter) -> int:
    """Compile what the models take, or what all kernels need."""
    from irdeconv.kernels import jit

    needed("--warm", "numba", "njit")
    if not jit.available():
        raise misused("--warm compiles nothing: IRDECONV_FAST=0 is set", "unset it")
    start = clock()
    if models:
        for path in progress.each("compiling for models", models, name=str):
            _warm_model(path, console)
    else:
        from irdeconv.kernels.warm import compile_kernels

        compile_kernels()
    seconds, folder = clock() - start, jit.cache_folder()
    if console.wants_json:
        found = {"models": list(models), "folder": folder, "seconds": round(seconds, 3)}
        console.json("doctor", {"warm": found})
        return 0
    console.text(
        f"compiled in {seconds:.1f} s what {'these models take' if models else 'kernels need'}"
    )
    kept = "kept nowhere: no folder is the user's own" if folder is None else f"kept in {folder}"
    console.text(kept)
    return 0


def _warm_model(path: str, console: Console) -> None:
    """Run a model once, with random inputs and the kernels of a plan that runs often."""
    import irdeconv as ird
    from irdeconv.cli.inputs import gather, specialize
    from irdeconv.cli.model import inferred, read_file

    graph = inferred(read_file(path), ())
    inputs = gather(graph, [], 0, console)
    ird.compile(specialize(graph, inputs)).run(inputs)


def _place() -> Path:
    """Return where a profile can be kept; FileAccessError where no place is the user's own."""
    from irdeconv.kernels.machine import profile_path

    try:
        path = profile_path()
    except RuntimeError as e:  # nobody's home is known
        raise unwritable(Path("profiles"), None, str(e)) from e
    if private_folder(path.parent) is None:
        raise unwritable(path, EACCES, "its folder cannot be made, or others may change it")
    return path


def show_profile(facts: dict[str, Any], console: Console, *, whole: bool = False) -> None:
    """Show the profile in force; the `whole` with its numbers beside the packaged ones."""
    said = f"{facts['source']}, {facts['name']}"
    if facts["source"] == "calibrated":
        said = f"calibrated, {facts['file']}"
    if facts["problem"]:
        said += f"; {facts['file']} is not used: {facts['problem']}"
    console.text(f"{'profile':<13} {said}")
    if whole:
        from irdeconv.kernels.machine import PACKAGED

        usual = vars(PACKAGED[facts["name"]])
        console.text(f"{'':<9} {'ns':>7} {'packaged':>9}")
        for name, value in facts["nanoseconds"].items():
            both = f"{_digits(value):>7} {_digits(usual[name]):>9}"
            console.text(f"{name:<9} {both}  {TIMES_OF_MACHINE[name]}")
    elif facts["source"] == "packaged" and not facts["problem"]:
        console.text(f"{'':<13} irdeconv doctor --calibrate measures this machine")


def _digits(nanoseconds: float) -> str:
    """Return four digits, or all before the point."""
    return f"{nanoseconds:,.0f}" if nanoseconds >= 1000 else f"{nanoseconds:.4g}"
