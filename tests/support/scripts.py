"""The scripts of tools/ as modules."""

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def script(name: str) -> Any:
    """Return a script of tools/, imported anew."""
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    if str(TOOLS) not in sys.path:
        sys.path.append(str(TOOLS))  # as scripts they import each other
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def tool(name: str) -> Any:
    """Return a module of tools/."""
    for folder in (str(TOOLS), str(TOOLS.parent / "tests")):
        if folder not in sys.path:
            sys.path.append(folder)
    return importlib.import_module(name)


def page_maker(name: str) -> Any:
    """Return a module of tools/pages/."""
    return tool(f"pages.{name}")
