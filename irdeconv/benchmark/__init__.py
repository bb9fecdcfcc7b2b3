"""Measure how long plans take, and why. (`irdeconv.bench` is the public function.)"""

from irdeconv.benchmark.report import BenchReport
from irdeconv.benchmark.session import bench

__all__ = ["BenchReport", "bench"]
