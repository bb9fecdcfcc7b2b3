"""Random samples of every operation, run by irdeconv and by a live OpenVINO, and judged."""
