"""IR of the versions 2 to 7, which OpenVINO dropped in 2021: its grammar and its layers."""
