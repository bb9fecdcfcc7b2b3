"""Compilers of devices: their setup, how one file is compiled, what the log says.

tools/compile_devices.py uses this. `device_compilers.py NAME MODEL.onnx` is a worker: it runs in
the venv of a compiler, in a folder of its own, and prints its result as JSON behind RESULT.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SETUP_SECONDS = 3600
FLOAT_TOLERANCE = 1e-3  # of float32 TFLite: beyond it, onnx2tf converted the model wrongly
Json = dict[str, Any]


def inputs_and_outputs(path: str) -> tuple[str, Any, list[Any]]:
    """Return a model's input name, random data for it, and ONNX Runtime's outputs on the CPU."""
    import numpy as np
    import onnx
    import onnxruntime as ort  # type: ignore[import-untyped,unused-ignore]

    constants = {t.name for t in onnx.load(path).graph.initializer}
    inputs = [i for i in onnx.load(path).graph.input if i.name not in constants]
    if len(inputs) != 1:
        raise SystemExit(f"the model has {len(inputs)} inputs, not 1")
    shape = [d.dim_value for d in inputs[0].type.tensor_type.shape.dim]
    data = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    return inputs[0].name, data, session.run(None, {inputs[0].name: data})


def largest_error(results: Iterable[Any], expected: list[Any]) -> float:
    """Return the largest difference as a part of the largest value; NaN counts as infinite."""
    import numpy as np

    worst = 0.0
    for got, want in zip(results, expected, strict=True):
        apart = np.abs(np.asarray(got, np.float32).reshape(want.shape) - want).max(initial=0)
        worst = max(worst, float(np.nan_to_num(apart, nan=np.inf) / np.abs(want).max(initial=1e-9)))
    return worst


def work_hexagon(path: str) -> Json:
    """Compile for HTP v75; other nodes than EPContext remain on the CPU."""
    import onnx
    import onnxruntime as ort
    import onnxruntime_qnn as qnn  # type: ignore[import-not-found,unused-ignore]

    name, data, expected = inputs_and_outputs(path)
    ort.register_execution_provider_library("QNN", qnn.get_library_path())
    devices = [d for d in ort.get_ep_devices() if "QNN" in d.ep_name]
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("ep.context_enable", "1")
    options.add_session_config_entry("ep.context_embed_mode", "1")
    options.add_session_config_entry("ep.context_file_path", "compiled.onnx")
    settings = {
        "backend_path": qnn.get_qnn_htp_path(),
        "htp_arch": "75",
        "soc_model": "57",
        "enable_htp_fp16_precision": "1",
        "htp_graph_finalization_optimization_mode": "3",
        "offload_graph_io_quantization": "0",
    }
    options.add_provider_for_devices(devices[:1], settings)
    session = ort.InferenceSession(path, options)
    nodes = [n.op_type for n in onnx.load("compiled.onnx").graph.node]
    result: Json = {
        "cpu": [n for n in nodes if n != "EPContext"],
        "parts": nodes.count("EPContext"),
    }
    print("RESULT", json.dumps(result), flush=True)  # the simulator can crash
    return {**result, "error": largest_error(session.run(None, {name: data}), expected)}


def work_rockchip(path: str) -> Json:
    """Compile for RK3588; the log, which `read_rockchip` reads, has a table of the layers."""
    from rknn.api import RKNN  # type: ignore[import-not-found,unused-ignore]

    _, data, expected = inputs_and_outputs(path)
    compiler = RKNN(verbose=True)
    steps: list[Callable[[], int]] = [
        lambda: compiler.config(target_platform="rk3588"),
        lambda: compiler.load_onnx(model=path),
        lambda: compiler.build(do_quantization=False),
        lambda: compiler.init_runtime(),
    ]
    for step in steps:
        if code := step():
            raise SystemExit(f"the compiler returned {code}")
    layout = ["nchw"] if data.ndim == 4 else None
    return {"error": largest_error(compiler.inference([data], data_format=layout), expected)}


def run_tflite(file: str, data: Any, expected: Any) -> float:
    """Return the largest error of a TFLite file; its data may have the channels last."""
    import numpy as np
    import tensorflow as tf  # type: ignore[import-not-found,import-untyped,unused-ignore]

    interpreter = tf.lite.Interpreter(file)
    interpreter.allocate_tensors()
    (source,), (sink,) = interpreter.get_input_details(), interpreter.get_output_details()
    data = data if tuple(source["shape"]) == data.shape else np.moveaxis(data, 1, -1)
    scale, zero = source["quantization"]
    if scale:
        data = np.clip(np.round(data / scale) + zero, -128, 127).astype(source["dtype"])
    interpreter.set_tensor(source["index"], data)
    interpreter.invoke()
    result = interpreter.get_tensor(sink["index"]).astype(np.float32)
    scale, zero = sink["quantization"]
    result = (result - zero) * scale if scale else result
    layouts = [a for a in (result, np.moveaxis(result, -1, 1)) if a.shape == expected.shape]
    return min(largest_error([a], [expected]) for a in layouts)


def work_ethos(path: str) -> Json:
    """Convert to int8 TFLite and compile that with vela."""
    import numpy as np
    import onnx2tf  # type: ignore[import-not-found,unused-ignore]

    name, data, expected = inputs_and_outputs(path)
    random = np.random.default_rng(2)
    images = random.random((20, 128, 128, 3)).astype(np.float32)
    np.save("calibration_image_sample_data_20x128x128x3_float32.npy", images)  # else downloaded
    samples = random.standard_normal((16, *data.shape[1:])).astype(np.float32)
    np.save("samples.npy", np.concatenate([np.moveaxis(samples, 1, -1), np.moveaxis(data, 1, -1)]))
    flat = [1] * (data.ndim - 1) + [data.shape[1]]
    onnx2tf.convert(
        input_onnx_file_path=path,
        output_folder_path=".",
        output_integer_quantized_tflite=True,
        custom_input_op_name_np_data_path=[
            [name, "samples.npy", np.zeros(flat).tolist(), np.ones(flat).tolist()]
        ],
        verbosity="error",
    )
    stem = Path(path).stem
    result: Json = {
        "float error": run_tflite(f"{stem}_float32.tflite", data, expected[0]),
        "error": run_tflite(f"{stem}_full_integer_quant.tflite", data, expected[0]),
    }
    vela = [str(Path(sys.executable).with_name("vela")), f"{stem}_full_integer_quant.tflite"]
    options = ["--accelerator-config", "ethos-u55-128", "--show-cpu-operations"]
    print("RESULT", json.dumps(result), flush=True)
    done = subprocess.run(
        [*vela, *options, "--verbose-cycle-estimate"], capture_output=True, text=True, check=False
    )
    print(done.stdout, done.stderr, flush=True)
    return result | read_vela(done.stdout, operators(vela[1]))


def operators(file: str) -> dict[str, str]:
    """Return the operators of a TFLite file by the names of their results."""
    import tensorflow as tf

    interpreter = tf.lite.Interpreter(file)
    names = {t["index"]: t["name"] for t in interpreter.get_tensor_details()}
    details = interpreter._get_ops_details()  # there is no public way
    return {names[d["outputs"][0]]: d["op_name"] for d in details if d["op_name"] != "DELEGATE"}


def read_vela(printed: str, kinds: dict[str, str]) -> Json:
    """Return operators on the CPU and cycles. Vela calls those that it cannot map Passthrough."""
    cycles = re.search(r"^Total cycles +(\d+)", printed, re.MULTILINE)
    found = re.findall(r"^ +CPU: (\w+) = (.*) \(outputs ", printed, re.MULTILINE)
    cpu = [kinds.get(name, kind) for kind, name in found]
    return {"cpu": cpu, "cycles": int(cycles[1])} if cycles else {"failure": "vela fails"}


# --- Readers: what a compiler's log says, as far as the worker does not know it.


def read_rockchip(log: str) -> Json:
    """Return operators on the CPU and cycles. A field that is too narrow is no valid command."""
    layer = re.compile(r"\] (\d+) +(\w+) +\S+ +(CPU|NPU|GPU) .* \d+/\d+/(\d+) ")
    layers = {number: rest for number, *rest in layer.findall(log)}  # each is printed once a core
    ends = "InputOperator", "OutputOperator"
    cpu = [kind for kind, place, _ in layers.values() if place == "CPU" and kind not in ends]
    result: Json = {"cpu": cpu, "cycles": sum(int(cycles) for *_, cycles in layers.values())}
    return result | ({"failure": "a register is too narrow"} if "REGTASK" in log else {})


# --- Compilers


@dataclass(frozen=True)
class Compiler:
    """How to install a compiler, run it and read its log; `target` is the name for `lower`."""

    target: str
    requirements: tuple[str, ...]
    packages: tuple[str, ...]  # whose versions are part of a result
    work: Callable[[str], Json]
    seconds: int
    read: Callable[[str], Json] = lambda log: {}

    def python(self, venvs: Path) -> Path:
        return venvs / self.target / ("Scripts" if os.name == "nt" else "bin") / "python"


HEXAGON = Compiler(
    "hexagon-htp",
    ("onnxruntime-qnn==2.7.0", "onnx"),
    ("onnxruntime-qnn", "onnxruntime"),
    work_hexagon,
    300,
)
ROCKCHIP = Compiler(
    "rk3588",
    ("rknn-toolkit2==2.5.0", "setuptools<81", "onnx", "onnxruntime"),
    ("rknn-toolkit2", "onnx"),
    work_rockchip,
    600,
    read_rockchip,
)
ETHOS = Compiler(
    "ethos-u55",
    ("ethos-u-vela==5.2.0", "onnx2tf==1.29.24"),
    ("ethos-u-vela", "onnx2tf", "tensorflow"),
    work_ethos,
    600,
)
COMPILERS = {c.target: c for c in (HEXAGON, ROCKCHIP, ETHOS)}


def bounded(command: list[str], seconds: int, folder: Path) -> tuple[int, str]:
    """Run a command, and return its exit code and output. At the time limit all of it is ended."""
    output = folder / "output.log"
    with output.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=folder, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = 124
        finally:  # also after Ctrl-C
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return code, output.read_text("utf-8", "replace")


def set_up(compiler: Compiler, venvs: Path) -> None:
    """Create the venv of a compiler, unless it exists with the same requirements."""
    python = compiler.python(venvs)
    ready, wanted = venvs / compiler.target / "requirements.txt", "\n".join(compiler.requirements)
    if ready.exists() and ready.read_text("utf-8") == wanted:
        return
    print(f"setting up {compiler.target}: {', '.join(compiler.requirements)}", flush=True)
    venvs.mkdir(parents=True, exist_ok=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", *compiler.requirements]
    for command in ([sys.executable, "-m", "venv", "--clear", str(venvs / compiler.target)], pip):
        with tempfile.TemporaryDirectory() as folder:
            code, log = bounded(command, SETUP_SECONDS, Path(folder))
        if code:
            raise SystemExit(f"{compiler.target} cannot be set up (exit {code}):\n{log[-2000:]}")
    ready.write_text(wanted, "utf-8")


def versions_of(compiler: Compiler, venvs: Path) -> dict[str, str]:
    """Return the versions of the packages that compile."""
    code = "import importlib.metadata as m, sys; print(*map(m.version, sys.argv[1:]))"
    command = [str(compiler.python(venvs)), "-c", code, *compiler.packages]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return dict(zip(compiler.packages, done.stdout.split(), strict=True))


def outcome(compiler: Compiler, code: int, log: str) -> Json:
    """Return the result that a log contains, and why there is none."""
    printed = re.findall(r"^RESULT (.*)$", log, re.MULTILINE)
    result: Json = {**(json.loads(printed[-1]) if printed else {}), **compiler.read(log)}
    if code:
        lines = [line for line in log.splitlines() if re.search(r"error|fatal", line, re.I)]
        last = re.sub(r"\x1b\[[\d;]*m|^[\w.]+\.(?=\w+:)", "", (lines or [""])[-1]).strip()[:200]
        why = {124: f"no answer in {compiler.seconds} s"}.get(code, f"exit {code}")
        result.setdefault("failure", f"{why}: {last}" if last else why)
    elif result.get("float error", 0) > FLOAT_TOLERANCE:
        result["failure"] = "onnx2tf converts it wrongly"
    return result


def compile_file(compiler: Compiler, file: Path, venvs: Path) -> Json:
    """Compile one file in a process of its own."""
    worker = [str(Path(__file__).resolve()), compiler.target, str(file.resolve())]
    with tempfile.TemporaryDirectory() as folder:
        command = [str(compiler.python(venvs)), *worker]
        return outcome(compiler, *bounded(command, compiler.seconds, Path(folder)))


def main() -> None:
    """Compile one file, in the venv of its compiler."""
    name, path = sys.argv[1:]
    print("RESULT", json.dumps(COMPILERS[name].work(path)), flush=True)
    os._exit(0)  # some compilers crash when Python ends


if __name__ == "__main__":
    main()
