"""The optional compiler numba (the extra `fast`), and the folder of its cache.

Compiled code is kept on disk, so only the first use on a machine takes a few seconds. It is loaded
and run, so it comes only from a folder in which only the user may write. IRDECONV_FAST=0 in
the environment switches numba off. Importing numba and loading that code takes half a second, so
kernels are listed and chosen without it; call `load` before preparing a compiled one.

The constants that callers and compiled loops share stand here too, since they need no numba.
Modules `compiled_*` need it: import them only if `available()`.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import stat
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar, cast

from irdeconv.base import progress
from irdeconv.base.extras import ExtraError, extra, is_plain

FOLDER_MODE = 0o700
FILE_MODE = 0o600


def user_folder() -> Path:
    """Return the folder for caches of programs, by the platform's convention."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "irdeconv"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/irdeconv"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "irdeconv"


def private_folder(path: Path) -> Path | None:
    """Make a folder that is the user's own; None if that fails, or another user owns it.

    The folders above it may not be open to others either, who could rename and so replace it.
    """
    try:
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        whole = path.resolve()
        if all(is_private(p, last=p == whole) for p in (whole, *whole.parents)):
            return whole
    except (OSError, RuntimeError):  # RuntimeError: the home folder is unknown
        pass
    return None


def is_private(path: Path, *, last: bool = True) -> bool:
    """Whether only the user may change a file, or the contents of a folder; OSError.

    A folder above it (not the `last`) may be the system's, and open to all if things in it stay
    those of their owners (the sticky bit of /tmp).
    """
    if not hasattr(os, "getuid"):
        return True
    found = path.stat()
    own = found.st_uid == os.getuid() or (not last and found.st_uid == 0)
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return own and (not shared or (not last and bool(found.st_mode & stat.S_ISVTX)))


@cache
def processor() -> str:
    """Return a short digest of the processor: its name and features."""
    # Not platform.processor(), which starts a program.
    said = [platform.machine(), os.environ.get("PROCESSOR_IDENTIFIER", ""), sys.byteorder]
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
        wanted = ("model name", "flags", "Features", "CPU part")
        said += sorted({line for line in lines if line.startswith(wanted)})
    except OSError:
        pass
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]


STATES = 3  # of the sources, whose compiled code is kept
COMPILING = "compiling kernels for this machine, once"
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
_BROKEN: set[str] = set()
_CACHING = RLock()
_CALLABLE: list[Any] = []  # functions whose addresses were given away
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}


class BrokenCompilerError(Exception):
    """numba is installed but cannot be imported; from now on no compiled kernel is available."""


@cache
def installed() -> bool:
    """Whether numba is installed; it is not imported."""
    return "numba" in sys.modules or find_spec("numba") is not None


def available() -> bool:
    """Whether compiled kernels may be chosen: numba is installed, IRDECONV_FAST is not 0."""
    wanted = os.environ.get("IRDECONV_FAST", "1") != "0" and not is_plain()
    return wanted and not _BROKEN and installed()


def works() -> bool:
    """Import numba; False if that fails, and nothing is available from then on."""
    if not _BROKEN:
        try:
            extra("numba", "njit")
        except ExtraError as e:
            _BROKEN.add(str(e))  # `irdeconv doctor` prints the reason
    return not _BROKEN


def load() -> None:
    """Import numba, for a kernel that was chosen; BrokenCompilerError if that fails."""
    if not works():
        raise BrokenCompilerError(*_BROKEN)


def retried(choose: Callable[[], T]) -> T:
    """Choose and prepare kernels, once more if numba turns out to be broken."""
    try:
        return choose()
    except BrokenCompilerError:
        return choose()


@cache
def lanes() -> int:
    """Return the number of f32 in a vector of the target, without importing numba."""
    if os.environ.get("NUMBA_CPU_NAME", "host") != "host":
        return _lanes_of_another()
    found = _features()
    return 16 if found.get("AVX512F") else 8 if found.get("AVX2") else 4


@cache
def _features() -> dict[str, bool]:
    try:  # as NumPy detects features and the user enables them
        found = import_module("numpy._core._multiarray_umath").__cpu_features__
    except (ImportError, AttributeError):  # another NumPy
        return {}
    return cast(dict[str, bool], found)


@cache
def packed_integers() -> int:
    """Return how many integers of a lane are multiplied and added at once, exactly; 0: floats."""
    # LLVM ends the process for an instruction that these settings may have switched off.
    usual = {"NUMBA_CPU_NAME": "host", "NUMBA_CPU_FEATURES": "", "NUMBA_ENABLE_AVX": "1"}
    if any(os.environ.get(name, value) != value for name, value in usual.items()):
        return 0
    if lanes() == 16 and _features().get("AVX512_ICL"):  # which has VNNI
        return 4
    return 2 if _features().get("AVX512_SKX" if lanes() == 16 else "AVX2") else 0


def _lanes_of_another() -> int:
    """Return it for the processor that NUMBA_CPU_NAME names, by LLVM's code for a sum."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(
        cpu=os.environ["NUMBA_CPU_NAME"], features=os.environ.get("NUMBA_CPU_FEATURES", "")
    )
    kind = "<16 x float>"
    body = f"%b = fadd {kind} %a, %a\n ret {kind} %b"
    code = machine.emit_assembly(llvm.parse_assembly(f"define {kind} @f({kind} %a) {{ {body} }}"))
    return 16 if "%zmm" in code else 8 if "%ymm" in code else 4


@cache
def many_registers() -> bool:
    """Whether the processor has 32 registers of vectors, not 16."""
    return lanes() == 16 or platform.machine().lower() in ("arm64", "aarch64")


@cache
def _report_compiling() -> None:
    """Report progress when numba compiles instead of reading from disk."""
    try:
        from numba.core import event
    except ImportError:  # another numba, which reports nothing
        return

    class Compiling(event.Listener):  # type: ignore[misc, unused-ignore]
        """One stage for a function and those that it calls."""

        def __init__(self) -> None:
            self.depth = 0
            self.stage = ExitStack()

        def on_start(self, event: Any) -> None:
            if self.depth == 0:
                self.stage.enter_context(progress.stage(COMPILING))
            self.depth += 1

        def on_end(self, event: Any) -> None:
            self.depth -= 1
            if self.depth == 0:
                self.stage.close()

    event.register("numba:compile", Compiling())


@cache
def cache_folder() -> str | None:
    """Return the folder of compiled code for this processor; None if no place is private.

    NUMBA_CACHE_DIR may name another place than the user's own folder. Code contains the
    functions that it calls, of whose sources numba knows nothing: so each state of them has
    a folder, and those that were used longest ago are removed.
    """
    from numba import __version__ as version
    from numba import config

    given = config.CACHE_DIR
    base = Path(given) if given else user_folder() / "numba"
    begin = f"{version}-{processor()}-{lanes()}"
    found = private_folder(base / f"{begin}-{_state_of_sources()}")
    if found is None:
        return None
    _sweep(base, begin, found)
    return str(found)


def _state_of_sources() -> str:
    """Return a short digest of the sources of compiled functions, and of this file."""
    sources = (Path(__file__), *sorted(Path(__file__).parent.glob("compiled*.py")))
    return hashlib.sha256(b"".join(p.read_bytes() for p in sources)).hexdigest()[:16]


def _sweep(base: Path, begin: str, used: Path) -> None:
    """Keep the folders of three states of the sources."""
    with suppress(OSError):
        os.utime(used)
        found = sorted(base.glob(f"{begin}-*"), key=lambda p: p.stat().st_mtime)
        for old in found[:-STATES]:
            shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _alone_in(folder: str) -> Iterator[None]:
    """Wait until no other process is inside; if the system has no such locks, do not wait."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:  # swept meanwhile; numba makes it anew
        yield
        return
    try:
        with suppress(OSError):  # of a network drive without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _forgive(kept: Any) -> None:
    """Treat a damaged cache as an empty one: report it, and compile the code anew.

    Two processes that save at the same time would give two signatures the same file: one is
    then run for the other.
    """
    load, save = kept.load_overload, kept.save_overload

    def save_overload(signature: Any, data: Any) -> None:
        with _alone_in(kept.cache_path):
            save(signature, data)

    def load_overload(signature: Any, context: Any) -> Any:
        try:
            return load(signature, context)
        except Exception as e:  # pickle raises anything for files that it did not write
            text = f"kept code in {kept.cache_path} is damaged, so it is compiled anew: {e}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
            with suppress(OSError):
                kept.flush()
            return None

    kept.load_overload, kept.save_overload = load_overload, save_overload


def compiled_for(signature: Any) -> Callable[[F], F]:
    """Compile for one signature, for any layouts of the arrays.

    Float arithmetic may be contracted (fused multiply-add), no more: infinities, NaN and the order
    of sums stay as they are written.
    """

    def compile(fn: F) -> F:
        from numba import njit

        _report_compiling()
        made = njit(**OPTIONS)(fn)
        _keep(made)
        if signature is not None:
            made.compile(signature)
            made.disable_compile()
        return cast(F, made)

    return compile


def address_of(fn: Callable[..., Any], signature: str, name: str) -> int:
    """Compile a function of numbers for calls from other compiled code; return its address.

    It stays for as long as the process lives. Its code is kept by a name that no other function
    of its module has.
    """
    from numba.core.ccallback import CFunc
    from numba.core.sigutils import normalize_signature

    _report_compiling()
    fn.__qualname__ = name
    made: Any = CFunc(fn, normalize_signature(signature), locals={}, options=dict(OPTIONS))
    _keep(made)
    # Besides the name: numba's own key is new for each closure.
    made._cache._index_key = lambda signature, codegen: (signature, codegen.magic_tuple())
    made.compile()
    _CALLABLE.append(made)
    return int(made.address)


def _keep(made: Any) -> None:
    """Cache a compiled function's code on disk, if a place can be written.

    numba itself would keep it beside the sources, which others may be allowed to write.
    """
    from numba import config

    folder = cache_folder()
    if folder is None:
        return
    with _CACHING, suppress(RuntimeError):
        before, config.CACHE_DIR = config.CACHE_DIR, folder
        try:
            made.enable_caching()
            _forgive(made._cache)
        finally:
            config.CACHE_DIR = before


def compiled(fn: F) -> F:
    """Compile at the first call, for the types of its arguments."""
    return compiled_for(None)(fn)


LANES = 8  # elements of a vector; loops read and write that many around a row
ZIPPED = (2, 3, 4, 6, 8)  # strides whose residues are written in turns by vectors
TURNS = (1, 2, 3, 4, 5, 6, 8)  # rows of a product whose elements may be written in turns
RUN = 64  # columns of tiles that are transformed together
# Taps along rows and rows of the output, if these share what they read in depthwise layers.
SHARED = (3, 4), (3, 3), (3, 2), (5, 4), (5, 3)
# Activations of compiled chains, in the order of their codes.
CLAMP, PRELU, HSIGMOID, HSWISH, SIGMOID, SWISH, HARD_SIGMOID, ERF, GELU, MISH, NOTHING = range(11)
# Operations of compiled programs, in the order of their codes.
ADDED, SUBTRACTED, MULTIPLIED, DIVIDED, LARGER, SMALLER, CLIPPED, ROOT, MOVED = range(9)
NEAREST, TO_F16, TO_BF16, ABSOLUTE, FLOOR, CEILING, CUT = range(9, 16)
EXPONENTIAL, TANGENT, NUMBER = range(16, 19)
ROW_PART = 1024  # elements of a row that go through a program together
CAST_TYPES = ("int32", "uint8", "int8")  # that compiled loops turn into f32, or f32 into
TILES = "tiles"  # prefix of the names of the micro-kernel's functions
PACKED = {1: "", 2: "pairs", 4: "fours"}  # behind it, if so many integers are multiplied at once
ROW_VECTORS = 8  # of a product of one row that are computed at once
SPLAT = 16  # elements of a vector, at most


def group_sizes(vectors: int) -> Iterator[int]:
    """Yield sizes of groups of vectors, the largest first; each is used as often as it fits.

    >>> list(group_sizes(6))
    [6, 3, 1]
    """
    while vectors > 1:
        yield vectors
        vectors //= 2
    yield 1


def groups(count: int, vectors: int) -> list[int]:
    """Return the sizes of the groups into which so many vectors are cut.

    >>> groups(8, 3)
    [3, 3, 1, 1]
    """
    found = []
    for size in group_sizes(vectors):
        found += [size] * (count // size)
        count %= size
    return found
