"""One item of a batch, and `batch join`: the outputs of all rows as one file.

A verb is called as the command line calls it; its answer is a row. The verb writes JSON,
which goes to `result.json` in the item's folder. No path of that folder remains in it, so that the
same work gives the same bytes in any folder. The item's files are made in a new folder below
`stage`, whose name is "place" in the row. The command moves it to its final place. So no folder is
half made, and two workers with the same item do not disturb each other.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import secrets
import zipfile
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from errno import EACCES
from functools import lru_cache, partial
from itertools import accumulate, islice
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, Any

import numpy as np

import irdeconv as ird
from irdeconv import __version__
from irdeconv.base.errors import Diagnostic, IrdeconvError, UsageError, count, misused
from irdeconv.base.extras import needed
from irdeconv.base.json_form import Record
from irdeconv.base.limits import of_settings
from irdeconv.base.opening import missing, read_file, unreadable
from irdeconv.cli.batch_items import (
    BatchItem,
    Lazy,
    Row,
    content_of,
    digest_of,
    ended,
    found_files,
    name_of,
    sources,
    with_data,
)
from irdeconv.cli.checks import require_array_file, require_single
from irdeconv.cli.console import Console
from irdeconv.cli.diagnostics import code_of
from irdeconv.cli.interrupt import EXIT_CODE
from irdeconv.cli.main import guarded, main
from irdeconv.cli.model import (
    gather,
    inferred_model,
    open_arrays,
    save_arrays,
    statistics,
)
from irdeconv.cli.options import execution
from irdeconv.cli.verbs import verb_parser
from irdeconv.extension import load
from irdeconv.formats.arrays import (
    HEADER_BYTES,
    ArrayHeader,
    archived,
    naming_file,
    npy_header,
    read_npy,
)
from irdeconv.formats.atomic import failures, require_writable, together, write_file
from irdeconv.formats.kinds import SAVED
from irdeconv.ir.spec import Array

if TYPE_CHECKING:
    from irdeconv.runtime.plan import Plan

RESULT = "result.json"
MOST_DIAGNOSTICS = 50  # of an item in the report; result.json has all
MOST_TEXT = 2000  # characters of a message in the report


@dataclass(frozen=True)
class Places:
    """The folder in which an item's files are `made`, and its `final` path."""

    made: str
    final: str

    def relocated(self, value: Any) -> Any:
        """Return a document in which paths of files that were made begin in their folder."""
        return _texts(
            value, lambda t: t.removeprefix(self.made + os.sep).replace(self.made, self.final)
        )


def _texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_texts(v, change) for v in value]
    if isinstance(value, dict):
        return {k: _texts(v, change) for k, v in value.items()}
    return value


def row_of(verb: str, code: int, text: str, places: Places | None, file: str | None = None) -> Row:
    """Return the row of a verb that has printed a JSON document; an error gets the file's name."""
    if not text:  # an extension may end the verb
        code, text = 70, '{"error": "no answer", "diagnostics": []}'
    document = json.loads(text)
    if file is not None and "error" in document:
        document["file"] = file
    document = document if places is None else places.relocated(document)
    data = (json.dumps(document, indent=1) + "\n").encode()
    if places is not None:
        write_file(Path(places.made, RESULT), data)
    found = islice(diagnostics(document), MOST_DIAGNOSTICS)
    row = ended(code, [_cut(d) for d in found], _cut(summary(verb, document)))
    row["result"] = hashlib.sha256(data).hexdigest()
    row["files"] = [] if places is None else list(files(places.made))
    if code in (5, 70):
        row["last"] = True  # the process may not have given back its memory
    return row


def failed(error: IrdeconvError | MemoryError, places: Places | None) -> Row:
    """Return the row of an item whose answer could not be kept."""
    found = error.diagnostics if isinstance(error, IrdeconvError) else ()
    code = 5 if isinstance(error, MemoryError) else code_of(found) or error.exit_code
    diagnostics = [d.to_dict() for d in found[:MOST_DIAGNOSTICS]]
    if places is not None:
        diagnostics = places.relocated(diagnostics)
    cut = _cut(diagnostics)
    row = ended(code, cut, cut[0]["message"] if found else "out of memory")
    return {**row, "last": True} if code == 5 else row


def _cut(value: Any) -> Any:
    """Return a value whose texts are no longer than a report should have."""
    return _texts(value, lambda t: t if len(t) <= MOST_TEXT else f"{t[:MOST_TEXT]}...")


def files(folder: str) -> Iterator[dict[str, Any]]:
    """Yield name, size and digest of each file in an item's folder, by name."""
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            yield {"name": name, "bytes": path.stat().st_size, "sha256": digest_of(path)}


def diagnostics(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a verb's diagnostics, errors first."""
    proof = document.get("proof") or {}
    found = [*document.get("diagnostics", ()), *proof.get("warnings", ())]
    found = [d for d in found if isinstance(d, dict)]
    yield from sorted(found, key=lambda d: bool(d["severity"] != "error"))


def summary(verb: str, document: dict[str, Any]) -> str:
    """Return a verb's answer in one line."""
    if "error" in document:
        found = next(diagnostics(document), None)
        return str(found["message"] if found else document["error"].split("\n")[0])
    return SUMMARIES[verb](document)


def _of_outputs(document: dict[str, Any]) -> str:
    outputs = document["outputs"]
    shapes = ", ".join(f"{name} {facts['shape']}" for name, facts in outputs.items())
    return shapes if len(shapes) < 100 else count(len(outputs), "output")


def _of_tensors(document: dict[str, Any]) -> str:
    """Return the answer of `infer` or `compare`."""
    tensors = count(len(document["tensors"]), "tensor")
    if "differs" in document:
        differs = document["differs"]
        return f"{tensors}, {differs} unlike what is declared" if differs else tensors
    if document["passed"]:
        return f"the same: {tensors} compared"
    return f"different: {sum(not tensor['passed'] for tensor in document['tensors'])} of {tensors}"


def _of_layers(document: dict[str, Any]) -> str:
    """Return the answer of `lower` or `check-certificate`."""
    if "proof" in document:
        layers = document["proof"]["layers"]
        done = sum(bool(layer.get("passed")) for layer in layers)
        proved = f"{done} of {count(len(layers), 'rewritten layer')} proved for every size"
        return proved if layers else "nothing to prove: no rewritten layers"
    layers, made = document["layers"], document.get("certificates")
    if not layers:
        return "no deconvolutions, nothing to lower"
    done = sum(layer["form"] is not None for layer in layers)
    proved = "" if made is None else f", {sum(c['reason'] is None for c in made)} proved"
    return f"{count(done, 'deconvolution')} of {len(layers)} lowered{proved}"


def _of_types(document: dict[str, Any]) -> str:
    types, check = document["types"].values(), document["check"]
    before, after = (sum(n[key] for n in types) for key in ("before", "after"))
    differs = "" if check is None or check["passed"] else "; the results differ"
    return f"{count(before, 'layer')} became {after}{differs}"


def _of_explanations(document: dict[str, Any]) -> str:
    refused = sum(layer["rejected"] is not None for layer in document["layers"])
    said = f", {refused} refused by the layer's own system" if refused else ""
    return f"{count(len(document['layers']), 'deconvolution')}{said}"


SUMMARIES: dict[str, Callable[[dict[str, Any]], str]] = {
    "validate": lambda d: f"{count(d['errors'], 'error')}, {count(d['warnings'], 'warning')}",
    **dict.fromkeys(("infer", "compare"), _of_tensors),
    **dict.fromkeys(("lower", "check-certificate"), _of_layers),
    "run": _of_outputs,
    "convert": lambda d: f"{d['format']}: {count(d['layers'], 'layer')}",
    "simplify": _of_types,
    "inspect": lambda d: "{layers:,} layers, {parameters:,} parameters, {macs:,}{0} MACs".format(
        " + ?" * bool(d["totals"]["unknown"]), **d["totals"]
    ),
    "explain": _of_explanations,
    "bench": lambda d: f"{d['network']['wall']['median'] * 1e3:.3g} ms",
}

FILES, FOLDERS = (".npy", *SAVED), (".zarr",)
MOST_PARTS = 10_000_000
TELLING_NOTHING = ("--threads", "--max-memory", "--limit")  # options that change no output


def parts(args: argparse.Namespace, models: list[str]) -> tuple[Lazy[BatchItem], list[str]]:
    """Return an item for each file of --inputs, or for each --rows of it; and the files read."""
    if len(models) != 1:
        message = f"--inputs: one model runs on them, PATH names {len(models)}"
        raise misused(message, "name a single model")
    if any(word.startswith("--dump=") for word in args.words):
        raise misused("--dump and --inputs exclude each other", "name inner layers by --outputs")
    own = [args.folder] if args.folder is not None else []
    files = found_files(args.inputs, FILES, FOLDERS, own)
    for path in files:
        if os.path.isdir(path) and not path.endswith(FOLDERS):
            raise unreadable(path, PermissionError(EACCES, os.strerror(EACCES)))
        if not path.endswith((*FILES, *FOLDERS)):
            hint = f"they are files of {', '.join((*FILES, *FOLDERS))}"
            raise misused(f'--inputs: "{path}" holds no arrays', hint)
    read = tuple(with_data(sources(models, args.words)))
    origin = _origin(args.words, read)
    totals = [_row_count(path, args.rows) for path in files]
    ends = [*accumulate(1 if n is None else -(-n // args.rows) for n in totals)]

    def item(index: int) -> BatchItem:
        number = bisect_right(ends, index)
        path, total, rows = files[number], totals[number], None
        if total is not None:
            begin = (index - (ends[number - 1] if number else 0)) * args.rows
            rows = begin, min(begin + args.rows, total)
        name = name_of(path, "" if rows is None else f"{rows[0]}_{rows[1]}")
        payload = {
            "arrays": path,
            "part": rows,
            "model": models[0],
            "words": args.words,
            "folder": None if args.folder is None else os.path.join(args.folder, name),
            "origin": origin,
            "of": total,
        }
        own, shared = ((path,), read) if rows is None else ((), (*read, path))
        return BatchItem(name, path, payload, own, shared, rows, [models[0], *args.words])

    return Lazy(item, range(ends[-1] if ends else 0)), [*read, *files]


def _origin(words: list[str], read: tuple[str, ...]) -> str:
    """Return a digest that two results share only if they were made alike, on any machine."""
    telling = [word for word in words if word.partition("=")[0] not in TELLING_NOTHING]
    text = json.dumps([__version__, telling, [content_of(path) for path in read]])
    return hashlib.sha256(text.encode()).hexdigest()


def _row_count(path: str, rows: int | None) -> int | None:
    """Return how many rows a file has, which is cut into `rows`; its values are not read."""
    if rows is None:
        return None
    shapes = _shapes(path)
    found = {shape[0] for shape in shapes.values() if shape}
    if len(found) != 1 or not all(shapes.values()):
        listed = ", ".join(f"{name or 'array'} {list(s)}" for name, s in shapes.items()) or "none"
        message = f"{path} cannot be cut into rows; its arrays: {listed}"
        raise misused(message, "all of them need a first axis of one size")
    total = int(found.pop())
    if total // rows > MOST_PARTS:
        raise misused(f"--rows {rows} makes more than {MOST_PARTS:,} items", "take more rows")
    return total


def _shapes(path: str) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a file's arrays; of files just the headers are read."""
    if path.endswith(".zarr"):
        return {name: array.shape for name, array in _zarr(path).items()}
    if path.endswith(SAVED):
        with open_arrays(path) as arrays:
            return {name: arrays.header(name).shape for name in arrays}
    with naming_file(path, ".npy"):
        return {"": npy_header(path).shape}


def read_rows(
    path: str, rows: tuple[int, int] | None, choose: Callable[[Sequence[str]], dict[str, str]]
) -> dict[str, Array]:
    """Return arrays of a file, or rows of them, by their new names.

    `choose` maps these to names in the file; the one of an .npy is "".
    """
    part = slice(None) if rows is None else slice(*rows)
    if path.endswith(".zarr"):
        stored = _zarr(path)
        return {new: np.array(stored[name][part]) for new, name in choose([*stored]).items()}
    if path.endswith(SAVED):
        with open_arrays(path) as arrays:
            return {new: arrays[name][part].copy() for new, name in choose([*arrays]).items()}
    with naming_file(path, ".npy"):
        return {new: read_npy(path, rows) for new in choose([""])}


def _zarr(path: str) -> dict[str, Any]:
    """Return the arrays of a folder of zarr; none of Python objects, which zarr would unpickle."""
    zarr = needed("reading .zarr", "zarr", "open")
    try:
        found = zarr.open(path, mode="r")
        arrays = {"": found} if hasattr(found, "dtype") else dict(found.arrays())
    except Exception as e:  # zarr has many errors for a folder that is not its own
        raise misused(f"{path} cannot be read as zarr: {e}", "zarr.save writes one") from e
    for name, array in arrays.items():
        if array.dtype.kind not in "biufc":
            message = f'{path}: the array "{name}" holds no numbers'
            raise misused(message, "leave it out")
    return arrays


OUTPUTS = "outputs.npz"


def execute_part(payload: dict[str, Any], places: Places | None) -> Row:
    """Run the rows that a payload names, and keep the outputs in the folder `made`."""
    out = io.StringIO()
    console = Console("json", out=out, err=io.StringIO(), quiet=True)
    code = guarded("run", lambda: console, partial(_batch_part_run, payload, places, console))
    return row_of("run", code, out.getvalue(), places, payload["arrays"])


def _batch_part_run(payload: dict[str, Any], places: Places | None, console: Console) -> int:
    from irdeconv.cli.running import RunDocument
    from irdeconv.runtime.plan import run_rows

    args, plan, names = compiled(payload["model"], tuple(payload["words"]))
    rows = None if payload["part"] is None else tuple(payload["part"])
    path = payload["arrays"]
    cut = read_rows(path, rows, partial(_named, plan, path))
    feeds = dict(cut)
    if set(cut) != set(plan.binder.inputs):  # the others as --input says, else random numbers
        feeds |= gather(plan.graph, args.inputs, args.seed, console, without=cut, fill=args.fill)
    arrays = run_rows(plan, feeds, cut)
    outputs = dict(zip(names, arrays.values(), strict=True))
    if places is not None:
        save_arrays(os.path.join(places.made, OUTPUTS), outputs, console)
    facts = {name: statistics(array) for name, array in outputs.items()}
    console.json(RunDocument(payload["arrays"], args.seed, facts, **_rows(payload, cut)))
    return 0


def _rows(payload: dict[str, Any], cut: dict[str, Array]) -> dict[str, Any]:
    """Return the range of rows, and the origin that results made alike share."""
    sizes = {array.shape[0] for array in cut.values() if array.ndim}
    if len(sizes) != 1:
        return {}
    begin, end = payload["part"] or (0, sizes.pop())
    rows = {"begin": begin, "end": end, "of": payload["of"] or end}
    return {"rows": rows, "origin": payload["origin"]}


@lru_cache(maxsize=1)
def compiled(model: str, words: tuple[str, ...]) -> tuple[argparse.Namespace, Plan, list[str]]:
    """Return the options, the plan and the names of its outputs; the last ones are kept."""
    from irdeconv.cli.running import chosen

    args = verb_parser("run").parse([model, *words])
    args.threads = args.threads or 1
    for path in args.extension:
        load(path)
    with of_settings(args.limit).applied():
        graph, names = chosen(inferred_model(args, needed=True), args)
        return args, ird.compile(graph, exact=args.exact, **execution(args)), list(names)


def _named(plan: Plan, path: str, arrays: Sequence[str]) -> dict[str, str]:
    """Return the names of arrays by inputs: by name, or in order if no name fits."""
    binder = plan.binder
    usual = dict(zip((n.id for n in binder.parameters), binder.inputs, strict=True))
    known = [name for name in arrays if name in binder.names]
    if known:
        return {usual[binder.names[name].id]: name for name in known}
    if len(arrays) > len(binder.inputs):
        message = f"{path} has {count(len(arrays), 'array')}, none named like an input"
        raise misused(message, f"the inputs are {', '.join(binder.inputs)}")
    return dict(zip(binder.inputs, arrays, strict=False))


def execute(payload: dict[str, Any]) -> Row:
    """Do an item: `verb` with `words` and the paths of the files to be `made`."""
    work: Callable[[dict[str, Any], Places | None], Row]
    work = execute_part if "part" in payload else _execute_verb
    places = None
    try:
        if payload["folder"] is not None:
            places = Places(os.path.join(payload["stage"], secrets.token_hex(8)), payload["folder"])
            with failures(Path(places.final)):
                os.mkdir(places.made)
        row = work(payload, places)
    except (IrdeconvError, MemoryError) as e:  # the verb reports its own; these are others
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


MOST_PROBLEMS = 20  # things that are wrong
RESULT_BYTES = 1 << 26
AGAIN = "the same batch run with --resume makes the rest"


class JoinedFile(Record):
    """A file whose outputs were put together."""

    file: str  # a file of --inputs
    rows: int  # number of its rows
    parts: int  # number of parts that they were run in


class JoinedOutput(Record):
    """An output of all rows."""

    shape: tuple[int, ...]  # its sizes
    element_type: str  # NumPy's name


class JoinReport(Record, document="batch/1"):
    """The joined outputs."""

    joined: list[JoinedFile]  # in the order of the rows
    outputs: dict[str, JoinedOutput]  # by name
    saved: list[str]  # files that were written


@dataclass(frozen=True)
class Joint:
    """The outputs of some rows: the folder, the file, the range of rows, and their origin."""

    folder: str
    file: str
    begin: int
    end: int
    of: int
    origin: str

    @property
    def rows(self) -> str:
        """The rows, as reports call them."""
        return f"{self.file}[{self.begin}:{self.end}]"


def join(args: argparse.Namespace, console: Console) -> int:
    """Put the outputs of all parts together, a part at a time."""
    target = _target(args.folder)
    parts = list(_ordered(*_found(args.paths), args.inputs))
    for part in parts:
        if part.origin != parts[0].origin:
            message = f"{parts[0].rows} and {part.rows} are not made alike"
            hint = f"in {parts[0].folder} and {part.folder}: run one of them again"
            raise misused(message, f"another model, other options or another irdeconv, {hint}")
    outputs = _outputs(parts)
    require_single(args.folder, [*outputs], [])
    with together() as files:
        require_writable(target)
        with failures(target):
            made = files.open(target)
            _write(made.file, parts, outputs, single=target.suffix == ".npy")
    _tell(parts, outputs, args.folder, console)
    return 0


def _target(path: str | None) -> Path:
    if path is None or path == "-":
        raise misused("join needs -o FILE, where the arrays go", "name an .npz, or an .npy")
    require_array_file(path)
    if Path(path).exists() and not Path(path).is_file():
        raise misused(f"-o {path}: it is no regular file", "name a new .npz or .npy")
    return Path(path)


def _found(paths: Iterable[str]) -> tuple[list[Joint], list[str]]:
    """Return the outputs in folders of `batch run -o`, and the file of each failed item."""
    folders = {os.path.realpath(folder): folder for path in paths for folder in _folders(path)}
    found = [_read(folder) for folder in folders.values()]
    parts = [part for part in found if isinstance(part, Joint)]
    if not parts:
        message = f"there are no outputs in {', '.join(paths)}"
        raise misused(message, "name the folder of -o of a batch run --inputs")
    return parts, [file for file in found if isinstance(file, str)]


def _folders(path: str) -> list[str]:
    """Return the folders of items below a path; the path itself if it is one."""
    if not os.path.lexists(path):
        raise missing(path)
    if os.path.isfile(os.path.join(path, RESULT)):
        return [path]
    try:
        with os.scandir(path) as entries:
            folders = [e.path for e in entries if not e.name.startswith(".") and e.is_dir()]
    except OSError as e:
        raise unreadable(path, e) from None
    return sorted(f for f in folders if os.path.isfile(os.path.join(f, RESULT)))


def _read(folder: str) -> Joint | str:
    """Return an item's own record; for a failed item only its file."""
    path = os.path.join(folder, RESULT)
    try:
        document = json.loads(read_file(path, RESULT_BYTES))
        if "error" in document:
            return str(document.get("file", folder))
        rows = document["rows"]
        begin, end, of = (int(rows[name]) for name in ("begin", "end", "of"))
        if not 0 <= begin <= end <= of:
            raise ValueError
        return Joint(folder, str(document["file"]), begin, end, of, str(document["origin"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        message = f"{path} does not say which rows it is of"
        raise misused(message, "batch run --inputs writes such results; run it again") from None


def _ordered(parts: list[Joint], failed: list[str], files: Sequence[str]) -> Iterator[Joint]:
    """Yield parts by file and by rows; UsageError with all that is missing, or there twice."""
    by_file = _by_file(parts)
    for name in files:
        if name not in by_file:
            known = ", ".join(islice(sorted(by_file), 5))
            raise misused(f"--inputs {name}: there are no results of it", f"there are of {known}")
    names = dict.fromkeys(files) or sorted(by_file, key=lambda file: PurePath(file).parts)
    chosen = {name: sorted(by_file[name], key=lambda p: (p.begin, p.end)) for name in names}
    wrong = [problem for found in chosen.values() for problem in _wrong(found)]
    if not files:
        hint = "run it again with --resume, or name the files that are meant with --inputs"
        for file in sorted({*failed} - by_file.keys()):
            wrong.append((f"{file} is missing: its items ended without outputs", hint))
    if wrong:
        lacking = f"; {count(len(failed), 'item')} ended without outputs" if failed else ""
        raise UsageError([*_diagnostics(wrong, lacking)])
    for found in chosen.values():
        yield from found


def _by_file(parts: Iterable[Joint]) -> dict[str, list[Joint]]:
    found: dict[str, list[Joint]] = {}
    for part in parts:
        found.setdefault(part.file, []).append(part)
    return found


def _diagnostics(wrong: list[tuple[str, str]], lacking: str) -> Iterator[Diagnostic]:
    for text, hint in wrong[:MOST_PROBLEMS]:
        yield Diagnostic("E700", "error", text, hint=hint + (lacking if hint == AGAIN else ""))
    if len(wrong) > MOST_PROBLEMS:
        text = f"and {len(wrong) - MOST_PROBLEMS:,} more places like these"
        yield Diagnostic("E700", "error", text, hint=lacking.removeprefix("; "))


def _wrong(parts: list[Joint]) -> Iterator[tuple[str, str]]:
    """Yield the mistakes of a file's parts, which are sorted by rows."""
    first = parts[0]
    for part in parts:
        if part.of != first.of:
            has = f"{first.of:,} rows in {first.folder}, {part.of:,} in {part.folder}"
            yield f"{part.file} has {has}", "run the parts with one and the same file"
            return
    reached = replace(first, begin=0, end=0)
    for part in [*parts, replace(first, begin=first.of, end=first.of)]:
        if part.begin > reached.end:
            rows = f"{part.begin - reached.end:,} of {part.of:,} rows"
            yield f"{part.file}[{reached.end}:{part.begin}] is missing: {rows}", AGAIN
        elif part.begin < reached.end:
            end = min(part.end, reached.end)
            where = f"in {reached.folder} and in {part.folder}"
            rows = f"{part.file}[{part.begin}:{end}]"
            text = f"{rows} is there twice: {count(end - part.begin, 'row')}, {where}"
            yield text, "leave one of the folders out, or run anew into an empty folder"
        reached = max(reached, part, key=lambda p: p.end)


def _outputs(parts: list[Joint]) -> dict[str, ArrayHeader]:
    """Return the headers of the whole outputs; only headers are read."""
    whole: dict[str, ArrayHeader] = {}
    for part in parts:
        path = os.path.join(part.folder, OUTPUTS)
        with open_arrays(path) as arrays:
            found = {name: arrays.header(name) for name in arrays}
        if part is parts[0]:
            whole = {name: replace(h, shape=(0, *h.shape[1:])) for name, h in found.items()}
        if found.keys() != whole.keys():
            raise _unlike(parts[0], part, f"{[*whole]} and {[*found]}")
        for name, header in found.items():
            total, shape = whole[name], header.shape
            if not shape:
                message = f'output "{name}" is a scalar, which cannot be joined'
                raise misused(message, "leave it out")
            texts = header.dtype.kind == total.dtype.kind == "U"  # as long as its longest one
            if shape[1:] != total.shape[1:] or not (texts or header.dtype == total.dtype):
                rows_of = [f"{h.dtype}{list(h.shape[1:])}" for h in (total, header)]
                raise _unlike(parts[0], part, f'"{name}" has rows of {", then ".join(rows_of)}')
            dtype = np.promote_types(total.dtype, header.dtype)
            rows = total.shape[0] + shape[0]
            whole[name] = replace(total, dtype=dtype, shape=(rows, *shape[1:]))
    return whole


def _unlike(first: Joint, part: Joint, what: str) -> UsageError:
    message = f"the outputs of {first.rows} and of {part.rows} do not fit: {what}"
    return misused(message, "they can only be used by themselves")


def _write(
    file: IO[bytes], parts: list[Joint], outputs: dict[str, ArrayHeader], *, single: bool
) -> None:
    if single:
        for name, whole in outputs.items():
            _write_array(file, parts, name, whole)
        return
    with zipfile.ZipFile(file, "w") as archive:
        for name, whole in outputs.items():
            with archived(archive, name, whole.nbytes + HEADER_BYTES) as member:
                _write_array(member, parts, name, whole)


def _write_array(file: IO[bytes], parts: list[Joint], name: str, whole: ArrayHeader) -> None:
    """Write the header of an .npy and the rows of each part, of which one is in memory."""
    header = {"shape": whole.shape, "fortran_order": False}
    descr = np.lib.format.dtype_to_descr(whole.dtype)
    np.lib.format.write_array_header_1_0(file, {**header, "descr": descr})
    for part in parts:
        with open_arrays(os.path.join(part.folder, OUTPUTS)) as arrays:
            array: Array = np.ascontiguousarray(arrays[name], whole.dtype)
        file.write(array.reshape(-1).view(np.uint8).data)


def _tell(parts: list[Joint], outputs: dict[str, ArrayHeader], path: str, console: Console) -> None:
    files = _by_file(parts)
    rows = sum(part.end - part.begin for part in parts)
    for name, whole in outputs.items():
        if whole.shape[0] != rows:
            has = f'"{name}" has {whole.shape[0]:,} rows for {rows:,} of the inputs'
            console.log(f"{has}: only the parts show which belong together")
    console.log(f"wrote {path}")
    if console.wants_json:
        sizes = {file: sum(p.end - p.begin for p in found) for file, found in files.items()}
        joined = [JoinedFile(file, size, len(files[file])) for file, size in sizes.items()]
        shapes = {name: JoinedOutput(o.shape, str(o.dtype)) for name, o in outputs.items()}
        console.json(JoinReport(joined, shapes, [path]))
        return
    for name, whole in outputs.items():
        console.text(f"{name} {whole.dtype}{list(whole.shape)}")
    joined_of = f"{count(rows, 'row')} of {count(len(files), 'file')}"
    console.text((f"join: {joined_of}, in {count(len(parts), 'part')}", "bold green"))
