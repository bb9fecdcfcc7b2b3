"""Measure how long plans take, and why. (`irdeconv.bench` is the public function.)"""

from irdeconv.benchmark.report import BenchReport
from irdeconv.benchmark.session import bench, require_measurable

__all__ = ["BenchReport", "bench", "require_measurable"]
