"""A model that a verb writes is one that `validate` accepts, for every shape that is asked for."""

import random
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from support.commands import Patch, command
from support.onnx_models import info, model, node

LOWER = (
    "|--form gemm|--target generic --convolutions --certify c.json|--target ethos-u55 --best-effort"
)
VERBS = [f"lower {options}" for options in LOWER.split("|")]
VERBS += ["convert", "simplify", "extract --from c", "raise"]
SIZES = (1, 2, 4, 7, 8, 16, 33)


def skipping(join: str) -> bytes:
    """A network with a skip connection, which only sizes that the stride divides fit."""
    rng, domain = np.random.default_rng(0), "another.domain" if join == "Vague" else ""
    weights = {"w": rng.normal(size=(4, 3, 3, 3)), "v": rng.normal(size=(4, 3, 2, 2))}
    made = model(
        [
            node("Conv", "x w", "c", strides=[2, 2], pads=[1, 1, 1, 1]),
            node("Vague" if join == "Vague" else "Relu", "c", "o", domain=domain),
            node("ConvTranspose", "c v", "u", strides=[2, 2]),
            node("Concat", "u x", "y", axis=1) if join == "Concat" else node("Add", "u x", "y"),
        ],
        [info("x", ["N", "C", "H", "W"])],
        ["y", "o"],
        {name: w.astype(np.float32) for name, w in weights.items()},
    )
    return bytes(made.SerializeToString())


@pytest.mark.parametrize("join", ["Add", "Concat"])
@pytest.mark.parametrize("verb", VERBS)
def test_what_is_written_is_valid(verb: str, join: str, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.onnx").write_bytes(skipping(join))
    ird.write(ird.read("a.onnx"), "a.xml")
    rng, fitting, name, *options = random.Random(verb + join), 0, *verb.split()
    for number in range(12):
        shape = [1, rng.choice((3, 3, 3, 4)), *rng.choices(SIZES, k=2)]
        file, out = rng.choice(("a.onnx", "a.xml")), Path(f"{number}.xml")
        if name == "lower" and file == "a.onnx":
            out = out.with_suffix(".onnx")
        asked = f"x[{','.join(map(str, shape))}]"
        broadcast = join == "Add"  # an axis of 1 fits every other
        fits = shape[1] == 3 and all(n % 2 == 0 or (broadcast and n == 1) for n in shape[2:])
        code = command(name, file, "-o", out, "--shape", asked, "--force", *options)
        assert out.exists() <= fits, (file, shape)
        if out.exists():
            assert (code in (0, 1, 4), command("validate", out)) == (True, 0)
        fitting += out.exists()
    assert fitting


def test_another_system_s_node_hides_no_size_that_does_not_fit(tmp_path: Path) -> None:
    model, out = tmp_path / "a.onnx", tmp_path / "out.onnx"
    model.write_bytes(skipping("Vague"))
    assert command("lower", model, "-o", out, "--shape", "x[1,3,33,33]") == 3
    assert not out.exists()
    assert command("lower", model, "-o", out, "--shape", "x[1,3,32,32]") == 0


@pytest.mark.oracles
def test_new_layers_name_their_origin(tmp_path: Path) -> None:
    import openvino

    model, out = "ir_samples/openvino/segmentation_head.xml", tmp_path / "out.xml"
    plain, again = tmp_path / "plain.xml", tmp_path / "again.xml"
    assert command("lower", model, "-o", plain, "--form", "stacked") == 0
    certify = ("--origins", "--certify", tmp_path / "c.json")
    assert command("lower", model, "-o", out, "--form", "stacked", *certify) in (0, 7)
    assert command("validate", "--strict", out) == 0
    assert command("check-certificate", model, out, "--certificate", tmp_path / "c.json") in (0, 7)
    noted = {n.name: n.rt_info for n in ird.read(out).nodes()}
    assert noted["conv1"] is None
    mark = '<attribute name="fused_names" version="0" value="up1"/>'
    assert mark in str(noted["up1"])
    assert mark in str(noted["up1/Convolution"])
    ird.write(ird.read(out), again)
    assert again.read_bytes() == out.read_bytes()
    x = ird.run(plain, np.ones((1, 3, 32, 32), np.float32))
    read = openvino.Core().read_model(out)
    config = {"INFERENCE_PRECISION_HINT": "f32"}
    found = openvino.compile_model(read, "CPU", config)([np.ones((1, 3, 32, 32), np.float32)])
    assert np.allclose(found[0], next(iter(x.values())), atol=1e-5)
    openvino.serialize(read, again)
    assert 'name="fused_names" version="0" value="up1"' in again.read_text()
