"""Folds of the log: the live key-value table, its rebuild and its check."""

from .check import Difference, first_difference
from .entries import EntriesProjection, Stored, read_birth, read_entries, read_entry
from .fold import fold, fold_runs
from .rebuilding import rebuild

__all__ = [
    "Difference",
    "EntriesProjection",
    "Stored",
    "first_difference",
    "fold",
    "fold_runs",
    "read_birth",
    "read_entries",
    "read_entry",
    "rebuild",
]
