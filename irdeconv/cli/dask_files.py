"""What workers of Dask get once: files in a private folder of each, from its start to its end.

Imported only where `distributed` is installed.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from distributed import WorkerPlugin

FILES: dict[str, str] = {}  # where this worker keeps a model that all items share, by digest


class SharedFiles(WorkerPlugin):  # type: ignore[misc]
    """Writes files where a worker starts; the scheduler sends it to each, also to later ones."""

    def __init__(self, digest: str, contents: dict[str, bytes]) -> None:
        self.name = f"irdeconv-{digest}"
        self._digest = digest
        self._contents = contents
        self._folder: TemporaryDirectory[str] | None = None

    def setup(self, worker: Any) -> None:
        """Write the files, the model being the first."""
        self._folder = TemporaryDirectory(prefix="irdeconv-")
        for name, content in self._contents.items():
            Path(self._folder.name, name).write_bytes(content)
        model = next(iter(self._contents))
        FILES[self._digest] = str(Path(self._folder.name, model))

    def teardown(self, worker: Any) -> None:
        """Remove them."""
        FILES.pop(self._digest, None)
        if self._folder is not None:
            with suppress(OSError):
                self._folder.cleanup()
