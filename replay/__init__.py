"""Replay: timelines, restore, fork, audit and the command line."""
