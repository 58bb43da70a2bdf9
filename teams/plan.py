"""Tasks put in relation: who waits for whom, checked as a whole before anything is begun."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from ..eventlog import Limits
from ..memory.keys import full_key
from .arguments import several
from .errors import BadPlan
from .task import Task, result_key

__all__ = ["Plan", "given_tasks", "make_plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Tasks that can be run; made by `make_plan`.

    Attributes:
        tasks: by id, in the order given; each `depends_on` holds ids only, none of them twice.
        dependents: for each id, the tasks that wait for it, in the order given.
    """

    tasks: Mapping[str, Task]
    dependents: Mapping[str, tuple[str, ...]]


def make_plan(tasks: Iterable[Task], agents: Collection[str]) -> Plan:
    """Resolve what `tasks` depend on, and check that they can all be done by `agents`.

    Raises:
        TypeError: something that is not a `Task`.
        BadPlan: ids given twice, unknown assignees, references that name no task or several, tasks that wait
            for themselves; it lists them all.
    """
    given = given_tasks(tasks)
    problems: list[str] = []
    by_id: dict[str, Task] = {}
    for task in given:
        if task.id in by_id:
            problems.append(f"task {task.id!r} is there more than once; give each an id of its own")
        by_id.setdefault(task.id, task)
        problems += _assignment(task, agents)
    titles = _titles(given)
    resolved: dict[str, Task] = {}
    for task in by_id.values():
        wanted: dict[str, None] = {}
        for reference in task.depends_on:
            found = [reference] if reference in by_id else titles.get(_folded(reference), [])
            if len(found) == 1:
                wanted[found[0]] = None
            else:
                problems.append(_unresolved(task, reference, found))
        resolved[task.id] = replace(task, depends_on=tuple(wanted))
    plan = Plan(MappingProxyType(resolved), MappingProxyType(_dependents(resolved)))
    problems += _circles(plan)
    if problems:
        raise BadPlan(problems)
    return plan


def given_tasks(tasks: Iterable[Task]) -> list[Task]:
    """The tasks that a caller gave.

    Raises:
        TypeError: they are not several `Task` objects; says how to write it.
    """
    return several("tasks", tasks, Task, many="[task]", one="Task(id, description, assignee)")


def _assignment(task: Task, agents: Collection[str]) -> list[str]:
    if task.assignee not in agents:
        known = ", ".join(map(repr, agents))
        return [f"task {task.id!r:.80} is assigned to {task.assignee!r:.80}, but the team has {known:.200}"]
    try:
        Limits().check_name("its result's key", full_key(task.assignee, result_key(task.id)))
    except ValueError as error:
        return [f"task {task.id!r:.80}: {error}"]
    return []


def _titles(tasks: Iterable[Task]) -> dict[str, list[str]]:
    titles: dict[str, list[str]] = {}
    for task in tasks:
        titles.setdefault(_folded(task.title), []).append(task.id)
    return titles


def _folded(title: str) -> str:
    return title.strip().lower()


def _unresolved(task: Task, reference: str, found: list[str]) -> str:
    if not found:
        return f"task {task.id!r} depends on {reference!r:.80}, which is neither an id nor a title"
    named = ", ".join(map(repr, found))
    return (
        f"task {task.id!r} depends on {reference!r:.80}, a title of several tasks ({named:.200}); use an id"
    )


def _dependents(tasks: Mapping[str, Task]) -> dict[str, tuple[str, ...]]:
    waiting: dict[str, list[str]] = {task_id: [] for task_id in tasks}
    for task in tasks.values():
        for needed in task.depends_on:
            waiting[needed].append(task.id)
    return {task_id: tuple(waits) for task_id, waits in waiting.items()}


def _circles(plan: Plan) -> list[str]:
    """A sentence for each circle of tasks that wait for each other."""
    left = {task_id: len(task.depends_on) for task_id, task in plan.tasks.items()}
    free = [task_id for task_id, count in left.items() if not count]
    while free:
        for waiting in plan.dependents[free.pop()]:
            left[waiting] -= 1
            if not left[waiting]:
                free.append(waiting)
    stuck = {task_id for task_id, count in left.items() if count}
    # Whoever is stuck waits for somebody who is stuck: going back from anywhere ends in a circle.
    problems: list[str] = []
    seen: set[str] = set()
    for start in (task_id for task_id in plan.tasks if task_id in stuck):
        way: dict[str, None] = {}
        at = start
        while at not in seen:
            seen.add(at)
            way[at] = None
            at = next(each for each in plan.tasks[at].depends_on if each in stuck)
        if at in way:
            steps = list(way)
            circle = [*steps[steps.index(at) :], at]
            problems.append(f"tasks wait for each other in a circle: {' -> '.join(map(repr, circle)):.400}")
    return problems
