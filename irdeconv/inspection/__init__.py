"""Show what a graph is: tables, Graphviz, a page. (`irdeconv.inspect` is the public function.)"""

from irdeconv.inspection.report import Inspection, inspect

__all__ = ["Inspection", "inspect"]
