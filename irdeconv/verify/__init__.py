"""Holding models against each other: proofs, certificates, comparison, reduction, suites."""
