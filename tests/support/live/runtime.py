"""OpenVINO in a process of its own: what it says of an IR, also where that kills it."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from support.live.sample import SHOWN, Answer, Inferred
from support.runtime_truth import CONFIG, joined

if sys.platform == "linux":
    import resource

PATIENCE = 30  # seconds of computing for one sample
ROUNDS = 20  # of waiting that long
MEMORY = 8 * 2**30  # bytes


Asked = tuple[str, bytes, list[Any]]  # an IR, its constants and its inputs


class Runtime:
    """A child process with OpenVINO; begun anew where it ends."""

    def __init__(self) -> None:
        self._process: Any = None
        self._pipe: Any = None
        self._ahead: dict[bytes, Answer] = {}

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def ask_ahead(self, models: Sequence[Asked]) -> None:
        """Compile models as one, which takes the time of one; `ask` then has their answers."""
        answers = self._ask(models)
        if isinstance(answers, list):  # else the process ended: each is asked alone
            self._ahead |= zip(map(pickle.dumps, models), answers, strict=True)

    def ask(self, text: str, blob: bytes, feeds: Sequence[Any]) -> Answer:
        """Read, compile and run a model."""
        asked = text, blob, list(feeds)
        if (known := self._ahead.pop(pickle.dumps(asked), None)) is not None:
            return known
        answers = self._ask([asked])
        return answers[0] if isinstance(answers, list) else answers

    def _ask(self, models: Sequence[Asked]) -> list[Answer] | Answer:
        if self._process is None:
            self._begin()
        try:
            self._pipe.send([(text, blob, list(map(_taken, fed))) for text, blob, fed in models])
            begun = self._computed()
            for _ in range(ROUNDS):
                if self._pipe.poll(PATIENCE):
                    answers: list[Answer] = self._pipe.recv()
                    return answers
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
            models = pipe.recv()
        except EOFError:
            return
        pipe.send(_answers(openvino, core, models))


def _limit_memory() -> None:
    """Let this process have some GB more than the libraries map, not all that the machine has."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _answers(ov: Any, core: Any, models: list[Asked]) -> list[Answer]:
    try:
        return _run(ov, core, models)
    except Exception as e:  # whatever the runtime throws
        if len(models) > 1:
            half = len(models) // 2
            return [a for part in (models[:half], models[half:]) for a in _answers(ov, core, part)]
        lines = [line.strip() for line in str(e).splitlines() if line.strip()]
        return [Answer("refused", message=" | ".join(lines[-3:])[-400:] or type(e).__name__)]


def _run(ov: Any, core: Any, models: list[Asked]) -> list[Answer]:
    weights = [ov.Tensor(np.frombuffer(m[1] or b"\0", np.uint8).copy()) for m in models]
    parts = [core.read_model(m[0].encode(), held) for m, held in zip(models, weights, strict=True)]
    specs = [tuple(_spec(r.input(0)) for r in part.get_results()) for part in parts]
    layers = [
        {
            n.get_friendly_name(): (n.get_type_name(), tuple(map(_output, n.outputs())))
            for n in part.get_ordered_ops()
        }
        for part in parts
    ]
    whole = joined(parts) if len(parts) > 1 else parts[0]
    request = core.compile_model(whole, "CPU", CONFIG).create_infer_request()
    # These go on where the last run ended.
    goes_on = any(kind in text for text, *_ in models for kind in ("RandomUniform", "ReadValue"))
    feeds = [_tensor(ov, array) for *_, fed in models for array in fed]
    runs = [
        [_array(*given) for given in request.infer(feeds, share_inputs=False).items()]
        for _ in range(1 if goes_on else 2)
    ]
    answers, first = [], 0
    for spec, named in zip(specs, layers, strict=True):
        once, again = (run[first : first + len(spec)] for run in (runs[0], runs[-1]))
        first += len(spec)
        if any(a.tobytes() != b.tobytes() for a, b in zip(once, again, strict=True)):
            message = "two runs give different numbers"
            answers.append(Answer("unstable", spec, message=message))
        else:
            answers.append(Answer("ran", spec, tuple(once), layers=named))
    return answers


def _tensor(ov: Any, array: Any) -> Any:
    """Return numbers of bf16 as a tensor: an array the runtime takes for f16."""
    if array.dtype.name != "bfloat16":
        return array
    tensor = ov.Tensor(ov.Type.bf16, array.shape)
    tensor.data[...] = array.view(np.float16)
    return tensor


def _array(port: Any, array: Any) -> Any:
    """Return a copy of a result; one of bf16 comes as f16."""
    is_bf16 = port.get_element_type().to_string() == "bf16"
    return np.array(array.view(ml_dtypes.bfloat16) if is_bf16 else array)


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
