"""A suite on disk (`manifest.json`, a folder per case), and the results of a device.

Results are a folder of .npz and .npy files, one .npz, or arrays in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

import numpy as np

from irdeconv.base.errors import Diagnostic, FileAccessError, UsageError, count, misused
from irdeconv.base.hints import hinted
from irdeconv.base.json_form import Record
from irdeconv.base.limits import current
from irdeconv.base.markup import html_table, line
from irdeconv.base.opening import contents, parse_json, reason_of
from irdeconv.formats.arrays import (
    SavedArrays,
    UnreadableArray,
    naming_file,
    npz,
    packed,
    read_npy,
)
from irdeconv.formats.atomic import failures, write_file
from irdeconv.formats.kinds import SAVED
from irdeconv.ir.dtypes import ELEMENT_TYPES, ElementType
from irdeconv.ir.spec import Array
from irdeconv.verify.difference import Allowed
from irdeconv.verify.suite_layer import DIALECTS, SuiteLayer, terms, traits


class ArrayForm(TypedDict):
    """An array."""

    shape: list[int]  # its sizes
    element_type: str  # such as f32


class ExpectedForm(ArrayForm):
    """An expected output."""

    exact: bool  # whether results must be the same
    rule: str  # how the bound is derived
    bound: Annotated[float, float | str]  # largest difference that is allowed


class LoweredForm(TypedDict):
    """The lowered model of a case."""

    form: Annotated[str | None, str]  # that was chosen
    reason: str | None  # why it is not the requested one


class ManifestCase(TypedDict):
    """A case: a folder of its name."""

    name: str  # of the case
    set: str  # the set of cases that it belongs to
    tests: str  # what the case tests
    dialect: str  # of the layer
    type: str  # of the operation
    version: str  # operation set
    attributes: dict[str, str]  # as the model spells them
    layer: dict[str, Any]  # the settings of the layer
    inputs: dict[str, ArrayForm]  # of inputs.npz
    constants: dict[str, ArrayForm]  # of constants.npz
    outputs: dict[str, ExpectedForm]  # of expected.npz
    files: dict[str, str]  # SHA-256 by name
    known: list[dict[str, str]]  # known mistakes of peers: peer, file and text
    lowered: NotRequired[LoweredForm]  # the lowered model


class Manifest(Record, document="suite-manifest/1"):
    """A suite of cases."""

    irdeconv: str  # version that wrote it
    data: str  # integers or floats
    seed: int  # of the data
    form: str | None  # into which deconvolutions were lowered as well
    results: str  # names of the files with results, in words
    cases: Annotated[list[dict[str, Any]], list[ManifestCase]]  # in order


MANIFEST = "manifest.json"
INPUTS, CONSTANTS, EXPECTED = "inputs.npz", "constants.npz", "expected.npz"
MODEL, LOWERED, ONNX = "model.xml", "lowered.xml", "model.onnx"
OUTPUT, BOUND = "y", "y.bound"


def is_raw(array: Array) -> bool:
    """Whether an array holds bytes of a type that .npy has no name for."""
    return array.dtype.kind == "V" and array.dtype.isbuiltin != 2


def is_number(array: Array, dtype: ElementType) -> bool:
    """Whether an array holds real numbers, also of a type of ours, or its raw bytes."""
    if not is_raw(array):
        return array.dtype.kind in "fiubV"
    return array.dtype.names is None and array.dtype.itemsize == dtype.container.itemsize


def loaded(array: Array, dtype: ElementType) -> Array:
    """Return a stored array, or one of raw bytes, in its element type."""
    if is_raw(array) and array.dtype.itemsize == dtype.container.itemsize:
        return array.view(dtype.container)
    return array.astype(dtype.container, copy=False)


@dataclass(frozen=True)
class StoredCase:
    """A case of a suite on disk: `facts` is its entry in the manifest."""

    folder: Path
    facts: Mapping[str, Any]

    def __repr__(self) -> str:
        return line(self, self.name, str(self.facts["tests"]))

    @property
    def name(self) -> str:
        """The case's name, and that of its folder."""
        return str(self.facts["name"])

    @cached_property
    def layer(self) -> SuiteLayer:
        """The layer."""
        said = self.facts["layer"]
        lists = {k: tuple(v) for k, v in said.items() if isinstance(v, list)}
        return SuiteLayer(**{**said, **lists})

    @cached_property
    def features(self) -> list[str]:
        """The layer's traits, in words: `strides 2`, `a dilation above 1`."""
        return [*(f"{k} {v}" for k, v in terms(self.layer).items()), *traits(self.layer)]

    @property
    def exact(self) -> bool:
        """Whether the expected numbers themselves are wanted."""
        return bool(self.facts["outputs"][OUTPUT]["exact"])

    @property
    def known(self) -> list[dict[str, str]]:
        """The known mistakes of peers with it: peer, file, text."""
        return list(self.facts["known"])

    def path(self, file: str) -> Path:
        """Return the path of a file of the case."""
        return self.folder / self.name / file

    def has(self, file: str) -> bool:
        """Whether the case has such a file."""
        return file in self.facts["files"]

    def arrays(self) -> dict[str, Array]:
        """Read inputs and constants by the names of the model's ports."""
        return self.inputs() | (self._typed(CONSTANTS) if self.has(CONSTANTS) else {})

    def inputs(self) -> dict[str, Array]:
        """Read the inputs."""
        return self._typed(INPUTS)

    def _typed(self, file: str) -> dict[str, Array]:
        i64, own = ELEMENT_TYPES["i64"], self.layer.dtype
        found = self._read(file).items()
        return {n: loaded(a, i64 if n == "output_shape" else own) for n, a in found}

    def expected(self) -> tuple[Array, Allowed]:
        """Read the expected output and how far each element may be off."""
        found = self._read(EXPECTED)
        rule = str(self.facts["outputs"][OUTPUT]["rule"])
        for name in (OUTPUT, *[BOUND] * (not self.exact)):
            if name not in found or found[name].dtype.kind not in "fiubV":
                message = f'{self.path(EXPECTED)} has no numbers "{name}"'
                raise UsageError(Diagnostic("E505", "error", message, hint="make the suite anew"))
        if self.exact:
            return loaded(found[OUTPUT], self.layer.dtype), Allowed(0.0, rule)
        return found[OUTPUT], Allowed(found[BOUND], rule)

    def _read(self, file: str) -> dict[str, Array]:
        """Read arrays; FileAccessError if they are not those that the suite was made with."""
        path = self.path(file)
        data = _contents(path, current().array_bytes)
        if hashlib.sha256(data).hexdigest() != self.facts["files"].get(file):
            message = f"{path} cannot be read: it has changed since the suite was made"
            raise FileAccessError(Diagnostic("E100", "error", message, hint="make the suite anew"))
        return dict(SavedArrays(data, str(path)))


@hinted
@dataclass(frozen=True)
class Suite:
    """A suite on disk, its cases in the manifest's order."""

    folder: Path
    facts: Mapping[str, Any]
    cases: tuple[StoredCase, ...]

    def __repr__(self) -> str:
        return line(self, str(self.folder), count(len(self.cases), "case"))

    def _repr_html_(self) -> str:
        rows = [(c.name, c.facts["set"], c.facts["dialect"], c.facts["tests"]) for c in self.cases]
        title = f"{self.folder}: {count(len(rows), 'case')}"
        return html_table(title, ("case", "set", "dialect", "tests"), rows)

    @staticmethod
    def open(folder: Path) -> Suite:
        """Read a manifest; FileAccessError if there is none, UsageError if it is not one."""
        path = folder / MANIFEST
        try:
            facts = parse_json(_contents(path, current().json_bytes))
        except ValueError as e:
            raise misused(f"{path}: not JSON: {e}", "suite make DIR writes a suite") from None
        problem = _problem(facts)
        if problem is not None:
            raise misused(f"{path}: no manifest of a suite: {problem}", "make the suite anew")
        return Suite(folder, facts, tuple(StoredCase(folder, case) for case in facts["cases"]))


def _problem(facts: Any) -> str | None:
    """Return the reason why parsed JSON is no manifest."""
    if not isinstance(facts, dict) or facts.get("schema") != Manifest.json_schema:
        return f'"schema" is not "{Manifest.json_schema}"'
    if not isinstance(facts.get("cases"), list):
        return '"cases" is no list'
    names = set()
    for number, case in enumerate(facts["cases"]):
        try:
            stored = StoredCase(Path(), case)
            layer, name = stored.layer, stored.name
            _ = layer.dtype, stored.exact, [k["text"] for k in stored.known], case["set"]
            good = layer.dialect in DIALECTS and isinstance(case["files"], dict)
            wrong = layer.refusal() if good else "unknown dialect"
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as e:
            return f"case number {number}: {type(e).__name__}: {e}"
        if wrong is not None:
            return f"case number {number}: {wrong}"
        if Path(name).name != name or name in names or name in (".", ".."):
            return f'case number {number}: "{name}" is no name of a folder, or stands there twice'
        names.add(name)
    return None


def _contents(path: Path, limit: int) -> bytes:
    try:
        return contents(path, limit)
    except OSError as e:
        message = f"cannot read {path}: {reason_of(e)}"
        hint = "irdeconv suite make DIR writes a suite"
        raise FileAccessError(Diagnostic("E100", "error", message, hint=hint)) from e


class UnreadableResult(Exception):
    """A result that is there and cannot be taken for an array; the text says why."""


Read = Callable[[], Array | None]  # None: there is no output; UnreadableResult


@contextmanager
def open_results(source: str | Path | Mapping[str, Any]) -> Iterator[dict[str, Read]]:
    """Yield a function for each case with results, which reads its output.

    Raises FileAccessError if there are no results, UsageError for another kind of file.
    """
    path = Path() if isinstance(source, Mapping) else Path(source)
    if isinstance(source, Mapping):
        yield {case: partial(_in_memory, found) for case, found in source.items()}
    elif path.is_dir():
        files = (p for p in sorted(path.iterdir()) if p.suffix in (".npy", *SAVED))
        yield {p.stem: partial(_in_file, p) for p in files}
    elif not path.exists():
        message = f"cannot read {path}: No such file or directory"
        raise FileAccessError(Diagnostic("E100", "error", message, hint=_HINT))
    else:
        suffix = path.suffix if path.suffix in SAVED else ".npz"
        with naming_file(str(path), suffix, hint=_HINT):
            arrays = SavedArrays(path)
        with arrays:
            case_of = {name: name.removesuffix(f"/{OUTPUT}") for name in arrays}
            yield {case: partial(_in_archive, path, arrays, n) for n, case in case_of.items()}


def _in_memory(found: Any) -> Array | None:
    array = found.get(OUTPUT) if isinstance(found, Mapping) else found
    return None if array is None else np.asarray(array)


def _in_file(path: Path) -> Array:
    with _reading(path.name):
        if path.suffix == ".npy":
            return read_npy(path)
        with SavedArrays(path) as archive:
            if OUTPUT in archive:
                return archive[OUTPUT]
            if len(archive) != 1:
                raise ValueError(f'{len(archive)} arrays, none is named "{OUTPUT}"')
            return next(iter(archive.values()))


def _in_archive(path: Path, arrays: SavedArrays, name: str) -> Array:
    with _reading(f"{path.name}[{name}]"):
        return arrays[name]


_HINT = "results: a folder of CASE.npz or CASE.npy, or one .npz with CASE/y for every case"


@contextmanager
def _reading(what: str) -> Iterator[None]:
    try:
        yield
    except MemoryError:
        raise UnreadableResult(f"{what}: more than fits into memory") from None
    except (UnreadableArray, FileAccessError, ValueError) as e:
        raise UnreadableResult(f"{what}: no plain array: {e}") from None


def require_place(path: Path, *, force: bool) -> None:
    """Refuse to write results over existing files, unless forced; UsageError."""
    if not force and path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise misused(f"-o {path}: there is something already", "--force replaces it")


def save_results(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write results: one .npz or .safetensors if the path ends so, else a folder of .npz."""
    if path.suffix in SAVED:
        named = {f"{name}/{OUTPUT}": a for name, a in arrays.items()}
        write_file(path, packed(str(path), named))
        return
    with failures(path):
        path.mkdir(exist_ok=True)
        for name, array in arrays.items():
            (path / f"{name}.npz").write_bytes(npz({OUTPUT: array}))
