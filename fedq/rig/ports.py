"""Free TCP ports on the IPv4 loopback, chosen so that they stay free."""

from __future__ import annotations

import socket
import zlib
from collections.abc import Iterable
from pathlib import Path

FIRST, LAST = 20_000, 31_999
"""Below the range from which Linux takes the local ports of outgoing connections (32768 up):
a port of a component that is down for a moment must not be taken by somebody's connection."""


def is_free(port: int) -> bool:
    """True when a server could listen on 127.0.0.1:`port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def allocate(count: int, home: Path, taken: Iterable[int] = ()) -> list[int]:
    """`count` different free ports, none of `taken`.

    The search starts at a place derived from `home`, so that two rigs that start at the same
    moment look at different ports. Raises OSError when the whole range is in use.
    """
    span = LAST - FIRST + 1
    start = zlib.crc32(str(home).encode()) % span
    used = set(taken)
    found: list[int] = []
    for step in range(span):
        port = FIRST + (start + step) % span
        if len(found) == count:
            break
        if port not in used and is_free(port):
            found.append(port)
    if len(found) < count:
        raise OSError(f"only {len(found)} of {count} ports are free in {FIRST}-{LAST}")
    return found
