"""The client: requests it makes, answers it understands, errors it raises."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pickle
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import httpx
import pytest

from federation.edge import errors
from federation.edge.calls import At, lines, plan
from federation.edge.errors import (
    ApiError,
    ConfigError,
    Forbidden,
    Gone,
    Invalid,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    WebhookFailed,
)
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import CONFIGMAPS, JOBS, NODES, WORKLOADS, Json
from tests.fakes.kube_api import FakeKube

ENDPOINT = Endpoint("https://fake:6443", token="secret", name="a")


def client(answer: Callable[[httpx.Request], httpx.Response]) -> KubeClient:
    return KubeClient(ENDPOINT, transport=httpx.MockTransport(answer))


def fake_and_client() -> tuple[FakeKube, KubeClient]:
    fake = FakeKube()
    return fake, KubeClient(ENDPOINT, transport=fake)


async def test_a_request_is_compact_and_authorized() -> None:
    """Path, headers and body of a patch."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={})

    await client(answer).patch(
        WORKLOADS, "w", {"status": {"ä": 1}}, "ns", subresource="status", field_manager="me"
    )

    (request,) = seen
    assert request.method == "PATCH"
    path = b"/apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads/w/status?fieldManager=me"
    assert request.url.raw_path == path
    assert request.headers["authorization"] == "Bearer secret"
    assert request.headers["content-type"] == "application/merge-patch+json"
    assert request.headers["host"] == "fake:6443"
    assert request.content == '{"status":{"ä":1}}'.encode()
    assert request.extensions["timeout"]["read"] == 15.0


async def test_requests_are_counted() -> None:
    """By verb, resource and subresource, failures too."""
    fake, kube = fake_and_client()
    fake.fail()
    with pytest.raises(ServerError):
        await kube.list(JOBS)
    await kube.list(JOBS)
    await kube.create(CONFIGMAPS, {"metadata": {"name": "a"}}, "default")

    assert kube.requests == {("list", "jobs", ""): 2, ("create", "configmaps", ""): 1}


@pytest.mark.parametrize("name", ["", ".", ".."])
async def test_names_that_would_hit_something_else_are_not_sent(name: str) -> None:
    """A delete without a name would be a delete of all."""
    fake, kube = fake_and_client()

    with pytest.raises(Invalid):
        await kube.delete(JOBS, name, "default")
    assert fake.log == []


def test_names_are_quoted() -> None:
    """A slash stays within its path segment."""
    assert plan("get", At(JOBS, "a/b", "c?d")).path.endswith("/namespaces/a%2Fb/jobs/c%3Fd")


HOOK, INTERNAL = 'webhook "vjob.kb.io"', "Internal error occurred: "


@pytest.mark.parametrize(
    ("code", "reason", "kind", "retryable"),
    [
        (400, "BadRequest", Invalid, False),
        (401, "Unauthorized", Unauthorized, False),
        (403, "Forbidden", Forbidden, False),
        (404, "NotFound", errors.NotFound, False),
        (409, "AlreadyExists", errors.AlreadyExists, False),
        (409, "Conflict", errors.Conflict, False),
        (410, "Expired", Gone, False),
        (422, "Invalid", Invalid, False),
        (429, "TooManyRequests", TooManyRequests, True),
        (500, "InternalError", ServerError, True),
        (503, "", ServerError, True),
    ],
)
async def test_answers_become_errors(
    code: int, reason: str, kind: type[ApiError], retryable: bool
) -> None:
    """Each names the request, the server's words and the cluster, and survives pickling."""
    status = {"kind": "Status", "message": "because", "reason": reason}
    kube = client(lambda request: httpx.Response(code, json=status))

    with pytest.raises(kind) as caught:
        await kube.get(JOBS, "j", "ns")

    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert type(error) is kind
        assert str(error) == f"get jobs ns/j on cluster a: because ({code})"
        assert (error.status, error.reason, error.cluster) == (code, reason, "a")
        assert error.retryable is retryable


@pytest.mark.parametrize(
    ("code", "reason", "message", "kind"),
    [
        (
            500,
            "InternalError",
            f"{INTERNAL}failed calling {HOOK}: EOF",
            WebhookFailed,
        ),
        (500, "", f"admission {HOOK} denied the request: out of memory", WebhookFailed),
        (503, "", f"admission {HOOK} denied the request: no leader", WebhookFailed),
        (403, "Forbidden", f"admission {HOOK} denied the request: no", Forbidden),
        (400, "", f"admission {HOOK} denied the request: no", Invalid),
        (500, "InternalError", f"{INTERNAL}etcd said {HOOK}", ServerError),
        (500, "InternalError", f"{INTERNAL}conversion webhook: EOF", ServerError),
    ],
)
async def test_what_a_webhook_has_stopped(
    code: int, reason: str, message: str, kind: type[ApiError]
) -> None:
    """Nothing was carried out, which no other 5xx says."""
    status = {"kind": "Status", "message": message, "reason": reason}
    kube = client(lambda request: httpx.Response(code, json=status))

    with pytest.raises(kind) as caught:
        await kube.get(JOBS, "j", "ns")

    assert type(caught.value) is kind


async def test_retry_after_is_kept() -> None:
    """From the header or from the body."""
    header = client(lambda request: httpx.Response(429, headers={"Retry-After": "7"}))
    with pytest.raises(TooManyRequests) as caught:
        await header.get(NODES, "n")
    assert caught.value.retry_after == 7.0

    status: Json = {"kind": "Status", "details": {"retryAfterSeconds": 3}}
    body = client(lambda request: httpx.Response(429, json=status))
    with pytest.raises(TooManyRequests) as caught:
        await body.get(NODES, "n")
    assert caught.value.retry_after == 3.0


async def test_a_long_refusal_is_cut() -> None:
    """A refused Job is quoted by the server with its whole template."""
    said = "start " + "x" * 10_000 + " field is immutable"
    kube = client(lambda request: httpx.Response(422, json={"kind": "Status", "message": said}))

    with pytest.raises(Invalid, match=r"start x.*…x.* field is immutable \(422\)") as caught:
        await kube.get(NODES, "n")
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "failure", [httpx.ConnectError("refused"), httpx.ReadTimeout("slow"), OSError("broken")]
)
async def test_no_answer_is_unreachable(failure: Exception) -> None:
    """Whatever the layers below raise; the original stays attached."""

    def answer(request: httpx.Request) -> httpx.Response:
        raise failure

    with pytest.raises(Unreachable, match=r"get nodes n on cluster a: no answer") as caught:
        await client(answer).get(NODES, "n")
    assert caught.value.retryable
    assert caught.value.__cause__ is failure


async def test_a_page_instead_of_json_is_unreachable() -> None:
    """Something else answered."""
    with pytest.raises(Unreachable):
        await client(lambda request: httpx.Response(200, text="<html>")).get(NODES, "n")


async def test_cancellation_passes() -> None:
    """It is never turned into an error."""
    fake, kube = fake_and_client()
    fake.fail(how="hang")
    task = asyncio.create_task(kube.list(JOBS))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_expired_page_token_starts_the_list_again() -> None:
    """Once; the second time it is Gone."""
    fake, kube = fake_and_client()
    for name in "abc":
        fake.create(CONFIGMAPS, {"metadata": {"name": name, "namespace": "default"}})

    def expire(request: httpx.Request) -> bool:
        return "continue" in request.url.params

    fake.fail(expire, status=410)
    page = await kube.list(CONFIGMAPS, limit=2)
    assert [item["metadata"]["name"] for item in page.items] == ["a", "b", "c"]

    fake.fail(expire, status=410, times=2)
    with pytest.raises(Gone):
        await kube.list(CONFIGMAPS, limit=2)


async def test_a_401_renews_the_token_once() -> None:
    """With a loader that can; else the error goes up."""
    renewed = replace(ENDPOINT, refresh=lambda: "new")

    def answer(request: httpx.Request) -> httpx.Response:
        good = request.headers["authorization"] == "Bearer new"
        return httpx.Response(200 if good else 401, json={"kind": "Status"})

    kube = KubeClient(renewed, transport=httpx.MockTransport(answer))
    await kube.get(NODES, "n")
    assert kube.requests["get", "nodes", ""] == 2
    with pytest.raises(Unauthorized):
        await client(answer).get(NODES, "n")


async def test_a_token_that_cannot_be_renewed_is_a_config_error() -> None:
    """The plugin's own exception stays inside."""

    def refresh() -> str:
        raise KeyError("plugin")

    kube = KubeClient(
        replace(ENDPOINT, refresh=refresh),
        transport=httpx.MockTransport(lambda request: httpx.Response(401)),
    )
    with pytest.raises(ConfigError, match="cannot be renewed"):
        await kube.get(NODES, "n")


async def test_an_error_event_is_raised() -> None:
    """A watch that is too old is answered 200, and the bad news comes as an event."""
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    event = json.dumps({"type": "ERROR", "object": status}).encode()
    kube = client(lambda request: httpx.Response(200, content=event))

    with pytest.raises(Gone, match="watch jobs on cluster a: too old"):
        _ = [event async for event in kube.watch(JOBS, resource_version="1")]


async def test_a_watch_cut_within_an_event_is_unreachable() -> None:
    """Half an event is no event."""
    kube = client(lambda request: httpx.Response(200, content=b'{"type":"ADDED","obj'))

    with pytest.raises(Unreachable):
        _ = [event async for event in kube.watch(JOBS)]


async def _chunks(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def test_lines_of_any_size_come_whole() -> None:
    """Across chunks, several in one chunk, empty ones left out, the last without an end."""
    big = b"x" * 100_000
    chunks = [b"a\nb", b"c\n\n", *(big[n : n + 1000] for n in range(0, len(big), 1000)), b"\nz"]

    assert [line async for line in lines(_chunks(*chunks))] == [b"a", b"bc", big, b"z"]


async def test_readiness_is_plain_bytes() -> None:
    """And counted by path, without the query."""
    _, kube = fake_and_client()

    assert await kube.raw("GET", "/readyz?verbose") == b"ok"
    assert kube.requests["raw", "/readyz", ""] == 1


async def test_server_side_apply_is_refused_by_the_fake() -> None:
    """It does not pretend."""
    fake, kube = fake_and_client()
    fake.create(NODES, {"metadata": {"name": "n"}})
    with pytest.raises(Invalid, match="does not know"):
        await kube.patch(NODES, "n", {}, kind="apply", force=True)


async def test_a_watch_never_shares_a_connection() -> None:
    """One that was opened before may be as silent as the watch was that hung."""
    opened = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, KubeClient(Endpoint(f"http://127.0.0.1:{port}", name="a")) as kube:
        for _ in range(3):
            await kube.raw("GET", "/readyz")
        assert opened == 1
        for number in (2, 3):
            with pytest.raises(KeyError):  # it is no event
                await anext(kube.watch(NODES))
            assert opened == number
