"""Replay: timelines, restore, fork, audit and the command line."""

from .address import Point
from .state import Difference, State
from .timeline import Timeline
from .visits import Visit

__all__ = ["Difference", "Point", "State", "Timeline", "Visit"]
