"""Measure how long plans take, and why. (`irdeconv.bench` is the public function.)"""

from irdeconv.benchmark.measure import Effort
from irdeconv.benchmark.report import BenchReport
from irdeconv.benchmark.session import bench, require_measurable

__all__ = ["BenchReport", "Effort", "bench", "require_measurable"]
