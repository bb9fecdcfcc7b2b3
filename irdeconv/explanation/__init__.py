"""Why a deconvolution gives what it gives, and what other systems would compute.

(`irdeconv.explain` is the public function.)
"""

from irdeconv.explanation.report import Explanation, explain

__all__ = ["Explanation", "explain"]
