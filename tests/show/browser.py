"""A headless Chromium for the tests of the page, and for screenshots."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# The first four stop it from asking its maker for anything, which the tests would see as requests.
QUIET = (
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # which is small in containers
    "--hide-scrollbars",
)


def executable() -> str | None:
    """Return the path of a Chromium; None where there is none on PATH."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def missing() -> str | None:
    """Return what is missing for a browser to be driven; None where all is there."""
    if find_spec("playwright") is None:
        return "the package playwright is missing (extra `browser`)"
    return None if executable() else f"no browser on PATH: {', '.join(NAMES[:3])}"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser with an empty profile. Root gets no sandbox: Chromium refuses it."""
    from playwright.sync_api import sync_playwright

    root = getattr(os, "geteuid", lambda: 1)() == 0
    arguments = [*QUIET, *(["--no-sandbox"] if root else [])]
    with sync_playwright() as playwright:
        browser: Any = playwright.chromium.launch(executable_path=executable(), args=arguments)
        try:
            yield browser
        finally:
            browser.close()
