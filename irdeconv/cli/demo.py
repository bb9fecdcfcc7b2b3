"""`demo`: enlarge a picture with a lowered network; check the packaged sample models.

The picture is enlarged piece by piece, and a second network checks the result. Each step prints a
line with its outcome and its time.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np
from PIL.Image import Image
from PIL.Image import new as new_image

import irdeconv as ird
from irdeconv.base import progress
from irdeconv.base.errors import InputError, IrdeconvError, count, misused, nearest, question
from irdeconv.base.form_names import FALLBACK
from irdeconv.base.json_form import Record
from irdeconv.base.opening import read_json, real
from irdeconv.base.tables import WIDTH, scaled
from irdeconv.cli import pictures
from irdeconv.cli.about import sample_folder, samples
from irdeconv.cli.checks import require_folder
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.model import gather, specialize
from irdeconv.cli.pictures import Picture, image_of, planes
from irdeconv.formats.atomic import failures, together
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Array
from irdeconv.rewrite.lower_deconv import Lowered, LoweredLayer
from irdeconv.verify.certificates import Certificates


class ListedSample(Record):
    """A sample."""

    name: str  # by which `demo` finds it
    file: str  # its path


class SampleList(Record, document="demo-samples/1"):
    """`--list`: the samples."""

    samples: list[ListedSample]  # in order


class SampleResult(TypedDict):
    """A sample, taken through everything."""

    name: str  # of the sample
    passed: bool  # whether everything agrees, or it was refused as it should be
    errors: int  # number of errors in the file
    warnings: int  # number of warnings in the file
    first_error: NotRequired[str | None]  # the first error, if it was refused
    inputs: NotRequired[dict[str, list[int]]]  # shapes by name
    # of the model, the lowered one and the one that was read back
    layers: NotRequired[list[int]]
    deconvolutions: NotRequired[list[dict[str, Any]]]  # as in the document of `irdeconv lower`
    comparisons: dict[str, dict[str, Any]]  # as in the document of `irdeconv compare`
    seconds: float  # how long it took


class SampleResults(Record, document="demo-samples/1"):
    """The result of each sample."""

    passed: bool  # whether all samples passed
    seed: int  # of random inputs
    samples: list[SampleResult]  # in order


class PictureQuality(TypedDict):
    """Peak signal-to-noise ratio against the large picture, in dB."""

    network: float  # of the network
    bicubic: float  # of bicubic interpolation


@dataclass
class DemoStep:
    """One step."""

    name: str  # of the step
    text: str = ""  # the result in words
    passed: bool = True  # whether it is as it should be
    seconds: float = 0.0  # how long it took


class DemoDocument(Record, document="demo/1", keys="... output? files?"):
    """The enlarged picture."""

    passed: bool  # whether every step succeeded
    picture: str  # the picture that was enlarged
    size: tuple[int, int]  # width and height of the small picture
    enlarged: tuple[int, int]  # width and height of the large picture
    form: str  # into which the deconvolutions were lowered
    deconvolutions: tuple[LoweredLayer, ...]  # of the network
    psnr: PictureQuality | None  # if the large picture is known
    steps: list[DemoStep]  # in order
    output: str | None = None  # the folder of the results
    files: list[str] | None = None  # names of the files in it


FOLDER = "irdeconv_demo"
OPEN = 8  # the size at which open dimensions are run
MARKS = {True: ("ok  ", "green"), False: ("FAIL", "bold red")}


def run_demo(args: argparse.Namespace, console: Console) -> int:
    """Run the demonstration."""
    if args.all or args.list:
        return run_samples(args, console)
    for word in args.samples:  # a word that stands alone is a sample, or a picture
        if word in samples():
            raise misused(f'"{word}" is a sample', f"irdeconv demo --samples {word}")
        hint = "irdeconv demo --list lists the samples; --input names a picture"
        if Path(word).is_file():
            hint = f"a picture is named by --input: irdeconv demo --input {word}"
        elif near := _near(word):
            hint = f"irdeconv demo --samples {near[0]}"
        if word.endswith((".xml", ".onnx")):
            hint = f"the demo has its own model: irdeconv lower {word}"
        raise misused(f'"{word}" is neither an option nor a sample', hint)
    return run_picture(args, Path(args.output or FOLDER), console)


def run_samples(args: argparse.Namespace, console: Console) -> int:
    """Take samples through all steps; the exit code is 0 if all results are as they should be."""
    if args.output is not None:
        require_folder(Path(args.output))
    chosen = _choose(args.samples)
    if args.list:
        listed = [ListedSample(name, str(path)) for name, path in chosen.items()]
        text = "\n".join(f"{sample.name}  {sample.file}" for sample in listed)
        return Answer(lambda: SampleList(listed), lambda: console.text(text)).shown(console)
    kept = None if args.output is None else nullcontext(args.output)
    with kept or tempfile.TemporaryDirectory(prefix="irdeconv-") as place:
        folder, results = Path(place), []
        folder.mkdir(parents=True, exist_ok=True)
        for name, path in chosen.items():
            broken = name.startswith("broken/")  # there to be refused
            result = refused(name, path) if broken else demonstrate(name, path, folder, args)
            results.append(result)
            if not console.wants_json:
                _text(result, console)
    passed = all(r["passed"] for r in results)
    if console.wants_json:
        console.json(SampleResults(passed, args.seed, results))
        return int(not passed)
    verdict = f"{sum(r['passed'] for r in results)} of {len(results)} as they should be"
    head = f"{count(len(results), 'sample')}, form {args.form or FALLBACK}, seed {args.seed}: "
    console.text(head, (verdict, "bold green" if passed else "bold red"))
    if args.output:
        console.log(f"the lowered IRs are in {args.output}")
    return int(not passed)


def _choose(names: list[str]) -> dict[str, Path]:
    known = samples()
    if not known:
        raise misused("this installation has no samples", "install irdeconv anew with pip")
    for name in names:
        if name not in known:
            hint = question(_near(name)) or "irdeconv demo --list lists them"
            raise misused(f'there is no sample "{name}"', hint)
    return {name: known[name] for name in names or known}


def _near(name: str) -> list[str]:
    """Return the samples of a similar name, with or without its folder."""
    short = {full.rpartition("/")[2]: full for full in samples()}
    return nearest(name, short.values()) or [short[n] for n in nearest(name, short)]


def refused(name: str, path: Path) -> SampleResult:
    """Validate a broken sample; it passes if errors are found."""
    start = time.perf_counter()
    found = ird.validate(path)
    errors = [d for d in found if d.severity == "error"]
    return {
        "name": name,
        "passed": bool(errors),
        "errors": len(errors),
        "warnings": len(found) - len(errors),
        "comparisons": {},
        "first_error": f"[{errors[0].code}] {errors[0].message}" if errors else None,
        "seconds": round(time.perf_counter() - start, 3),
    }


def demonstrate(name: str, path: Path, folder: Path, args: argparse.Namespace) -> SampleResult:
    """Take one sample through all steps and return what happened."""
    start = time.perf_counter()
    found = ird.validate(path)
    if any(d.severity == "error" for d in found):
        raise InputError(found)
    graph = ird.infer(ird.read(path))
    inputs = gather(graph, args.inputs, args.seed, Console(quiet=True), fill=OPEN)
    graph = specialize(graph, inputs)
    low = ird.lower(graph, args.form or FALLBACK, args.target)
    written = folder / f"{name.replace('/', '_')}.lowered.xml"
    ird.write(low.graph, written)
    back = ird.infer(ird.read(written))
    checks = {"lowered": low.graph, "read back": back}
    feeds = list(inputs.values())
    compared = {k: ird.compare(graph, g, feeds).to_dict() for k, g in checks.items()}
    return {
        "name": name,
        "passed": all(c["passed"] for c in compared.values()),
        "errors": 0,
        "warnings": len(found),
        "inputs": {k: list(v.shape) for k, v in inputs.items()},
        "layers": [len(graph), len(low.graph), len(back)],
        "deconvolutions": [r.to_dict() for r in low.report],
        "comparisons": compared,
        "seconds": round(time.perf_counter() - start, 3),
    }


def _text(result: SampleResult, console: Console) -> None:
    mark = MARKS[result["passed"]]
    if not result["comparisons"]:
        found = f"refused, {count(result['errors'], 'error')}" if result["errors"] else "accepted"
        console.text(mark, f" {result['name']}: {found}, {result['seconds']} s")
        if result["first_error"]:
            console.text(f"     {result['first_error']}")
        return
    before, after, _ = result["layers"]
    deconvolutions = count(len(result["deconvolutions"]), "deconvolution")
    tensors = [t for t in result["comparisons"]["read back"]["tensors"] if t["output"]]
    worst = max((t["relative"] for t in tensors), default=0.0)
    facts = f" {result['name']}: {deconvolutions}, {before} -> {after} layers, "
    facts += f"{count(len(tensors), 'output')}, largest relative difference {worst:.1e}"
    console.text(mark, f"{facts}, {result['seconds']} s")
    for name, c in result["comparisons"].items():
        if not c["passed"]:
            layer = c["first_difference"] or ", ".join(c["missing"])
            console.text((f"     {name} differs first at {layer}", "red"))


Run = Callable[[Array], Array]

FACTOR = 2
PIECE_SIDE = 256  # pixels, of the picture that is enlarged, on each side of a piece
FEW_PIECES = 4  # as many are enlarged by both graphs; of more, one
CUT_MARGIN = 12  # pixels around a piece; pixels further away do not reach its results


class Span(NamedTuple):
    """A piece on one axis: it begins at `start`, and `kept` to `end` is its part of the result."""

    start: int
    kept: int
    end: int


def spans(size: int, piece: int = PIECE_SIDE, margin: int = CUT_MARGIN) -> list[Span]:
    """Return overlapping pieces of one size that share an axis.

    Each is kept up to `margin` pixels from its cuts; the picture's own edges are no cuts.
    """
    piece = min(size, piece)
    starts = [*range(0, size - piece, piece - 2 * margin), size - piece]
    cuts = [start + margin for start in starts[1:]]
    return [Span(*s) for s in zip(starts, [0, *cuts], [*cuts, size], strict=True)]


@dataclass(frozen=True)
class Enlarged:
    """A picture that a graph has enlarged.

    `seconds` is its time and that of the graph it is checked by, `difference` the largest between
    the results of both for a piece, 1 being full brightness.
    """

    image: Image
    pieces: int
    seconds: tuple[float, float]
    difference: float


def piece_shape(image: Image) -> tuple[int, int, int, int]:
    """Return the input shape of a network for the pieces of a picture."""
    many = 2 if image.mode == "RGBA" else 1
    return many, 3, min(image.height, PIECE_SIDE), min(image.width, PIECE_SIDE)


def piece_count(image: Image) -> int:
    """Return how many pieces a picture is cut into."""
    return len(spans(image.height)) * len(spans(image.width))


class PicturePiece(NamedTuple):
    """A piece of a picture: its place, and the network's input for it."""

    across: Span
    down: Span
    planes: Array


def pieces(image: Image) -> Iterator[PicturePiece]:
    """Yield the pieces of a picture row by row."""
    _, _, height, width = piece_shape(image)
    for down in spans(image.height):
        for across in spans(image.width):
            box = across.start, down.start, across.start + width, down.start + height
            yield PicturePiece(across, down, planes(image.crop(box)))


def enlarge(
    image: Image, run: Run, check: Run, announce: Callable[[int, float], None] | None = None
) -> Enlarged:
    """Enlarge a picture by `run`; `check` does the same with all pieces or, of many, with one.

    If there are many, `announce` gets their number and the expected seconds.
    """
    out = new_image(image.mode, (image.width * FACTOR, image.height * FACTOR))
    total = piece_count(image)
    checked = range(total) if total <= FEW_PIECES else (total // 2,)
    seconds, worst = [0.0, 0.0], 0.0
    with progress.stage("enlarging", total) as step:
        for number, (across, down, x) in enumerate(pieces(image)):
            made, took = _timed(run, x)
            seconds[0] += took
            if number == 0 and total > FEW_PIECES and announce is not None:
                announce(total, total * took)
            if number in checked:
                other, took = _timed(check, x)
                seconds[1] += took
                worst = max(worst, float(np.abs(made - other).max()))
            box = [FACTOR * (v - s.start) for s in (across, down) for v in (s.kept, s.end)]
            kept = image_of(made, image.mode).crop((box[0], box[2], box[1], box[3]))
            out.paste(kept, (FACTOR * across.kept, FACTOR * down.kept))
            step()
    return Enlarged(out, total, (seconds[0], seconds[1]), worst)


def _timed(run: Run, x: Array) -> tuple[Array, float]:
    start = time.perf_counter()
    made = run(x)
    return made, time.perf_counter() - start


Clock = Callable[[], float]


class Steps:
    """Shows every step as soon as it is over; `--format json` shows nothing until the end."""

    def __init__(self, console: Console, clock: Clock = time.perf_counter) -> None:
        self.all: list[DemoStep] = []
        self._console = console
        self._clock = clock
        self._marks = _marks(console)

    @property
    def passed(self) -> bool:
        """Whether every step holds."""
        return all(step.passed for step in self.all)

    @contextmanager
    def step(self, name: str) -> Iterator[DemoStep]:
        """Do a step: its text and whether it holds are said in the body; an error shows no line."""
        step, start = DemoStep(name), self._clock()
        yield step
        step.seconds = self._clock() - start
        self.all.append(step)
        self._show(step)

    def announce(self, pieces: int, seconds: float) -> None:
        """Say how long the step that is under way will take."""
        self._console.log(f"enlarging {pieces:,} pieces takes about {duration_of(seconds)}")

    def _show(self, step: DemoStep) -> None:
        if self._console.wants_json:
            return
        mark, style = self._marks[step.passed]
        took = duration_of(step.seconds)
        text = f" {step.name:<9} {step.text}"
        gap = min(self._console.width, WIDTH) - len(mark) - len(text) - len(took)
        self._console.text((mark, style), text, " " * max(gap, 2), took)


def duration_of(seconds: float) -> str:
    """Return `1.23 s`, `12.3 s`, `123 s`."""
    return f"{seconds:.{2 if seconds < 9.995 else 1 if seconds < 99.95 else 0}f} s"


def _marks(console: Console) -> dict[bool, tuple[str, str]]:
    """Return the marks of failure and success, as far as the output has the letters."""
    with suppress(UnicodeEncodeError):
        "✓✗".encode(getattr(console.out, "encoding", None) or "ascii")
        return {True: ("✓", "green"), False: ("✗", "bold red")}
    return MARKS


NETWORK = "super_resolution/super_resolution.xml"
PICTURE = "super_resolution/coffee.png"
MOST_PIXELS = 16_000_000  # pixels of a picture that is to be enlarged
OUTPUT_BOUND = 2.0**-16  # of full brightness: the effect of rounding on a whole network
RECORD = "demo.json"
FILES = {
    "enlarged.png": "the picture, enlarged by the lowered network",
    "bicubic.png": "the same by bicubic interpolation, to compare with",
    "input.png": "the small picture that was enlarged",
    "lowered.xml": "the network without deconvolutions",
    "lowered.bin": "its weights",
    "report.html": "both networks side by side; open it in a browser",
    RECORD: "what was found, for programs",
}


@dataclass
class Demonstration:
    """The results of the steps so far; files stand in `folder` until all is done."""

    args: argparse.Namespace
    folder: Path
    network: Path
    picture: Picture
    steps: Steps
    reference: Image | None = None
    files: list[str] = field(default_factory=list)

    def keep(self, name: str, data: bytes | None = None) -> Path:
        """Return the path that one of FILES has until the end; it is written if `data` is given."""
        self.files.append(name)
        if data is not None:
            (self.folder / name).write_bytes(data)
        return self.folder / name


def run_picture(args: argparse.Namespace, output: Path, console: Console) -> int:
    """Enlarge a picture and write the results; the exit code is 0 if every step holds."""
    given = _given(args)
    require_own(output, given, force=args.force)
    steps = Steps(console)
    with tempfile.TemporaryDirectory(prefix="irdeconv-") as folder:
        work = _start(args, given, Path(folder), steps)
        graph = _validate(work)
        exact = ird.infer(graph, {"picture": piece_shape(work.picture.image)})
        low = _lower(work, graph, exact)
        proofs = _certify(work)
        enlarged = _enlarge(work, exact)
        smooth = _write(work, enlarged)
        ratios = _measure(work, enlarged, smooth)
        _page(work, exact, low, proofs)
        document = DemoDocument(
            passed=steps.passed,
            picture=given or PICTURE,
            size=work.picture.size,
            enlarged=enlarged.image.size,
            form=args.form or FALLBACK,
            deconvolutions=low.report.layers,
            psnr=ratios,
            steps=[replace(s, seconds=round(s.seconds, 3)) for s in steps.all],
            output=str(output),
            files=[*work.files, RECORD],
        )
        content = (json.dumps(document.to_dict(), indent=1) + "\n").encode()
        work.keep(RECORD, content)
        _put(work, output)
    if console.wants_json:
        console.raw(content.decode())
    else:
        _show(work, output, console)
    return 0 if steps.passed else 1


def _given(args: argparse.Namespace) -> str | None:
    """Return the picture that is named, None for the one of the package."""
    if len(args.inputs) > 1:
        raise misused("demo enlarges one picture at a time", "name one with --input")
    if "" in args.inputs:
        raise misused("--input: the name is empty", "name a picture")
    return args.inputs[0] if args.inputs else None


def require_own(output: Path, given: str | None, *, force: bool) -> None:
    """Refuse a folder in which other files would be overwritten, or the input."""
    require_folder(output)
    taken = [name for name in FILES if (output / name).exists()]
    if given is not None and any(real(output / n) == real(given) for n in taken):
        raise misused(f"the picture {given} would be overwritten", "name another folder with -o")
    if taken and not force and not _is_record(output / RECORD):
        message = f"{output} has {', '.join(taken)}, which no demo has written"
        raise misused(message, "name another folder with -o; --force overwrites them")


def _is_record(path: Path) -> bool:
    """Whether a file is the record of an earlier demo."""
    with suppress(IrdeconvError, ValueError):
        found = read_json(path)
        return isinstance(found, dict) and found.get("schema") == DemoDocument.json_schema
    return False


def _start(
    args: argparse.Namespace, given: str | None, folder: Path, steps: Steps
) -> Demonstration:
    """Read the picture; that of the package is halved, and its original is the reference."""
    root = sample_folder()
    if root is None or not (root / NETWORK).is_file():
        raise misused("this installation has no samples", "install irdeconv anew with pip")
    with steps.step("picture") as step:
        picture = pictures.read(given or str(root / PICTURE), MOST_PIXELS)
        work = Demonstration(args, folder, root / NETWORK, picture, steps)
        if given is not None:
            step.text = "; ".join([f"{given}, {_size(picture.image)}", *picture.notes])
        else:
            width, height = (side // FACTOR for side in picture.size)
            whole = work.reference = picture.image.crop((0, 0, width * FACTOR, height * FACTOR))
            small = pictures.resized(whole, (width, height))
            work.picture = Picture(small)
            work.keep("input.png", pictures.png(small))
            step.text = f"{Path(PICTURE).name}, {_size(whole)}, reduced to {_size(small)}"
    return work


def _size(image: Image) -> str:
    return f"{image.width} x {image.height}"


def _validate(work: Demonstration) -> Graph:
    """Validate the network and infer it, for any size."""
    with work.steps.step("validate") as step:
        found = ird.validate(work.network)
        if any(d.severity == "error" for d in found):
            raise InputError(found)
        problems = count(len(found), "warning") if found else "no problems"
        step.text = f"{work.network.name}: {problems}"
    with work.steps.step("infer") as step:
        graph = ird.infer(work.network)
        facts = ird.inspect(graph)
        layers = sum(not layer.constant for layer in facts.layers)
        step.text = f"{count(layers, 'layer')}, {facts.totals.parameters:,} weights; "
        step.text += f"{graph.parameters[0].spec()} -> {graph.results[0].spec()}"
    return graph


def _lower(work: Demonstration, graph: Graph, exact: Graph) -> Lowered:
    """Lower the network for any size and write it; return it lowered for the picture's size."""
    form, target = work.args.form or FALLBACK, work.args.target
    with work.steps.step("lower") as step:
        ird.write(ird.lower(graph, form, target), work.keep("lowered.xml"))
        work.keep("lowered.bin")
        low = ird.lower(exact, form, target)
        step.passed = all(r.form for r in low.report)
        pieces = piece_count(work.picture.image)
        before = pieces * sum(r.macs_direct or 0 for r in low.report)
        after = pieces * sum(r.macs_lowered or 0 for r in low.report)
        step.text = f"{count(len(low.report), 'deconvolution')} as {form}; "
        step.text += f"{scaled(before, 'MAC')} -> {scaled(after, 'MAC')}"
    return low


def _certify(work: Demonstration) -> Certificates:
    """Prove every rewritten layer of the written file equal to its source."""
    with work.steps.step("certify") as step:
        made = ird.certify(work.network, work.folder / "lowered.xml")
        step.passed = bool(made)
        step.text = f"{made.verdict}{', for pictures of every size' if made else ''}"
    return made


def _enlarge(work: Demonstration, exact: Graph) -> Enlarged:
    """Enlarge by the written file, check with the network; compare layer by layer on one piece."""
    image = work.picture.image
    with work.steps.step("run") as step:
        lowered = ird.infer(work.folder / "lowered.xml", {"picture": piece_shape(image)})
        made = enlarge(image, _runner(lowered), _runner(exact), work.steps.announce)
        step.text = f"{_size(image)} -> {_size(made.image)}; "
        after, before = map(duration_of, made.seconds)
        whole = made.pieces <= FEW_PIECES  # both graphs have enlarged all pieces
        step.text += f"direct {before}, lowered {after}" if whole else "direct on one piece"
    with work.steps.step("compare") as step:
        middle = next(islice(pieces(image), piece_count(image) // 2, None))
        compared = ird.compare(exact, lowered, [middle.planes])
        worst = max(made.difference, *(t.max_abs for t in compared.outputs))
        step.passed = compared.passed and worst <= OUTPUT_BOUND
        layers = count(len(compared.tensors) - len(compared.outputs), "layer")
        where = f" on one of {made.pieces:,} pieces" if made.pieces > 1 else ""
        same = f"{layers} agree" if compared.passed else compared.verdict
        step.text = f"{same}{where}, output within {worst:.1e}"
    return made


def _runner(graph: Graph) -> Run:
    """Return a function that runs a graph with a single input and a single output."""
    plan = ird.compile(graph, None, once=True)
    (output,) = graph.outputs
    return lambda x: plan.run([x])[output]


def _write(work: Demonstration, made: Enlarged) -> Image:
    """Keep the enlarged picture and the one by bicubic interpolation, which is returned."""
    profile = work.picture.profile
    with work.steps.step("write") as step:
        smooth = pictures.resized(work.picture.image, made.image.size)
        named = {"enlarged.png": made.image, "bicubic.png": smooth}
        for name, image in progress.each("writing", named.items(), lambda item: item[0]):
            size = work.keep(name, pictures.png(image, profile)).stat().st_size
            step.text += f"{'; ' if step.text else ''}{name}, {size / 1000:,.0f} kB"
    return smooth


def _measure(work: Demonstration, made: Enlarged, smooth: Image) -> PictureQuality | None:
    """If the original is known, measure which enlarged picture is closer to it."""
    if work.reference is None:
        return None
    with work.steps.step("measure") as step:
        ours, theirs = (pictures.psnr(i, work.reference) for i in (made.image, smooth))
        step.passed = ours > theirs
        step.text = f"PSNR {ours:.2f} dB, bicubic {theirs:.2f} dB: {ours - theirs:+.2f} dB"
    return {"network": round(ours, 3), "bicubic": round(theirs, 3)}


def _page(work: Demonstration, exact: Graph, low: Lowered, proofs: Certificates) -> None:
    """Draw the network before and after, with the proofs and the values of a piece."""
    with work.steps.step("page") as step:
        first = next(pieces(work.picture.image)).planes
        page = ird.graph_page(exact, low, proofs, inputs=[first])
        # The changes are to be seen first, not the colours of a number.
        text = replace(page, overlays=(), headline="").to_html().encode()
        work.keep("report.html", text)
        step.text = f"report.html, {len(text) / 1000:.0f} kB"


def _put(work: Demonstration, output: Path) -> None:
    """Put all files into the user's folder, or none of them."""
    with failures(output):
        output.mkdir(parents=True, exist_ok=True)
    with together() as files:
        for name in work.files:
            files.write(output / name, (work.folder / name).read_bytes())


def _show(work: Demonstration, output: Path, console: Console) -> None:
    console.text(f"\nThe folder {output} has")
    for name in FILES:
        if name in work.files:
            console.text(f"  {name:<13} {FILES[name]}")
    failed = [s.name for s in work.steps.all if not s.passed]
    if failed:
        console.text("\n", (f"not as it should be: {', '.join(failed)}", "bold red"))
        return
    said = "Without deconvolutions the network makes the same picture."
    console.text("\n", (said, "bold green"))
    if work.reference is None:
        console.text("There is no original to compare it with, so no PSNR is measured.")
