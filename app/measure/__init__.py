"""Measuring: playing suites against engines (bench), and runs with their workers (runner)."""
