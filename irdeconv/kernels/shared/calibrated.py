"""The file that keeps what a calibration of this machine measured: private, by what it depends on.

`irdeconv doctor --calibrate` writes it. IRDECONV_CALIBRATED=0 in the environment ignores it.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from irdeconv.kernels.shared import jit
from irdeconv.kernels.shared.blas import blas_name
from irdeconv.kernels.shared.machine import NUMBERS, MachineProfile
from irdeconv.kernels.shared.own_folder import is_private, private_folder, processor, user_folder

PROFILE_SCHEMA = "irdeconv/profile/1"
IGNORED = "IRDECONV_CALIBRATED"  # in the environment; 0 ignores calibrations
PROFILE_BYTES = 1 << 16  # bytes of a file that is read
SLOWEST = 1e9  # nanoseconds; no number is larger


@dataclass(frozen=True)
class Calibrated:
    """What a calibration has left: the profile, None where there is none, and why."""

    path: Path | None
    profile: MachineProfile | None = None
    problem: str = ""


def heeded() -> bool:
    """Whether calibrations count."""
    return os.environ.get(IGNORED, "1") != "0"


def machine_key() -> dict[str, str]:
    """Return what the numbers depend on."""
    try:
        numba = version("numba")
    except PackageNotFoundError:
        numba = "none"
    said = {"processor": processor(), "numpy": np.__version__, "blas": blas_name()}
    return said | {"numba": numba, "lanes": str(jit.lanes())}


def profile_path() -> Path:
    """Return where this machine's profile is kept; RuntimeError where nobody's home is known."""
    told = hashlib.sha256(json.dumps(machine_key()).encode()).hexdigest()[:16]
    return user_folder() / "profiles" / f"{told}.json"


@cache
def calibrated() -> Calibrated:
    """Return the calibration of this machine; a file that cannot be used is told once."""
    if not heeded():
        return Calibrated(None)
    try:
        path = profile_path()
    except RuntimeError:  # nobody's home is known
        return Calibrated(None)
    try:
        if not path.exists():
            return Calibrated(path)
        return Calibrated(path, _read(path))
    except (OSError, ValueError, RecursionError) as e:
        text = f"{path} is not used, costs are those of a packaged profile: {e}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return Calibrated(path, problem=str(e))


def forget() -> None:
    """Read the file again when it is needed."""
    calibrated.cache_clear()


def _read(path: Path) -> MachineProfile:
    """Read a profile; ValueError, OSError."""
    whole = path.resolve()
    if not is_private(whole) or private_folder(whole.parent) is None:
        raise ValueError("others may change it")
    with whole.open("rb") as file:
        content: Any = json.loads(file.read(PROFILE_BYTES))
    if not isinstance(content, dict) or content.get("schema") != PROFILE_SCHEMA:
        raise ValueError("it holds no profile")
    if content.get("machine") != machine_key():
        raise ValueError("it is another machine's")
    numbers = content.get("nanoseconds")
    if not isinstance(numbers, dict) or set(numbers) != set(NUMBERS):
        raise ValueError("it has not the numbers of a profile")
    if not all(_possible(value) for value in numbers.values()):
        raise ValueError("a number is not possible")
    return MachineProfile(**{name: float(value) for name, value in numbers.items()})


def _possible(value: object) -> bool:
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return plain and 0 < value < SLOWEST  # type: ignore[operator]


def profile_text(profile: MachineProfile) -> str:
    """Return what the file holds."""
    content = {
        "schema": PROFILE_SCHEMA,
        "machine": machine_key(),
        "nanoseconds": asdict(profile),
    }
    return json.dumps(content, indent=1) + "\n"
