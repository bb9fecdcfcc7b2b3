"""TensorIterator of IR 5 to 7: its body has open ports, and weights in the same `.bin`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird

RNG = np.random.default_rng(3)
W = RNG.standard_normal((8, 4)).astype(np.float32)
B = RNG.standard_normal(8).astype(np.float32)


def port(number: int, *dims: int) -> str:
    return f'<port id="{number}">' + "".join(f"<dim>{d}</dim>" for d in dims) + "</port>"


BODY = f"""<body><layers>
<layer id="0" name="squeeze" type="Reshape" precision="FP32"><data dim="1,2"/>
<input>{port(0, 1, 1, 2)}</input><output>{port(1, 1, 2)}</output></layer>
<layer id="1" name="cell" type="LSTMCell" precision="FP32"><data hidden_size="2"/>
<input>{port(0, 1, 2)}{port(1, 1, 2)}{port(2, 1, 2)}</input>
<output>{port(5, 1, 2)}{port(6, 1, 2)}</output>
<blobs><weights offset="0" size="128"/><biases offset="128" size="32"/></blobs></layer>
<layer id="2" name="unsqueeze" type="Reshape" precision="FP32"><data dim="1,1,2"/>
<input>{port(0, 1, 2)}</input><output>{port(1, 1, 1, 2)}</output></layer>
</layers><edges>
<edge from-layer="0" from-port="1" to-layer="1" to-port="0"/>
<edge from-layer="1" from-port="5" to-layer="2" to-port="0"/>
</edges></body>"""
MODEL = f"""<?xml version="1.0"?>
<net name="lstm" version="5" batch="1"><layers>
<layer id="0" name="x" type="Input" precision="FP32"><output>{port(0, 1, 3, 2)}</output></layer>
<layer id="1" name="h" type="Input" precision="FP32"><output>{port(0, 1, 2)}</output></layer>
<layer id="2" name="c" type="Input" precision="FP32"><output>{port(0, 1, 2)}</output></layer>
<layer id="3" name="ti" type="TensorIterator" precision="FP32">
<input>{port(0, 1, 3, 2)}{port(1, 1, 2)}{port(2, 1, 2)}</input>
<output>{port(3, 1, 3, 2)}{port(4, 1, 2)}</output>
<port_map>
<input external_port_id="0" internal_layer_id="0" internal_port_id="0" axis="1"/>
<input external_port_id="1" internal_layer_id="1" internal_port_id="1"/>
<input external_port_id="2" internal_layer_id="1" internal_port_id="2"/>
<output external_port_id="3" internal_layer_id="2" internal_port_id="1" axis="1"/>
<output external_port_id="4" internal_layer_id="1" internal_port_id="6"/>
</port_map>
<back_edges>
<edge from-layer="1" from-port="5" to-layer="1" to-port="1"/>
<edge from-layer="1" from-port="6" to-layer="1" to-port="2"/>
</back_edges>
{BODY}</layer>
</layers><edges>
<edge from-layer="0" from-port="0" to-layer="3" to-port="0"/>
<edge from-layer="1" from-port="0" to-layer="3" to-port="1"/>
<edge from-layer="2" from-port="0" to-layer="3" to-port="2"/>
</edges></net>"""
WEIGHTS = W.tobytes() + B.tobytes()
FEED = {
    n: RNG.standard_normal(s).astype(np.float32)
    for n, s in {"x": (1, 3, 2), "h": (1, 2), "c": (1, 2)}.items()
}


def steps(order: slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
    """The hidden states of all steps and the last cell state, by definition; gates f, i, c, o."""
    h, c, out = FEED["h"], FEED["c"], []
    for x in FEED["x"][0][order]:
        f, i, g, o = np.split(np.concatenate([x[None], h], 1) @ W.T + B, 4, 1)
        f, i, o = (1 / (1 + np.exp(-v)) for v in (f, i, o))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        out.append(h)
    return np.stack(out, 1)[:, order], c


def test_a_body_with_open_ports_is_read() -> None:
    graph = ird.read(MODEL.encode(), WEIGHTS)
    found = ird.run(graph, FEED)
    for name, want in zip(("ti.0", "ti.1"), steps(), strict=True):
        np.testing.assert_allclose(found[name], want, rtol=1e-5, atol=1e-6)


def test_a_negative_stride_runs_backwards() -> None:
    reverse = MODEL.replace('axis="1"', 'axis="1" start="-1" end="0" stride="-1"')
    found = ird.run(ird.read(reverse.encode(), WEIGHTS), FEED)
    for name, want in zip(("ti.0", "ti.1"), steps(slice(None, None, -1)), strict=True):
        np.testing.assert_allclose(found[name], want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('internal_layer_id="2"', 'internal_layer_id="7"', "no layer 7"),
        ('internal_port_id="6"', 'internal_port_id="9"', "no output at"),
        ('external_port_id="4"', 'external_port_id="8"', "names the port 8"),
        (
            'from-port="6" to-layer="1" to-port="2"',
            'from-port="6" to-layer="2" to-port="0"',
            "no input at",
        ),
        ('type="LSTMCell"', 'type="MyCell"', 'MyCell "cell"'),
        ('axis="1"', 'axis="one"', 'axis="one"'),
        (BODY, "", "0 bodies"),
        ('size="128"', 'size="64"', "weights have 64 bytes"),
    ],
)
def test_maps_and_layers_that_do_not_fit_are_named(old: str, new: str, said: str) -> None:
    text = MODEL.replace(old, new)
    assert text != MODEL
    with pytest.raises(ird.IrdeconvError) as caught:
        ird.read(text.encode(), WEIGHTS)
    assert said in str(caught.value)


@pytest.mark.oracles
def test_openvino_runs_what_is_written(tmp_path: Path) -> None:
    core = pytest.importorskip("openvino").Core()
    ird.write(ird.read(MODEL.encode(), WEIGHTS), tmp_path / "new.xml")
    model = core.read_model(tmp_path / "new.xml")
    found = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(FEED)
    for number, want in enumerate(steps()):
        np.testing.assert_allclose(found[number], want, rtol=1e-5, atol=1e-6)
