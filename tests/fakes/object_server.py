"""A store of objects over HTTP with the conditional writes of S3, on a thread of its own.

PUT with `If-None-Match: *` answers 412 if the object is there; with `If-Match: ETAG` 412 if its
ETag is another, 404 if it is not there. GET and PUT answer with the ETag, which is that of the
content. All of a request is one step: reads see what was written last.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Headers = dict[str, str]


class ObjectServer(ThreadingHTTPServer, AbstractContextManager["ObjectServer"]):
    """`objects` is content by path. Faults: `ignores` names headers that it takes no notice of;
    `lose(method, path)` is asked before an answer is sent, and True loses it; `answers` are given
    instead, one after the other, before anything is done.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.lock = threading.Lock()
        self.ignores: set[str] = set()
        self.lose: Callable[[str, str], bool] = lambda method, path: False
        self.answers: list[int] = []
        self.log: list[tuple[str, str, Headers]] = []
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up, or are hung up on, are part of the tests."""

    def put(self, path: str, body: bytes, headers: Headers) -> tuple[int, str]:
        """Status and ETag of a write."""
        found = self.objects.get(path)
        headers = {key: value for key, value in headers.items() if key not in self.ignores}
        if headers.get("If-None-Match") == "*" and found is not None:
            return 412, ""
        if "If-Match" in headers:
            if found is None:
                return 404, ""
            if headers["If-Match"] != etag(found):
                return 412, ""
        self.objects[path] = body
        return 200, etag(body)


def etag(body: bytes) -> str:
    """That of a content."""
    return f'"{hashlib.md5(body).hexdigest()}"'


class _Handler(BaseHTTPRequestHandler):
    server: ObjectServer

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {key.title(): value for key, value in self.headers.items()}
        with self.server.lock:
            self._note()
            if self._refused():
                return
            status, tag = self.server.put(self.path, body, headers)
        self._answer(status, b"", tag)

    def do_GET(self) -> None:
        with self.server.lock:
            self._note()
            if self._refused():
                return
            found = self.server.objects.get(self.path)
        if found is None:
            self._answer(404, b"NoSuchKey")
        else:
            self._answer(200, found, etag(found))

    def do_DELETE(self) -> None:
        with self.server.lock:
            self._note()
            self.server.objects.pop(self.path, None)
        self._answer(204, b"")

    def _note(self) -> None:
        self.server.log.append((self.command, self.path, dict(self.headers.items())))

    def _refused(self) -> bool:
        if self.server.answers:
            self._answer(self.server.answers.pop(0), b"later")
            return True
        return False

    def _answer(self, status: int, body: bytes, tag: str = "") -> None:
        if self.server.lose(self.command, self.path):
            self.close_connection = True
            return
        self.send_response(status)
        if tag:
            self.send_header("ETag", tag)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
