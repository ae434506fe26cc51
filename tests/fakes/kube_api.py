"""An in-process Kubernetes API server, as an httpx transport: no sockets, no threads.

    fake = FakeKube()
    kube = KubeClient(Endpoint("https://fake", name="a"), transport=fake)

Left out: server-side apply (refused with 415), schema validation, RBAC, graceful pod deletion,
controllers other than the garbage collector. tests/contract runs one suite on this and on a real
server, so that the two cannot drift apart.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import httpx
from pydantic_core import from_json

from federation.edge import resources as r
from federation.edge.resources import Resource
from tests.fakes.objects import Objects
from tests.fakes.patches import Json, Refused, fields_match, json_patch, labels_match, merge
from tests.fakes.watching import WatchStream

BUILT_IN = (
    r.JOBS, r.PODS, r.NODES, r.SECRETS, r.CONFIGMAPS, r.NAMESPACES, r.LEASES, r.EVENTS,
    r.LIMIT_RANGES, r.RESOURCE_QUOTAS, r.PRIORITY_CLASSES, r.RUNTIME_CLASSES, r.CRDS,
    r.POD_TEMPLATES,
)  # fmt: skip
CUSTOM = (
    r.WORKLOADS, r.CLUSTER_QUEUES, r.LOCAL_QUEUES, r.RESOURCE_FLAVORS, r.COHORTS,
    r.ADMISSION_CHECKS, r.WORKLOAD_PRIORITY_CLASSES, r.TOPOLOGIES, r.MULTIKUEUE_CLUSTERS,
    r.MULTIKUEUE_CONFIGS, r.WORKER_REPORTS, r.PROVISIONING_CONFIGS, r.PROVISIONING_REQUESTS,
)  # fmt: skip
WITH_STATUS = {
    r.JOBS, r.PODS, r.NODES, r.NAMESPACES, r.CRDS, r.WORKLOADS, r.CLUSTER_QUEUES, r.LOCAL_QUEUES,
    r.COHORTS, r.ADMISSION_CHECKS, r.MULTIKUEUE_CLUSTERS, r.WORKER_REPORTS,
    r.PROVISIONING_REQUESTS,
}  # fmt: skip

_LOG = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/log")
_REVIEWS = {res.path(): res for res in (r.TOKEN_REVIEWS, r.ACCESS_REVIEWS)}

Match = Callable[[httpx.Request], bool]


@dataclass
class Fault:
    """What happens to the next `times` requests that match.

    `how`: "status" answers `status`; "drop" fails before the server saw it; "lost" carries it out
    and loses the answer; "hang" never answers (the client's read timeout ends it).
    """

    match: Match
    times: int
    how: str
    status: int
    retry_after: int | None


class FakeKube(httpx.AsyncBaseTransport):
    """One cluster. Tests act as another client with `create`, `get`, `merge`, `delete`."""

    def __init__(
        self,
        resources: Iterable[Resource] = (*BUILT_IN, *CUSTOM),
        *,
        clock: Callable[[], datetime] = lambda: datetime(2026, 1, 1, tzinfo=UTC),
        namespaces: Iterable[str] = ("default", "kube-system"),
    ) -> None:
        self.resources = list(resources)
        self.with_status = set(WITH_STATUS)
        self.objects = Objects(clock, self.with_status)
        self.log: list[tuple[str, str]] = []
        """(method, path with query) of every request that reached the server."""
        self.silent = False
        """Cut off: new requests are refused, open watches say nothing. See `cut`, `heal`."""
        self.admit: Callable[[Resource, Json | None, Json], None] = lambda res, old, new: None
        """Admission of what clients create or change (status apart): raises Refused."""
        self.logs: dict[tuple[str, str, str], list[bytes]] = {}
        """What containers have said, by namespace, pod and container: as kubelets serve it."""
        self.review: Callable[[Resource, Json], Json] | None = None
        """Answers TokenReviews and SubjectAccessReviews: the status by the spec."""
        self.discovery = False
        """Whether it tells what it serves: those who ask follow all kinds of jobs that it does."""
        self._faults: list[Fault] = []
        self._streams: dict[WatchStream, None] = {}
        self._pages: dict[str, list[Json]] = {}
        self._routes: dict[str, tuple[Resource, str, str, str]] = {}
        for name in namespaces:
            self.create(r.NAMESPACES, {"metadata": {"name": name}})

    # What tests do to it

    def create(self, res: Resource, body: Json) -> Json:
        """Create an object as another client would."""
        made = self.objects.create(res, body["metadata"].get("namespace", ""), body)
        if res == r.CRDS:
            self._serve(made["spec"])
        return made

    def get(self, res: Resource, name: str, namespace: str = "") -> Json:
        """The object as stored; do not change it."""
        return self.objects.get(res, (namespace, name))

    def items(self, res: Resource) -> list[Json]:
        """All objects of one type, by namespace and name."""
        return [obj for _, obj in sorted(self.objects.data.get(res, {}).items())]

    def merge(
        self, res: Resource, name: str, patch: Json, namespace: str = "", *, status: bool = False
    ) -> Json:
        """Merge-patch an object (or its status) as another client would."""
        key = (namespace, name)
        body = merge(self.objects.get(res, key), patch)
        return self.objects.update(res, key, body, status=status)

    def delete(self, res: Resource, name: str, namespace: str = "") -> None:
        """Delete an object as another client would."""
        self.objects.delete(res, (namespace, name), {})

    def fail(
        self,
        match: Match = lambda request: True,
        *,
        times: int = 1,
        how: str = "status",
        status: int = 503,
        retry_after: int | None = None,
    ) -> None:
        """Plan a fault, see `Fault`."""
        self._faults.append(Fault(match, times, how, status, retry_after))

    def compact(self) -> None:
        """Forget the history: older resource versions and page tokens are now too old."""
        self.objects.oldest = self.objects.version
        self._pages.clear()

    def bookmark(self) -> None:
        """Send a bookmark on every open watch."""
        for stream in self._streams:
            stream.bookmark()

    def drop_watches(self) -> None:
        """Break every open watch, as a restart of the server does."""
        for stream in list(self._streams):
            stream.drop()

    def cut(self) -> None:
        """Cut the cluster off."""
        self.silent = True

    def heal(self) -> None:
        """End the cut; watches that are still open deliver what they missed."""
        self.silent = False
        for stream in self._streams:
            stream.wake()

    @property
    def watches(self) -> int:
        """How many watches are open."""
        return len(self._streams)

    def _serve(self, crd: Json) -> None:
        """Serve a custom type from now on."""
        for version in crd["versions"]:
            plural, namespaced = crd["names"]["plural"], crd["scope"] == "Namespaced"
            res = Resource(crd["group"], version["name"], plural, namespaced)
            self.resources.append(res)
            self._routes.clear()
            if "status" in version.get("subresources", {}):
                self.with_status.add(res)

    # The transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0)  # a real transport always gives way
        return await self.serve(request)

    async def serve(self, request: httpx.Request) -> httpx.Response:
        """Answer a request that has come over a network which takes its time."""
        if self.silent:
            raise httpx.ConnectError("the fake cluster is cut off", request=request)
        fault = next((f for f in self._faults if f.times and f.match(request)), None)
        if fault:
            fault.times -= 1
            if fault.how != "lost":
                return await self._break(fault, request)
        self.log.append((request.method, request.url.raw_path.decode()))
        try:
            response = self._answer(request)
        except Refused as refused:
            response = refusal(refused.code, refused.reason, refused.message)
        if fault:
            raise httpx.ReadError("the answer was lost", request=request)
        return response

    async def _break(self, fault: Fault, request: httpx.Request) -> httpx.Response:
        if fault.how == "drop":
            raise httpx.ConnectError("connection refused", request=request)
        if fault.how == "hang":
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(request.extensions["timeout"]["read"]):
                    await asyncio.Event().wait()
            raise httpx.ReadTimeout("timed out", request=request)
        response = refusal(fault.status, "", "injected fault")
        if fault.retry_after is not None:
            response.headers["retry-after"] = str(fault.retry_after)
        return response

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode().partition("?")[0]
        if path in ("/readyz", "/livez", "/healthz"):
            return httpx.Response(200, content=b"ok")
        if path == "/metrics":
            return httpx.Response(200, content=b"")
        if path == "/version":
            return httpx.Response(200, json={"major": "1", "minor": "36"})
        if (found := _LOG.fullmatch(path)) and request.method == "GET":
            return self._log(unquote(found[1]), unquote(found[2]), dict(request.url.params))
        if request.method == "POST" and (review := _REVIEWS.get(path)) and self.review is not None:
            asked = from_json(request.content)
            return httpx.Response(201, json={**asked, "status": self.review(review, asked["spec"])})
        if self.discovery and (told := self._discovered(path)) is not None:
            return httpx.Response(200, json=told)
        res, namespace, name, sub = self._route(path)
        body = from_json(request.content) if request.content else {}
        query = dict(request.url.params)
        match request.method:
            case "GET" if name:
                return httpx.Response(200, json=self.objects.get(res, (namespace, name)))
            case "GET" if query.get("watch"):
                return self._watch(res, namespace, query, request.extensions.get("hold"))
            case "GET":
                return httpx.Response(200, json=self._list(res, namespace, query))
            case "POST" if not name:
                if namespace:
                    body.setdefault("metadata", {}).setdefault("namespace", namespace)
                self.admit(res, None, body)
                return httpx.Response(201, json=self.create(res, body))
            case "PUT" | "PATCH":
                return self._write(request, res, (namespace, name), sub, body)
            case "DELETE":
                return self._delete(res, (namespace, name), body)
        raise Refused(405, "MethodNotAllowed", "the server does not allow this method")

    def _discovered(self, path: str) -> Json | None:
        if path == "/apis":
            named = sorted({(res.group, res.version) for res in self.resources if res.group})
            return {"groups": [{"name": g, "versions": [{"version": v}]} for g, v in named]}
        found = [{"name": res.plural} for res in self.resources if res.prefix == path]
        return {"resources": found} if found else None

    def _log(self, namespace: str, name: str, query: dict[str, str]) -> httpx.Response:
        pod = self.objects.get(r.PODS, (namespace, name))
        names = [c["name"] for c in pod["spec"].get("containers") or ()]
        wanted = query.get("container") or (names[0] if len(names) == 1 else "")
        if not wanted:
            raise Refused(400, "BadRequest", f"a container name must be specified for pod {name}")
        if wanted not in names:
            raise Refused(400, "BadRequest", f"container {wanted} is not valid for pod {name}")
        kept = self.logs.get((namespace, name, wanted), [])
        if tail := query.get("tailLines"):
            kept = kept[-int(tail) :]
        return httpx.Response(200, content=b"".join(kept), headers={"content-type": "text/plain"})

    def _route(self, path: str) -> tuple[Resource, str, str, str]:
        if path not in self._routes:
            self._routes[path] = self._find_route(path)
        return self._routes[path]

    def _find_route(self, path: str) -> tuple[Resource, str, str, str]:
        for res in self.resources:
            if not path.startswith(res.prefix + "/"):
                continue
            parts = [unquote(part) for part in path.removeprefix(res.prefix + "/").split("/")]
            namespace = ""
            if res.namespaced and len(parts) > 2 and parts[0] == "namespaces":
                namespace, parts = parts[1], parts[2:]
            if parts[0] == res.plural and len(parts) <= 3:
                parts += ["", ""]
                if parts[2] and (parts[2] != "status" or res not in self.with_status):
                    continue
                return res, namespace, parts[1], parts[2]
        raise Refused(404, "", "404 page not found")

    def _write(
        self, request: httpx.Request, res: Resource, key: tuple[str, str], sub: str, body: Any
    ) -> httpx.Response:
        if (
            request.method == "PUT"
            and res not in BUILT_IN
            and not body["metadata"].get("resourceVersion")
        ):
            raise Refused(422, "Invalid", "metadata.resourceVersion: must be specified")
        if request.method == "PATCH":
            old = self.objects.get(res, key)
            kind = request.headers["content-type"]
            if kind == "application/merge-patch+json":
                body = merge(old, body)
            elif kind == "application/json-patch+json":
                body = json_patch(old, body)
            else:
                raise Refused(415, "UnsupportedMediaType", f"the fake does not know {kind}")
            if body["metadata"].get("uid") != old["metadata"]["uid"]:
                raise Refused(422, "Invalid", "metadata.uid: field is immutable")
        if not sub:
            self.admit(res, self.objects.data.get(res, {}).get(key), body)
        return httpx.Response(200, json=self.objects.update(res, key, body, status=bool(sub)))

    def _delete(self, res: Resource, key: tuple[str, str], options: Json) -> httpx.Response:
        self.objects.delete(res, key, options)
        left = self.objects.data[res].get(key)
        done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return httpx.Response(200, json=left or done)

    # Reading many

    def _select(self, query: dict[str, str], namespace: str) -> Callable[[Json], bool]:
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        labels_match(labels, {})  # refuses nonsense even when there is nothing to select
        fields_match(fields, {})

        def matches(obj: Json) -> bool:
            meta = obj["metadata"]
            return (
                (not namespace or meta.get("namespace") == namespace)
                and labels_match(labels, meta.get("labels") or {})
                and fields_match(fields, obj)
            )

        return matches

    def _list(self, res: Resource, namespace: str, query: dict[str, str]) -> Json:
        token = query.get("continue", "")
        if not token:
            items = [o for o in self.items(res) if self._select(query, namespace)(o)]
            version = str(self.objects.version)
        elif token in self._pages:
            items = self._pages.pop(token)
            version = base64.b64decode(token).decode().partition("/")[0]
        else:
            raise Refused(410, "Expired", "The provided continue parameter is too old")
        limit = int(query.get("limit") or 0) or len(items) or 1
        meta = {"resourceVersion": version}
        if rest := items[limit:]:
            meta["continue"] = base64.b64encode(f"{version}/{id(rest)}".encode()).decode()
            self._pages[meta["continue"]] = rest
        kind = items[0].get("kind", "") if items else ""
        shown = [
            {key: value for key, value in item.items() if key not in {"apiVersion", "kind"}}
            for item in items[:limit]
        ]
        return {
            "apiVersion": f"{res.group}/{res.version}".lstrip("/"),
            "kind": f"{kind}List",
            "metadata": meta,
            "items": shown,
        }

    def _watch(
        self,
        res: Resource,
        namespace: str,
        query: dict[str, str],
        hold: Callable[[], Awaitable[None]] | None,
    ) -> httpx.Response:
        matches = self._select(query, namespace)
        stream = WatchStream(self, res, matches, query, hold)
        self._streams[stream] = None
        return httpx.Response(200, stream=stream)

    def forget(self, stream: WatchStream) -> None:
        """A watch ended."""
        self._streams.pop(stream, None)


def refusal(code: int, reason: str, message: str) -> httpx.Response:
    """An error as the server answers it."""
    if message == "404 page not found":
        return httpx.Response(404, content=message.encode())
    status = {"kind": "Status", "status": "Failure", "code": code, "message": message}
    return httpx.Response(code, json={**status, "reason": reason} if reason else status)
