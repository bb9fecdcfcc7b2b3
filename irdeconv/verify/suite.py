"""Conformance suites: the public functions that make, run and judge one.

Layers may come from a TOML file (docs/suite.md): every mistake is reported, with its line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from irdeconv.base import progress, work
from irdeconv.base.arguments import checked
from irdeconv.base.errors import IrdeconvError, UsageError, count, did_you_mean, misused
from irdeconv.base.extras import needed
from irdeconv.base.limits import current
from irdeconv.base.opening import TomlReader, read_file, shown
from irdeconv.formats.reading import load
from irdeconv.ir.spec import Array
from irdeconv.rewrite.infer_specs import inferred
from irdeconv.rewrite.standardize import recognise
from irdeconv.runtime.peers import last_line, onnx_session
from irdeconv.runtime.plan import build_plan
from irdeconv.verify import suite_layer, suite_manifest
from irdeconv.verify.suite_layer import (
    CHOSEN,
    SuiteCase,
    chosen_dialects,
    chosen_sets,
    cover,
    packaged,
    selected,
)
from irdeconv.verify.suite_manifest import Suite
from irdeconv.verify.suite_report import SuiteReport, check
from irdeconv.verify.suite_writing import MAX_SIZE, Data, Recipe, make, require_room

Run = Callable[[Path, dict[str, Array]], Array]


@checked
def run(
    suite: Suite, peer: str, *, lowered: bool = False
) -> tuple[dict[str, Array], dict[str, str]]:
    """Run all cases in `peer`; return the outputs by case, and why the other cases have none.

    With `lowered` their lowered models run. UsageError for an unknown peer and for models that the
    suite has not; UnsupportedError if the peer is not installed.
    """
    if peer not in PEERS:
        message = f'there is no peer "{peer}": {", ".join(PEERS)}'
        raise misused(message, did_you_mean(peer, PEERS))
    file = file_of(peer, lowered=lowered)
    if not any(case.has(file) for case in suite.cases):
        option = "--form" if file == suite_manifest.LOWERED else "--dialect onnx --onnx"
        raise misused(f"no case of the suite has a {file}", f"suite make {option} writes them")
    call = PEERS[peer]()
    arrays, problems = dict[str, Array](), dict[str, str]()
    for case in progress.each(f"running {peer}", suite.cases, lambda case: case.name):
        if not case.has(file):
            problems[case.name] = f"it has no {file}"
            continue
        try:
            arrays[case.name] = call(case.path(file), case.inputs())
        except IrdeconvError as e:
            problems[case.name] = e.diagnostics[0].message
        except Exception as e:  # peers raise errors of many kinds
            problems[case.name] = f"{type(e).__name__}: {last_line(str(e))}"
    return arrays, problems


def file_of(peer: str, *, lowered: bool) -> str:
    """Return which model of a case a peer runs; UsageError for a lowered .onnx."""
    if peer != "onnxruntime":
        return suite_manifest.LOWERED if lowered else suite_manifest.MODEL
    if lowered:
        raise misused("onnxruntime runs model.onnx, of which there is no lowered one")
    return suite_manifest.ONNX


@work.fresh
def _irdeconv(path: Path, inputs: dict[str, Array]) -> Array:
    loaded = load(path, None, semantics="runtime", limits=current())
    assert loaded.graph is not None
    recognise(loaded.graph)
    return next(iter(build_plan(inferred(loaded.graph)).run(inputs).values()))


def _openvino() -> Run:
    ov: Any = needed("running in openvino", "openvino", "Core", "Tensor", "Type")
    core = ov.Core()
    options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}

    def call(path: Path, inputs: dict[str, Array]) -> Array:
        compiled = core.compile_model(core.read_model(str(path)), "CPU", options)
        ports = {p.node.friendly_name: p for p in compiled.inputs}
        feeds = {ports[n]: _tensor(ov, a) for n, a in inputs.items()}
        (port,) = compiled.outputs
        found = compiled(feeds)[port]
        kind = port.get_element_type().get_type_name()
        if kind == "bf16" and found.dtype == np.float16:  # the bits, under the wrong name
            found = found.view(ml_dtypes.bfloat16)
        return np.array(found)

    return call


def _tensor(ov: Any, array: Array) -> Any:
    """Return an array as OpenVINO takes it: bfloat16 by its bits."""
    if array.dtype != ml_dtypes.bfloat16:
        return ov.Tensor(np.ascontiguousarray(array))
    return ov.Tensor(np.ascontiguousarray(array).view(np.int16), array.shape, ov.Type.bf16)


def _onnxruntime() -> Run:
    # One error without it, not one for each case.
    needed("running in onnxruntime", "onnxruntime", "InferenceSession")
    return lambda path, inputs: np.asarray(onnx_session(str(path)).run(None, inputs)[0])


PEERS: Mapping[str, Callable[[], Run]] = {
    "irdeconv": lambda: _irdeconv,
    "openvino": _openvino,
    "onnxruntime": _onnxruntime,
}
Place = str | PathLike[str]
DIALECT, SET = "openvino", "full"


def gathered(
    dialects: Sequence[str] = (),
    sets: Sequence[str] = (),
    only: Sequence[str] = (),
    layers: Place | None = None,
    *,
    full_size: bool = False,
) -> tuple[list[SuiteCase], list[str]]:
    """Return the cases of a choice, and the layers of a file that the dialects do not have."""
    wanted = chosen_dialects(dialects or (DIALECT,))
    named = chosen_sets(sets or (() if layers is not None else (SET,)))
    cases = packaged(wanted, named, full_size=full_size)
    skipped: list[str] = []
    if layers is not None:
        own, skipped = LayersReader(Path(layers)).read(wanted)
        cases += own
    return selected(cases, only), skipped


@checked
def suite(
    folder: Place,
    dialects: Sequence[str] = (),
    sets: Sequence[str] = (),
    *,
    only: Sequence[str] = (),
    layers: Place | None = None,
    full_size: bool = False,
    data: Data = "integers",
    seed: int = 0,
    form: str | None = None,
    onnx: bool = False,
    max_size: int = MAX_SIZE,
    force: bool = False,
) -> Suite:
    """Write test vectors for devices and compilers into a folder; return its `folder` and `cases`.

    `dialects`: openvino (default), others of `irdeconv suite --help`, "all". `sets`: quick, pairs,
    edges, networks, or "full" (default: all but quick). `only` has patterns of names (`*`).
    `layers` is a TOML file with layers of your own. The same call always writes the same bytes.
    Each case is a folder: `model.xml`, `inputs.npz`, `constants.npz`, `expected.npz`; with `form`
    also `lowered.xml`, with `onnx` a `model.onnx` for cases of ONNX. `data` "integers" are so small
    that results are exact; "floats" come with a bound for every element. Networks have few channels
    and elements unless `full_size` is set. `max_size` is in bytes; `force` replaces a suite. Raises
    UsageError for unknown names and a folder in use, LimitError for too much.

    >>> made = ird.suite("vectors", only=["openvino-edge-kernel-1*"])
    >>> len(made.cases), made.cases[0].name
    (3, 'openvino-edge-kernel-1')
    """
    cases, _ = gathered(dialects, sets, only, layers, full_size=full_size)
    require_room(cases, max_size)
    recipe = Recipe(data=data, seed=seed, form=form, onnx=onnx)
    return make(Path(folder), cases, recipe, force=force)


@checked
def check_suite(folder: Place, results: Place | Mapping[str, Any]) -> SuiteReport:
    """Judge a device's results for a suite, with the bounds and names of mistakes of `compare`.

    `results`: a folder of CASE.npz or CASE.npy, one .npz with CASE/y, or arrays by case. The report
    has `passed`, `cases` with a status each, and the common features of cases that differ. Raises
    FileAccessError if the folder holds no suite, UsageError if a file of it has changed.

    >>> made = ird.suite("vectors", only=["openvino-edge-one-axis"])
    >>> turned = {case.name: case.expected()[0][..., ::-1] for case in made.cases}
    >>> report = ird.check_suite("vectors", turned)
    >>> report.passed, report.cases[0].difference.kind
    (False, 'mirrored along spatial axes (0)')
    """
    source = results if isinstance(results, Mapping) else Path(results)
    return check(Suite.open(Path(folder)), source)


@checked
def run_suite(folder: Place, peer: str, *, lowered: bool = False) -> dict[str, Array]:
    """Run a suite in "irdeconv", "openvino" or "onnxruntime" and return its outputs by case.

    With `lowered` the lowered models run. Cases that the peer refuses are left out. Raises
    UsageError for an unknown peer, UnsupportedError if it is not installed.

    >>> made = ird.suite("vectors", ["onnx"], only=["*-edge-depthwise"])
    >>> ird.check_suite("vectors", ird.run_suite("vectors", "irdeconv")).passed
    True
    """
    return run(Suite.open(Path(folder)), peer, lowered=lowered)[0]


KEYS_HINT = "docs/suite.md lists the keys"
LARGEST_NUMBER = 1 << 24  # of the numbers in a file
MOST_VALUES = 200
MOST_CROSSED = 20_000
LAYER_OF_FILE = 16_384  # units of work for a layer
_TOP = ("dialects", "strength", "cross", "layer")
_SIGNED = ("pads_begin", "pads_end")
_FROM_ZERO = ("batch", "size", "output_padding", "output_shape")
_REAL = r"-?[0-9]{1,9}(\.[0-9]{1,9})?(e[+-]?[0-9])?"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


class LayersReader(TomlReader):
    """Reads a file of layers. FileAccessError if that is impossible."""

    def __init__(self, path: Path) -> None:
        super().__init__(read_file(path, current().toml_bytes), str(path))
        self.path = path
        self.skipped: list[str] = []

    def read(self, dialects: Sequence[str]) -> tuple[list[SuiteCase], list[str]]:
        """Return the cases, and the layers that the dialects do not have, with reasons.

        UsageError with all mistakes; `dialects` if the file names none.
        """
        for key in self.content:
            if key not in _TOP:
                self.problem(f"there is no {key}", (f"[{key}]", key), KEYS_HINT, _TOP)
        self.dialects = self._dialects(dialects)
        strength = self.content.get("strength", 2)
        if type(strength) not in (int, str) or strength not in (1, 2, "all"):
            self._wrong("strength", f'strength is {shown(strength)}; it is 1, 2 or "all"')
            strength = 2
        cross, layers = self.content.get("cross", {}), self.content.get("layer", [])
        if not isinstance(cross, dict):
            self._wrong("cross", "cross is a table: [cross]")
            cross = {}
        if not isinstance(layers, list) or not all(isinstance(one, dict) for one in layers):
            self._wrong("layer", "layer is a list of tables: [[layer]]")
            layers = []
        if len(layers) > MOST_CROSSED:
            self._wrong("layer", f"more than {MOST_CROSSED:,} layers are listed")
            layers = []
        if not cross and not layers:
            self._wrong("cross", "there is neither a [cross] nor a [[layer]]")
        self._check_cross(cross)
        for number, one in enumerate(layers):
            self._check_layer(one, number)
        self.require_none()
        cases = [c for d in self.dialects if cross for c in self._grid(d, cross, strength)]
        cases += [c for d in self.dialects for c in self._named(d, layers)]
        self.require_none()
        return cases, self.skipped

    def _wrong(
        self, key: str, message: str, hint: str | None = None, *, within: str = "", at: int = 0
    ) -> None:
        tables = {"": (), "cross": ("[cross]",), "layer": ("[[layer]]",) * (at + 1)}
        words = tables[within] if key == within else (*tables[within], key)
        self.problem(message, words, hint or KEYS_HINT)

    def _dialects(self, usual: Sequence[str]) -> list[str]:
        names = self.content.get("dialects", list(usual))
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names) or not names:
            self._wrong("dialects", "dialects is a list of names")
            return list(usual)
        try:
            return chosen_dialects(names)
        except UsageError as e:
            self._wrong("dialects", e.diagnostics[0].message, e.diagnostics[0].hint)
            return list(usual)

    def _check_cross(self, cross: Mapping[str, Any]) -> None:
        for key, values in cross.items():
            if values == []:
                self._wrong(key, f"{key} lists no value", within="cross")
            for value in values if isinstance(values, list) else [values]:
                self._check_value(key, value, "cross", 0)
        if sum(len(v) for v in cross.values() if isinstance(v, list)) > MOST_VALUES:
            self._wrong("cross", f"more than {MOST_VALUES} values are crossed")

    def _check_layer(self, one: Mapping[str, Any], at: int) -> None:
        name = one.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            message = "a layer needs a name of letters, digits, dots, hyphens and underscores"
            self._wrong("name", message, within="layer", at=at)
        for key, value in one.items():
            if key not in ("name", "tests"):
                self._check_value(key, value, "layer", at)
            elif not isinstance(value, str):
                self._wrong(key, f"{key} is a text", within="layer", at=at)

    def _check_value(self, key: str, value: Any, within: str, at: int) -> None:
        """Report a key that no dialect has, and a value that cannot be."""
        own = {k: v for d in self.dialects for k, v in suite_layer.OWN[d].items()}
        known = [*suite_layer.BASE, *own]
        if key not in known:
            self._wrong(key, f'unknown key "{key}"', did_you_mean(key, known), within=within, at=at)
            return
        problem = _misfit(key, value, own, self.dialects)
        if problem is not None:
            self._wrong(key, f"{key} {problem}", within=within, at=at)

    def _grid(self, dialect: str, cross: Mapping[str, Any], strength: Any) -> Iterator[SuiteCase]:
        crosses = suite_layer.frozen(cross).items()
        mine = {k: v for k, v in crosses if k in suite_layer.base(dialect)}
        factors = {k: v for k, v in mine.items() if isinstance(v, tuple)}
        plain = {k: v for k, v in mine.items() if not isinstance(v, tuple)}
        if strength == "all" and math.prod(map(len, factors.values())) > MOST_CROSSED:
            self._wrong("cross", f"more than {MOST_CROSSED:,} combinations", within="cross")
            return
        found = cover(dialect, factors, plain, None if strength == "all" else strength)
        self.skipped += [f"{dialect} has no {_said(row)}" for row in found.impossible]
        if not found.rows:
            self._wrong("cross", f"{dialect} has none of these layers", within="cross")
        for number, row in enumerate(found.rows, 1):
            work.take(LAYER_OF_FILE, "listing so many layers")
            name, tests = f"{dialect}-{self.path.stem}-{number:03}", f"[cross] of {self.path.name}"
            try:
                layer = suite_layer.layer_of(dialect, row)
            except suite_layer.Refused as e:
                crossed = {name: row[name] for name in factors}
                self.skipped.append(f"{dialect} has no {_said(crossed)}: {e}")
                continue
            yield SuiteCase(name=name, set="file", tests=tests, layer=layer)

    def _named(self, dialect: str, layers: Sequence[Mapping[str, Any]]) -> Iterator[SuiteCase]:
        seen: set[str] = set()
        for at, one in enumerate(layers):
            work.take(LAYER_OF_FILE, "listing so many layers")
            row = {k: v for k, v in suite_layer.frozen(one).items() if k not in ("name", "tests")}
            lists = [v for k, v in row.items() if k in suite_layer.LISTS and isinstance(v, tuple)]
            row.setdefault("axes", max(map(len, lists), default=suite_layer.BASE["axes"]))
            name = f"{dialect}-{one['name']}"
            if name in seen:
                self._wrong("name", f"a second layer named {one['name']}", within="layer", at=at)
                continue
            seen.add(name)
            try:
                layer = suite_layer.layer_of(dialect, row)
            except suite_layer.Refused as e:
                self._wrong("name", f"{dialect} has no such layer: {e}", within="layer", at=at)
                continue
            yield SuiteCase(name=name, set="file", tests=str(one.get("tests", "")), layer=layer)


def _said(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} {suite_layer.label(v)}" for k, v in row.items())


def _misfit(
    key: str, value: Any, own: Mapping[str, Sequence[str]], dialects: Sequence[str]
) -> str | None:
    """Return the mistake in a single value of a known key."""
    if key == "output_shape" and isinstance(value, str):
        known = value in suite_layer.RELATIVE
        return None if known else f'is "{value}"; there is {", ".join(suite_layer.RELATIVE)}'
    choices: Sequence[Any] = CHOSEN.get(key, own.get(key, ()))
    if key == "element_type":
        choices = list(dict.fromkeys(t for d in dialects for t in suite_layer.TYPES[d]))
    if key == "activation":
        names = "|".join({c.split()[0] for c in own.get(key, ())})
        fits = isinstance(value, str) and re.fullmatch(rf"({names})( {_REAL})*", value)
        return None if fits else "is a text such as LeakyRelu 0.25"
    if choices:
        said = ", ".join(suite_layer.label(c) if isinstance(c, bool) else str(c) for c in choices)
        good = type(value) is type(choices[0]) and value in choices
        return None if good else f"is {shown(value)}; there is {said}"
    per_axis = key in suite_layer.LISTS or key == "output_shape"
    values = value if isinstance(value, list) and per_axis and value else [value]
    low = -LARGEST_NUMBER if key in _SIGNED else 0 if key in _FROM_ZERO else 1
    high = 3 if key == "axes" else LARGEST_NUMBER
    for v in values:
        if not isinstance(v, int) or isinstance(v, bool) or not low <= v <= high:
            return f"is {shown(value)}; it takes numbers from {low} to {high}"
    return None if len(values) <= 3 else f"has {count(len(values), 'value')}, at most 3 axes"
