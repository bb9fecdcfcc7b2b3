"""The machine: its description, its load, its highest speed."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from irdeconv import __version__
from irdeconv.base import progress
from irdeconv.kernels.machine import blas_name, installed, one_blas_thread
from irdeconv.kernels.scratch import Space
from irdeconv.kernels.threads import Threads, processors
from irdeconv.runtime.measure import Clock, per_second, timed

SIDE = 512  # of the square matrices: 3 MiB of operands, like the blocks of the kernels
CEILING_RUNS = 12
COPIED = 1 << 26  # bytes, more than a cache holds


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Conditions of a measurement besides the program."""

    cpu: str  # processor
    cores: int  # that this process may use
    load: float | None  # load average of the last minute; null if the system has none
    system: str  # operating system
    python: str  # version
    numpy: str  # version
    blas: str  # library and kernel
    numba: str | None  # version; null if it is missing or switched off
    irdeconv: str  # version
    date: str  # when it was measured, in UTC

    @staticmethod
    def now() -> Conditions:
        """Return the conditions of this process at this moment."""
        return Conditions(
            cpu=cpu_name(),
            cores=processors(),
            load=round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
            system=platform.system(),
            python=platform.python_version(),
            numpy=np.__version__,
            blas=blas_name(),
            numba=None if os.environ.get("IRDECONV_FAST") == "0" else installed("numba"),
            irdeconv=__version__,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
        )


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """The machine's highest speeds: float32 matrix products and copying."""

    gemm: Annotated[float, float | None]  # GFLOP/s of a matrix product, one thread
    # GFLOP/s of all cores together, each multiplying its own matrices
    gemm_all: Annotated[float, float | None]
    copy: Annotated[float, float | None]  # GB/s of a copy, bytes read and bytes written
    cores: int  # of `gemm_all`

    def peak(self, threads: int) -> float:
        """Return the products of that many threads in GF/s: above one, the cores' part of all."""
        return self.gemm if threads == 1 else self.gemm_all * min(1.0, threads / self.cores)


def cpu_name() -> str:
    """Return the processor's name as the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    said = os.environ.get("PROCESSOR_IDENTIFIER", "")  # of Windows
    return next(iter(names), "") or said or platform.machine() or "unknown"


def gflops(macs: int, seconds: float) -> float:
    """Return 10^9 operations a second; a multiply-accumulate is two operations."""
    return rate(2 * macs, seconds)


def rate(amount: int, seconds: float) -> float:
    """Return 10^9 units a second, 0 for a time below the clock's resolution."""
    return per_second(amount, seconds) / 1e9


def measure_ceilings(clock: Clock, cores: int | None = None) -> Ceilings:
    """Measure the machine: about a quarter of a second, on a busy one many times that."""
    count = processors() if cores is None else cores
    with one_blas_thread(), progress.stage("measuring the machine"):
        one = _gemm_seconds(clock, 1)
        every = one if count == 1 else _gemm_seconds(clock, count)
        copy = _copy_seconds(clock)
    macs = SIDE**3
    return Ceilings(
        gemm=gflops(macs, one),
        gemm_all=gflops(count * macs, every),
        copy=rate(2 * COPIED, copy),
        cores=count,
    )


def _gemm_seconds(clock: Clock, threads: int) -> float:
    """Return the least time of a product in each thread: of one processor time, else wall time."""
    matrices = [_matrices(i) for i in range(threads)]
    team = Threads(threads)

    def multiply(item: int, space: Space) -> None:
        a, b, out = matrices[item]
        with np.errstate(all="ignore"):
            np.matmul(a, b, out=out)

    def once() -> None:
        team.each(range(threads), multiply)

    once()
    # On a busy machine, all threads rarely get their cores at once.
    runs = CEILING_RUNS if threads == 1 else 4 * CEILING_RUNS
    samples = [timed(once, clock) for _ in range(runs)]
    return min(s.cpu if threads == 1 else s.wall for s in samples)


def _matrices(seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    shape = (SIDE, SIDE)
    a, b = (rng.standard_normal(shape, np.float32) for _ in range(2))
    return a, b, np.empty(shape, np.float32)


def _copy_seconds(clock: Clock) -> float:
    source = np.ones(COPIED // 4, np.float32)
    target = np.empty_like(source)

    def once() -> None:
        np.copyto(target, source)

    once()  # the first touch of fresh memory is slow
    return min(timed(once, clock).cpu for _ in range(CEILING_RUNS // 2))
