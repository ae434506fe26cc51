"""Replicas that share a Lease: on virtual time, each with a clock of its own."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from bench.dst.clock import Host, VirtualLoop
from federation.api.names import FEDQ_NAMESPACE
from federation.core.election import ElectionTimes
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import CONFIGMAPS, LEASES
from manager.election import LEASE_NAME, Election, LeadershipLost
from manager.instance import instance
from tests.fakes.kube_api import FakeKube

TIMES = ElectionTimes()


class Line(httpx.AsyncBaseTransport):
    """The way of one replica to the API server; it can be cut, or only lose what comes back."""

    def __init__(self, fake: FakeKube) -> None:
        self._fake = fake
        self.cut = self.loses_answers = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.cut:
            raise httpx.ConnectError("cut off", request=request)
        response = await self._fake.handle_async_request(request)
        if self.loses_answers and request.method != "GET":
            raise httpx.ReadError("the answer was lost", request=request)
        return response


class Replica:
    """`since` is true time at which it was elected; `lost` at which it knew that it was not."""

    def __init__(self, world: World, name: str, rate: float) -> None:
        self.world, self.line = world, Line(world.fake)
        self.host = Host(name, rate, start=1000.0 * rate)
        client = KubeClient(Endpoint("https://home", name="home"), transport=self.line)
        self.election = Election(client, name, TIMES, self.clock)
        self.since: float | None = None
        self.lost: float | None = None
        self.task = world.loop.spawn(self._run(), self.host)

    async def _run(self) -> None:
        await self.election.lead()
        self.since = self.world.loop.now
        try:
            await self.election.keep()
        except LeadershipLost:
            self.lost = self.world.loop.now

    def clock(self) -> float:
        """Its own."""
        return self.host.read(self.world.loop.now)

    def acts(self) -> bool:
        """By its own clock, now."""
        return self.election.may_act()

    def kill(self) -> None:
        self.task.cancel()


class World:
    def __init__(self) -> None:
        self.loop = VirtualLoop()
        asyncio.set_event_loop(self.loop)
        self.fake = FakeKube(namespaces=(FEDQ_NAMESPACE,))
        self.replicas: list[Replica] = []

    def replica(self, name: str, rate: float = 1.0) -> Replica:
        made = Replica(self, name, rate)
        self.replicas.append(made)
        return made

    def run(self, seconds: float, each: Callable[[], None] = lambda: None) -> None:
        """Let time pass; `each` and the one rule are looked at every tenth of a second."""

        async def look() -> None:
            end = self.loop.now + seconds
            while self.loop.now < end:
                await asyncio.sleep(min(0.1, end - self.loop.now))
                each()
                acting = [r.election.identity for r in self.replicas if r.acts()]
                assert len(acting) <= 1, f"two lead at {self.loop.now:.1f}: {acting}"

        self.loop.run_until_complete(self.loop.spawn(look()))

    def lease(self, holder: str) -> None:
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15}
        meta = {"name": LEASE_NAME, "namespace": FEDQ_NAMESPACE}
        self.fake.create(LEASES, {"metadata": meta, "spec": spec})

    @property
    def holder(self) -> str:
        return str(self.fake.get(LEASES, LEASE_NAME, FEDQ_NAMESPACE)["spec"]["holderIdentity"])


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    tasks = asyncio.all_tasks(made.loop)
    for task in tasks:
        task.cancel()
    made.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    made.loop.close()
    asyncio.set_event_loop(None)


@pytest.mark.parametrize("holder", [None, "", "a"], ids=["absent", "released", "own"])
def test_a_lease_that_nobody_else_holds_is_taken_at_once(world: World, holder: str | None) -> None:
    if holder is not None:
        world.lease(holder)
    a = world.replica("a")
    world.run(1)
    assert a.since is not None
    assert a.since < 0.1
    assert world.holder == "a"


def test_of_two_that_start_together_one_leads(world: World) -> None:
    a, b = world.replica("a"), world.replica("b")
    world.run(300)
    assert [a.since is not None, b.since is not None].count(True) == 1
    assert world.fake.get(LEASES, LEASE_NAME, FEDQ_NAMESPACE)["spec"]["leaseTransitions"] == 0


def test_the_lease_of_a_dead_stranger_is_waited_for(world: World) -> None:
    """Whatever its renewTime says: it counts from when it was first seen."""
    world.lease("dead")
    a = world.replica("a")
    world.run(20)
    assert a.since == pytest.approx(15, abs=0.1)


def test_a_standby_follows_a_dead_leader_within_the_lease(world: World) -> None:
    a = world.replica("a")
    world.run(1)
    b = world.replica("b")
    world.run(60)
    assert b.since is None
    a.kill()
    killed = world.loop.now
    world.run(20)
    assert b.since is not None
    assert b.since - killed <= TIMES.lease_s + TIMES.retry_s


def test_a_leader_that_resigns_is_followed_at_once(world: World) -> None:
    a = world.replica("a")
    world.run(5)
    b = world.replica("b")
    world.run(5)
    a.kill()
    world.loop.run_until_complete(world.loop.spawn(a.election.resign(), a.host))
    left = world.loop.now
    world.run(3)
    assert not a.acts()
    assert b.since is not None
    assert b.since - left <= TIMES.retry_s


def test_a_leader_that_is_cut_off_stops_before_another_begins(world: World) -> None:
    """It acts no more after its deadline, and raises as soon as it sees the other."""
    a = world.replica("a")
    world.run(5)
    b = world.replica("b")
    world.run(5)
    a.line.cut = True
    cut = world.loop.now
    stopped: list[float] = []
    world.run(30, lambda: None if a.acts() else stopped.append(world.loop.now))
    assert b.since is not None
    assert stopped[0] <= cut + TIMES.renew_deadline_s
    assert stopped[0] < b.since - 2
    assert "nothing is done" in a.election.problem
    a.line.cut = False
    world.run(3)
    assert a.lost is not None
    assert not a.acts()
    assert world.holder == "b"


def test_an_outage_that_nobody_used_is_no_loss(world: World) -> None:
    """The API server is away for longer than the lease: nobody acts, and the leader goes on."""
    a = world.replica("a")
    world.run(5)
    a.line.cut = True
    world.run(60)
    assert not a.acts()
    a.line.cut = False
    world.run(3)
    assert a.acts()
    assert a.lost is None
    assert a.election.problem == ""


def test_answers_that_are_lost_do_not_extend_leadership(world: World) -> None:
    """The writes arrive, so no other takes the Lease; but the leader cannot know that."""
    a = world.replica("a")
    world.run(5)
    b = world.replica("b")
    world.run(5)
    a.line.loses_answers = True
    world.run(TIMES.renew_deadline_s + 0.2)
    assert not a.acts()
    a.line.loses_answers = False
    world.run(5)
    assert a.acts()
    assert b.since is None


def test_a_lease_that_is_deleted_under_its_leader(world: World) -> None:
    """Whoever saw it held waits; the leader makes it anew."""
    a = world.replica("a")
    world.run(5)
    b = world.replica("b")
    world.run(5)
    world.fake.delete(LEASES, LEASE_NAME, FEDQ_NAMESPACE)
    world.run(30)
    assert a.acts()
    assert b.since is None


def test_an_annotation_by_hand_costs_nobody_the_lease(world: World) -> None:
    a = world.replica("a")
    world.run(5)
    world.fake.merge(LEASES, LEASE_NAME, {"metadata": {"labels": {"x": "y"}}}, FEDQ_NAMESPACE)
    world.run(30)
    assert a.acts()
    assert a.lost is None


@pytest.mark.parametrize("seed", range(6))
def test_never_two(world: World, seed: int) -> None:
    """Three replicas whose clocks run at other speeds, cut and healed at random: the rule that is
    looked at all along holds, and one leads again in the end.
    """
    rng = random.Random(seed)
    for name in "abc":
        world.replica(name, rate=1 + rng.uniform(-0.05, 0.05))
    for _ in range(15):
        found = rng.choice(world.replicas)
        found.line.cut = rng.random() < 0.5
        found.line.loses_answers = rng.random() < 0.3
        world.run(rng.uniform(0.1, 25))
    for found in world.replicas:
        found.line.cut = found.line.loses_answers = False
        if found.task.done():
            world.replica(found.election.identity + "2")
    world.run(40)
    assert sum(found.acts() for found in world.replicas) == 1


async def test_what_may_not_act_does_not_write() -> None:
    """The client of a manager asks before each write; reading goes on."""
    fake = FakeKube(namespaces=(FEDQ_NAMESPACE,))
    client = KubeClient(Endpoint("https://home", name="home"), transport=fake)
    client.halted = lambda: "another replica leads"
    body = {"metadata": {"name": "x", "namespace": FEDQ_NAMESPACE}}
    with pytest.raises(Exception, match="not sent: another replica leads"):
        await client.create(CONFIGMAPS, body)
    assert not fake.items(CONFIGMAPS)
    assert (await client.list(LEASES)).items == []


def test_a_name_lives_as_long_as_its_process(tmp_path: Path) -> None:
    """The next process takes it over; one beside it does not; nor does another boot."""
    with instance(tmp_path) as first, instance(tmp_path) as second:
        assert first != second
    with instance(tmp_path) as again, instance(tmp_path) as beside:
        assert (again, beside) == (first, second)
    file = tmp_path / "manager-0.instance"
    file.write_text(file.read_text().replace('"boot": "', '"boot": "other-'))
    with instance(tmp_path) as other:
        assert other != first
    file.write_text("{")
    with instance(tmp_path) as broken:
        assert broken not in (first, other)
