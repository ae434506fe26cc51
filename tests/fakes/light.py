"""Requests and responses without what HTTP needs, in place of httpx's in simulations.

    with mock.patch.object(kube, "httpx", light), mock.patch.object(kube_api, "httpx", light):

What the client and the fake server use of httpx's classes is here, ten times as cheap; everything
else of this module is httpx's own. tests/contract runs its suite on both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cached_property, lru_cache
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
from pydantic_core import to_json


class Target:
    """As httpx.URL."""

    def __init__(self, url: str) -> None:
        self.raw_path, self.params = _split(url)


@lru_cache(maxsize=4096)
def _split(url: str) -> tuple[bytes, dict[str, str]]:
    parts = urlsplit(url)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    return path.encode(), dict(parse_qsl(parts.query))


class Request:
    """As httpx.Request."""

    def __init__(
        self,
        method: str,
        url: str,
        *,
        headers: dict[str, str],
        content: bytes | None,
        extensions: dict[str, Any],
    ) -> None:
        self.method, self.content, self.extensions = method, content or b"", dict(extensions)
        self.url = Target(url)
        self._headers = headers

    @cached_property
    def headers(self) -> dict[str, str]:
        """Names are lower case here."""
        return {name.lower(): value for name, value in self._headers.items()}


class Response:
    """As httpx.Response."""

    def __init__(
        self,
        status_code: int,
        *,
        json: Any = None,
        content: bytes = b"",
        stream: httpx.AsyncByteStream | None = None,
    ) -> None:
        self.status_code, self.headers = status_code, dict[str, str]()
        self.content = content if json is None else to_json(json)
        self.stream = stream or Body(self.content)

    async def aread(self) -> bytes:
        """The body."""
        return self.content

    async def aclose(self) -> None:
        """End a stream that nobody reads any more."""
        await self.stream.aclose()


class Body(httpx.AsyncByteStream):
    """A body that is there at once."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._content


def __getattr__(name: str) -> Any:
    return getattr(httpx, name)
