"""A stand-in for the dashboards of Ray's heads, which KubeRay asks how jobs and applications are.

No container runs on a rig, and names of Services lead nowhere: KubeRay gets it as its HTTP proxy.
It answers for every head alike, with what the test has told it, and runs nothing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]


class Dashboard:
    """What the dashboards say.

    Attributes:
        jobs: namespace → status of all Ray jobs there; RUNNING where nothing is said.
        served: namespace → the Serve applications that were put there, as configuration.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, str] = {}
        self.served: dict[str, list[Json]] = {}

    def answer(self, method: str, url: str, body: Json) -> Json:
        """The answer to a request for `http://HEAD.NAMESPACE.svc…/PATH`."""
        parts = urlsplit(url)
        namespace, path = f"{parts.hostname}..".split(".")[1], parts.path
        if path == "/api/serve/applications/":
            if method == "PUT":
                self.served[namespace] = body.get("applications", [])
            return {"applications": {app["name"]: _runs(app) for app in self._of(namespace)}}
        if path.endswith("/stop"):
            return {"stopped": True}
        status = self.jobs.get(namespace, "RUNNING")
        return {"submission_id": path.rpartition("/")[2], "status": status, "message": status}

    def _of(self, namespace: str) -> list[Json]:
        return self.served.get(namespace, [])


def _runs(app: Json) -> Json:
    return {"name": app["name"], "status": "RUNNING", "deployments": {}}


@contextmanager
def dashboards() -> Iterator[tuple[Dashboard, str]]:
    """The stand-in on the loopback, and its URL."""
    found = Dashboard()

    class Handler(BaseHTTPRequestHandler):
        def _reply(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            text = json.dumps(found.answer(self.command, self.path, json.loads(sent or b"{}")))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_PUT = do_POST = _reply

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield found, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
