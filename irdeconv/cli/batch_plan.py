"""What a batch will do: its items with their words, folders and sources, and its journal."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from irdeconv.base.errors import IrdeconvError, misused
from irdeconv.base.opening import first_bytes
from irdeconv.cli.batch_answer import failed, sources
from irdeconv.cli.batch_items import BatchItem, Row, found_files, name_of
from irdeconv.cli.checks import PEER, check_options, require_folder
from irdeconv.formats.atomic import failures

JOURNAL = "batch.journal"
PLACEHOLDERS = ("{file}", "{folder}", "{stem}", "{item}")
MADE = {"infer": "inferred", "lower": "lowered"}  # models that verbs write


def journal_of(args: argparse.Namespace) -> Path | None:
    """Return where the journal is: as said, in -o, or beside the first report."""
    if args.folder is not None:
        require_folder(Path(args.folder))
    if args.journal is not None:
        return Path(args.journal)
    if args.folder is not None:
        return Path(args.folder, JOURNAL)
    return Path(f"{args.report[0]}.journal") if args.report else None


def planned(args: argparse.Namespace) -> list[BatchItem]:
    """Return the items, in the order of the paths; UsageError for words that cannot be right."""
    files = found_files(args.paths, without=_own(args))
    _require_words(args, files[0])
    if args.inputs:
        from irdeconv.cli.batch_answer import parts

        items = parts(args, files)
    else:
        items = [_item(args, file) for file in files]
    _require_apart(args, items)
    number, of = args.shard or (1, 1)
    return items[len(items) * (number - 1) // of : len(items) * number // of]


def _own(args: argparse.Namespace) -> list[str]:
    """Return what the batch writes, and the second models: no models that a folder is searched for.

    UsageError where the results would go among the models.
    """
    for path in args.paths if args.folder is not None else ():
        if os.path.isdir(path) and os.path.realpath(path) == os.path.realpath(args.folder):
            message = f"-o {args.folder}: the results would be among the models"
            raise misused(message, f"name another folder, such as {os.path.join(path, 'results')}")
    second = [args.against] if args.against and os.path.isdir(args.against) else []
    own = [args.folder, args.journal, *args.report, *second]
    return [path for path in own if path is not None]


def _require_apart(args: argparse.Namespace, items: list[BatchItem]) -> None:
    """Raise UsageError where a report or the journal would replace each other, or what is read."""
    names = {path for item in items for path in (item.file, *item.sources)}
    read = {os.path.realpath(path) for path in names}
    journal = journal_of(args)
    for name, path in (
        *([("--journal", str(journal))] if journal is not None else ()),
        *(("--report", path) for path in args.report),
    ):
        real = os.path.realpath(path)
        if real in read or (real.endswith(".xml") and not _is_report(real)):
            raise misused(f"{name} {path} would replace what is there", "name a new file")
        read.add(real)


def _require_words(args: argparse.Namespace, file: str) -> None:
    """Let the verb's own parser look at the words, before anything is done."""
    from irdeconv.cli.verbs import verb_parser, verb_record

    second = [file] if args.task == "check-certificate" else []
    options = verb_parser(args.task).parse([_word(file), *second, *args.words])
    for name in ("file", "files", "lowered", "other"):
        setattr(options, name, None)
    if not any(mark in word for word in args.words for mark in PLACEHOLDERS):
        check_options(verb_record(args.task), options)


def _is_report(path: str) -> bool:
    """Whether an .xml is a report of a batch, or not there: no model may get lost for a report."""
    try:
        return b"<testsuites " in first_bytes(path, 100)
    except OSError:
        return True


def _item(args: argparse.Namespace, file: str) -> BatchItem:
    name = name_of(file)
    folder = None if args.folder is None else os.path.join(args.folder, name)
    words = [_filled(word, file, name) for word in args.words]
    other = [] if args.against is None else [_against(args.against, file, name)]
    given = [_word(file), *map(_word, other), *words]
    payload = {
        "verb": args.task,
        "words": [*given, *_usual(args.task, words)],
        "folder": folder,
        "made": {} if folder is None else dict(_made(args.task, file, words)),
    }
    return BatchItem(name, file, payload, tuple(sources([file, *other], words)), depends=given)


def _word(path: str) -> str:
    """Return a path as an argument, which does not look like an option."""
    return os.path.join(".", path) if path.startswith("-") else path


def _filled(text: str, file: str, name: str) -> str:
    path = Path(file)
    values = (file, str(path.parent), path.stem, name)
    for mark, value in zip(PLACEHOLDERS, values, strict=True):
        text = text.replace(mark, value)
    return text


def _against(where: str, file: str, name: str) -> str:
    """Return the second model: of a pattern, or what `batch lower -o` has made of this file."""
    if where.partition(":")[0] != PEER and os.path.isdir(where):
        return os.path.join(where, name, f"{MADE['lower']}{_suffix(file)}")
    return _filled(where, file, name)


def _suffix(file: str) -> str:
    return ".onnx" if file.endswith(".onnx") else ".xml"


def _usual(task: str, words: list[str]) -> Iterator[str]:
    """Yield what makes results the same in each run, and workers share the processors."""
    names = {word.partition("=")[0] for word in words}
    if task == "run" and "--threads" not in names:
        yield "--threads=1"
    if "--probe" in names and "--seed" not in names:
        yield "--seed=0"


def _made(task: str, file: str, words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the options with which the verb writes, and the names of what it writes."""
    if task == "run":
        yield "--output", "outputs.npz"
    elif task == "lower":
        yield "--output", f"{MADE['lower']}{_suffix(file)}"
        if "--certify" in words:
            yield "--certify", "certificates.json"
    elif task == "infer" and "--no-weights" not in words:
        yield "--output", f"{MADE['infer']}.xml"


def complete(item: BatchItem, row: Row) -> bool:
    """Whether all files that an item has made are still there."""
    folder = item.payload["folder"]
    if folder is None:
        return True
    if row["result"] is not None and not row["files"]:
        return False  # done without -o
    return all(_size(os.path.join(folder, f["name"])) == f["bytes"] for f in row["files"])


def _size(path: str) -> int | None:
    try:
        return os.lstat(path).st_size
    except OSError:
        return None


def cleared(items: Iterable[BatchItem]) -> None:
    """Remove what earlier runs of these items have left in their folders."""
    for item in items:
        folder = item.payload["folder"]
        if folder is None or not os.path.lexists(folder):
            continue
        if os.path.islink(folder) or not os.path.isdir(folder):
            raise misused(f"{folder} is in the way", "name another folder with -o")
        shutil.rmtree(folder)


def settled(item: BatchItem, row: Row, stage: Path | None) -> Row:
    """Let the folder that an item has made below `stage` take its place; return the row then."""
    made = row.pop("place", None)
    if made is None or stage is None:
        return row
    folder = item.payload["folder"]
    try:
        with failures(Path(folder)):
            cleared([item])
            os.rename(stage / made, folder)
    except IrdeconvError as e:
        return failed(e, None)
    return row


def shown(item: BatchItem, row: Row) -> dict[str, Any]:
    """Return an item as the report shows it."""
    part = {} if item.rows is None else {"rows": list(item.rows)}
    return {"item": item.name, "file": item.file, **part, **row}
