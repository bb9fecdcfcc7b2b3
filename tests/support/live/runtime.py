"""OpenVINO in a process of its own: what it says of an IR, also where that kills it."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from support.live.sample import SHOWN, Answer, Inferred

if sys.platform == "linux":
    import resource

# With a single thread the plugin dies after some dozen models in one process.
CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 2}
PATIENCE = 30  # seconds of computing for one sample
ROUNDS = 20  # of waiting that long
MEMORY = 8 * 2**30  # bytes


class Runtime:
    """A child process with OpenVINO; begun anew where it ends."""

    def __init__(self) -> None:
        self._process: Any = None
        self._pipe: Any = None

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def ask(self, text: str, blob: bytes, feeds: Sequence[Any]) -> Answer:
        """Read, compile and run a model."""
        if self._process is None:
            self._begin()
        try:
            self._pipe.send((text, blob, list(map(_taken, feeds))))
            begun = self._computed()
            for _ in range(ROUNDS):
                if self._pipe.poll(PATIENCE):
                    answer: Answer = self._pipe.recv()
                    return answer
                if self._computed() - begun > PATIENCE:
                    break
            why = f"no answer within {PATIENCE} seconds"
        except (EOFError, OSError):
            why = "its process ended"
        self._end()
        return Answer("crashed", message=why)

    def _computed(self) -> float:
        """Return the processor time of the process in seconds; on a busy machine it has to wait."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # another system: all time counts
            return time.monotonic()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None


def _taken(array: Any) -> Any:
    """Return an array as OpenVINO takes it: texts as objects must not all be empty."""
    texts = array.dtype == object and not any(array.flat)
    return array.astype(str) if texts else array


def _serve(pipe: Connection) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)  # the plugin's own words on its way down
    import openvino

    _limit_memory()
    core = openvino.Core()
    while True:
        try:
            text, blob, feeds = pipe.recv()
        except EOFError:
            return
        pipe.send(_answer(openvino, core, text, blob, feeds))


def _limit_memory() -> None:
    """Let this process have some GB more than the libraries map, not all that the machine has."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _answer(ov: Any, core: Any, text: str, blob: bytes, feeds: list[Any]) -> Answer:
    try:
        weights = ov.Tensor(np.frombuffer(blob or b"\0", np.uint8).copy())
        model = core.read_model(text.encode(), weights)
        specs = tuple(_spec(r.input(0)) for r in model.get_results())
        layers = {
            n.get_friendly_name(): (n.get_type_name(), tuple(map(_output, n.outputs())))
            for n in model.get_ordered_ops()
        }
        request = core.compile_model(model, "CPU", CONFIG).create_infer_request()
        # These go on where the last run ended.
        times = 1 if "RandomUniform" in text or "ReadValue" in text else 2
        runs = [
            [np.array(v) for v in request.infer(feeds, share_inputs=False).values()]
            for _ in range(times)
        ]
    except Exception as e:  # whatever the runtime throws
        lines = [line.strip() for line in str(e).splitlines() if line.strip()]
        return Answer("refused", message=" | ".join(lines[-3:])[-400:] or type(e).__name__)
    if any(a.tobytes() != b.tobytes() for a, b in zip(runs[0], runs[-1], strict=True)):
        return Answer("unstable", specs, message="two runs give different numbers")
    return Answer("ran", specs, tuple(runs[0]), layers=layers)


def _spec(port: Any) -> Inferred:
    """What is inferred of a Result's source: behind a Convert, of the Convert's input."""
    source = port.get_source_output()
    node = source.get_node()
    if node.get_friendly_name().startswith(SHOWN):
        source = node.input(0).get_source_output()
    return _output(source)


def _output(source: Any) -> Inferred:
    shape = source.get_partial_shape()
    kind = source.get_element_type().to_string()
    if shape.rank.is_dynamic:
        return kind, None
    return kind, tuple((d.get_min_length(), d.get_max_length()) for d in shape)
