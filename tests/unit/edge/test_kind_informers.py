"""What a cluster says that it serves, whatever answers in its place."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import httpx
import pytest

from federation.edge import kind_informers
from federation.edge.errors import ApiError
from federation.edge.informer import Calls
from federation.edge.kind_informers import QUEUED, KindInformers, plurals, served_versions
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import resource_of
from federation.jobs.kinds.kind import JobKind
from federation.jobs.kinds.registry import KINDS
from tests.fakes.kube_api import FakeKube
from tests.unit.manager.support import until

Json = dict[str, Any]


def answering(body: bytes) -> KubeClient:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=body))
    return KubeClient(Endpoint("https://fake", name="w"), transport=transport)


@pytest.mark.parametrize("body", [b"<html>", b"", b'{"groups": ['])
async def test_an_answer_that_is_no_discovery_is_an_error_of_the_cluster(body: bytes) -> None:
    """It is asked again later, like one that does not answer."""
    with pytest.raises(ApiError, match="is no JSON"):
        await served_versions(answering(body))


@pytest.mark.parametrize("body", [b"[]", b"3", b'{"groups": [3, {"versions": 3}], "resources": 3}'])
async def test_what_makes_no_sense_serves_nothing(body: bytes) -> None:
    assert await served_versions(answering(body)) == set()
    assert await plurals(answering(body), "g", "v1") == set()


async def test_what_is_served() -> None:
    body = (
        b'{"groups": [{"name": "g", "versions": [{"version": "v1"}]}],'
        b' "resources": [{"name": "jobs"}]}'
    )
    assert await served_versions(answering(body)) == {("g", "v1")}
    assert await plurals(answering(body), "g", "v1") == {"jobs"}


# Informers

JOBSET, TORCH = (
    KINDS[name] for name in ("JobSet.v1alpha2.jobset.x-k8s.io", "PyTorchJob.v1.kubeflow.org")
)


class Cluster:
    """A fake cluster that serves some kinds, and what was told of their objects."""

    def __init__(self, *kinds: JobKind) -> None:
        self.fake = FakeKube()
        self.fake.discovery = True
        self.fake.resources += [resource_of(kind) for kind in kinds]
        self.client = KubeClient(Endpoint("https://fake", name="w"), transport=self.fake)
        self.told: list[str] = []

    @contextlib.asynccontextmanager
    async def following(
        self, kinds: Iterable[JobKind], copies: Iterable[JobKind] = ()
    ) -> AsyncIterator[KindInformers]:
        found = KindInformers(self.client, kinds, self._tells, select=QUEUED, copies=copies)
        task = asyncio.create_task(found.run())
        try:
            yield found
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def _tells(self, kind: JobKind) -> Calls:
        def tell(obj: Json) -> None:
            self.told.append(f"{kind.plural}/{obj['metadata']['name']}")

        def listed(items: Sequence[Json], version: str) -> None:
            for item in items:
                tell(item)

        return Calls(listed, tell, tell)

    def give(self, kind: JobKind, name: str, **labels: str) -> None:
        """An object that names a queue."""
        head = {"kueue.x-k8s.io/queue-name": "q", **labels}
        meta = {"name": name, "namespace": "default", "labels": head}
        self.fake.create(resource_of(kind), {"metadata": meta, "spec": {}})

    def asked(self) -> set[str]:
        """The resource types that were read."""
        return {path.split("?")[0].rpartition("/")[2] for _, path in self.fake.log if "?" in path}


async def test_only_kinds_that_are_switched_on_are_watched() -> None:
    """A CRD that is there makes no difference."""
    cluster = Cluster(JOBSET, TORCH)
    async with cluster.following([JOBSET]) as found:
        await asyncio.wait_for(found.settled.wait(), 5)
        assert found.served == {JOBSET.name}
    assert cluster.asked() == {"jobsets"}


async def test_of_kinds_that_are_off_only_copies_are_seen() -> None:
    """On a worker: what a manager sends is started whatever is switched off there."""
    cluster = Cluster(JOBSET, TORCH)
    origin = {"kueue.x-k8s.io/multikueue-origin": "m"}
    for kind in (JOBSET, TORCH):
        cluster.give(kind, "local")
        cluster.give(kind, "copy", **origin)
    async with cluster.following([JOBSET, TORCH], copies=[TORCH]) as found:
        await asyncio.wait_for(found.settled.wait(), 5)
    assert sorted(cluster.told) == ["jobsets/copy", "jobsets/local", "pytorchjobs/copy"]


async def test_which_kinds_have_been_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells of each that has been listed for the first time, and of those that went away."""
    monkeypatch.setattr(kind_informers, "DISCOVER_S", 0.1)
    cluster, told = Cluster(TORCH), list[frozenset[str]]()
    cluster.fake.fail(lambda request: "/jobsets" in request.url.path, status=500, times=3)
    async with cluster.following([JOBSET, TORCH]) as found:
        found.on_read = lambda: told.append(found.read)
        cluster.fake.resources.append(resource_of(JOBSET))
        await until(lambda: found.served == {JOBSET.name, TORCH.name}, "both are followed")
        await until(lambda: found.read == {TORCH.name}, "one is read")
        await until(lambda: found.read == {JOBSET.name, TORCH.name}, "so is the other")
        cluster.fake.resources.remove(resource_of(JOBSET))
        await until(lambda: found.read == {TORCH.name}, "it is not any more")
    assert told == [{TORCH.name}, {JOBSET.name, TORCH.name}, {TORCH.name}]


# Kinds that cannot be read


async def test_a_kind_that_cannot_be_read_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is waited for a while; what appears meanwhile is followed, and itself when it recovers."""
    for name in ("SETTLE_S", "DISCOVER_S", "LOOK_S"):
        monkeypatch.setattr(kind_informers, name, 0.2)
    cluster = Cluster(JOBSET)
    cluster.give(JOBSET, "a")
    cluster.fake.fail(lambda request: "/jobsets" in request.url.path, status=500, times=4)
    async with cluster.following([JOBSET, TORCH]) as found:
        cluster.fake.resources.append(resource_of(TORCH))
        cluster.give(TORCH, "b")
        await asyncio.wait_for(found.settled.wait(), 5)
        assert cluster.told != ["jobsets/a"]
        await until(lambda: "pytorchjobs/b" in cluster.told, "the other kind is followed")
        await until(lambda: "jobsets/a" in cluster.told, "this one, too")


async def test_a_kind_that_is_taken_away_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its informer ended without having read anything."""
    for name in ("DISCOVER_S", "LOOK_S"):
        monkeypatch.setattr(kind_informers, name, 0.1)
    cluster = Cluster(JOBSET)
    cluster.fake.fail(lambda request: "/jobsets" in request.url.path, status=500, times=999)
    async with cluster.following([JOBSET]) as found:
        await until(lambda: found.served, "it is followed")
        cluster.fake.resources.remove(resource_of(JOBSET))
        await asyncio.wait_for(found.settled.wait(), 5)


async def test_a_group_whose_discovery_fails_hides_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is followed of it stays so."""
    monkeypatch.setattr(kind_informers, "DISCOVER_S", 0.1)
    cluster = Cluster(JOBSET)
    async with cluster.following([JOBSET, TORCH]) as found:
        await until(lambda: found.served == {JOBSET.name}, "it is followed")
        path = f"/apis/{JOBSET.group}/{JOBSET.version}"
        cluster.fake.fail(lambda request: request.url.path == path, status=503, times=999)
        cluster.fake.resources.append(resource_of(TORCH))
        await until(lambda: found.served == {JOBSET.name, TORCH.name}, "the other one is, too")
