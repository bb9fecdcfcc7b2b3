"""One item of a batch: a verb is called as the command line calls it; its answer is a row.

What it makes goes into a new folder below `stage`, whose name the row has as "place". The command
puts it where it belongs. So nothing half-made is ever there, and who does an item that was given to
somebody else meanwhile disturbs nobody.
"""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from irdeconv.batches.rows import Row
from irdeconv.cli.batch_answer import Places, failed, row_of
from irdeconv.cli.batch_part import execute_part
from irdeconv.cli.interrupt import EXIT_CODE
from irdeconv.cli.main import main
from irdeconv.errors import IrdeconvError
from irdeconv.io.atomic import failures


def execute(payload: dict[str, Any]) -> Row:
    """Do an item: `verb` with `words`, which are told of the files to be `made`."""
    work: Callable[[dict[str, Any], Places | None], Row]
    work = execute_part if "part" in payload else _execute_verb
    places = None
    try:
        if payload["folder"] is not None:
            places = Places(os.path.join(payload["stage"], secrets.token_hex(8)), payload["folder"])
            with failures(Path(places.final)):
                os.mkdir(places.made)
        row = work(payload, places)
    except (IrdeconvError, MemoryError) as e:  # the verb reports its own; this is what is kept
        return failed(e, places)
    return row if places is None else {**row, "place": os.path.basename(places.made)}


def _execute_verb(payload: dict[str, Any], places: Places | None) -> Row:
    verb, words = payload["verb"], payload["words"]
    if places is not None:
        made = payload["made"].items()
        words = [*words, *(f"{name}={os.path.join(places.made, file)}" for name, file in made)]
    out, err = io.StringIO(), io.StringIO()
    words = [*words, "--format", "json", "--color", "never", "--quiet"]
    code = main([verb, *words], out=out, err=err)
    if code == EXIT_CODE:  # in the process of the command itself
        raise KeyboardInterrupt
    return row_of(verb, code, out.getvalue(), places)
