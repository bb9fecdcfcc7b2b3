"""`--print-python`: the script computes the numbers of the command."""

from pathlib import Path

import numpy as np
import pytest

from irdeconv.formats.arrays import packed
from support.commands import answer

DYNAMIC, HEAD = (f"ir_samples/openvino/{name}.xml" for name in ("dynamic", "segmentation_head"))


def executed(*words: object) -> dict[str, object]:
    names: dict[str, object] = {}
    exec(answer(*words, "--print-python").out, names)
    return names


@pytest.mark.parametrize(
    "words",
    [
        (DYNAMIC, "--fill", 4, "--seed", 3),
        (DYNAMIC, "--shape", "x[1,2,5,6]", "x=rand(-2,3)", "--form", "none", "--exact"),
        (DYNAMIC, "x.npy", "--no-fuse", "--threads", 1),
        (DYNAMIC, "x.npz"),
        (DYNAMIC, "x.safetensors", "--form", "phases"),
        (HEAD, "image=ones", "--form", "stacked", "--outputs", "up1"),
    ],
)
def test_run(words: tuple[object, ...], tmp_path: Path) -> None:
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(1, 2, 3, 4)
    files = {"x.npy": {"x": x}, "x.npz": {"arr_0": x}, "x.safetensors": {"x": x, "other": x}}
    for name, arrays in files.items():
        (tmp_path / name).write_bytes(packed(name, arrays))
    words = tuple(tmp_path / str(w) if w in files else w for w in words)
    out = tmp_path / "out.npz"
    answer("run", *words, "-o", out)
    with np.load(out) as archive:
        wanted = dict(archive)
    out.unlink()
    outputs = executed("run", *words, "-o", out)["outputs"]
    assert isinstance(outputs, dict)
    assert {k: v.tobytes() for k, v in outputs.items()} == {
        k: v.tobytes() for k, v in wanted.items()
    }
    with np.load(out) as archive:
        assert [*archive] == [*wanted]


def test_models_that_are_written(tmp_path: Path) -> None:
    out = tmp_path / "out.xml"
    for words in (
        ("lower", HEAD, "--form", "gemm", "--only", "up1"),
        ("infer", DYNAMIC, "--fill", 7),
    ):
        answer(*words, "-o", out)
        wanted = out.read_bytes(), out.with_suffix(".bin").read_bytes()
        out.unlink()
        executed(*words, "-o", out)
        assert (out.read_bytes(), out.with_suffix(".bin").read_bytes()) == wanted


def test_compare(tmp_path: Path) -> None:
    answer("lower", HEAD, "-o", tmp_path / "low.xml")
    for words in ((HEAD, tmp_path / "low.xml"), (DYNAMIC, "--fill", 4, "--form", "stacked")):
        report = executed("compare", *words, "--seed", 2)["report"]
        assert str(report.verdict) in answer("compare", *words, "--seed", 2).words  # type: ignore[attr-defined]
