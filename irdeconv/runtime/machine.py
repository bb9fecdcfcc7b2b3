"""The machine: its description, its load, its highest speed, and its calibration.

A calibration takes the least of many short measurements in turns, so that other programs disturb
little. It counts processor time, except for the wake-up of a thread.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import get_ident
from typing import Annotated, Any, NamedTuple

import numpy as np

from irdeconv import __version__
from irdeconv.base import progress
from irdeconv.base.json_form import Record
from irdeconv.ir.spec import Array
from irdeconv.kernels import convolution_direct, jit
from irdeconv.kernels.candidate import ConvProblem
from irdeconv.kernels.machine import (
    FITTED,
    PACKAGED,
    MachineProfile,
    blas_name,
    installed,
    machine_key,
    one_blas_thread,
    packaged_name,
    profile,
)
from irdeconv.kernels.products import matrix, multiply
from irdeconv.kernels.scratch import Space
from irdeconv.kernels.threads import Threads, arithmetic, processors
from irdeconv.runtime.measure import Call, Clock, Effort, interleaved, per_second, timed

SIDE = 512  # of the square matrices: 3 MiB of operands, like the blocks of the kernels
CEILING_RUNS = 12
COPIED = 1 << 26  # bytes, more than a cache holds


class ProfileDocument(Record, document="profile/1"):
    """How fast a machine is."""

    machine: dict[str, str]  # processor and versions; the numbers count for no other
    nanoseconds: MachineProfile  # the measurements


def profile_text(found: MachineProfile) -> str:
    """Return the contents of the file of a calibration."""
    return json.dumps(ProfileDocument(machine_key(), found).to_dict(), indent=1) + "\n"


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


PROBE_ROUNDS = 12
PROBE_SECONDS = 0.3  # of each number
PROBE_SHAPES = ((1024, 512, 1024), (256, 1152, 196), (128, 576, 784))  # of products, deep and wide
PRODUCT_ROWS, PRODUCT_DEPTH, PRODUCT_COLUMNS = 48, 256, 768  # of the micro-kernel's product
FEW_ELEMENTS = 1 << 14  # elements; two or three arrays of so many stay in the second cache
FAR_ELEMENTS = 1 << 24  # elements; no cache has so many
PROBE_STRIDE = 2
PROBE_CALLS = 100  # in one measurement
WAKE_LIMIT = 2e-3  # seconds in which another thread should have woken up
WAKES = 200
NOISE = 1.2  # times a packaged number; the packaged one replaces numbers that differ less


class SpeedProbe(NamedTuple):
    """A call to time, and how many units of work it does."""

    call: Call
    units: float


def calibrate(
    clock: Clock, *, rounds: int = PROBE_ROUNDS, seconds: float = PROBE_SECONDS
) -> MachineProfile:
    """Measure this machine on one thread, in about so many seconds for each number.

    Numbers that cannot be measured, as without numba or a second processor, stay as in the profile
    in force: a calibration with IRDECONV_FAST=0 keeps those that were measured with numba before.
    """
    found = probes()
    calls = {name: call for name, (call, _) in found.items()}
    effort = Effort(rounds=rounds, time=seconds)
    with one_blas_thread(), arithmetic():
        samples = interleaved(calls, effort, clock=clock)
        wake = _wake(clock) if processors() > 1 else 0.0
    each = {n: 1e9 * min(s.cpu for s in samples[n]) / count for n, (_, count) in found.items()}
    return profile_of(each, wake)


def profile_of(each: Mapping[str, float], wake: float) -> MachineProfile:
    """Make a profile; numbers that are missing or below the clock's resolution stay as in force.

    Numbers that hardly differ from the packaged profile are taken from there: measurements differ
    as much from one another, and kernels should not change because of that.
    """
    usual = vars(PACKAGED[packaged_name()])
    products = [t for n, t in each.items() if n.startswith("product")]
    found = {n: t for n, t in each.items() if not n.startswith("product")}
    found |= {"product": float(np.prod(products)) ** (1 / len(products)), "wake": wake}
    measured = {
        n: usual[n] if near(t, usual[n]) else float(f"{t:.4g}") for n, t in found.items() if t > 0
    }
    return replace(profile(), **measured)


def near(time: float, usual: float) -> bool:
    """Whether a time differs from the usual one by no more than measurements do."""
    return usual / NOISE <= time <= usual * NOISE


def probes() -> dict[str, SpeedProbe]:
    """Return the probes, by the number of the profile that each measures."""
    rng = np.random.default_rng(0)

    def some(*shape: int) -> Array:
        return rng.standard_normal(shape, np.float32)

    many = PROBE_CALLS * FEW_ELEMENTS
    near = matrix(Space(), 3, FEW_ELEMENTS, np.float32)  # rows that do not alias
    near[...] = some(*near.shape)
    a, b, out = near
    apart = some(PROBE_STRIDE * FEW_ELEMENTS)[::PROBE_STRIDE]
    far, target = np.ones(FAR_ELEMENTS, np.float32), np.ones(FAR_ELEMENTS, np.float32)
    tiny = some(4, 4)
    found = {
        f"product {m}x{k}x{n}": SpeedProbe(
            _product(some(m, k), some(k, n), np.empty((m, n), np.float32)),
            float(m * k * n),
        )
        for m, k, n in PROBE_SHAPES
    }
    found |= {
        "copy": SpeedProbe(lambda: _again(np.copyto, out, a), many),
        "far": SpeedProbe(lambda: np.copyto(target, far), FAR_ELEMENTS),
        "strided": SpeedProbe(lambda: _again(np.copyto, apart, a), many),
        "added": SpeedProbe(lambda: _again(np.add, a, b, out), many),
        "call": SpeedProbe(lambda: _views(tiny), PROBE_CALLS),
    }
    return found | (_compiled_probes(some) if jit.available() and jit.works() else {})


def _product(a: Array, b: Array, out: Array) -> Call:
    return lambda: multiply(a, b, out)


def _again(function: Callable[..., Any], *arguments: Any) -> None:
    for _ in range(PROBE_CALLS):
        function(*arguments)


def _views(x: Array) -> None:
    """Repeat the usual work of a kernel's call: views of some memory, and NumPy."""
    for _ in range(PROBE_CALLS):
        view = x.reshape(-1)[1:].reshape(3, 5)
        np.add(view, view, out=view)


def _compiled_probes(some: Callable[..., Array]) -> dict[str, SpeedProbe]:
    """Return the probes that need numba: the micro-kernel in a 1x1 convolution, a short call."""
    from irdeconv.kernels.compiled_chain import finish_rows
    from irdeconv.kernels.jit import NOTHING

    m, c, n = PRODUCT_ROWS, PRODUCT_DEPTH, PRODUCT_COLUMNS
    layer = ConvProblem((1, c, 1, n), m, 1, (1, 1), (1, 1), (1, 1), (0, 0), (1, n))
    (candidate,) = convolution_direct.candidates(layer)
    kernel, x, out = candidate.prepare(some(1, m, c, 1, 1)), some(1, c, 1, n), some(1, m, 1, n)
    row, none, number, team = some(1, 16), some(0, 0), some(1), Threads(1)
    limits = np.float32(0), np.float32(1)
    arguments = row, number, number, none, none, *limits, NOTHING, some(1, 0)

    def multiply_constant() -> None:
        team.begin()
        kernel(x, out, None, team)

    return {
        "sums": SpeedProbe(multiply_constant, m * c * n // jit.lanes()),
        "compiled": SpeedProbe(lambda: _again(finish_rows, *arguments), PROBE_CALLS),
    }


def _wake(clock: Clock) -> float:
    """Return the median of the nanoseconds until a second thread begins to work."""
    team, me, times = Threads(2), get_ident(), list[float]()

    def work(item: int, space: Space) -> None:
        now = clock.wall()
        if get_ident() != me:
            begun.append(now)
            return
        big = np.ones(1 << 12, np.float32)
        while not begun and clock.wall() < now + WAKE_LIMIT:
            np.copyto(big, 1.0)

    for _ in range(WAKES):
        begun = list[float]()
        start = clock.wall()
        team.each(range(2), work)
        times += [t - start for t in begun[:1]]
    return 1e9 * sorted(times)[len(times) // 2] if times else FITTED.wake
