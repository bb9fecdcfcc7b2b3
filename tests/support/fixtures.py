"""Short names of the types of pytest's fixtures."""

import pytest

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch
