"""What `doctor` says and does about the speed of this machine."""

from __future__ import annotations

from dataclasses import asdict
from errno import EACCES
from pathlib import Path
from typing import Any

from irdeconv.access import unwritable
from irdeconv.cli.console import Console
from irdeconv.kernels.shared.own_folder import private_folder

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
    from irdeconv.kernels.shared.calibrated import calibrated
    from irdeconv.kernels.shared.machine import packaged_name
    from irdeconv.kernels.shared.rates import profile

    found = calibrated()
    return {
        "source": "packaged" if found.profile is None else "calibrated",
        "name": packaged_name(),
        "file": None if found.path is None else str(found.path),
        "problem": found.problem or None,
        "nanoseconds": asdict(profile()),
    }


def calibrate(console: Console) -> int:
    """Measure this machine, keep the profile and show it."""
    from irdeconv.benchmark.calibration import calibrate as measured
    from irdeconv.benchmark.measure import Clock
    from irdeconv.io.atomic import failures, write_file
    from irdeconv.kernels.shared.calibrated import forget, profile_text
    from irdeconv.kernels.shared.rates import take

    path = _place()
    console.log("measuring this machine, which takes a few seconds; it should be idle")
    found = measured(Clock())
    with failures(path):
        write_file(path, profile_text(found).encode())
        path.chmod(0o600)  # whatever the umask allows
    forget()
    take(None)
    facts = profile_facts()
    if console.wants_json:
        console.json("doctor", {"profile": facts})
    else:
        show_profile(facts, console, whole=True)
    return 0


def _place() -> Path:
    """Return where a profile can be kept; FileAccessError where no place is the user's own."""
    from irdeconv.kernels.shared.calibrated import profile_path

    try:
        path = profile_path()
    except RuntimeError as e:  # nobody's home is known
        raise unwritable(Path("profiles"), None, str(e)) from e
    if private_folder(path.parent) is None:
        raise unwritable(path, EACCES, "its folder cannot be made, or others may change it")
    return path


def show_profile(facts: dict[str, Any], console: Console, *, whole: bool = False) -> None:
    """Show the profile in force; the `whole` with its numbers."""
    said = f"{facts['source']}, {facts['name']}"
    if facts["source"] == "calibrated":
        said = f"calibrated, {facts['file']}"
    if facts["problem"]:
        said += f"; {facts['file']} is not used: {facts['problem']}"
    console.text(f"{'profile':<13} {said}")
    if whole:
        for name, value in facts["nanoseconds"].items():
            console.text(f"{name:<13} {value:>10.4g} ns  {TIMES_OF_MACHINE[name]}")
    elif facts["source"] == "packaged" and not facts["problem"]:
        console.text(f"{'':<13} irdeconv doctor --calibrate measures this machine")
