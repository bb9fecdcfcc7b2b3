"""Every row of op_cases in live OpenVINO, through an IR of one layer.

An operation that OpenVINO does not know goes there as irdeconv writes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.op import lookup
from irdeconv.ir.packing import encode
from op_cases import ROUNDING, Case, Tensor, all_cases, differs

pytestmark = pytest.mark.oracles
ov = pytest.importorskip("openvino")

CORE = ov.Core()
CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
CASES = all_cases()
# The CPU plugin computes exp, erf and their like by polynomials of up to this many rounded steps.
POLYNOMIAL = 16
PLAIN = {"f64", "f32", "f16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "boolean"}


def port(t: Tensor, ident: int, *, precision: bool = True) -> str:
    dims = "".join(f"<dim>{d}</dim>" for d in t.values.shape)
    kind = f' precision="{t.dtype.precision}"' if precision else ""
    return f'<port id="{ident}"{kind}>{dims}</port>'


def is_constant(row: Case, i: int) -> bool:
    """Whether an input is a constant: lists of axes, scalars, types that no tensor is passed in."""
    t = row.inputs[i]
    listed = (t.dtype.is_integral and t.values.ndim <= 1) or t.values.size == 1
    return t.dtype.name not in PLAIN or (i > 0 and listed)


def source_layer(t: Tensor, ident: int, constant: bool, offset: int, size: int) -> str:
    shape = ",".join(map(str, t.values.shape))
    where = f' offset="{offset}" size="{size}"' if constant else ""
    kind = "Const" if constant else "Parameter"
    return (
        f'<layer id="{ident}" name="in{ident}" type="{kind}" version="opset1">'
        f'<data element_type="{t.dtype.name}" shape="{shape}"{where}/>'
        f"<output>{port(t, 0)}</output></layer>"
    )


def write_ir(row: Case, folder: Path) -> Path:
    """Write net.xml and net.bin of one layer; outputs of unusual types become i32 or f32."""
    layers, edges, blob = [], [], b""
    n = len(row.inputs)
    for i, t in enumerate(row.inputs):
        raw = encode(t.values, t.dtype) or b"\0"
        layers.append(source_layer(t, i, is_constant(row, i), len(blob), len(raw)))
        blob += raw
        edges.append(f'<edge from-layer="{i}" from-port="0" to-layer="{n}" to-port="{i}"/>')
    ins = "".join(port(t, i) for i, t in enumerate(row.inputs))
    outs = "".join(port(t, n + i) for i, t in enumerate(row.outputs))
    layers.append(
        f'<layer id="{n}" name="y" type="{row.type}" version="{row.version}">'
        f"<data {row.attributes}/><input>{ins}</input><output>{outs}</output></layer>"
    )
    for i, t in enumerate(row.outputs):
        more_layers, more_edges = ends(t, i, n)
        layers += more_layers
        edges += more_edges
    path = folder / "net.xml"
    path.with_suffix(".bin").write_bytes(blob)
    path.write_text(
        f'<net name="row" version="11"><layers>{"".join(layers)}</layers>'
        f"<edges>{''.join(edges)}</edges></net>"
    )
    return path


def ends(t: Tensor, i: int, n: int) -> tuple[list[str], list[str]]:
    """Return the Result of output i of layer n, and a Convert in front of it."""
    converted, result = n + 1 + 2 * i, n + 2 + 2 * i
    made = (
        f'<layer id="{result}" name="r{i}" type="Result" version="opset1">'
        f"<input>{port(t, 0)}</input></layer>"
    )
    source = f'<edge from-layer="{n}" from-port="{n + i}"'
    if t.dtype.kind in ("bool", "string"):  # a Convert disturbs these or fails
        return [made], [f'{source} to-layer="{result}" to-port="0"/>']
    convert = (
        f'<layer id="{converted}" name="c{i}" type="Convert" version="opset1">'
        f'<data destination_type="{plain_name(t)}"/><input>{port(t, 0)}</input>'
        f"<output>{port(t, 1)}</output></layer>"
    )
    last = f'<edge from-layer="{converted}" from-port="1" to-layer="{result}" to-port="0"/>'
    return [convert, made], [f'{source} to-layer="{converted}" to-port="0"/>', last]


def plain_name(t: Tensor) -> str:
    if t.dtype.name in PLAIN:
        return t.dtype.name
    return "f32" if t.dtype.is_real else "i32"


def run(row: Case, folder: Path) -> list[np.ndarray[Any, Any]]:
    path = write_ir(row, folder)
    cls = lookup(row.type, row.version)
    if cls is not None and not cls.standard:
        ird.write(ird.read(path), path := folder / "written.xml")
    model = CORE.read_model(path)
    compiled = CORE.compile_model(model, "CPU", CONFIG)
    given = [t.values for i, t in enumerate(row.inputs) if not is_constant(row, i)]
    outs = compiled(given)
    return [outs[o] for o in compiled.outputs]


def difference(row: Case, folder: Path) -> str:
    """Run the row; return how OpenVINO differs, or why it refuses."""
    try:
        outs = run(row, folder)
    except ird.UnsupportedError as e:
        return f"it cannot be written: {e}"
    except RuntimeError as e:
        return f"OpenVINO refuses: {str(e).strip()[-300:]}"
    limit = max(row.tolerance, POLYNOMIAL * ROUNDING)
    found = [differs(g, w, limit) for g, w in zip(outs, row.outputs, strict=True)]
    return "; ".join(f for f in found if f)


def rows() -> Iterator[Any]:
    """Yield every third row of each operation; the others run only when asked for."""
    seen: Counter[tuple[str, str]] = Counter()
    for name, row in CASES.items():
        marks = [pytest.mark.slow] if seen[row.type, row.version] % 3 else []
        seen[row.type, row.version] += 1
        yield pytest.param(row, id=name, marks=marks)


@pytest.mark.parametrize("row", list(rows()))
def test_openvino_agrees(row: Case, tmp_path: Path) -> None:
    if row.crash:
        pytest.xfail(row.crash)
    found = difference(row, tmp_path)
    if row.defect:
        assert found, f"the listed defect is gone: {row.defect}"
    else:
        assert found == ""
