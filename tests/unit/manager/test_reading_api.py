"""Logs and events through the manager: who may read, and that nothing else can be reached."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from pydantic_core import from_json

from federation.edge.errors import (
    ApiError,
    Forbidden,
    NotFound,
    TooManyRequests,
    Unauthorized,
)
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import PODS, TOKEN_REVIEWS, Resource
from manager import reading_api
from manager.reading_api import Leader, Reading
from tests.fakes.kube_api import FakeKube
from tests.unit.edge.test_run_reader import (
    JOB_SET,
    client,
    give_copy,
    give_event,
    give_job,
    give_job_set,
    give_pod,
)

Json = dict[str, Any]
PAGE = "/v1/namespaces/team/jobs/train"


class Place:
    """A management cluster, worker cluster east with a run, and the manager's pages."""

    def __init__(self) -> None:
        self.home, self.east = FakeKube(namespaces=("team",)), FakeKube(namespaces=("team",))
        uid = give_job(self.home, {"cluster": "east", "attempt": 2})
        self.copy = give_copy(self.east, uid=uid)
        give_pod(self.east, "train-a", self.copy, text=b"hello\n")
        self.home.review = self.review
        self.asked: list[Json] = []
        self.may: set[str] = {"pods/log", "events"}
        self.leads, self.user = True, "ann"
        self.kubeconfigs: dict[str, bytes] = {"east": b"k"}
        self.opened: list[KubeClient] = []
        self.reading = Reading(self.leader, self.connect)

    def review(self, resource: Resource, spec: Json) -> Json:
        if resource == TOKEN_REVIEWS:
            known = spec["token"] == "good"
            user = {
                "username": self.user,
                "uid": "u1",
                "groups": ["team"],
                "extra": {"scopes": ["x"]},
            }
            return {"authenticated": True, "user": user} if known else {}
        self.asked.append(spec)
        told = spec["resourceAttributes"]
        what = "/".join(filter(None, (told["resource"], told.get("subresource"))))
        return {"allowed": what in self.may and told["namespace"] == "team"}

    def leader(self) -> Leader | None:
        home = client(self.home)
        return Leader(home, self.kubeconfigs.get) if self.leads else None

    def connect(self, kubeconfig: bytes, cluster: str) -> KubeClient:
        assert (kubeconfig, cluster) == (b"k", "east")
        self.opened.append(client(self.east))
        return self.opened[-1]

    async def get(self, path: str, token: str = "good") -> bytes:
        transport = httpx.ASGITransport(self.reading.app())
        endpoint = Endpoint("https://manager", token=token, name="manager")
        async with KubeClient(endpoint, transport=transport) as kube:
            return await kube.raw("GET", path)


@pytest.fixture
def place() -> Place:
    return Place()


async def test_who_may_reads(place: Place) -> None:
    """Pods, log and events; the management API was asked about this person and this namespace."""
    give_event(place.east, place.copy, "Job", "SuccessfulCreate", "Created pod: train-a")
    pods = from_json(await place.get(f"{PAGE}/pods"))
    assert pods["run"] == {"cluster": "east", "attempt": 2, "ended": False}
    assert [pod["metadata"]["name"] for pod in pods["items"]] == ["train-a"]
    assert await place.get(f"{PAGE}/log?pod=train-a") == b"hello\n"
    events = from_json(await place.get(f"{PAGE}/events"))
    assert [event["reason"] for event in events["items"]] == ["SuccessfulCreate"]
    assert place.asked[0] == {
        "resourceAttributes": {
            "namespace": "team", "verb": "get", "resource": "pods", "subresource": "log",
        },
        "user": "ann", "uid": "u1", "groups": ["team"], "extra": {"scopes": ["x"]},
    }  # fmt: skip
    assert place.reading._open == 0


@pytest.mark.parametrize("token", ["", "stolen", "x" * 20_000, "good x"])
async def test_nobody_reads_without_a_token(place: Place, token: str) -> None:
    """Neither the Job nor a worker cluster is looked at."""
    for page in ("pods", "events", "log?pod=train-a"):
        with pytest.raises(Unauthorized):
            await place.get(f"{PAGE}/{page}", token)
    assert place.opened == []
    assert not any("/jobs/" in path for _, path in place.home.log)


@pytest.mark.parametrize(("right", "page"), [("events", "log?pod=train-a"), ("pods/log", "events")])
async def test_nobody_reads_what_they_may_not(place: Place, right: str, page: str) -> None:
    """The right to one is not that to the other; also whether the job exists is not told."""
    place.may = {right}
    with pytest.raises(Forbidden, match="user ann may not get"):
        await place.get(f"{PAGE}/{page}")
    with pytest.raises(Forbidden):
        await place.get(f"/v1/namespaces/other/jobs/nothing/{page}")
    assert place.opened == []


async def test_pods_of_others_are_not_read(place: Place) -> None:
    """Of a namesake's, or of any name that somebody types."""
    other = give_copy(place.east, "other", "uid-9")
    give_pod(place.east, "other-a", other, text=b"secret")
    for name in ("other-a", "..%2F..%2Fsecrets", "", "train-a%2Fexec"):
        with pytest.raises(NotFound):
            await place.get(f"{PAGE}/log?pod={name}")
    assert not any("other-a/log" in path for _, path in place.east.log)
    assert all(method == "GET" for method, _ in place.east.log)


async def test_other_kinds(place: Place) -> None:
    """Those that the manager federates, by their full names; pods by the mirror's marks."""
    give_job_set(place.home, place.east)
    page = "/v1/namespaces/team/kinds/{}/set/log?pod=set-0"
    assert await place.get(page.format(JOB_SET.name)) == b"hi\n"
    for unknown in ("Secret.v1", "JobSet"):
        with pytest.raises(NotFound, match="knows no kind"):
            await place.get(page.format(unknown))
    place.may = {"events"}
    with pytest.raises(Forbidden, match="user ann may not get"):
        await place.get(page.format("Secret.v1"))


async def test_while_another_one_leads(place: Place) -> None:
    """It says so; nothing is asked of anybody."""
    place.leads = False
    with pytest.raises(ApiError, match="does not lead"):
        await place.get(f"{PAGE}/pods")
    assert place.home.log == []


async def test_a_cluster_that_is_away(place: Place) -> None:
    """503, and 502 where the worker refuses the manager: not the person's fault."""
    place.east.silent = True
    with pytest.raises(ApiError) as caught:
        await place.get(f"{PAGE}/pods")
    assert caught.value.status == 503
    place.east.silent = False
    place.east.fail(lambda request: "/pods" in request.url.path, status=403)
    with pytest.raises(ApiError) as caught:
        await place.get(f"{PAGE}/pods")
    assert caught.value.status == 502
    place.kubeconfigs.clear()
    with pytest.raises(ApiError, match="no connection to cluster east"):
        await place.get(f"{PAGE}/pods")


async def test_too_many_at_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those over the number are told to come again, before anything is asked."""
    monkeypatch.setattr(reading_api, "MOST_AT_ONCE", 0)
    with pytest.raises(TooManyRequests):
        await place.get(f"{PAGE}/pods")
    assert place.home.log == []


async def test_nobody_takes_all(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person with logs that never end leaves the others theirs; who has gone is not counted."""
    monkeypatch.setattr(reading_api, "MOST_OF_ONE", 1)
    inside, go_on = asyncio.Event(), asyncio.Event()
    connect = place.connect

    class Waits(AsyncExitStack):
        async def __aenter__(self) -> KubeClient:  # type: ignore[override]
            inside.set()
            await go_on.wait()
            return connect(b"k", "east")

    place.reading._connect = lambda kubeconfig, cluster: Waits()  # type: ignore[assignment, return-value]
    first = asyncio.create_task(place.get(f"{PAGE}/pods"))
    await inside.wait()
    with pytest.raises(TooManyRequests, match="of user ann"):
        await place.get(f"{PAGE}/pods")
    place.user = "bob"
    second = asyncio.create_task(place.get(f"{PAGE}/pods"))
    go_on.set()
    assert await first == await second
    place.user = "ann"
    assert await place.get(f"{PAGE}/log?pod=train-a") == b"hello\n"
    assert await place.get(f"{PAGE}/log?pod=train-a") == b"hello\n"
    assert not place.reading._of


async def test_the_right_to_logs_is_none_to_specs(place: Place) -> None:
    """What a container gets as environment, and what the cluster added, is not told."""
    owner = place.east.get(PODS, "train-a", "team")["metadata"]["ownerReferences"][0]
    notes = {"kubectl.kubernetes.io/default-container": "main", "vault": "hidden"}
    env = [{"name": "PASSWORD", "value": "hidden"}]
    place.east.merge(PODS, "train-a", {
        "metadata": {"annotations": notes},
        "spec": {"containers": [{"name": "main", "image": "i", "env": env}]},
    }, "team")  # fmt: skip
    text = await place.get(f"{PAGE}/pods")
    assert b"hidden" not in text
    assert owner["uid"].encode() not in text
    (pod,) = from_json(text)["items"]
    assert pod["spec"]["containers"] == [{"name": "main"}]
    assert pod["status"]["phase"] == "Running"
    assert list(pod["metadata"]["annotations"]) == ["kubectl.kubernetes.io/default-container"]


def test_the_reader_cannot_write() -> None:
    """The pages have GET only."""
    for route in Reading(lambda: None).app().routes:
        assert set(route.methods) == {"GET", "HEAD"}  # type: ignore[attr-defined]
