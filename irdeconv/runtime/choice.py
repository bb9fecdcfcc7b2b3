"""Which kernel executes a (de)convolution: the one with the least estimated cost, or measured.

Only `tune` measures: estimates choose the same kernel every time, measurements need not. Results
are kept in memory, and in a file if one is given.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from irdeconv.base import progress
from irdeconv.base.errors import FolderError, LimitError
from irdeconv.base.json_form import Record
from irdeconv.base.opening import read_json
from irdeconv.formats.atomic import failures, write_file
from irdeconv.ir.spec import Array
from irdeconv.kernels.blas import blas_name
from irdeconv.kernels.candidate import Candidate, ConvProblem, every_cut, worthwhile
from irdeconv.kernels.eager import for_convolution, for_deconvolution
from irdeconv.kernels.jit import FILE_MODE, FOLDER_MODE, available, is_private, processor
from irdeconv.kernels.threads import Threads, arithmetic

WORTH = 50_000.0  # ns: below this a measurement costs more than it brings
RIVAL = 2.0  # candidates whose estimate is at most this multiple of the least are measured
CLOSE = 1.3  # those whose first time is at most this multiple of the least are measured ...
REPEATS = 5  # ... so many times more

_MEASURED: dict[tuple[str, ConvProblem], str] = {}


@dataclass(frozen=True)
class KernelChoice:
    """The candidate that was taken and why."""

    candidate: Candidate
    why: str

    @property
    def name(self) -> str:
        """The name of the kernel."""
        return self.candidate.name


@dataclass
class Tuner:
    """Chooses kernels. `path` is the file that keeps measurements between processes."""

    measure: bool = False
    path: Path | None = None
    _stored: dict[str, str] | None = field(default=None, repr=False)
    _listed: dict[tuple[Any, ...], list[Candidate]] = field(default_factory=dict, repr=False)

    def listed(self, kind: str, problem: ConvProblem) -> list[Candidate]:
        """Return the candidates for a problem; equal layers share one list."""
        key = kind, problem, available()
        if key not in self._listed:
            list_all = for_deconvolution if kind == "deconvolution" else for_convolution
            self._listed[key] = list_all(problem)
        return self._listed[key]

    def choose(
        self,
        kind: str,
        problem: ConvProblem,
        candidates: Sequence[Candidate],
        filter: Array | None,
        team: Threads,
    ) -> KernelChoice:
        """Return the best of the candidates, which are sorted by estimated cost."""
        candidates = worthwhile(candidates)
        first = candidates[0]
        if not self.measure or filter is None or first.cost < WORTH:
            return KernelChoice(first, f"estimated {first.cost / 1e3:.0f} us")
        rivals = {c.label: c for c in every_cut(candidates) if c.cost <= RIVAL * first.cost}
        if len(rivals) < 2:
            return KernelChoice(first, f"estimated {first.cost / 1e3:.0f} us")
        known = _MEASURED.get((kind, problem)) or self._load().get(_key(kind, problem))
        if known in rivals:
            return KernelChoice(rivals[known], "measured before")
        times = _times(rivals, lambda c, runs: _time(c, problem, filter, team, runs))
        best = min(times, key=lambda label: times[label])
        _MEASURED[kind, problem] = best
        self._save(_key(kind, problem), best)
        said = f"measured {times[best] * 1e6:.0f} us, best of {len(rivals)}"
        return KernelChoice(rivals[best], said)

    def _load(self) -> dict[str, str]:
        if self._stored is None:
            self._stored = {}
            if self.path is not None and self.path.exists():
                self._stored = _measurements(self.path)
        return self._stored

    def _save(self, key: str, name: str) -> None:
        stored = self._load()
        stored[key] = name
        if self.path is None:
            return
        text = json.dumps(MeasuredKernels(stored).to_dict(), indent=1, sort_keys=True)
        with failures(self.path):
            self.path.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        write_file(self.path, text.encode())
        with failures(self.path):
            self.path.chmod(FILE_MODE)  # a file that others may change is not read again


class MeasuredKernels(Record, document="kernels/1"):
    """Which kernel was the fastest."""

    # kernel and how it cuts the work, by layer, sizes, versions and processor
    kernels: dict[str, str]


def _measurements(path: Path) -> dict[str, str]:
    """Return a file's measurements; none, with a warning, if damaged or open to other users."""
    try:
        whole = path.resolve()
        if not (is_private(whole) and is_private(whole.parent, last=False)):
            raise ValueError("others may change it")
        content = read_json(path)
        known = isinstance(content, dict) and content.get("schema") == MeasuredKernels.json_schema
        found = content.get("kernels") if known else None
        if not isinstance(found, dict):
            raise ValueError("it holds no measurements")
        return {str(k): str(v) for k, v in found.items()}
    except FolderError:  # nothing can be kept there either
        raise
    except (OSError, ValueError, LimitError) as e:
        text = f"{path} is not used, kernels are measured anew: {e}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return {}


def _key(kind: str, problem: ConvProblem) -> str:
    lists = (problem.shape, problem.outputs, problem.groups, problem.kernel, problem.strides)
    more = (problem.dilations, problem.begin, problem.sizes, problem.dtype)
    where = f"numpy {np.__version__}, {blas_name()} on {processor()}"
    return f"{kind} {where} {(*lists, *more)}"


def _times(
    rivals: Mapping[str, Candidate], timed: Callable[[Candidate, int], float]
) -> dict[str, float]:
    """Return the times of those that could be the fastest: after one run, the others are out."""
    tried = progress.each("tuning", rivals.items(), name=lambda pair: pair[1].name)
    once = {label: timed(c, 1) for label, c in tried}
    limit = CLOSE * min(once.values())
    close = [label for label, seconds in once.items() if seconds <= limit]
    if len(close) == 1:
        return {close[0]: once[close[0]]}
    again = progress.each("tuning", close, name=lambda label: rivals[label].name)
    return {label: timed(rivals[label], REPEATS) for label in again}


def _time(
    candidate: Candidate, problem: ConvProblem, filter: Array, team: Threads, runs: int
) -> float:
    """Return the least CPU time of some runs in seconds, after one that does not count."""
    x = np.ones(problem.shape, filter.dtype)
    out = np.empty(problem.out_shape, filter.dtype)

    def once() -> float:
        start = time.process_time()
        team.begin()
        kernel(x, out, None, team)
        return time.process_time() - start

    with team.lock, arithmetic():  # another program of the plan may be running
        kernel = candidate.prepare(filter)
        once()
        return min(once() for _ in range(runs))
