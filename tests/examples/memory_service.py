"""A memory service as others run them, small: facts by key, and observations that are digested."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PREFIX = "/v1/workspaces/trip-42"


class MemoryService(ThreadingTCPServer):
    """The service, on a port of its own of the loopback interface.

    Attributes:
        facts, observations: what it holds.
        asked: the request lines it has got.
        trouble: what to do instead of answering as it should: a status and a body, or the name of a way to
        fail
            (`hang`, `cut short`, `hang up`, `circle`). `hang up` is after the request was carried out.
        over: set when all is over, so that nobody hangs for longer.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.over = threading.Event()
        self.lock = threading.Lock()
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget everything."""
        self.facts: dict[str, dict[str, Any]] = {}
        self.observations: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.trouble: tuple[int, bytes] | str | None = None

    @property
    def url(self) -> str:
        """Where it is reached."""
        return f"http://127.0.0.1:{self.server_address[1]}{PREFIX}"


@contextmanager
def running() -> Iterator[MemoryService]:
    """The service, for the time of a `with` block."""
    with MemoryService() as service:
        thread = threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield service
        finally:
            service.over.set()
            service.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: MemoryService

    def log_message(self, *_: object) -> None:
        pass

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        trouble = self.server.trouble
        with self.server.lock:
            self.server.asked.append(f"{self.command} {self.path}")
            if isinstance(trouble, tuple):
                status, answer = trouble
            else:
                status, content = self._answer(json.loads(body) if body else None)
                answer = json.dumps(content).encode()
        if trouble == "hang up":
            return
        if trouble == "hang":
            self.server.over.wait(60)
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer) + (trouble == "cut short")))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_PUT = do_DELETE = do_POST = _handle  # noqa: N815 - the names are those of http.server

    def _answer(self, body: Any) -> tuple[int, Any]:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        facts = self.server.facts
        match self.command, url.path.removeprefix(PREFIX):
            case "GET", "/facts":
                return 200, self._page(int(query["page_size"]), int(query.get("page", "0")))
            case "PUT", "/fact":
                now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
                born = facts.get(query["key"], {"committed_at": now})["committed_at"]
                facts[query["key"]] = {"key": query["key"], **body, "committed_at": born}
                return 200, facts[query["key"]]
            case (("GET" | "DELETE"), "/fact") if query["key"] not in facts:
                return 404, {"error": "no such fact"}
            case "GET", "/fact":
                return 200, facts[query["key"]]
            case "DELETE", "/fact":
                del facts[query["key"]]
                return 200, {}
            case "POST", "/observations":
                self.server.observations[body["id"]] = body
                return 202, {}
            case "GET", "/recall":
                words = query["question"].lower().split()
                texts = [each["text"] for each in self.server.observations.values()]
                found = [text for text in texts if any(word in text.lower() for word in words)]
                return 200, {"notes": [f"Somebody noted: {text}" for text in found[: int(query["limit"])]]}
            case _:
                return 404, {"error": "no such resource"}

    def _page(self, size: int, start: int) -> dict[str, Any]:
        facts = list(self.server.facts.values())
        more = len(facts) > start + size or self.server.trouble == "circle"
        following = str(start if self.server.trouble == "circle" else start + size)
        return {"facts": facts[start : start + size], "next_page": following if more else None}
