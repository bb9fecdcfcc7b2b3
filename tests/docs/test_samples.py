"""The samples are what the package writes, stay small, and mean what they are for."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.formats.xml_writer import write_ir

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "ir_samples"
GOOD = sorted(p for p in SAMPLES.glob("*/*.xml") if p.parent.name != "broken")
WARNED = {
    "openvino/same_upper_output_shape": ["W301", "W300"],
    "onednn/same_lower_groups": ["W301"],
    "onnx/group_2": ["W303"],
    "onnx/kernel_shape": ["W303"],
    "onnx/output_shape": ["W303"],
    "onnx/odd_total_version_1": ["W300"],
    "ort_nhwc/same_upper_odd_total": ["W300"],
}
TRAINED = "super_resolution"
BROKEN = {
    "wrong_channels": ["E302"],
    "typos": ["E106", "E202", "W100"],
    "short_weights": ["E121"],
}


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_samples_are_what_is_written(path: Path, update: bool, tmp_path: Path) -> None:
    """Read and written again they are the same bytes; a dialect's layer stays one."""
    made = tmp_path / path.name
    write_ir(ird.infer(ird.read(path)), made)
    # Samples are there to be edited, so they do not vouch for their weights.
    made.write_text(re.sub("\t<rt_info weights_.*\n", "", made.read_text("utf-8")), "utf-8")
    for suffix in (".xml", ".bin"):
        if update:
            path.with_suffix(suffix).write_bytes(made.with_suffix(suffix).read_bytes())
        assert made.with_suffix(suffix).read_bytes() == path.with_suffix(suffix).read_bytes()


def test_every_file_belongs_to_a_sample() -> None:
    """Broken ones are copies of a good one with mistakes."""
    files = {p.relative_to(SAMPLES).as_posix() for p in SAMPLES.glob("*/*.*")}
    pairs = {label(p) for p in SAMPLES.glob("*/*.xml")}
    single = {"onnx/upscaler.onnx"}
    single |= {f"{TRAINED}/{name}" for name in ("README.md", "chelsea.png", "coffee.png")}
    assert files == {f"{stem}{suffix}" for stem in pairs for suffix in (".xml", ".bin")} | single
    whole = (SAMPLES / "openvino/group_deconv.bin").read_bytes()
    for path in (SAMPLES / "broken").glob("*.bin"):
        assert path.read_bytes() == whole[: 100 if path.stem == "short_weights" else None]


def test_samples_are_small() -> None:
    assert sum(p.stat().st_size for p in SAMPLES.rglob("*.*")) < 800_000


def label(path: Path) -> str:
    return path.relative_to(SAMPLES).with_suffix("").as_posix()


@pytest.mark.parametrize("path", GOOD, ids=label)
def test_good_samples(path: Path) -> None:
    assert [d.code for d in ird.validate(path)] == WARNED.get(label(path), [])
    graph = ird.read(path)
    shape = [s if isinstance(s, int) else 7 for s in graph.parameters[0].spec().shape or ()]
    x = (np.arange(np.prod(shape)) % 11 - 5).astype(np.float32).reshape(shape)
    direct, lowered = ird.run(graph, [x], form=None), ird.run(graph, [x])
    assert list(direct) == list(lowered) == graph.outputs
    for name, y in direct.items():
        assert np.array_equal(y, lowered[name])
        assert np.ptp(y) > 0


ONES_5X5 = [
    [0, 1, 3, 3, 2],
    [3, 8, 15, 12, 7],
    [9, 21, 36, 27, 15],
    [9, 20, 33, 24, 13],
    [6, 13, 21, 15, 8],
]


def run(sample: str, x: Any, form: str | None = None) -> Any:
    graph = ird.read(SAMPLES / f"{sample}.xml")
    return ird.run(graph, [x.astype(np.float32)], form=form)["deconv"]


@pytest.mark.parametrize("form", [None, "zero-insertion"])
@pytest.mark.parametrize(
    "sample", ["tensorrt/deconv_3x3_to_5x5", "openvino/deconv_3x3_to_5x5", "onnx/default"]
)
def test_the_published_3x3_to_5x5(sample: str, form: str | None) -> None:
    y = run(sample, np.arange(9).reshape(1, 1, 3, 3), form)
    assert all(np.array_equal(y[0, m], ONES_5X5) for m in range(y.shape[1]))


def test_the_published_size_of_the_specification() -> None:
    graph = ird.infer(ird.read(SAMPLES / "openvino/deconv_224_to_447.xml"))
    assert graph.parameters[0].spec().shape == (1, 20, 224, 224)
    assert graph.results[0].spec().shape == (1, 10, 447, 447)


def test_dilations_by_hand() -> None:
    """Four copies of the data, two apart: 7, 2, 1 and 9 times, in the published order."""
    x = np.array([3, 8, 1, 9, 5, 7, 3, 2, 6], np.float32).reshape(1, 1, 3, 3)
    expected = np.zeros((5, 5))
    for weight, (row, column) in zip((7, 2, 1, 9), np.ndindex(2, 2), strict=True):
        expected[2 * row : 2 * row + 3, 2 * column : 2 * column + 3] += weight * x[0, 0]
    assert np.array_equal(run("onnx/dilations", x)[0, 0], expected)
    assert expected[0].tolist() == [21, 56, 13, 16, 2]


def test_fused_activation() -> None:
    graph = ird.read(SAMPLES / "ort_nhwc/bias_leaky_relu.xml")
    x = (np.arange(60) % 7 - 3).astype(np.float32).reshape(1, 4, 5, 3)
    w, bias = (graph.node(i).op.data.array() for i in (1, 2))  # type: ignore[attr-defined]
    first = np.moveaxis(x, 3, 1)[0, :, 0, 0] @ w[:, :, 1, 1] + bias  # y[0, 0]: the middle tap
    y = ird.run(graph, [x])["deconv"]
    assert y.shape == (1, 8, 10, 2)
    assert np.array_equal(y[0, 0, 0], np.where(first < 0, first / 4, first))


@pytest.mark.parametrize("stem", BROKEN)
def test_broken_samples(stem: str) -> None:
    found = ird.validate(SAMPLES / "broken" / f"{stem}.xml")
    assert sorted(d.code for d in found) == BROKEN[stem]
    assert all(d.location is not None for d in found)
    with pytest.raises(ird.InputError if stem != "wrong_channels" else ird.InferenceError):
        ird.infer(ird.read(SAMPLES / "broken" / f"{stem}.xml"))


def test_every_broken_sample_is_listed() -> None:
    assert {p.stem for p in (SAMPLES / "broken").glob("*.xml")} == set(BROKEN)


# The notebook of ir_samples/ runs from the first cell to the last, and shows what it promises.


NOTEBOOK = Path("ir_samples/deconvolution.ipynb")


def stored() -> Any:
    """Return the notebook; its packages take long to import."""
    import nbformat

    notebook = nbformat.read(NOTEBOOK, 4)
    nbformat.validate(notebook)
    return notebook


@pytest.fixture(scope="module")
def cells() -> dict[str, dict[str, Any]]:
    """What the code cells show, by their last line."""
    from nbclient import NotebookClient

    notebook = stored()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IRDECONV_FAST", "0")  # compiling takes longer than all cells
        NotebookClient(
            notebook, timeout=120, resources={"metadata": {"path": str(NOTEBOOK.parent)}}
        ).execute()
    shown = {}
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.source:
            results = [o.data for o in cell.outputs if o.output_type == "execute_result"]
            printed = "".join(o.text for o in cell.outputs if o.output_type == "stream")
            shown[cell.source.splitlines()[-1]] = results[0] if results else {"printed": printed}
    return shown


def test_the_file_is_stored_without_outputs() -> None:
    assert not any(cell.get("outputs") for cell in stored().cells)


def test_pictures(cells: dict[str, dict[str, Any]]) -> None:
    for last in ("graph", 'ird.explain(network, "up2")'):
        assert cells[last]["image/svg+xml"].startswith("<svg")


@pytest.mark.parametrize(
    ("last", "word"),
    [
        ('ird.lower(network, "auto").report', "DepthToSpace"),
        ("ird.check_certificate(network, stacked)", "2 of 2 rewritten layers equal"),
        ("ird.compare(network, stacked, image)", "12 layers compared"),
        ("ird.compile(stacked)", "head"),
    ],
)
def test_reports_are_tables(cells: dict[str, dict[str, Any]], last: str, word: str) -> None:
    assert word in cells[last]["text/html"]


def test_texts(cells: dict[str, dict[str, Any]]) -> None:
    assert "GroupConvolutionBackpropData" in cells["print(ird.inspect(graph))"]["printed"]
    assert cells["ird.validate(network)"]["text/plain"] == "[]"
    for last in ("by_definition", "by_convolution"):
        assert cells[last]["text/plain"] == "array([20, 50, 40, 90, 60])"
