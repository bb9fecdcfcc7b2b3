"""Random graphs and mutants of IRs, held against a live OpenVINO."""
