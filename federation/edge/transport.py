"""How requests get to an API server: aiohttp below httpx, which costs a quarter of the CPU."""

from __future__ import annotations

import ssl
import sys

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

MAX_CONNECTIONS = 256
"""As many requests are in flight at most, and as many watches."""
KEEPALIVE = 75.0
"""Seconds that an idle connection is kept."""


def aiohttp_transport(
    verify: ssl.SSLContext | bool, *, reuse: bool = True
) -> httpx.AsyncBaseTransport:
    """For one API server; without `reuse` each request has a connection of its own."""

    def session() -> aiohttp.ClientSession:
        """Made with the first request, in the loop that it belongs to."""
        connector = aiohttp.TCPConnector(
            ssl=verify,
            limit=MAX_CONNECTIONS,
            force_close=not reuse,
            keepalive_timeout=KEEPALIVE if reuse else None,
            # Before 3.12.7 asyncio keeps a TLS connection that was closed in the middle of a
            # stream until the peer says goodbye; with this, closing the client ends it too.
            enable_cleanup_closed=sys.version_info < (3, 12, 7),
        )
        return aiohttp.ClientSession(connector=connector, trust_env=False)

    return AiohttpTransport(verify=verify, trust_env=False, client=session)
