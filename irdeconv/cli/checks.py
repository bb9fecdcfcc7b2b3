"""Checks of a verb's arguments before anything is read or computed: names, files, outputs."""

from __future__ import annotations

import argparse
import errno
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from irdeconv.base.errors import Diagnostic, InputError, count, misused, no_access
from irdeconv.base.opening import first_bytes, missing, real, unreadable
from irdeconv.cli.proposals import FORMATS, respelled_shape
from irdeconv.formats.kinds import BEGIN, BINARY, SAVED, Kind, kind_of

if TYPE_CHECKING:
    from irdeconv.cli.options import Verb, VerbOption
    from irdeconv.ir.spec import Shape

RUNTIMES = ("openvino", "onnxruntime")  # OTHER may be one of these instead of a file
_SHAPE = re.compile(r"\s*(?P<name>.*?)\s*:?\s*\[(?P<dims>[^\[\]]*)\]\s*(?:,|$)", re.DOTALL)
Stamps = dict[str, tuple[int, int] | None]  # time and size by path; None: there is no such file
POLL = 0.2  # seconds between two looks at the files of --watch
RANDOM = "random"  # --weights may be this for a oneDNN dump
# The value of --format, by the suffix of -o.
TEXT_FORMATS = {s: f for s, f in FORMATS.items() if f not in ("junit", "sarif", "text")}


def check_arguments(verb: Verb, args: argparse.Namespace) -> None:
    """Refuse arguments with which a verb cannot run."""
    check_together(verb, args)  # needs no file
    check_options(verb, args)
    check_outputs(verb, args)


def check_options(verb: Verb, args: argparse.Namespace) -> None:
    """Refuse values that cannot be right; UsageError, FileAccessError, InputError."""
    given = [(o, getattr(args, o.key)) for o in verb.options if o.is_in(args)]
    for option, value in given:
        named = option.names or option.reads or option.key == "layer"
        if named and "" in (value if isinstance(value, list) else [value]):
            name = option.names[-1] if option.names else option.placeholder
            raise misused(f"{name} is empty", "is a variable of the shell unset?")
    if getattr(args, "shape", None):
        parse_shapes(args.shape)
    # Words first: they can be judged without opening a file.
    for option, value in sorted(given, key=lambda pair: pair[0].reads in ("model", "weights")):
        if option.key == "form" and value not in option.words.split():
            from irdeconv.base.form_names import require_form

            require_form(value, option.words.split())
        elif option.key == "target":
            from irdeconv.rewrite.targets import load_target

            load_target(value)
        elif option.key == "tune" and value != "-":
            from irdeconv.formats.atomic import require_writable
            from irdeconv.runtime.executors import require_measurements

            require_writable(_first_missing(Path(value)))
            require_measurements(Path(value))
        elif option.writes == "folder":
            require_folder(Path(value))
        elif option.reads == "model":
            _check_model(value, args)
            _require_format(value, option.formats.split())
        elif option.reads == "weights" and value != RANDOM:
            _check_weights(option.name, value, _owner(verb, option, args))
    for option, value in given:
        if isinstance(value, str):
            require_suffix(option.name, value, option.suffixes, getattr(args, "file", None))


def check_together(verb: Verb, args: argparse.Namespace) -> None:
    """Raise UsageError for arguments that do not go together, or that the action does not have."""
    action = getattr(args, "action", getattr(args, "task", None))

    given = [option for option in verb.options if option.is_in(args)]
    for option in given:
        why = f": {option.why}" if option.why else ""
        actions = option.of.split()
        if actions and action not in (None, *actions):
            kind = f'has no option "{option.name}"' if option.names else f"takes no {option.name}"
            verb_name = "batch" if "task" in args else "suite"
            message = f"{verb_name} {action} {kind}{why}"
            raise misused(message, f"it belongs to {verb_name} {', '.join(actions)}")
        needed = option.needs.split()
        if needed and not any(verb.has(text, args) for text in needed):
            ways = " or ".join(f"{o.name} {o.value}".strip() for o in map(verb.named, needed))
            message = f"{option.name} needs {' or '.join(needed)}{why}"
            raise misused(message, f"add {ways}, or leave {option.name} out")
        for name in (text for text in option.excludes.split() if verb.has(text, args)):
            found = name.partition("=")[0]
            value = f" {getattr(args, verb.named(found).key)}" if "=" in name else ""
            message = f"{option.name} and {found}{value} exclude each other{why}"
            raise misused(message, "leave one out")


def read_by(verb: Verb, args: argparse.Namespace) -> Iterator[str]:
    """Yield the files that the arguments of a verb name, and words that may be files."""
    for option in verb.options:
        value = getattr(args, option.key) if option.reads else None
        if option.reads == "arrays":
            texts = value if isinstance(value, list) else [value or ""]
            yield from (text.rpartition("@")[2] for text in texts)  # x=@file.npy or all.npz
        elif value in (None, *RUNTIMES, RANDOM) or (
            option.reads == "file" and not Path(value).is_file()
        ):
            continue  # a system, random weights, a packaged target
        else:
            yield runtime_and_file(value)[1]


def watched(verb: Verb, args: argparse.Namespace) -> Stamps:
    """Return the files that a verb reads, with weights; UsageError for stdin and for --force."""
    from irdeconv.cli.batch_items import sources, with_data

    named = [*read_by(verb, args), *getattr(args, "files", ())]
    if "-" in named or getattr(args, "force", False):
        message = "--watch reads files again, and no output may replace them"
        raise misused(message, "name files instead of stdin, and leave --force out")
    return _stamps(with_data(sources((path for path in named if os.path.basename(path)), ())))


def _stamps(paths: Iterable[str]) -> Stamps:
    out: Stamps = dict.fromkeys(paths)
    for path in out:
        with suppress(OSError):
            found = os.stat(path)
            out[path] = found.st_mtime_ns, found.st_size
    return out


def wait_for_change(seen: Stamps) -> None:
    """Return as soon as files are other than `seen`, and were so at the look before."""
    now = seen
    while True:
        time.sleep(POLL)
        last, now = now, _stamps(seen)
        if now == last != seen:
            return


def check_outputs(verb: Verb, args: argparse.Namespace) -> None:
    """Refuse an output that is an input, that another one is, or that cannot be written."""
    read, taken = [*read_by(verb, args)], dict[Path, str]()
    for option in verb.options:
        kind, *_ = [*option.writes.split(), ""]
        path = getattr(args, option.key) if kind not in ("", "folder") else None
        if path is None:
            continue
        if kind == "page" and path == "-":
            raise misused(f"{option.name} -: the page needs a file", "name it, such as page.html")
        model = kind == "model" and not path.endswith(".onnx")
        files = protect(path, read, force=args.force, model=model, option=option.name)
        for file in files & taken.keys():
            message = f"{option.name} {path} would overwrite what {taken[file]} writes"
            raise misused(message, "name another file")
        taken |= dict.fromkeys(files, f"{option.name} {path}")
        if kind == "file" and path.endswith((".xml", ".bin", ".onnx")):
            message = f"{option.name} {path}: what is written is no model"
            raise misused(message, f"name it {Path(path).with_suffix('.json')}")
        if kind == "arrays":
            require_array_file(path)
        elif kind == "text":
            choices = verb.named("--format").value.split("|")
            _require_text_file(path, args.format, choices)


def require_array_file(path: str) -> None:
    """Refuse a file for arrays whose suffix names no format; devices and pipes need none."""
    if path == "-" or path.endswith((*SAVED, ".npy")):
        return
    from irdeconv.formats.atomic import descriptor_of

    device = Path(path).exists() and not Path(path).is_file()
    if not device and descriptor_of(Path(path)) is None:
        near = respelled(Path(path), [".npz", ".npy", ".safetensors"])
        hint = f"write .npz, .safetensors or .npy, such as {near}"
        raise misused(f"-o {path}: its suffix names no format for arrays", hint)


def _require_text_file(path: str, format: str, choices: Sequence[str]) -> None:
    """Refuse a file for a text whose suffix names another format, or a model."""
    suffix = Path(path).suffix.lower()
    wanted = TEXT_FORMATS.get(suffix, format)
    if wanted != format and wanted in choices:
        raise misused(f"-o {path}: what is written is {format}", f"add --format {wanted}")
    if suffix in (".png", ".pdf", ".jpg", ".jpeg") and "svg" in choices:
        svg = Path(path).with_suffix(".svg")
        hint = f"--format svg -o {svg}; rsvg-convert or a browser makes a {suffix} of it"
        raise misused(f"-o {path}: pictures are written as SVG", hint)
    if wanted != format or suffix in (".png", ".pdf", ".jpg", ".jpeg"):
        hint = f"the formats are {', '.join(choices)}"
        raise misused(f"-o {path}: the verb writes no {suffix}", hint)
    if suffix in (".csv", ".tsv", ".xlsx", ".yaml", ".yml"):
        near = f"-o {Path(path).with_suffix('.json')} --format json has the same contents"
        raise misused(f"-o {path}: no {suffix} is written", near)
    if suffix in (".xml", ".bin", ".onnx", ".npy", *SAVED):
        hint = "infer -o writes an IR; the table goes into a .txt"
        raise misused(f"-o {path}: what is written is {format}, no model", hint)


def require_single(path: str | None, outputs: Sequence[str], dumped: Sequence[str]) -> None:
    """Refuse an .npy file for anything but a single array."""
    if path is None or not path.endswith(".npy") or (len(outputs) == 1 and not dumped):
        return
    more = " beside the dumped layers" if dumped else ""
    number = f"the model has {count(len(outputs), 'output')}{more}"
    raise misused(f"-o {path}: .npy holds one array, {number}", "write .npz")


def written(output: str | Path) -> set[Path]:
    """Return the two files of a model that -o names."""
    from irdeconv.proof.reader import weights_beside

    return {real(output), real(weights_beside(Path(output)))}


def protect(
    output: str,
    sources: Iterable[str | Path | None],
    *,
    force: bool,
    model: bool = False,
    option: str = "-o",
) -> set[Path]:
    """Refuse an output that is one of the inputs, also through links, or cannot be written.

    With `model` the output is an .xml and the .bin beside it, so stdout cannot take it. `option`
    names the output in messages. Returns the files that are written.
    """
    from irdeconv.formats.atomic import require_writable
    from irdeconv.formats.models import SUFFIXES
    from irdeconv.formats.xml_writer import require_model_path
    from irdeconv.proof.reader import weights_beside

    if output == "-" and model:
        raise misused("-o -: an IR is two files, which stdout cannot hold", "name an .xml file")
    if output == "-":
        return set()
    (require_model_path if model else require_writable)(Path(output))
    targets = written(output) if model else {real(output)}
    for source in sources:
        if source is None or source == "-" or force or not Path(source).name:
            continue
        files = [Path(source)]
        if SUFFIXES.get(Path(source).suffix, "xml") == "xml":
            # It stands for its .bin as well, which is mapped while the output is written.
            files.append(weights_beside(Path(source)))
        for path in files:
            if real(path) in targets:
                message = f"{option} {output} would overwrite the input {path}"
                raise misused(message, "--force allows it")
    return targets


def parse_shapes(texts: Iterable[str], option: str = "--shape") -> dict[str, Shape | None]:
    """Parse `x[1,3]`, `x:[1,3]`, `[1,3]`, `1,3` and lists of them; the name may be empty."""
    from irdeconv.ir.spec import parse_shape

    out: dict[str, Shape | None] = {}
    for text in texts:
        items = [("", text)] if "[" not in text else _split(text)
        for name, dims in items:
            if name in out:
                which = f'names "{name}" twice' if name else "has two shapes without a name"
                raise misused(f"{option} {which}", "leave one out")
            try:
                out[name] = parse_shape(dims)
            except ValueError as e:
                shape = respelled_shape(text)
                begin = (
                    f"write '{shape}'" if shape else "write a number for each, as in 'x[1,3,64,64]'"
                )
                hint = f"{begin}; ?, -1 and 1..16 leave a dimension open"
                raise misused(f"{option} {text}: {e}", hint) from None
    return out


def _split(text: str) -> list[tuple[str, str]]:
    out, at = [], 0
    while at < len(text):
        m = _SHAPE.match(text, at)
        if m is None:
            message = f"--shape {text} is not NAME[DIMS]"
            shape = respelled_shape(text)
            raise misused(message, f"write '{shape}'" if shape else "such as 'x[1,3,64,64]'")
        out.append((m["name"], m["dims"]))
        at = m.end()
    return out


def runtime_and_file(other: str) -> tuple[str | None, str]:
    """Split openvino:FILE: the runtime, None if there is none, and the file, which may be ""."""
    system, _, file = other.partition(":")
    return (system, file) if system in RUNTIMES else (None, other)


def _check_model(file: str, args: argparse.Namespace) -> None:
    """Refuse a model that is not there, or that is known to be something else."""
    other = file
    runtime, rest = runtime_and_file(file)
    file = rest or file
    if runtime == file or file == "-" or file.endswith((*SAVED, ".npy")):
        return
    path = Path(file)
    if path.is_dir():
        raise unreadable(file, OSError(errno.EISDIR, os.strerror(errno.EISDIR)))
    if not path.exists():
        others = (getattr(args, key, None) for key in ("values", "other", "layer"))
        words = [w for o in others for w in (o if isinstance(o, list) else [o]) if w]
        model = next((w for w in words if Path(w).is_file()), None)
        if model is not None and file == args.file and not file.endswith((".xml", ".onnx")):
            message = f'there is no file "{file}": the model stands first'
            raise misused(message, f'write "{model}" before it')
        require_other(other, runtimes=other == getattr(args, "other", None))
    if path.is_file() and (kind := _kind(file)).foreign:
        own = "irdeconv" in kind.name or file.endswith((".bin", ".npy", ".npz"))
        message = f"{file} is {kind.name}, {'no model' if own else 'which irdeconv does not read'}"
        raise InputError(Diagnostic("E110", "error", message, hint=kind.mend))


def require_other(other: str, *, runtimes: bool = True) -> None:
    """Refuse a second side that is neither a file nor, with `runtimes`, one of these."""
    runtime, file = runtime_and_file(other)
    if os.path.exists(file) or (runtime and not file):
        return
    if runtime and not re.search(r"[./\\]", file):
        hint = f"write {runtime} alone; behind the colon is the file of another model"
        raise misused(f'{other}: there is no file "{file}"', hint)
    if runtimes and not runtime:
        from irdeconv.runtime.peers import require_side

        require_side(file)
    raise missing(file)


# Uses of a file that is a model, but not of the formats that a verb reads.
_OTHER_FORMATS = {
    "xml": "it is an IR already, and irdeconv makes no other format of it",
    "ird": "other verbs read it as it is; irdeconv simplify {} -o NAME.xml writes an IR",
}


def _require_format(file: str, formats: Sequence[str]) -> None:
    """Refuse a file that is known to be of another format, or of none."""
    if not formats or file == "-" or not Path(file).is_file():
        return
    kind = _kind(file)
    if kind.format == "xml":
        from irdeconv.formats.xml_reader import legacy_version

        if legacy_version(first_bytes(file, BEGIN)) is not None:
            return
    if kind.format not in formats and kind.name != BINARY:
        meant = ", ".join(f".{format}" for format in formats)
        message = f"{file} is {kind.name}; this verb reads {meant} and IRs of version 2 to 7"
        hint = _OTHER_FORMATS.get(str(kind.format), kind.mend).format(file)
        raise InputError(Diagnostic("E110", "error", message, hint=hint))


def _kind(file: str) -> Kind:
    try:
        return kind_of(first_bytes(file, BEGIN), file)
    except (OSError, ValueError) as e:
        raise unreadable(file, e) from None


def _owner(verb: Verb, option: VerbOption, args: argparse.Namespace) -> str:
    """Return the model to which a weights option belongs."""
    key = option.key.removesuffix("_weights") if option.key != "weights" else "file"
    only = [*getattr(args, "files", ()), ""][:1]  # of validate
    return str(getattr(args, key, None) or only[0])


def _check_weights(name: str, file: str, model: str) -> None:
    if file == "-":
        raise misused(f"{name} -: stdin cannot hold weights", "name the .bin file")
    if Path(file).is_dir():
        raise misused(f"{name} {file} is a folder", "name the .bin file in it")
    if model.endswith(".onnx"):
        message = f"{name} {file}: an ONNX model contains its weights, or names their files"
        raise misused(message, f"leave {name} out")
    if not Path(file).exists():
        found, beside = missing(file, "the weights file "), Path(model or file).with_suffix(".bin")
        if beside.is_file():
            hint = f"without {name} it is the file beside the model: {beside}"
            found.diagnostics = [replace(d, hint=hint) for d in found.diagnostics]
        raise found
    if file.endswith((".xml", ".onnx")):
        hint = f"name its .bin; without {name} it is the one beside the .xml"
        raise misused(f"{name} {file} is a model, not its weights", hint)


def require_suffix(
    option: str, output: str, suffixes: Sequence[str], source: str | None = None
) -> None:
    """Refuse an output whose suffix is none of those that are meant, if some are.

    Of a model with several the suffix of `source` is suggested, or the one that is misspelled.
    """
    path = Path(output)
    onnx = source is not None and (source == "-" or _is_onnx(source))
    fits = path.suffix in suffixes and (path.suffix != ".onnx" or source is None or onnx)
    if not suffixes or output == "-" or output.endswith("/") or fits:
        return
    if path.exists() and not path.is_file():
        return  # a folder or a device, which is reported later
    what = "an IR is written as .xml, with its .bin beside it"
    if path.suffix == ".onnx" and source is not None and not onnx:
        what, suffixes = "irdeconv makes an .onnx only of an ONNX model", [".xml"]
    elif ".onnx" in suffixes:
        suffixes = [".onnx", ".xml"] if onnx else [".xml"]
        what = "an ONNX model is written as .onnx, or as an IR as .xml" if onnx else what
    elif suffixes != [".xml"]:
        what = f"its name must end in {' or '.join(suffixes)}"
    name = respelled(path, suffixes)
    name = name.with_stem(f"{name.stem}_new") if str(name) == source else name
    raise misused(f"{option} {output}: {what}", f"name it {name}")


def respelled(path: Path, suffixes: Sequence[str]) -> Path:
    """Return a path with the suffix that is meant: out.xml of out.xlm or out.xml.gz."""
    if Path(path.stem).suffix in suffixes:
        return path.with_suffix("")
    near = get_close_matches(path.suffix.lower(), suffixes, 1)
    return path.with_suffix(near[0] if near else suffixes[0])


def _is_onnx(file: str) -> bool:
    return file.endswith(".onnx") or (Path(file).is_file() and _kind(file).format == "onnx")


def require_folder(path: Path) -> None:
    """Raise FileAccessError if `path` is no writable folder and cannot be made into one."""
    from irdeconv.formats.atomic import require_writable

    if not path.exists():
        if path.suffix in (".xml", ".onnx", ".json", ".html", ".png", ".jpg", ".npy", *SAVED):
            raise misused(f"{path} would be a folder", f"name it without {path.suffix}")
        require_writable(_first_missing(path))
    elif not path.is_dir():
        message = f"{path} cannot be written into: it is not a folder"
        found = Diagnostic("E701", "error", message, hint="name a folder, also a new one")
        raise no_access(found, errno.ENOTDIR, path)
    else:
        require_writable(path / "file")


def _first_missing(path: Path) -> Path:
    """Return the part of a path that would have to be made first, or the path itself."""
    while not path.parent.exists():
        path = path.parent
    return path
