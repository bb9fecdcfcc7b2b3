"""Count what other tools make of deconvolutions; docs/comparison.md shows the output.

    python tools/compare_tools.py [--only TOOL] [--write]

Needs `pip install '.[onnx,onnxruntime,openvino]' apache-tvm onnx-tool`; a tool that is missing is
left out. Layers are ONNX models with one ConvTranspose of f32, the data small integers, so that
right results are exact. What counts as right are the numbers of ONNX Runtime; layers that it
refuses are left out. A tool runs in a process of its own, which may die on a layer.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.metadata import PackageNotFoundError, version
from io import StringIO
from pathlib import Path
from typing import Any

import checkout  # noqa: F401
import numpy as np
from compare_mistakes import MISTAKES, judges
from compare_mistakes import model as single

import irdeconv as ird

LAYERS = {
    "plain: 2D, pads as given": """
        axes = [2]
        kernel = [3, 4]
        strides = [1, 2]
        dilations = [1, 2]
        groups = [1, 2, 8]
        pads_begin = [0, 1]
        pads_end = [0, 1]
        output_padding = [0, 1]
        auto_pad = "explicit"
    """,
    "2D, auto_pad or output_shape": """
        axes = [2]
        kernel = 3
        strides = 2
        dilations = [1, 2]
        groups = [1, 2]
        output_padding = [0, 1]
        auto_pad = ["explicit", "same_upper", "same_lower", "valid"]
        output_shape = ["none", "smaller", "larger"]
    """,
    "1D and 3D, pads as given": """
        axes = [1, 3]
        kernel = 3
        strides = [1, 2]
        dilations = [1, 2]
        groups = [1, 2]
        pads_begin = [0, 1]
        pads_end = [0, 1]
        auto_pad = "explicit"
    """,
}
COMMON = """
dialects = ["onnx"]
strength = "all"
[cross]
size = 4
batch = 2
channels = 8
outputs = 8
bias = true
filter = "constant"
element_type = "f32"
version = "onnx_opset11"
"""
Tool = Callable[[Path], np.ndarray]


def inputs_of(case: Path) -> np.ndarray:
    with np.load(case / "inputs.npz") as stored:
        (array,) = (stored[name] for name in stored.files)
    return array


def with_onnxruntime(case: Path, model: Path | None = None) -> np.ndarray:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        str(model or case / "model.onnx"), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {session.get_inputs()[0].name: inputs_of(case)})[0]


def with_reference(case: Path) -> np.ndarray:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(str(case / "model.onnx"))
    return evaluator.run(None, {evaluator.input_names[0]: inputs_of(case)})[0]


def with_openvino(case: Path) -> np.ndarray:
    import openvino

    core = openvino.Core()
    compiled = core.compile_model(
        str(case / "model.onnx"), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    )
    return np.array(compiled(inputs_of(case))[0])


def with_tvm(case: Path) -> np.ndarray:
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    module = from_onnx(onnx.load(case / "model.onnx"))
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    return machine["main"](tvm.runtime.tensor(inputs_of(case))).numpy()


def with_irdeconv(case: Path) -> np.ndarray:
    (array,) = ird.run(case / "model.onnx", [inputs_of(case)], form=None).values()
    return array


def lowered(form: str) -> Tool:
    def run(case: Path) -> np.ndarray:
        out = case / f"{form}.onnx"
        ird.lower_onnx(case / "model.onnx", out, form=form)
        return with_onnxruntime(case, out)

    return run


TOOLS: dict[str, tuple[str, Tool]] = {
    "onnx.reference": ("onnx", with_reference),
    "OpenVINO": ("openvino", with_openvino),
    "TVM, Relax": ("apache-tvm", with_tvm),
    "irdeconv, run": ("irdeconv", with_irdeconv),
    "irdeconv, lowered (zero-insertion)": ("irdeconv", lowered("zero-insertion")),
    "irdeconv, lowered (phases)": ("irdeconv", lowered("phases")),
    "irdeconv, lowered (stacked)": ("irdeconv", lowered("stacked")),
}


def verdict(tool: Tool, case: Path, expected: np.ndarray) -> str:
    try:
        got = tool(case)
    except Exception:
        return "refused"
    if got.shape != expected.shape:
        return "another shape"
    return "right" if np.array_equal(got, expected) else "other numbers"


def work(name: str, cases: list[str], answers: Any) -> None:
    """Judge cases in a process of its own; what is asked for stands in the queue before a crash."""
    tool = with_onnxruntime if name == "expected" else TOOLS[name][1]
    for case in cases:
        expected = Path(case, "right.npy")
        if name == "expected":
            try:
                np.save(expected, tool(Path(case)))
                answers.put((case, "right"))
            except Exception:
                answers.put((case, "refused"))
        else:
            answers.put((case, verdict(tool, Path(case), np.load(expected))))
    answers.put(None)


def ask(name: str, cases: list[str]) -> dict[str, str]:
    """Return the verdict on every case; a process that dies is begun anew behind its case."""
    found: dict[str, str] = {}
    context = multiprocessing.get_context("spawn")
    while left := [c for c in cases if c not in found]:
        answers = context.SimpleQueue()
        process = context.Process(target=work, args=(name, left, answers))
        process.start()
        for case in left:
            while answers.empty() and process.is_alive():
                process.join(0.01)
            if answers.empty():
                found[case] = "process died"
                break
            found.update([answers.get()])
        process.join(5)
        process.kill()
    return found


def package(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return "" if name == "irdeconv" else None


def make(folder: Path) -> dict[str, list[str]]:
    """Write the layers of all groups and return those that ONNX Runtime computes."""
    groups = {}
    for number, (title, text) in enumerate(LAYERS.items()):
        file = folder / f"{number}.toml"
        file.write_text(COMMON + text)
        suite = ird.suite(folder / str(number), layers=file, onnx=True)
        cases = [str(folder / str(number) / case.name) for case in suite.cases]
        answers = ask("expected", cases)
        groups[title] = [c for c in cases if answers[c] == "right"]
    return groups


def table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip())
    print()


def layers_table(groups: dict[str, list[str]], only: str | None) -> None:
    kinds = ("right", "other numbers", "another shape", "refused", "process died")
    counts: dict[tuple[str, str], Counter[str]] = {}
    for name, (needs, _) in TOOLS.items():
        if package(needs) is None or (only and only not in name):
            continue
        for title, cases in groups.items():
            counts[name, title] = Counter(ask(name, cases).values())
    for title, cases in groups.items():
        seen = [k for k in kinds if any(c[k] for (_, t), c in counts.items() if t == title)]
        rows = [(f"{title} ({len(cases)})", *seen)]
        rows += [
            (n, *(str(c[k] or "") for k in seen)) for (n, t), c in counts.items() if t == title
        ]
        table(rows)


def mistakes_table() -> None:
    names = list(judges())
    rows = [("mistake", *names)]
    total: Counter[str] = Counter()
    wrong = {name for name, judge in judges().items() if judge(single())}
    assert not wrong, f"{wrong} refuse a layer without a mistake"
    for title, model in MISTAKES.items():
        answers = {name: judge(model()) for name, judge in judges().items()}
        total.update(name for name, says in answers.items() if says)
        rows.append((title, *("found" if answers[n] else "" for n in names)))
    rows.append((f"found of {len(MISTAKES)}", *(str(total[n]) for n in names)))
    table(rows)


def macs_table() -> None:
    """Multiply-accumulates of two layers: each element of the input, tap and output channel."""
    import onnx
    import onnx_tool

    layers = {
        "32 to 16 channels, kernel 4, stride 2": {"filter": (32, 16, 4, 4), "pads": [1] * 4},
        "the same in two groups": {"filter": (32, 8, 4, 4), "pads": [1] * 4, "group": 2},
    }
    rows = [("multiply-accumulates of a layer", "definition", "irdeconv", "onnx-tool")]
    for title, attributes in layers.items():
        proto = single((1, 32, 16, 16), strides=[2, 2], **attributes)
        filter = attributes["filter"]
        counted = onnx_tool.Model(onnx.shape_inference.infer_shapes(proto))
        counted.graph.shape_infer()
        counted.graph.profile()
        theirs = sum(int(node.macs[0]) for node in counted.graph.nodemap.values())
        ours = sum(layer.macs or 0 for layer in ird.inspect(proto).layers)
        direct = 16 * 16 * int(np.prod(filter))
        rows.append((title, *(f"{n:,}" for n in (direct, ours, theirs))))
    table(rows)


def measure(only: str | None) -> None:
    """Print everything that the page shows."""
    needed = ("onnx", "onnxruntime", "openvino", "apache-tvm", "onnx-tool")
    print(*(f"{n} {package(n)}" for n in needed), sep=", ", end="\n\n")
    with tempfile.TemporaryDirectory() as folder:
        layers_table(make(Path(folder)), only)
    mistakes_table()
    if package("onnx-tool"):
        macs_table()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="TOOL", help="run only the tools of this name")
    parser.add_argument("--write", action="store_true", help="put the output into the page")
    options = parser.parse_args()
    if not options.write:
        return measure(options.only)
    with redirect_stdout(StringIO()) as printed:
        measure(None)
    page = Path(__file__).resolve().parent.parent / "docs/comparison.md"
    block = re.compile(r"(?<=<!-- measured -->\n```text\n).*?(?=```)", re.S)
    text = printed.getvalue().rstrip() + "\n"
    page.write_text(block.sub(lambda _: text, page.read_text("utf-8")), "utf-8")
    return None


if __name__ == "__main__":
    main()
