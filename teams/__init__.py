"""Teams: agents that share a memory, and the tasks they hand to each other."""

from .agent import Agent
from .attempts import TaskContext
from .errors import BadPlan
from .loop import arun_tasks
from .progress import TaskEvent
from .result import TaskError, TaskResult, TeamResult
from .task import Task
from .team import Team
from .threads import run_tasks

__all__ = [
    "Agent",
    "BadPlan",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskEvent",
    "TaskResult",
    "Team",
    "TeamResult",
    "arun_tasks",
    "run_tasks",
]
