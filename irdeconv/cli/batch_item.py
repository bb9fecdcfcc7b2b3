"""One item of a batch: a verb is called as the command line calls it; its answer is a row."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from irdeconv.batches.rows import Row
from irdeconv.cli.batch_answer import failed, row_of
from irdeconv.cli.batch_part import execute_part
from irdeconv.cli.interrupt import EXIT_CODE
from irdeconv.cli.main import main
from irdeconv.errors import IrdeconvError
from irdeconv.io.atomic import failures


def execute(payload: dict[str, Any]) -> Row:
    """Do an item: `verb` with `words`, and with its `folder` where it has one."""
    work: Callable[[dict[str, Any]], Row] = execute_part if "part" in payload else _execute_verb
    try:
        if payload["folder"] is not None:
            with failures(Path(payload["folder"])):
                Path(payload["folder"]).mkdir(parents=True, exist_ok=True)
        return work(payload)
    except (IrdeconvError, MemoryError) as e:  # the verb reports its own; this is what is kept
        return failed(e)


def _execute_verb(payload: dict[str, Any]) -> Row:
    verb, folder = payload["verb"], payload["folder"]
    out, err = io.StringIO(), io.StringIO()
    words = [*payload["words"], "--format", "json", "--color", "never", "--quiet"]
    code = main([verb, *words], out=out, err=err)
    if code == EXIT_CODE:  # in the process of the command itself
        raise KeyboardInterrupt
    return row_of(verb, code, out.getvalue(), folder)
