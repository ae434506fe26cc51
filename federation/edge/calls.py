"""What a request will be, decided before any byte moves; and how a stream splits into lines.

No I/O here: the client sends what `plan` returns.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, urlencode

from federation.edge.errors import Invalid
from federation.edge.resources import Json, Resource

Body = Json | list[Json]
"""An object, or the operations of a JSON patch."""
PatchKind = Literal["merge", "json", "apply"]

JSON_TYPE = "application/json"
PATCH_TYPES: dict[PatchKind, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
_METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}
_compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


class At(NamedTuple):
    """What a request is about: a collection, an object or a subresource of one."""

    resource: Resource
    namespace: str | None = None
    name: str = ""
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    verb: str
    method: str
    path: str
    about: str
    """Resource and namespace/name, for messages."""
    counted: tuple[str, str, str]
    """(verb, plural, subresource)."""
    body: Body | None = None
    content_type: str = JSON_TYPE

    @property
    def description(self) -> str:
        """How messages name it."""
        return f"{self.verb} {self.about}"

    def content(self) -> bytes | None:
        """The body as compact JSON."""
        if self.body is None:
            return None
        return _compact.encode(self.body).encode("utf-8", "surrogatepass")


def plan(
    verb: str,
    at: At,
    *,
    query: dict[str, Any] | None = None,
    body: Body | None = None,
    content_type: str = JSON_TYPE,
) -> Call:
    """Build the request. Names are quoted: they may come from users. Empty queries are left out.

    Raises Invalid for a name that would turn the request into one for something else: a delete
    without a name is a delete of the whole collection.
    """
    res, namespace, name, subresource = at
    nameless = verb in ("list", "watch", "create")
    if bool(name) == nameless or name in (".", "..") or namespace in (".", ".."):
        raise Invalid(f"{verb} {res.plural} {namespace}/{name}: not a usable name", reason="Name")
    path = res.path(_quoted(namespace) if namespace else None, _quoted(name), subresource)
    if query and (given := tuple((key, value) for key, value in query.items() if value)):
        path = f"{path}?{_query(given)}"
    target = f"{res.plural}/{subresource}" if subresource else res.plural
    named = f"{namespace}/{name}" if namespace else name
    return Call(
        verb,
        _METHODS[verb],
        path,
        f"{target} {named}".rstrip(),
        (verb, res.plural, subresource),
        body,
        content_type,
    )


@lru_cache(maxsize=4096)
def _quoted(name: str) -> str:
    """The same few names are asked for again and again."""
    return quote(name, safe="")


@lru_cache(maxsize=256)
def _query(given: tuple[tuple[str, Any], ...]) -> str:
    return urlencode(given)


async def lines(stream: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """Split a byte stream into lines. Each byte is looked at once, however long the line is.

    Close it (aclosing): the stream's own iterator is then closed too, instead of some time later
    by the garbage collector in a task of its own.
    """
    parts: list[bytes] = []
    chunks = aiter(stream)
    try:
        async for chunk in chunks:
            first, *rest = chunk.split(b"\n")
            parts.append(first)
            for piece in rest:
                line = b"".join(parts)
                parts = [piece]
                if line.strip():
                    yield line
        if tail := b"".join(parts).strip():
            yield tail
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()
