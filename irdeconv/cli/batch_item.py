"""One item of a batch: a verb is called as the command line calls it; its answer is a row."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from irdeconv.batches.rows import Row
from irdeconv.cli.batch_answer import row_of
from irdeconv.cli.batch_part import execute_part
from irdeconv.cli.interrupt import EXIT_CODE
from irdeconv.cli.main import main


def execute(payload: dict[str, Any]) -> Row:
    """Do an item: `verb` with `words`, and with its `folder` where it has one."""
    if "part" in payload:
        return execute_part(payload)
    verb, folder = payload["verb"], payload["folder"]
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    out, err = io.StringIO(), io.StringIO()
    words = [*payload["words"], "--format", "json", "--color", "never", "--quiet"]
    code = main([verb, *words], out=out, err=err)
    if code == EXIT_CODE:  # in the process of the command itself
        raise KeyboardInterrupt
    return row_of(verb, code, out.getvalue(), folder)
