"""The files that an item's result depends on: what a journal holds has to be of the same ones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path


def sources(models: Iterable[str], words: Iterable[str]) -> Iterator[str]:
    """Yield the files that are read for models and for options, as far as names tell."""
    for model in models:
        yield model
        if model.endswith(".onnx"):
            yield from _external(model)
        else:
            yield str(Path(model).with_suffix(".bin"))
    for word in words:
        value = word.partition("=")[2]
        for path in (value, value.rpartition("@")[2]):
            if os.path.isfile(path):
                yield path


def _external(model: str) -> Iterator[str]:
    """Yield the files that an ONNX model names for its data."""
    from irdeconv.importers.onnx_locations import external_files

    try:
        yield from map(str, external_files(Path(model)))
    except (OSError, ValueError):  # the item says what is wrong with it
        return
