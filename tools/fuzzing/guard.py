"""What a reader of files may do of all that Python tells of: an audit hook that keeps the rest."""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Code, and data that come with it.
INSTALLED = map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib"))
OWN = (os.path.join(ROOT, name) for name in ("irdeconv", "tools", "tests"))
CODE = tuple(os.path.realpath(path) + os.sep for path in (*OWN, *INSTALLED))
HARMLESS = ("/dev/null", "/proc/self/status", "/proc/meminfo", "/proc/cpuinfo", "/proc/self/mounts")
NEVER = (
    "socket.", "subprocess.", "os.system", "os.exec", "os.spawn", "os.posix_spawn", "os.fork",
    "os.forkpty", "os.putenv", "os.kill", "pickle.find_class", "ctypes.dlopen", "shutil.unpack",
    "urllib.Request", "http.client", "ftplib.", "smtplib.", "webbrowser.", "code.__new__",
    "pty.spawn", "marshal.loads.",
)  # fmt: skip
# Their first argument is a path, some have two.
PATHS = {
    "os.remove": 1, "os.rename": 2, "os.mkdir": 1, "os.rmdir": 1, "os.chmod": 1, "os.chown": 1,
    "os.link": 2, "os.symlink": 2, "os.truncate": 1, "os.utime": 1, "shutil.rmtree": 1,
    "shutil.copyfile": 2, "shutil.move": 2, "tempfile.mkstemp": 1, "tempfile.mkdtemp": 1,
    "os.listdir": 1, "os.scandir": 1, "os.mknod": 1,
}  # fmt: skip
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Guard:
    """Keeps what is done outside of a folder while it is on; nothing of it is let through."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.realpath(folder)
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on:
            return
        problem = self._problem(event, args)
        if problem:
            self.seen.append(problem)
            raise PermissionError(f"guard: {problem}")

    def _problem(self, event: str, args: tuple[Any, ...]) -> str:
        if event == "open":
            return self._open(*args)
        if event in PATHS:
            paths = args[: PATHS[event]]
            reads = event in ("os.listdir", "os.scandir")
            fine = all((reads and p in sys.path) or self._allowed(p, not reads) for p in paths)
            return "" if fine else f"{event} {[str(p) for p in paths]}"
        if event.startswith(NEVER):
            return f"{event} {str(args)[:200]}"
        if event == "import" and args[1] and not self._allowed(args[1], False):
            return f"import of {args[0]} from {args[1]}"
        return ""

    def _open(self, path: Any, mode: Any, flags: int) -> str:
        writes = bool(flags & _WRITES)
        if self._allowed(path, writes):
            return ""
        return f"open {path!s} {mode} {flags:#x}"

    def _allowed(self, path: Any, writes: bool) -> bool:
        if path is None or isinstance(path, int):
            return True
        real = os.path.realpath(os.fsdecode(path))
        if real == self.folder or real.startswith(self.folder + os.sep):
            return True
        if writes:
            return real == "/dev/null"
        return (real + os.sep).startswith(CODE) or real in HARMLESS
