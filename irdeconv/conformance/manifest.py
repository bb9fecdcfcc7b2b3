"""A suite on disk: `manifest.json` and a folder of files for every case."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from irdeconv.access import reason_of
from irdeconv.conformance.cases import SuiteCase
from irdeconv.conformance.layer import DIALECTS, SuiteLayer
from irdeconv.conformance.rows import terms, traits
from irdeconv.conformance.vectors import loaded
from irdeconv.dtypes import ELEMENT_TYPES
from irdeconv.errors import Diagnostic, FileAccessError, UsageError, misused
from irdeconv.io.saved_arrays import SavedArrays
from irdeconv.limits import current
from irdeconv.markup import html_table, line
from irdeconv.opening import contents, parse_json
from irdeconv.plural import count
from irdeconv.spec import Array
from irdeconv.verify.compare.difference import Allowed

SCHEMA = "irdeconv/suite-manifest/1"
MANIFEST = "manifest.json"
INPUTS, CONSTANTS, EXPECTED = "inputs.npz", "constants.npz", "expected.npz"
MODEL, LOWERED, ONNX = "model.xml", "lowered.xml", "model.onnx"
OUTPUT, BOUND = "y", "y.bound"
_LISTS = (
    *("size", "kernel", "strides", "dilations", "pads_begin", "pads_end", "output_padding"),
    "output_shape",
)


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
        values: dict[str, Any] = {
            k: tuple(v) if k in _LISTS and v is not None else v for k, v in said.items()
        }
        return SuiteLayer(**values)

    @cached_property
    def features(self) -> list[str]:
        """What is true of the layer, in words: `strides 2`, `a dilation above 1`."""
        return [*(f"{k} {v}" for k, v in terms(self.layer).items()), *traits(self.layer)]

    @property
    def exact(self) -> bool:
        """Whether the expected numbers themselves are wanted."""
        return bool(self.facts["outputs"][OUTPUT]["exact"])

    @property
    def known(self) -> list[dict[str, str]]:
        """What peers are known to do wrong with it: peer, file, text."""
        return list(self.facts["known"])

    def path(self, file: str) -> Path:
        """Return where a file of the case stands."""
        return self.folder / self.name / file

    def has(self, file: str) -> bool:
        """Whether the case has such a file."""
        return file in self.facts["files"]

    def arrays(self) -> dict[str, Array]:
        """Read inputs and constants by the names of the model's ports."""
        found = {**self._read(INPUTS), **(self._read(CONSTANTS) if self.has(CONSTANTS) else {})}
        i64 = ELEMENT_TYPES["i64"]
        types = {n: i64 if n == "output_shape" else self.layer.dtype for n in found}
        return {n: loaded(a, types[n]) for n, a in found.items()}

    def inputs(self) -> dict[str, Array]:
        """Read what is fed."""
        return {n: loaded(a, self.layer.dtype) for n, a in self._read(INPUTS).items()}

    def expected(self) -> tuple[Array, Allowed]:
        """Read the expected output and how far each element may be off."""
        found = self._read(EXPECTED)
        rule = str(self.facts["outputs"][OUTPUT]["rule"])
        if self.exact:
            return loaded(found[OUTPUT], self.layer.dtype), Allowed(0.0, rule)
        return found[OUTPUT], Allowed(found[BOUND], rule)

    def _read(self, file: str) -> dict[str, Array]:
        """Read arrays; FileAccessError where they are not those that the suite was made with."""
        path = self.path(file)
        try:
            data = contents(path, current().array_bytes)
        except OSError as e:
            raise _gone(path, reason_of(e)) from e
        if hashlib.sha256(data).hexdigest() != self.facts["files"].get(file):
            message = f"{path} has changed since the suite was made"
            raise UsageError(Diagnostic("E505", "error", message, hint="make the suite anew"))
        return dict(SavedArrays(data, str(path)))


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
        """Read a manifest; FileAccessError where there is none, UsageError where it is not one."""
        path = folder / MANIFEST
        try:
            facts = parse_json(contents(path, current().json_bytes))
        except OSError as e:
            raise _gone(path, reason_of(e)) from e
        except ValueError as e:
            raise misused(f"{path}: not JSON: {e}", "suite make DIR writes a suite") from None
        problem = _problem(facts)
        if problem is not None:
            raise misused(f"{path}: no manifest of a suite: {problem}", "make the suite anew")
        return Suite(folder, facts, tuple(StoredCase(folder, case) for case in facts["cases"]))


def _problem(facts: Any) -> str | None:
    """Return what keeps parsed JSON from being a manifest."""
    if not isinstance(facts, dict) or facts.get("schema") != SCHEMA:
        return f'"schema" is not "{SCHEMA}"'
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


def _gone(path: Path, reason: str) -> FileAccessError:
    hint = "irdeconv suite make DIR writes a suite"
    return FileAccessError(Diagnostic("E100", "error", f"cannot read {path}: {reason}", hint=hint))


def described(layer: SuiteLayer) -> dict[str, Any]:
    """Return a layer as the manifest has it."""
    return asdict(layer)


def is_suite(folder: Path) -> bool:
    """Whether a folder holds the manifest of a suite."""
    try:
        Suite.open(folder)
    except (FileAccessError, UsageError):
        return False
    return True


def heading(case: SuiteCase) -> dict[str, Any]:
    """Return what the manifest says of a case apart from its arrays and files."""
    op = case.layer.op
    return {
        "name": case.name,
        "set": case.set,
        "tests": case.tests,
        "dialect": case.layer.dialect,
        "type": op.type,
        "version": op.version,
        "attributes": op.to_attributes(),
        "layer": described(case.layer),
    }
