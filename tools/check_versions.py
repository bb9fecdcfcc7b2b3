"""Run a part of the tests with the lowest and the newest versions of all dependencies.

    python tools/check_versions.py
    python tools/check_versions.py --python 3.11 --resolution lowest tests/test_reader.py

For every Python of the classifiers in pyproject.toml this first asks whether each extra resolves,
with wheels alone. Where that Python is installed, uv makes an environment, installs the package
with all that users can add to it, the lowest versions that pyproject.toml allows on the oldest
Python and the newest on every one, and the tests that are named run there (without names: PART).
Needs the extra `dev` and a package index; Pythons are not downloaded. Exit code 1 where
something fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from checkout import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# Reading, inferring, lowering, proving, running and writing, and each extra once.
PART = (
    "test_public.py",
    "test_reader.py",
    "test_writer.py",
    "test_spec.py",
    "test_lowering.py",
    "test_certificate.py",
    "test_runtime.py",
    "test_cli_run.py",
    "test_compare.py",
    "test_pictures.py",
    "test_completion.py",
    "test_import_onnx.py",
    "test_compiled_loops.py",
    "test_smt.py",
)
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}


def versions() -> list[str]:
    """Return the Pythons that the classifiers name, the oldest first."""
    last = [c.split()[-1] for c in PROJECT["classifiers"] if ":: Python :: 3." in c]
    return sorted(last, key=lambda v: int(v.partition(".")[2]))


def uv(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "uv", "--quiet", "--no-python-downloads", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def unresolved(python: str) -> list[str]:
    """Return the extras that have no set of wheels for a Python, each with the reason."""
    out = []
    for extra in PROJECT["optional-dependencies"]:
        words = ("pip", "compile", "--python-version", python, "--only-binary", ":all:")
        done = uv(*words, "--extra", extra, str(ROOT / "pyproject.toml"))
        if done.returncode:
            out.append(f"{extra}: {done.stderr.strip()}")
    return out


def tried(python: str, resolution: str, tests: Sequence[str], folder: Path) -> str | None:
    """Install and test; return what went wrong."""
    place = folder / f"{python}-{resolution}"
    made = uv("venv", "--python", python, str(place))
    if made.returncode:
        print(f"Python {python} is not installed here: nothing is run with it")
        return None
    inside = place / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    # Compiled here, what an old package warns of then is no error of the tests.
    words = ("pip", "install", "--compile-bytecode", "--python", str(inside))
    done = uv(*words, "--resolution", RESOLUTIONS[resolution], f"{ROOT}[all,test]")
    if done.returncode:
        return f"cannot be installed: {done.stderr.strip()}"
    # -c instead of -m: the checkout stays out of sys.path, the installed package is what runs.
    run = "import sys, pytest; sys.path.remove(''); sys.exit(pytest.main(sys.argv[1:]))"
    words = ("-q", "-m", "quick", "-p", "no:cacheprovider", *tests)
    done = subprocess.run([str(inside), "-B", "-c", run, *words], cwd=ROOT, check=False)
    return f"tests failed, exit code {done.returncode}" if done.returncode else None


def main() -> int:
    known = versions()
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tests", nargs="*", default=[f"tests/{name}" for name in PART])
    parser.add_argument("--python", action="append", choices=known, help="default: all")
    parser.add_argument("--resolution", choices=RESOLUTIONS, help="default: both")
    args = parser.parse_args()
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        for python in args.python or known:
            problems += [f"Python {python}: {p}" for p in unresolved(python)]
            for resolution in RESOLUTIONS if args.resolution is None else (args.resolution,):
                if resolution == "lowest" and python != known[0]:
                    continue  # a later Python needs later wheels of some packages
                print(f"== Python {python}, {resolution} versions", flush=True)
                failure = tried(python, resolution, args.tests, Path(folder))
                problems += [f"Python {python}, {resolution} versions: {failure}"] * bool(failure)
    print("\n".join(problems) or "all resolve, all pass")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
