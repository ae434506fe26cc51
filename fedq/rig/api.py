"""The few requests that the rig itself makes: readiness, and applying its own objects.

Standard library only: the product's Kubernetes client is tested on the rig, so the rig must
not stand on it.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedq.rig.errors import RigError
from fedq.rig.network import LOOPBACK

TIMEOUT = 10.0
"""Seconds for one request on the loopback, on a machine that is busy with starting."""


class Endpoint:
    """One HTTPS server of the rig, spoken to with a client certificate."""

    def __init__(self, port: int, ca: Path, identity: Path, host: str = LOOPBACK) -> None:
        self.port, self.host = port, host
        self._tls = ssl.create_default_context(cafile=str(ca))
        self._tls.load_cert_chain(str(identity))

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> tuple[int, str]:
        """(status, body) of one request. Raises OSError when nobody answers."""
        connection = http.client.HTTPSConnection(
            self.host, self.port, timeout=TIMEOUT, context=self._tls
        )
        kind = "apply-patch+yaml" if method == "PATCH" else "json"
        headers = {"Accept": "application/json", "Content-Type": f"application/{kind}"}
        try:
            connection.request(
                method, path, json.dumps(body) if body is not None else None, headers
            )
            response = connection.getresponse()
            return response.status, response.read().decode(errors="replace")
        except http.client.HTTPException as error:
            raise OSError(f"{self.host}:{self.port}: {error!r}") from error
        finally:
            connection.close()

    def ready(self, path: str) -> bool:
        """True when `path` answers 200."""
        try:
            return self.request("GET", path)[0] == 200
        except OSError:
            return False

    def apply(self, path: str, body: Mapping[str, Any]) -> None:
        """Server-side apply of one object: create it, or bring our fields back. Idempotent."""
        self._send("PATCH", f"{path}?fieldManager=fedq-rig&force=true", body, (200, 201))

    def create(self, path: str, body: Mapping[str, Any]) -> None:
        """Create one object in the collection `path`; one that exists is left as it is."""
        self._send("POST", f"{path}?fieldManager=fedq-rig", body, (201, 409))

    def _send(self, method: str, path: str, body: Mapping[str, Any], fine: Sequence[int]) -> None:
        status, answer = self.request(method, path, body)
        if status not in fine:
            raise RigError(
                f"the API server on port {self.port} refused {method} {path}",
                f"HTTP {status}: {answer[:500]}",
                "Run `fedq rig down`, then `fedq rig up` again.",
            )


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=TIMEOUT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def socket_ready(socket_path: Path, path: str) -> bool:
    """True when the plain-HTTP server on a Unix socket answers 200 on `path`."""
    return _answers(_SocketConnection(socket_path), path)


def plain_ready(port: int, path: str, host: str = LOOPBACK) -> bool:
    """True when the plain-HTTP server on `host` answers 200 on `path`."""
    return _answers(http.client.HTTPConnection(host, port, timeout=TIMEOUT), path)


def _answers(connection: http.client.HTTPConnection, path: str) -> bool:
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
