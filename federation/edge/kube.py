"""The Kubernetes API client: plain JSON objects over httpx, one method per verb.

httpx is used for its transport seam (tests pass a fake API server as the transport), with aiohttp
underneath, which costs a quarter of the CPU. The client sits directly on the transport: cookies,
redirects, proxies and authentication flows of `httpx.AsyncClient` are not wanted here and would
double the cost of a small request. Nothing is retried in this module except a 401 after a fresh
token, and only errors of `federation.edge.errors` leave it (CancelledError passes untouched).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, NamedTuple, Self, cast

import aiohttp
import httpx
from pydantic_core import from_json

from federation.api.names import ActiveReason
from federation.edge.calls import PATCH_TYPES, At, Body, Call, PatchKind, lines, plan
from federation.edge.errors import (
    ConfigError,
    Gone,
    Halted,
    Unauthorized,
    Unreachable,
    from_answer,
    from_status,
)
from federation.edge.kubeconfig import Endpoint, ssl_context
from federation.edge.resources import Json, Resource
from federation.edge.transport import aiohttp_transport

CONNECT_TIMEOUT = 5.0

# Not all of the lower layers' errors are translated on their way up; RuntimeError is how aiohttp
# says that a stream or session was closed meanwhile.
NOT_CONNECTED = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    httpx.ConnectError,
    httpx.ConnectTimeout,
)
LOST = (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError, RuntimeError)


@dataclass(frozen=True, slots=True)
class ListPage:
    """All objects of one list (every page), and where a watch can start from."""

    items: list[Json]
    resource_version: str


class WatchEvent(NamedTuple):
    """`type` is ADDED, MODIFIED, DELETED or BOOKMARK (an object with a resourceVersion only)."""

    type: str
    object: Json


class KubeClient:
    """Talks to one API server. Safe to share between tasks of one event loop."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        user_agent: str = "fedq",
        request_timeout: float = 15.0,
    ) -> None:
        self.cluster = endpoint.name or endpoint.server
        self.request_timeout = request_timeout
        self.requests: Counter[tuple[str, str, str]] = Counter()
        """Requests sent, by (verb, plural, subresource): the write budget is measured here."""
        self.halted: Callable[[], str] = lambda: ""
        """Why nothing may be written now; '' if it may."""
        self._endpoint = endpoint
        self._base = endpoint.server.rstrip("/")
        if transport is None:
            verify = ssl_context(endpoint) if endpoint.server.startswith("https") else False
            self._transport = aiohttp_transport(verify)
            # Each stream has a connection of its own: one that has fallen silent is followed by one
            # that is new, not by another one from before that is as silent.
            self._streams = aiohttp_transport(verify, reuse=False)
        else:
            self._transport = self._streams = transport
        self._headers = {
            "Host": httpx.URL(self._base).netloc.decode("ascii"),
            "User-Agent": user_agent,
            "Accept": "application/json",
            # Compressing costs both sides more CPU than a cluster network costs time.
            "Accept-Encoding": "identity",
        }
        self._extensions: dict[float | None, dict[str, Any]] = {}
        self._set_token(endpoint.token)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections. Streams that are still open end with Unreachable."""
        await self._transport.aclose()
        await self._streams.aclose()
        for _ in range(2):  # the loop closes the sockets of what was aborted in its next rounds
            await asyncio.sleep(0)  # one of these rounds

    # Reading

    async def get(self, res: Resource, name: str, namespace: str | None = None) -> Json:
        """Read one object. Raises NotFound."""
        return await self._object(plan("get", At(res, namespace, name)))

    async def list(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
    ) -> ListPage:
        """Read all objects, `limit` a page. A page token that expires starts the list again once.

        Raises Gone when it expires again: the collection changes faster than it can be read.
        """
        query = {"labelSelector": label_selector, "fieldSelector": field_selector, "limit": limit}
        try:
            return await self._list(res, namespace, query)
        except Gone:
            return await self._list(res, namespace, query)

    async def _list(self, res: Resource, namespace: str | None, query: dict[str, Any]) -> ListPage:
        items: list[Json] = []
        token = ""
        while True:
            call = plan("list", At(res, namespace), query={**query, "continue": token})
            page = await self._object(call)
            # Servers leave out in a list what a single object or a watch event says of its type.
            type_ = {
                "apiVersion": page.get("apiVersion", ""),
                "kind": page.get("kind", "").removesuffix("List"),
            }
            items += [type_ | item for item in page.get("items") or ()]
            meta = page["metadata"]
            token = meta.get("continue", "")
            if not token:
                return ListPage(items, meta["resourceVersion"])

    async def watch(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        timeout_seconds: int = 300,
        opened: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Stream changes after `resource_version`, ending when the server's time is up. `opened` is
        called when the server has agreed: nothing may happen for a long time then.

        Without a resource version the present objects come first, as ADDED. Raises Gone when the
        version is too old: list again. Close the iterator (aclosing) to give the connection back.
        """
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "resourceVersion": resource_version,
            "timeoutSeconds": timeout_seconds,
        }
        call = plan("watch", At(res, namespace), query=query)
        response = await self._open(call, read_timeout=None)
        opened()
        stream = lines(cast(httpx.AsyncByteStream, response.stream))
        try:
            async with aclosing(stream):
                async for line in stream:
                    event = from_json(line)
                    if event["type"] == "ERROR":
                        raise from_status(event["object"], call.description, self.cluster)
                    yield WatchEvent(event["type"], event["object"])
        except (ValueError, *LOST) as error:
            raise self._unreachable(call, error) from error
        finally:
            await response.aclose()

    async def stream(self, path: str) -> AsyncGenerator[bytes, None]:
        """What a path that is no collection sends, as it comes: the log of a container. It may end
        after any time. Close the iterator (aclosing) to give the connection back.
        """
        plain = path.partition("?")[0]
        call = Call("stream", "GET", path, plain, ("stream", "", ""))
        response = await self._open(call, read_timeout=None)
        try:
            async for chunk in cast(httpx.AsyncByteStream, response.stream):
                yield chunk
        except LOST as error:
            raise self._unreachable(call, error) from error
        finally:
            await response.aclose()

    async def raw(self, method: str, path: str) -> bytes:
        """Fetch a path that is no resource: /readyz, /metrics, /version."""
        plain = path.partition("?")[0]
        return await self._send(Call("raw", method, path, plain, ("raw", plain, "")))

    # Writing

    async def create(
        self, res: Resource, body: Json, namespace: str | None = None, *, strict: bool = False
    ) -> Json:
        """Create an object; the namespace defaults to the one in its metadata.

        Args:
            strict: refuse fields that the kind does not have (Invalid), instead of dropping them.
        """
        meta = body.get("metadata", {})
        namespace = namespace or meta.get("namespace")
        query = {"fieldValidation": "Strict"} if strict else None
        call = plan("create", At(res, namespace), query=query, body=body)
        name = meta.get("name") or meta.get("generateName", "")
        about = f"{namespace}/{name}" if namespace else name
        return await self._object(replace(call, about=f"{res.plural} {about}"))

    async def update(self, res: Resource, body: Json, subresource: str = "") -> Json:
        """Replace an object. Raises Conflict unless its metadata.resourceVersion is the newest."""
        meta = body["metadata"]
        at = At(res, meta.get("namespace"), meta["name"], subresource)
        return await self._object(plan("update", at, body=body))

    async def patch(
        self,
        res: Resource,
        name: str,
        body: Body,
        namespace: str | None = None,
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
        field_manager: str = "fedq",
        force: bool = False,
    ) -> Json:
        """Change parts of an object.

        A merge patch with metadata.resourceVersion in it raises Conflict when that is not the
        newest. `force` takes fields from other managers and belongs to kind "apply" only.
        """
        query = {"fieldManager": field_manager, "force": "true" if force else ""}
        at = At(res, namespace, name, subresource)
        call = plan("patch", at, query=query, body=body, content_type=PATCH_TYPES[kind])
        return await self._object(call)

    async def delete(
        self,
        res: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "Background",
    ) -> Json:
        """Delete an object. Raises Conflict when it is not the one `uid`/`resource_version` name.

        Returns the object as it stands while finalizers hold it, else a Status.
        """
        options: Json = {"propagationPolicy": propagation}
        wanted = {"uid": uid, "resourceVersion": resource_version}
        if preconditions := {key: value for key, value in wanted.items() if value}:
            options["preconditions"] = preconditions
        return await self._object(plan("delete", At(res, namespace, name), body=options))

    # The one way to the wire

    async def _object(self, call: Call) -> Json:
        data = await self._send(call)
        try:
            parsed: Json = from_json(data)
        except ValueError as error:  # a proxy in between, or a body cut short
            raise self._unreachable(call, error) from error
        return parsed

    async def _send(self, call: Call) -> bytes:
        response = await self._open(call, self.request_timeout)
        try:
            return await response.aread()
        except LOST as error:
            raise self._unreachable(call, error) from error
        finally:
            await response.aclose()

    async def _open(self, call: Call, read_timeout: float | None) -> httpx.Response:
        """Send and return a successful response, body unread; the caller closes it."""
        try:
            return await self._attempt(call, read_timeout)
        except Unauthorized:
            if self._endpoint.refresh is None:
                raise
            await self._refresh_token()
            return await self._attempt(call, read_timeout)

    async def _attempt(self, call: Call, read_timeout: float | None) -> httpx.Response:
        if call.method != "GET" and (why := self.halted()):
            raise Halted(f"{call.description} on cluster {self.cluster}: not sent: {why}")
        self.requests[call.counted] += 1
        headers, content = self._headers, call.content()
        if content is not None:
            headers = {**headers, "Content-Type": call.content_type}
        url, extensions = self._base + call.path, self._timeouts(read_timeout)
        request = httpx.Request(
            call.method, url, headers=headers, content=content, extensions=extensions
        )
        try:
            streams = read_timeout is None
            transport = self._streams if streams else self._transport
            response = await transport.handle_async_request(request)
            if response.status_code < 400:
                return response
            try:
                answer = await response.aread()
                retry_after = response.headers.get("retry-after", "")
                raise from_answer(
                    response.status_code, answer, retry_after, call.description, self.cluster
                )
            finally:
                await response.aclose()
        except LOST as error:
            raise self._unreachable(call, error) from error

    def _timeouts(self, read: float | None) -> dict[str, Any]:
        known = self._extensions.get(read)
        if known is None:
            limits = {"connect": CONNECT_TIMEOUT, "read": read, "write": read, "pool": read}
            known = self._extensions[read] = {"timeout": limits}
            if self._endpoint.tls_server_name:
                known["sni_hostname"] = self._endpoint.tls_server_name
        return known

    def _unreachable(self, call: Call, error: Exception) -> Unreachable:
        said = str(error) or type(error).__name__
        unreachable = Unreachable(
            f"{call.description} on cluster {self.cluster}: no answer from {self._base}: {said}",
            reason=type(error).__name__,
            cluster=self.cluster,
        )
        # httpx_aiohttp also calls connections that broke later ConnectTimeout: its cause counts.
        unreachable.sent = not isinstance(error.__cause__ or error, NOT_CONNECTED)
        return unreachable

    def _set_token(self, token: str) -> None:
        if token:
            self._headers = {**self._headers, "Authorization": f"Bearer {token}"}

    async def _refresh_token(self) -> None:
        refresh = self._endpoint.refresh
        if refresh is None:
            return
        try:
            self._set_token(await asyncio.to_thread(refresh))
        except Exception as error:  # whatever a plugin raises, there are no credentials
            raise ConfigError(
                f"The token for cluster {self.cluster} cannot be renewed: {error}.",
                reason=ActiveReason.BAD_KUBE_CONFIG.value,
                cluster=self.cluster,
            ) from error
