"""Logs and events of jobs, read through to their worker clusters for people who have credentials of
the management cluster only.

A request carries the person's own token. The management API says whose it is (TokenReview), and
whether they may read the logs of pods, or the events, of the Job's namespace there
(SubjectAccessReview); then the manager reads on the worker with the kubeconfig that it has anyway,
and nothing but what belongs to that Job. Answers that are errors are Kubernetes' Status objects.

    GET /v1/namespaces/NS/jobs/NAME/pods
    GET /v1/namespaces/NS/jobs/NAME/events
    GET /v1/namespaces/NS/jobs/NAME/log?pod=POD&container=…&follow=true&previous=true&tailLines=…

Of other kinds than batch/v1 Job, whose names are Kind.version.group:

    GET /v1/namespaces/NS/kinds/KIND/NAME/pods (…)
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from federation.edge.errors import (
    ApiError,
    Forbidden,
    Invalid,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import parse_untrusted
from federation.edge.resources import ACCESS_REVIEWS, TOKEN_REVIEWS
from federation.edge.run_reader import (
    DEFAULT_CONTAINER,
    JOB,
    LogOptions,
    RunMissing,
    RunReader,
    find_run,
)
from federation.jobs.kinds.kind import JobKind, Kinds
from federation.jobs.kinds.registry import KINDS

log = structlog.get_logger(__name__)

Json = dict[str, Any]

MOST_AT_ONCE = 64
"""Requests that are served at a time, logs that are followed included."""
MOST_OF_ONE = 16
"""Those of one person: nobody takes all, be it with logs that are followed and never end."""
LONGEST_TOKEN = 16_384


@dataclass(frozen=True, slots=True)
class Person:
    """Who a token belongs to, as the management API says it."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Leader:
    """What a manager that leads reads with: its client, and the kubeconfig of a cluster by name
    (None if there is none); `kinds` are those that it federates.
    """

    client: KubeClient
    kubeconfig: Callable[[str], bytes | None]
    kinds: Kinds = KINDS


class Reading:
    """The pages. `leader` has nothing to give while this replica does not lead."""

    def __init__(
        self,
        leader: Callable[[], Leader | None],
        connect: Callable[[bytes, str], KubeClient] | None = None,
    ) -> None:
        self._leader = leader
        self._connect = connect or _client
        self._open = 0
        self._of: Counter[str] = Counter()

    def app(self) -> Starlette:
        """The application to serve."""
        bases = ("jobs/{name}", "kinds/{kind}/{name}")
        pages = {"pods": self._pods, "events": self._events, "log": self._log}
        return Starlette(
            routes=[
                Route(f"/v1/namespaces/{{namespace}}/{base}/{page}", self._page(do))
                for base in bases
                for page, do in pages.items()
            ]
        )

    def _page(
        self, do: Callable[[Request, AsyncExitStack], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                async with AsyncExitStack() as stack:
                    stack.enter_context(self._counted())
                    response = await do(request, stack)
                    if isinstance(response, _Log):
                        response.keeps = stack.pop_all()
                    return response
            except RunMissing as missing:
                return _status(404, "NotFound", str(missing))
            except ApiError as error:
                return _refusal(error)

        return answer

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """One request more while it lasts."""
        if self._open >= MOST_AT_ONCE:
            raise _too_many(f"{MOST_AT_ONCE} requests are being served")
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    @contextmanager
    def _counted_of(self, user: str) -> Iterator[None]:
        """One request more of this person while it lasts."""
        if self._of[user] >= MOST_OF_ONE:
            raise _too_many(f"{MOST_OF_ONE} requests of user {user} are being served")
        self._of[user] += 1
        try:
            yield
        finally:
            self._of[user] -= 1
            if not self._of[user]:
                del self._of[user]

    async def _pods(self, request: Request, stack: AsyncExitStack) -> Response:
        reader = await self._reader(request, stack, ("pods", "log"))
        with _of_worker():
            return _json(reader, [_shown(pod) for pod in await reader.pods()])

    async def _events(self, request: Request, stack: AsyncExitStack) -> Response:
        reader = await self._reader(request, stack, ("events", ""))
        with _of_worker():
            return _json(reader, await reader.events())

    async def _log(self, request: Request, stack: AsyncExitStack) -> Response:
        query = dict(request.query_params)
        options, pod = LogOptions.read(query), query.get("pod", "")
        reader = await self._reader(request, stack, ("pods", "log"))
        chunks = await stack.enter_async_context(aclosing(reader.log(pod, options)))
        try:  # an error is told before the first byte
            with _of_worker():
                first = await anext(chunks)
        except StopAsyncIteration:
            return Response(b"", media_type="text/plain")
        return _Log(first, chunks)

    async def _reader(
        self, request: Request, stack: AsyncExitStack, what: tuple[str, str]
    ) -> RunReader:
        """For somebody who may read that there. Nothing is looked at before that is known."""
        leader = self._leader()
        if leader is None:
            raise Unreachable("this manager does not lead at the moment", reason="NotLeading")
        person = await _person(leader.client, request.headers.get("authorization", ""))
        stack.enter_context(self._counted_of(person.user))
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        await _may_read(leader.client, person, namespace, what)
        kind = _kind(leader, request.path_params.get("kind", JOB.name))
        run = await find_run(leader.client, namespace, name, kind)
        kubeconfig = leader.kubeconfig(run.cluster)
        if kubeconfig is None:
            raise Unreachable(f"there is no connection to cluster {run.cluster}")
        client = await stack.enter_async_context(self._connect(kubeconfig, run.cluster))
        client.halted = lambda: "logs and events are only read"
        log.info(
            "run.read",
            user=person.user,
            job=f"{namespace}/{name}",
            kind=kind.name,
            what="/".join(what),
        )
        return RunReader(client, run)


def _kind(leader: Leader, name: str) -> JobKind:
    """Raises NotFound for one that this manager does not federate."""
    try:
        return leader.kinds[name]
    except KeyError:
        raise NotFound(
            f"this manager knows no kind {name[:253]!r}", status=404, reason="NotFound"
        ) from None


class _Log(StreamingResponse):
    """A log as it comes; what it reads with is closed when it ends or its reader has gone."""

    def __init__(self, first: bytes, chunks: AsyncGenerator[bytes, None]) -> None:
        self.keeps: AsyncExitStack | None = None
        super().__init__(self._body(first, chunks), media_type="text/plain")

    @staticmethod
    async def _body(first: bytes, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        yield first
        try:
            async for chunk in chunks:
                yield chunk
        except ApiError as error:
            yield f"\n[fedq: the log ends here: {error}]\n".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            if self.keeps is not None:
                await asyncio.shield(self.keeps.aclose())


async def _person(client: KubeClient, header: str) -> Person:
    """Raises Unauthorized for a token that the management API does not know."""
    kind, _, token = header.partition(" ")
    token = token.strip()
    if kind.lower() != "bearer" or not token or len(token) > LONGEST_TOKEN:
        raise Unauthorized(
            "send a token of the management cluster: Authorization: Bearer …", status=401
        )
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {},
            "spec": {"token": token}}  # fmt: skip
    status = (await client.create(TOKEN_REVIEWS, body)).get("status") or {}
    user = status.get("user") or {}
    if status.get("authenticated") is not True or not user.get("username"):
        raise Unauthorized("the management cluster does not accept this token", status=401)
    return Person(
        user["username"], user.get("uid") or "", tuple(user.get("groups") or ()),
        user.get("extra") or {},
    )  # fmt: skip


async def _may_read(
    client: KubeClient, person: Person, namespace: str, what: tuple[str, str]
) -> None:
    """Raises Forbidden unless they may `get` it in that namespace of the management cluster."""
    resource, subresource = what
    attributes = {"namespace": namespace, "verb": "get", "resource": resource}
    if subresource:
        attributes["subresource"] = subresource
    spec = {
        "resourceAttributes": attributes, "user": person.user, "uid": person.uid,
        "groups": list(person.groups), "extra": person.extra,
    }  # fmt: skip
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "metadata": {}, "spec": spec}  # fmt: skip
    status = (await client.create(ACCESS_REVIEWS, body)).get("status") or {}
    if status.get("allowed") is not True:
        wanted = "/".join(filter(None, what))
        raise Forbidden(
            f"user {person.user} may not get {wanted} in namespace {namespace} of the management"
            " cluster",
            status=403,
        )


@contextmanager
def _of_worker() -> Iterator[None]:
    """That the worker cluster does not let the manager read says nothing of the person."""
    try:
        yield
    except (Unauthorized, Forbidden) as error:
        text = f"the manager may not read that on the worker cluster: {error}"
        raise ApiError(text, reason="WorkerRefused") from error


def _client(kubeconfig: bytes, cluster: str) -> KubeClient:
    return KubeClient(parse_untrusted(kubeconfig, cluster), user_agent="fedq-manager-reading")


def _json(reader: RunReader, items: list[Json]) -> Response:
    run = reader.run
    told = {"cluster": run.cluster, "attempt": run.attempt, "ended": run.ended}
    return JSONResponse({"run": told, "items": items})


def _shown(pod: Json) -> Json:
    """What is needed to read its logs, and says why there are none. Who may `get pods/log` need not
    be somebody who may see the environment of its containers, on a cluster that adds its own to it.
    """
    meta, spec = pod["metadata"], pod.get("spec") or {}
    named = {key: meta[key] for key in ("name", "namespace", "uid", "creationTimestamp")
             if key in meta}  # fmt: skip
    if default := (meta.get("annotations") or {}).get(DEFAULT_CONTAINER):
        named["annotations"] = {DEFAULT_CONTAINER: default}
    kinds = ("initContainers", "containers")
    return {
        "metadata": named,
        "spec": {kind: [{"name": c["name"]} for c in spec.get(kind) or ()] for kind in kinds},
        "status": pod.get("status") or {},
    }


def _too_many(text: str) -> TooManyRequests:
    return TooManyRequests(f"{text}: try again in a while", status=429, reason="TooManyRequests")


def _refusal(error: ApiError) -> Response:
    known = {Unauthorized: 401, Forbidden: 403, NotFound: 404, Invalid: 400, TooManyRequests: 429}
    code = next((code for kind, code in known.items() if isinstance(error, kind)), 502)
    if isinstance(error, Unreachable):
        code = 503
    return _status(code, error.reason or type(error).__name__, str(error))


def _status(code: int, reason: str, message: str) -> Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
            "reason": reason, "message": message}  # fmt: skip
    return JSONResponse(body, status_code=code)
