"""Fuzz one reader with atheris, which follows the lines that a file reaches (extra `fuzz`).

    python tools/fuzz_coverage.py ir -max_total_time=60 [FOLDER OF FILES]

Readers: ir, onnx, onednn, text, npy, npz, toml, certificate. Options with one dash are libFuzzer's.
It starts from the files of tools/fuzzing/seeds.py, if no folder is given, and ends at the first
exception that is no diagnostic, with the file in crash-*.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tools")]
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("IRDECONV_FAST", "0")

try:
    import atheris
except ModuleNotFoundError:
    sys.exit("atheris is not installed: python -m pip install 'irdeconv[fuzz]'")

# What is imported later is not followed.
with atheris.instrument_imports(include=["irdeconv"]):
    import irdeconv as ird
    import irdeconv.cli.check_certificate
    import irdeconv.cli.run
    import irdeconv.formats.convert
    import irdeconv.formats.onednn_reader
    import irdeconv.formats.onnx_reader
    import irdeconv.formats.reading
    import irdeconv.formats.text
    from irdeconv.cli.main import main
    from irdeconv.rewrite.targets import load_target

Target = Callable[[bytes], object]


def _of_model(data: bytes) -> None:
    """Validate; lower what is valid."""
    found = ird.validate(data)
    if not any(d.severity == "error" for d in found):
        ird.lower(ird.infer(ird.read(data)), "auto")


def _of_file(name: str, read: Callable[[Path], object]) -> Target:
    """Return a target that reads a file of this name."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))

    def target(data: bytes) -> None:
        (folder / name).write_bytes(data)
        read(folder / name)

    return target


def _command(*args: str, seed: str) -> Callable[[Path], object]:
    """Return what runs a verb on the files of a seed, one of which was replaced."""
    from fuzzing.seeds import seeds

    files = seeds(seed)[0].files

    def read(path: Path) -> None:
        for name, data in files.items():
            if name != path.name:
                (path.parent / name).write_bytes(data)
        with (
            open(os.devnull, "w") as null,
            contextlib.redirect_stdout(null),
            contextlib.redirect_stderr(null),
        ):
            code = main([a.format(d=path.parent) for a in args])
        if code == 70:
            raise RuntimeError(f"{args[0]}: exit code 70")

    return read


TARGETS: dict[str, Callable[[], Target]] = {
    "ir": lambda: _of_model,
    "onnx": lambda: _of_model,
    "onednn": lambda: _of_model,
    "text": lambda: lambda data: ird.parse(data.decode("utf-8", "replace")),
    "npy": lambda: _of_file("x.npy", _command("run", "{d}/m.xml", "{d}/x.npy", seed="npy")),
    "npz": lambda: _of_file("x.npz", _command("run", "{d}/m.xml", "{d}/x.npz", seed="npz")),
    "toml": lambda: _of_file("t.toml", load_target),
    "certificate": lambda: _of_file(
        "c.json",
        _command(
            "check-certificate", "{d}/m.xml", "{d}/low.xml", "--certificate", "{d}/c.json",
            seed="certificate",
        ),
    ),
}  # fmt: skip


def fuzz(name: str, args: list[str]) -> None:
    """Run one target until its time is over or something is found."""
    from fuzzing.seeds import seeds

    target = TARGETS[name]()

    def once(data: bytes) -> None:
        with contextlib.suppress(ird.IrdeconvError):
            target(data)

    if all(a.startswith("-") for a in args):
        folder = Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-"))
        for i, seed in enumerate(seeds(name)):
            if len(seed.files[seed.main]) < 1 << 16:
                (folder / str(i)).write_bytes(seed.files[seed.main])
        args = [*args, str(folder)]
    atheris.Setup([sys.argv[0], *args], once)
    atheris.Fuzz()


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"name a reader: {', '.join(TARGETS)}")
    fuzz(sys.argv[1], sys.argv[2:])
