"""Reading a model: files to bytes, bytes to a Document, Document to Graph, with all diagnostics."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from errno import ENOENT
from os import PathLike
from pathlib import Path
from typing import Literal, get_args

from irdeconv.base import errors, gc_pause
from irdeconv.base.limits import Limits, current
from irdeconv.base.opening import contents, reason_of, unreadable
from irdeconv.base.source import Location, SourceFile
from irdeconv.formats.build import build, model_info
from irdeconv.formats.constants import LEFT_OUT, UNREADABLE, check_weights
from irdeconv.formats.document import (
    Context,
    MemoryWeights,
    NotReadFurther,
    NoWeights,
    WeightsFile,
    check_mark,
)
from irdeconv.formats.kinds import BEGIN, BINARY, kind_of
from irdeconv.formats.layers import report_unknown
from irdeconv.formats.xml_reader import read_document
from irdeconv.ir.geometry import Semantics
from irdeconv.ir.graph import Graph

PathLikeText = str | PathLike[str]
Weights = PathLikeText | bytes | NoWeights | Literal[False] | None
_LATE_DECLARATION = re.compile(rb"(?:\xef\xbb\xbf)?\s+(<\?xml\s[^>]*\?>)")


@dataclass
class Loaded(errors.Collector):
    """What came of reading: the graph (None where nothing can be built) and every diagnostic.

    `denied` is why a file could not be opened, `missing` the weights file that is not there.
    """

    graph: Graph | None = None
    denied: OSError | None = None
    missing: str | None = None

    def add_denied(self, path: str, what: str, location: Location, error: Exception) -> None:
        """Record a file that cannot be opened (E100)."""
        found = unreadable(path, error, what, location)
        self.diagnostics += found.diagnostics
        if isinstance(error, OSError):
            self.denied = OSError(error.errno, reason_of(error), path)

    def error(self) -> errors.IrdeconvError:
        """Return what to raise for these diagnostics."""
        if self.denied is not None and {d.code for d in self.errors} == {"E100"}:
            return errors.no_access(self.diagnostics, self.denied.errno, self.denied.filename)
        if self.missing is not None and {d.code for d in self.errors} == {"E120"}:
            return errors.MissingWeightsError(self.diagnostics, ENOENT, self.missing)
        return errors.InputError(self.diagnostics)


def load(
    path: PathLikeText | bytes,
    weights: Weights = None,
    *,
    semantics: Semantics = "runtime",
    limits: Limits | None = None,
    name: str = "<stdin>",
) -> Loaded:
    """Read an IR (version 10 or 11); a bad file is described by diagnostics, never by an exception.

    `path` names the `.xml`, or is its bytes (then called `name`). `weights` names or is the `.bin`;
    by default it is the file beside the `.xml` with the same stem, which may be missing where no
    constant needs it. False leaves the weights out: the structure alone is read.
    """
    if semantics not in get_args(Semantics):
        message = f'semantics is "{semantics}"; it is {" or ".join(get_args(Semantics))}'
        raise errors.misused(message)
    with gc_pause.paused():
        out = _load(path, weights, semantics, limits or current(), name)
    if out.graph is None and not out.errors:
        raise AssertionError("a file that is not read has a diagnostic")
    return out


def _load(
    path: PathLikeText | bytes,
    weights: Weights,
    semantics: Semantics,
    limits: Limits,
    name: str,
) -> Loaded:
    out = Loaded(most=limits.reports)
    source = open_source(path, name, out, limits)
    if source is None or _is_foreign(source, out):
        return out
    source = _without_lead(source, out)
    document = read_document(source, out, limits)
    if document is None:
        return out
    store = open_weights(weights, None if isinstance(path, bytes) else Path(path), source, out)
    context = Context(source, out, store, limits, semantics)
    try:
        out.graph = build(document, context)
        report_unknown(context)
        check_weights(document, context)
        check_mark(document.mark, store, weights is not None, context)
    except NotReadFurther:
        out.graph = None
    try:
        store.require_intact()
    except errors.InputError as e:
        out.diagnostics += e.diagnostics
    out.count_rest()
    if out.graph is not None:
        out.graph.info = model_info(document, source.path)
    return out


def open_source(
    path: PathLikeText | bytes, name: str, out: Loaded, limits: Limits
) -> SourceFile | None:
    """Return the bytes of an `.xml`; None, with a diagnostic, where they cannot be read."""
    if isinstance(path, bytes):
        return SourceFile(name, path)
    text = os.fspath(path)
    try:
        return SourceFile(text, contents(text, limits.xml_bytes))
    except errors.LimitError as e:
        out.diagnostics += e.diagnostics
        return None
    except (OSError, ValueError) as e:
        out.add_denied(text, "", Location(SourceFile(text, b"")), e)
        return None


def _without_lead(source: SourceFile, out: errors.Collector) -> SourceFile:
    """Return a file whose XML declaration does not come first without it, places kept.

    XML forbids blanks in front of the declaration, OpenVINO's reader skips them and takes the text
    for UTF-8.
    """
    late = _LATE_DECLARATION.match(source.data)
    if late is None:
        return source
    message = "there are blanks in front of the XML declaration; XML forbids them"
    hint = "let the file begin with <?xml"
    out.add("W103", message, location=Location(source, fixed=(1, 1)), hint=hint)
    blank = re.sub(rb"[^\r\n]", b" ", late[1])
    return SourceFile(source.path, source.data[: late.start(1)] + blank + source.data[late.end() :])


def _is_foreign(source: SourceFile, out: errors.Collector) -> bool:
    """Report a file that is known to be something else; whether it is."""
    path = source.path or source.name
    kind = kind_of(source.data[:BEGIN], path)
    if kind.format == "xml" or not (kind.format or kind.foreign or kind.name == BINARY):
        return False
    message = f"the file is {kind.name}, no OpenVINO IR"
    place = Location(SourceFile(path, b""), fixed=(1, 1))  # all of the file is meant
    out.add("E110", message, location=place, hint=kind.mend)
    return True


def open_weights(weights: Weights, xml: Path | None, source: SourceFile, out: Loaded) -> NoWeights:
    """Return the `.bin` that is given, or the one beside the `.xml`; `out` says what is missing."""
    if isinstance(weights, bytes):
        return MemoryWeights(weights)
    if isinstance(weights, NoWeights):
        return weights
    if weights is False:
        return NoWeights("", LEFT_OUT)
    if weights is None:
        if xml is None:
            return NoWeights("", "the weights were not given")
        weights = xml.with_suffix(".bin")
    text = os.fspath(weights)
    try:
        found = WeightsFile(text)
        out.missing = text if found.size is None else None
        return found
    except (OSError, ValueError) as e:
        out.add_denied(text, "the weights file ", Location(source, fixed=(1, 1)), e)
        return NoWeights(text, UNREADABLE)
