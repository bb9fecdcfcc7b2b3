"""The command line: `main` dispatches, one module per verb, nothing heavy is imported early."""
