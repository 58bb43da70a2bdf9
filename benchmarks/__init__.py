"""Measurements of turnlog, side by side with what else there is; `python -m benchmarks` runs them."""
