"""Write a suite: the arrays of its cases, ONNX models, files.

Integers are so small that every sum is exact in the layer's element type: a correct device gives
the expected bits in any order of additions. Other data are computed in double precision, the terms
of every sum added in one defined order. Everything is written beside its place first, the manifest
last of all.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np

from irdeconv import __version__
from irdeconv.base import errors, progress, work
from irdeconv.base.extras import extra, needed
from irdeconv.base.form_names import require_form
from irdeconv.base.tables import scaled
from irdeconv.formats.arrays import npz
from irdeconv.formats.atomic import failures, folder_beside, require_writable
from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.dtypes import ElementType
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Array
from irdeconv.kernels.products import accumulate_in_order
from irdeconv.rewrite.lower_deconv import lower
from irdeconv.rewrite.standardize import standardize
from irdeconv.verify import judge, suite_manifest
from irdeconv.verify.difference import Allowed
from irdeconv.verify.suite_layer import SuiteCase, SuiteLayer, graph_of
from irdeconv.verify.suite_manifest import Suite
from irdeconv.verify.suite_report import known

Data = Literal["integers", "floats"]
LARGEST_INTEGER = 9  # of the integers
# 2^n is the largest integer up to which a type has them all.
_EXACT_BITS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "i64": 63, "i32": 31, "i8": 7}
_CURVED = ("Tanh", "Sigmoid")  # activations that round


@dataclass(frozen=True)
class Vectors:
    """The arrays of a case by their names in the model.

    If a result is `exact`, a device has to give the expected numbers themselves, in the output's
    element type; else they are f64, and `allowed` has a limit per element.
    """

    inputs: Mapping[str, Array]
    constants: Mapping[str, Array]
    expected: Array
    allowed: Allowed
    exact: bool


def vectors(
    layer: SuiteLayer, name: str, data: Data, seed: int, spoil: str | None = None
) -> Vectors:
    """Make the arrays of a case; they depend on its name and the seed, on no other case."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    whole = data == "integers" or not layer.dtype.is_real
    room = _room(layer)
    top = min(LARGEST_INTEGER, math.isqrt(max(int(room), 1))) if whole else 0
    arrays = {
        port: np.array(layer.output_shape, np.int64)
        if port == "output_shape"
        else _random(rng, shape, layer.dtype, top)
        for port, shape in layer.port_shapes.items()
    }
    if spoil is not None:
        flat = arrays[spoil].reshape(-1)
        flat[rng.choice(flat.size, 2, replace=False)] = np.inf, np.nan
    fed = ("x", "filter") if layer.filter == "input" else ("x",)
    inputs = {port: a for port, a in arrays.items() if port in fed}
    constants = {port: a for port, a in arrays.items() if port not in fed}
    exact = whole and room >= 1 and layer.activation not in _CURVED
    op, values = layer.op, list(arrays.values())
    with accumulate_in_order(not exact), np.errstate(all="ignore"):
        (made,) = judge.evaluate(op, values)
        if exact:
            rule = f"exact: integers, every sum at most 2^{_EXACT_BITS[layer.element_type]}"
            made = made.astype(layer.dtype.container, copy=False)  # activations compute in f32
            return Vectors(inputs, constants, made, Allowed(0.0, rule), exact)
        (wide,) = judge.precise(op, values, (made,))
        (allowed,) = judge.allowed(op, values, (made,))
    return Vectors(inputs, constants, wide, allowed, exact)


def _room(layer: SuiteLayer) -> float:
    """Return the square of the largest integer of which all sums are exact."""
    rows = zip(layer.kernel, layer.strides, layer.dilations, strict=True)
    # Taps that meet in one output are S / gcd(S, D) apart.
    taps = (-(-k // (s // math.gcd(s, d))) for k, s, d in rows)
    # A bias is at most the square, too.
    terms = layer.channels // layer.groups * math.prod(taps) + layer.bias
    return float(2.0 ** _EXACT_BITS[layer.element_type] / terms)


def _random(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: ElementType, top: int
) -> Array:
    """Return integers -top..top without 0, or for 0 numbers around 0 of about size 1."""
    if top:
        values: Array = rng.integers(1, top + 1, shape) * rng.choice([-1, 1], shape)
    else:
        values = rng.standard_normal(shape)
    return values.astype(dtype.container)


def sizes(layer: SuiteLayer) -> tuple[int, int]:
    """Return the bytes of all arrays and the products of a run, without making anything."""
    item = max(layer.dtype.container.itemsize, 4)
    elements = sum(math.prod(s) for s in [*layer.port_shapes.values(), layer.output])
    products = layer.batch * math.prod(layer.size) * math.prod(layer.filter_shape)
    # Weights stand in the .bin and in an .npz; an output may have a bound beside it.
    return 2 * item * elements + 8 * math.prod(layer.output), products


_LISTS = ("dilations", "kernel_shape", "output_padding", "output_shape", "pads", "strides")
_IR_VERSION = {1: 3, 11: 6, 22: 10}  # the one of the release that brought the operation set


def onnx_model(case: SuiteCase, made: Vectors) -> bytes:
    """Return the model: constants as initializers, the inputs and the output `y`."""
    helper = extra("onnx.helper")
    op: Any = case.layer.op
    opset = int(op.version.removeprefix("onnx_opset"))
    given = {name: list(getattr(op, name)) for name in _LISTS if getattr(op, name)}
    given |= {"group": op.group} | ({"auto_pad": op.auto_pad} if op.auto_pad != "NOTSET" else {})
    ports = [p for p in ("x", "filter", "bias") if p in made.inputs or p in made.constants]
    node = helper.make_node("ConvTranspose", ports, ["y"], name="deconv", **given)
    kind = helper.np_dtype_to_tensor_dtype(case.layer.dtype.container)

    def info(name: str, shape: Any) -> Any:
        return helper.make_tensor_value_info(name, kind, list(shape))

    def tensor(name: str, array: Array) -> Any:
        return helper.make_tensor(name, kind, array.shape, array.tobytes(), raw=True)

    # Version 3 of the file format lists initializers among the inputs.
    inputs = [info(n, a.shape) for n, a in made.inputs.items()]
    if opset == 1:
        inputs += [info(n, a.shape) for n, a in made.constants.items()]
    graph = helper.make_graph(
        [node],
        case.name,
        inputs,
        [info("y", case.layer.output)],
        [tensor(n, a) for n, a in made.constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = _IR_VERSION[opset]
    model.producer_name, model.producer_version = "irdeconv", ""
    return bytes(model.SerializeToString(deterministic=True))


MAX_SIZE = 1 << 30  # bytes of a suite, unless more is allowed
MAX_PRODUCTS = 1 << 36  # of one case: minutes
MAX_CASES = 20_000
_LIST = re.compile(r"\[[\s\d,-]*\]")  # of numbers: on one line


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a suite is made: kind of data, seed, the lowering form of `lowered.xml`, .onnx too."""

    data: Data = "integers"
    seed: int = 0
    form: str | None = None
    onnx: bool = False


def require_room(cases: Sequence[SuiteCase], limit: int) -> int:
    """Return about how many bytes the cases take; LimitError if that is more than the limit."""
    sized = [(*sizes(case.layer), case.name) for case in cases]
    total = sum(size for size, _, _ in sized)
    _, products, largest = max(sized, key=itemgetter(1))
    hint = "fewer cases: --set, --dialect, --only; a larger limit: --max-size 4G"
    if total > limit or len(cases) > MAX_CASES:
        message = f"{errors.count(len(cases), 'case')} would take about {scaled(total, 'B')}; "
        message += f"the limit is {scaled(limit, 'B')} and {MAX_CASES} cases"
        raise errors.LimitError(errors.Diagnostic("E602", "error", message, hint=hint))
    if products > MAX_PRODUCTS:
        message = f"{largest} has {products:,} products, more than {MAX_PRODUCTS:,}"
        hint = "fewer channels or elements"
        raise errors.LimitError(errors.Diagnostic("E602", "error", message, hint=hint))
    return total


def require_place(folder: Path, *, force: bool) -> None:
    """Refuse a folder that holds something; with `force` a suite may be replaced."""
    if not folder.exists():
        require_writable(folder)
        return
    if not folder.is_dir():
        raise errors.misused(f"{folder} is a file; a suite is a folder")
    require_writable(folder / suite_manifest.MANIFEST)
    held, own = sorted(p.name for p in folder.iterdir()), _suite_files(folder)
    if held and own and not force:
        raise errors.misused(f"{folder} holds a suite", "--force replaces it")
    foreign = [n for n in held if n not in own]
    if foreign:
        content = "more than its suite" if own else "files that are no suite"
        message = f"{folder} holds {content}: {', '.join(foreign[:3])}"
        raise errors.misused(message, "name another folder")


def _suite_files(folder: Path) -> set[str]:
    """Return the names of the files and folders of a suite, none if there is no suite."""
    try:
        cases = Suite.open(folder).cases
    except (errors.FileAccessError, errors.UsageError):
        return set()
    return {suite_manifest.MANIFEST, *(case.name for case in cases)}


def make(folder: Path, cases: Sequence[SuiteCase], recipe: Recipe, *, force: bool = False) -> Suite:
    """Write a suite, all of it or nothing; UsageError for a folder that holds something."""
    if recipe.data not in ("integers", "floats"):
        raise errors.misused(f'data is "{recipe.data}"; it is "integers" or "floats"')
    if recipe.form is not None:
        require_form(recipe.form)
    if recipe.onnx:
        needed("writing .onnx", "onnx.helper")
    require_place(folder, force=force)
    with _staged(folder) as stage:
        each = progress.each("making cases", cases, lambda case: case.name)
        entries = [_write(stage, case, recipe) for case in each]
        results = "NAME.npz or NAME.npy for each case, or one .npz with NAME/y for each"
        facts = (__version__, recipe.data, recipe.seed, recipe.form, results, entries)
        document = json.dumps(suite_manifest.Manifest(*facts).to_dict(), indent=1)
        text = _LIST.sub(lambda m: " ".join(m[0].split()), document) + "\n"
        (stage / suite_manifest.MANIFEST).write_text(text, "utf-8")
    return Suite.open(folder)


@contextmanager
def _staged(folder: Path) -> Iterator[Path]:
    """Yield an empty folder whose content takes its place in the end, or never."""
    parent = folder if folder.exists() else folder.parent
    with failures(folder), folder_beside(parent / folder.name) as stage:
        new, old = stage / "new", stage / "old"
        new.mkdir()
        old.mkdir()
        yield new
        if folder.exists():
            _replace(folder, new, old)
        else:
            os.replace(new, folder)


def _replace(folder: Path, new: Path, old: Path) -> None:
    """Put the new content into a folder that exists; if it cannot be, the old one returns."""
    # The manifest goes first and comes last: a suite without one is none.
    files = (folder / n for n in _suite_files(folder))
    there = sorted(files, key=lambda p: p.name != suite_manifest.MANIFEST)
    here = sorted(new.iterdir(), key=lambda p: p.name == suite_manifest.MANIFEST)
    with ExitStack() as undo:
        for source, target in [
            *((p, old / p.name) for p in there if p.exists()),
            *((p, folder / p.name) for p in here),
        ]:
            os.replace(source, target)
            undo.callback(os.replace, target, source)
        undo.pop_all()


@work.fresh
def _write(stage: Path, case: SuiteCase, recipe: Recipe) -> dict[str, Any]:
    """Write the files of a case and return its entry in the manifest."""
    place = stage / case.name
    place.mkdir()
    made = vectors(case.layer, case.name, recipe.data, recipe.seed, case.spoil)
    graph = graph_of(case, dict(made.inputs), dict(made.constants))
    _write_ir(graph, place / suite_manifest.MODEL)
    entry = _entry(case, made)
    if recipe.form is not None:
        lowered = lower(graph, recipe.form)
        _write_ir(lowered.graph, place / suite_manifest.LOWERED)
        (row,) = lowered.report.layers
        entry["lowered"] = {"form": row.form, "reason": row.reason}
    if recipe.onnx and case.layer.dialect == "onnx":
        (place / suite_manifest.ONNX).write_bytes(onnx_model(case, made))
    bound = {} if made.exact else {suite_manifest.BOUND: np.asarray(made.allowed.limit)}
    arrays = {suite_manifest.OUTPUT: made.expected, **bound}
    names = (suite_manifest.INPUTS, suite_manifest.CONSTANTS, suite_manifest.EXPECTED)
    for name, content in zip(names, (made.inputs, made.constants, arrays), strict=True):
        if content:
            (place / name).write_bytes(npz(content))
    files = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(place.iterdir())}
    return entry | {"files": files, "known": known(case.layer, case.spoil, exact=made.exact)}


def _write_ir(graph: Graph, path: Path) -> None:
    """Write an IR in standard operations; staged files need no care of their own."""
    xml, weights = ir_bytes(standardize(graph))
    path.write_bytes(xml)
    path.with_suffix(".bin").write_bytes(weights)


def _entry(case: SuiteCase, made: Vectors) -> dict[str, Any]:
    """Return the manifest's entry of a case, apart from its files."""
    layer = case.layer

    def facts(arrays: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: {
                "shape": list(a.shape),
                "element_type": "i64" if name == "output_shape" else layer.element_type,
            }
            for name, a in arrays.items()
        }

    bound = float(np.max(made.allowed.limit, initial=0.0))
    outputs = facts({suite_manifest.OUTPUT: made.expected})
    outputs[suite_manifest.OUTPUT] |= {
        "exact": made.exact,
        "rule": made.allowed.rule,
        "bound": bound,
    }
    return {
        "name": case.name,
        "set": case.set,
        "tests": case.tests,
        "dialect": layer.dialect,
        "type": layer.op.type,
        "version": layer.op.version,
        "attributes": layer.op.to_attributes(),
        "layer": asdict(layer),
        "inputs": facts(made.inputs),
        "constants": facts(made.constants),
        "outputs": outputs,
    }
