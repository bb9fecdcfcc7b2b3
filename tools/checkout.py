"""The checkout in which these scripts stand; importing this lets them import its packages.

Every script that imports irdeconv or tests/support imports this first. Another irdeconv that is
installed, or that PYTHONPATH names, would be measured and documented instead.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

for _folder in (str(ROOT / "tests"), str(ROOT)):
    if _folder in sys.path:
        sys.path.remove(_folder)
    sys.path.insert(0, _folder)
