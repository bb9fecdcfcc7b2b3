"""Targets for tests, apart from the packaged ones."""

from irdeconv.rewrite.legalising import OPERATIONS as NATIVE
from irdeconv.rewrite.target_conditions import OPERATIONS
from irdeconv.rewrite.targets import Target


def lacking(*operations: str) -> Target:
    """Return a target that has every operation but some, and no deconvolution, unconditionally."""
    assert set(operations) <= set(OPERATIONS)
    left = {name: () for name in OPERATIONS if name not in (*operations, *NATIVE)}
    return Target(f"lacking {', '.join(operations)}", operations=left)
