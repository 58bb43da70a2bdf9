"""Starts workers for the rounds of `test_kills`: a program that is talked to by lines of JSON.

On standard input `{"path": …, "name": …, "seed": …, "operations": […], "durability": …}` forks a worker, and
`{"reap": pid}` waits for its end. Workers report on standard output before and after each operation, straight
through the pipe, so that what was acknowledged is known whatever becomes of them.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

from operations import OPERATIONS, Work  # type: ignore[import-not-found]

import turnlog


class Terminated(BaseException):
    """SIGTERM came."""


_terminated = False


def on_sigterm(number: int, frame: Any) -> NoReturn:
    global _terminated
    _terminated = True  # in case that what is raised comes where nobody can catch it
    raise Terminated


def work(tell: Any, order: dict[str, Any]) -> None:
    """Carry out operations until the end."""
    path, name = Path(order["path"]), order["name"]
    rng = random.Random(order["seed"])
    with turnlog.open(path, durability=order["durability"], busy_timeout_s=60) as log:
        at_hand = Work(path, log, rng)
        number = 0
        while not _terminated:
            number += 1
            kind = rng.choice(order["operations"])
            tag = f"{name}-{number}"
            tell({"worker": name, "begins": kind, "tag": tag})
            told = OPERATIONS[kind].carry_out(at_hand, tag)
            tell({"worker": name, "ends": kind, "tag": tag, "told": told})


def child(tell: Any, order: dict[str, Any]) -> NoReturn:
    status = 1
    try:
        signal.signal(signal.SIGTERM, on_sigterm)
        work(tell, order)
        status = 143
    except Terminated:
        status = 143
    except BaseException:  # noqa: BLE001 - a child must never go on with the parent's work
        status = 143 if _terminated and isinstance(sys.exc_info()[1], turnlog.Closed) else 1
        traceback.print_exc()
    finally:
        os._exit(status)


def main() -> None:
    """Serve until standard input ends."""
    out = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the command line talks, too

    def tell(what: dict[str, Any]) -> None:
        os.write(out, json.dumps(what).encode() + b"\n")  # shorter than a pipe takes at once

    for line in sys.stdin:
        order = json.loads(line)
        if "reap" in order:
            _, status = os.waitpid(order["reap"], 0)
            tell({"reaped": order["reap"], "status": os.waitstatus_to_exitcode(status)})
            continue
        pid = os.fork()
        if pid == 0:
            child(tell, order)
        tell({"began": pid, "name": order["name"]})


if __name__ == "__main__":
    main()
