"""Reading the files of a legacy IR: the `.xml`, and the `.bin` or random blobs."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Literal

from irdeconv.errors import InputError
from irdeconv.geometry import Semantics
from irdeconv.importers.imported import Imported
from irdeconv.importers.legacy.reader import read_legacy
from irdeconv.io.reading import Loaded, open_source, open_weights
from irdeconv.io.weights import NoWeights
from irdeconv.limits import Limits, current
from irdeconv.passes.overrides import ShapeLike


def read_legacy_files(
    model: str | PathLike[str] | bytes,
    weights: str | PathLike[str] | bytes | Literal[False] | None = None,
    *,
    shapes: Mapping[str, ShapeLike] | None = None,
    seed: int = 0,
    semantics: Semantics = "runtime",
    limits: Limits | None = None,
    name: str = "<bytes>",
) -> Imported:
    """Read an IR of version 2 to 7, its `.xml` or the bytes of it.

    `weights` are the `.bin`, by default the one beside the `.xml`; "random" draws all blobs with
    `seed`, False leaves them out. Raises UnsupportedError, InputError, FileAccessError.
    """
    out, limits = Loaded(), limits or current()
    source = open_source(model, name, out, limits)
    if source is None:
        raise out.error()
    drawn = weights == "random"
    xml = None if isinstance(model, bytes) else Path(model)
    store = NoWeights("") if drawn else open_weights(weights, xml, source, out)
    if out.errors:
        raise out.error()
    wanted = dict(shapes or {})
    try:
        done = read_legacy(
            source,
            store,
            limits=limits,
            shapes=wanted,
            seed=seed if drawn else None,
            semantics=semantics,
        )
    except InputError as e:
        out.diagnostics += e.diagnostics
        raise out.error() from None
    if store.path:
        done.files = (Path(store.path),)
    return done
