"""Build the wheel and the sdist twice and check them: same bytes, nothing missing, nothing else.

    python tools/check_distribution.py
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) python tools/check_distribution.py -o dist

The sources are copied to two folders that differ in everything that must not matter: names of the
folders, umask and modes of files, dates and order of files, locale, time zone, hash seed, home
folder, leftovers of editors and caches. The first build makes the sdist and the wheel out of that
sdist, the second, two seconds later, both from the folder. The bytes are compared, the contents
listed, the SBOM is held against its schema, twine and check-wheel-contents run, and the hashes are
printed.

The bytes depend on the sources, SOURCE_DATE_EPOCH, the version of hatchling (in the file WHEEL)
and the zlib of Python. Needs the extra `dev`. Exit code 1 if a check fails.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from checkout import ROOT

APART = 2.1  # seconds between the builds; dates in a zip are even seconds
# What hatchling adds to an sdist, and what a wheel has beside the package.
OF_SDIST = {"PKG-INFO", ".gitignore", "pyproject.toml"}
SBOM = "sboms/irdeconv.cdx.json"
OF_WHEEL = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE", SBOM}
# Left behind by editors, systems and tools; must never be in an archive.
CLUTTER = (
    "irdeconv/__pycache__/graph.cpython-311.pyc",
    "irdeconv/ir/graph.py~",
    "irdeconv/.graph.py.swp",
    "irdeconv/.DS_Store",
    "irdeconv/ir/graph.py.orig",
    "irdeconv/show/assets/.mypy_cache/missing.json",
    "ir_samples/.ipynb_checkpoints/deconvolution-checkpoint.ipynb",
    "tests/.hypothesis/examples/one",
    "dist/irdeconv-0.0.1-py3-none-any.whl",
)


@dataclass(frozen=True)
class Surroundings:
    """What differs between two builds of the same sources."""

    folder: str
    umask: int
    date: float
    backwards: bool
    environment: dict[str, str]


FIRST = Surroundings("a", 0o022, 1.6e9, False, {"LC_ALL": "C", "TZ": "UTC", "PYTHONHASHSEED": "1"})
SECOND = Surroundings(
    "another folder, ünlike",
    0o077,
    1.0e9,
    True,
    {"LC_ALL": "C.UTF-8", "TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "2"},
)


def sources(root: Path) -> list[str]:
    """Return the project's files: what git tracks or would track, else what is not hidden."""
    parts = included(root)
    if (root / ".git").exists():
        command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others"]
        listed = subprocess.check_output([*command, "--exclude-standard"], cwd=root)
        names = {n for n in listed.decode().split("\0") if parts & parents(n)}
    else:
        paths = (p for part in parts for p in (root / part, *(root / part).rglob("*")))
        names = {p.relative_to(root).as_posix() for p in paths}
        names = {n for n in names if not re.search(r"/(\.|__pycache__)", n)}
    return sorted(n for n in names if (root / n).is_file())


def included(root: Path) -> set[str]:
    """Return the files and folders of which an sdist is made."""
    table = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    listed = table["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"]
    return {*listed, *(OF_SDIST - {"PKG-INFO"})}


def parents(name: str) -> set[str]:
    """Return a path and the folders above it."""
    path = PurePosixPath(name)
    return {str(path), *map(str, path.parents)}


def lay_out(root: Path, names: Sequence[str], place: Path, where: Surroundings) -> None:
    """Copy the sources as they might lie on another machine, with clutter among them."""
    place.mkdir()
    for name in reversed(names) if where.backwards else names:
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, target)
        runs = (root / name).stat().st_mode & stat.S_IXUSR
        target.chmod((0o777 if runs else 0o666) & ~where.umask)
        os.utime(target, (where.date, where.date))
    for name in CLUTTER:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(b"of nobody's interest")


def build(place: Path, where: Surroundings, out: Path, *what: str) -> None:
    """Build with the backend of this environment; the backend's words are shown if it fails."""
    home = out.parent / f"home of {out.name}"
    home.mkdir()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    environment |= {**where.environment, "HOME": str(home)}
    command = [sys.executable, "-m", "build", "--no-isolation", *what, "--outdir", str(out)]
    how = {"env": environment, "umask": where.umask, "capture_output": True, "text": True}
    done = subprocess.run([*command, str(place)], check=False, **how)
    if done.returncode:
        raise SystemExit(f"the build failed:\n{done.stdout}{done.stderr}")


def differences(first: Path, second: Path) -> Iterator[str]:
    """Yield how the archives of two folders differ."""
    names = sorted({p.name for f in (first, second) for p in f.iterdir()})
    for name in names:
        a, b = first / name, second / name
        if not (a.exists() and b.exists()):
            yield f"{name}: built only once"
        elif a.read_bytes() != b.read_bytes():
            ours, theirs = members(a), members(b)
            inside = sorted(n for n in {*ours, *theirs} if ours.get(n) != theirs.get(n))
            yield f"{name}: two builds differ: {', '.join(inside) or 'order, modes or dates'}"


def members(archive: Path) -> dict[str, bytes]:
    """Return the files of a wheel or an sdist, by name."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as z:
            return {n: z.read(n) for n in z.namelist()}
    with tarfile.open(archive) as t:
        files = ((m, t.extractfile(m)) for m in t.getmembers())
        return {m.name: f.read() for m, f in files if f is not None}


def wheel_problems(wheel: Path, names: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong with a wheel that should be made of the files `names`."""
    found = members(wheel)
    info = "-".join(wheel.name.split("-")[:2]) + ".dist-info/"
    expected = {info + n for n in OF_WHEEL}
    expected |= {n for n in names if n.startswith("irdeconv/")}
    expected |= {f"irdeconv/_samples/{n[11:]}" for n in names if n.startswith("ir_samples/")}
    yield from unequal(wheel.name, set(found), expected)
    rows = csv.reader(found.get(f"{info}RECORD", b"").decode().splitlines())
    recorded = {row[0]: row[1] for row in rows}
    for name, data in found.items():
        if name != f"{info}RECORD" and recorded.get(name) != record_hash(data):
            yield f"{wheel.name}: RECORD has another hash of {name}, or none"
    with zipfile.ZipFile(wheel) as z:
        for date in sorted({i.date_time for i in z.infolist()})[1:]:
            yield f"{wheel.name}: files of several dates, {date} among them"
        for entry in z.infolist():
            if (mode := entry.external_attr >> 16) & 0o777 != 0o644:
                yield f"{wheel.name}: {entry.filename} has mode {mode & 0o777:o}"


def record_hash(data: bytes) -> str:
    """Return the hash of a file as RECORD spells it."""
    hashed = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return f"sha256={hashed.rstrip(b'=').decode()}"


def sdist_problems(sdist: Path, names: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong with an sdist that should have the files `names`."""
    top = sdist.name.removesuffix(".tar.gz") + "/"
    yield from unequal(sdist.name, set(members(sdist)), {top + n for n in {*names, "PKG-INFO"}})
    with tarfile.open(sdist) as t:
        for member in t.getmembers():
            if not member.isfile():
                yield f"{sdist.name}: {member.name} is not a file"
            if member.uid or member.gid or member.uname or member.gname:
                yield f"{sdist.name}: {member.name} names its owner"


def unequal(archive: str, found: set[str], expected: set[str]) -> Iterator[str]:
    """Yield what an archive lacks and what it has too much."""
    for name in sorted(expected - found):
        yield f"{archive}: {name} is missing"
    for name in sorted(found - expected):
        yield f"{archive}: {name} does not belong there"


def verdicts(archives: Sequence[Path]) -> Iterator[str]:
    """Yield what twine, check-wheel-contents and the schema of the SBOM object to."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    wheels = [str(a) for a in archives if a.suffix == ".whl"]
    # W002: two sample models have the same weights, which is no mistake.
    for command in (
        ["twine", "check", "--strict", *map(str, archives)],
        ["check_wheel_contents", "--ignore", "W002", "--toplevel", "irdeconv", *wheels],
    ):
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
        if done.returncode:
            yield f"{command[0]}: {' '.join((done.stdout + done.stderr).split())}"
    for data in (d for name, d in members(archives[0]).items() if name.endswith(SBOM)):
        if error := JsonStrictValidator(SchemaVersion.V1_5).validate_str(data.decode()):
            yield f"{SBOM}: {error}"


def check(root: Path, work: Path) -> list[str]:
    """Build twice into `work` and return everything that is wrong."""
    names = sources(root)
    started = time.monotonic()
    for where, what in ((FIRST, ()), (SECOND, ("--sdist", "--wheel"))):
        lay_out(root, names, work / where.folder, where)
        time.sleep(max(0.0, started + APART - time.monotonic()) if what else 0.0)
        build(work / where.folder, where, work / f"out {where.umask}", *what)
    first, second = (work / f"out {w.umask}" for w in (FIRST, SECOND))
    problems = list(differences(first, second))
    archives = sorted(first.iterdir())
    if [a.suffix for a in archives] != [".whl", ".gz"]:
        return [*problems, f"built {', '.join(a.name for a in archives)}"]
    problems += wheel_problems(archives[0], names)
    problems += sdist_problems(archives[1], names)
    return [*problems, *verdicts(archives)]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="keep what was built")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        problems = check(ROOT, work)
        for problem in problems:
            print(problem)
        for archive in sorted((work / f"out {FIRST.umask}").iterdir()):
            files = len(members(archive))
            packed = archive.read_bytes()
            digest = hashlib.sha256(packed).hexdigest()
            print(f"{digest}  {archive.name}  {len(packed)} bytes, {files} files")
            if args.output and not problems:
                args.output.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(archive, args.output / archive.name)
    print(f"{len(problems)} problems" if problems else "built twice, the same bytes; checked")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
