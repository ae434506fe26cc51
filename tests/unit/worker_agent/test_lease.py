"""The heartbeat on a fake management cluster, with a clock that the tests set."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from federation.api.lease import lease_seen
from federation.api.names import FEDQ_NAMESPACE, FENCED
from federation.api.renewal import Told, read_renewal
from federation.core import effects as do
from federation.core import events as on
from federation.core.facts import JobState
from federation.core.failover import FAST, Tier
from federation.core.health import Brake, Facts, judge
from federation.core.holding import Lease, Terms
from federation.core.lease import Watch, observe
from federation.core.lifecycle import step
from federation.core.stay import LifeRules
from federation.edge.errors import Unreachable
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import (
    CONFIGMAPS,
    LEASES,
)
from tests.fakes.kube_api import FakeKube
from tests.unit.core.build import behind, copy, local, record
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import Worker, mirrored
from worker_agent import heartbeat as heartbeats
from worker_agent.deadline_file import DeadlineFile
from worker_agent.epochs import Epochs
from worker_agent.heartbeat import Heartbeat, ReplacedError
from worker_agent.pulse import Pulse

NOTES = {"fedq.io/epoch": "3", "fedq.io/renew-seconds": "5", "fedq.io/kill-seconds": "45"}


class Management:
    """The management cluster as the agent sees it: one Lease. `now` is the boot-time clock."""

    def __init__(
        self, *, lease: bool = True, file: DeadlineFile | None = None, guarded: bool = False
    ) -> None:
        self.fake = FakeKube(namespaces=(FEDQ_NAMESPACE,))
        self.now = 1000.0
        self.epochs: list[int] = []
        if lease:
            self.make()
        self.heartbeat = self.agent("agent-1", file=file, guarded=guarded)

    def agent(
        self, holder: str, *, file: DeadlineFile | None = None, guarded: bool = False
    ) -> Heartbeat:
        heartbeat = Heartbeat(
            self.client(), "a", holder, file=file, guarded=guarded, clock=lambda: self.now
        )
        heartbeat.take_over = self.taken
        return heartbeat

    def client(self) -> KubeClient:
        return KubeClient(Endpoint("https://fake", name="m"), transport=self.fake)

    async def taken(self, epoch: int) -> int:
        self.epochs.append(epoch)
        return epoch

    def make(self, **notes: str) -> None:
        meta = {"name": "a", "namespace": FEDQ_NAMESPACE, "annotations": NOTES | notes}
        self.fake.create(LEASES, {"metadata": meta, "spec": {"leaseDurationSeconds": 30}})

    def stored(self) -> Any:
        return self.fake.get(LEASES, "a", FEDQ_NAMESPACE)

    def write(self, spec: Any = None, **notes: str) -> None:
        """The manager writes to the Lease."""
        patch = {"metadata": {"annotations": notes}, "spec": spec or {}}
        self.fake.merge(LEASES, "a", patch, FEDQ_NAMESPACE)

    def fence(self, epoch: int) -> None:
        self.write({"holderIdentity": FENCED}, **{"fedq.io/epoch": str(epoch)})

    def puts(self) -> int:
        return sum(method == "PUT" for method, _ in self.fake.log)


async def test_a_renewal() -> None:
    """Holder and time are written, the rest stays; all times are those of the Lease."""
    management = Management()
    assert await management.heartbeat.renew() == 5.0
    spec = management.stored()["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("agent-1", 30)
    assert spec["renewTime"].endswith("Z")
    lease = management.heartbeat.lease
    assert (lease.epoch, lease.deadline, lease.terms) == (3, 1030.0, Terms(5.0, 30.0, 45.0))
    assert management.heartbeat.problem == ""


async def test_one_write_for_each_renewal() -> None:
    """What the last one answered is what the next one changes."""
    management = Management()
    for _ in range(5):
        management.now += 5
        await management.heartbeat.renew()
    assert management.puts() == 5
    assert sum(method == "GET" for method, _ in management.fake.log) == 1


async def test_the_deadline_counts_from_before_the_write_is_sent() -> None:
    management = Management()

    def slow(request: Any) -> bool:
        management.now += 2 if request.method == "PUT" else 1
        return False

    management.fake.fail(slow)
    assert await management.heartbeat.renew() == 3.0
    assert management.heartbeat.lease.deadline == 1001.0 + 30.0


async def test_no_lease_yet() -> None:
    """The manager creates it; the agent never does."""
    management = Management(lease=False)
    assert await management.heartbeat.renew() == heartbeats.RETRY_S
    assert management.heartbeat.lease.deadline is None
    assert management.fake.items(LEASES) == []
    management.make()
    assert await management.heartbeat.renew() == 5.0


@pytest.mark.parametrize("how", ["drop", "lost", "status"])
async def test_an_unknown_outcome_extends_nothing(how: str) -> None:
    """Even if the write took hold: the deadline counts from the last answer."""
    management = Management()
    await management.heartbeat.renew()
    management.now += 5
    management.fake.fail(lambda request: request.method == "PUT", how=how)
    assert await management.heartbeat.renew() == 1.25
    assert management.heartbeat.lease.deadline == 1030.0
    assert "not renewed" in management.heartbeat.problem
    management.now += 1.25
    assert await management.heartbeat.renew() == 5.0
    assert management.heartbeat.lease.deadline == 1036.25


async def test_a_connection_that_hangs_costs_a_third_of_a_period() -> None:
    management = Management()
    await management.heartbeat.renew()
    management.fake.fail(how="hang")
    began = time.monotonic()
    assert await management.heartbeat.renew() == 1.25
    assert time.monotonic() - began > 1.6
    assert await management.heartbeat.renew() == 5.0


async def test_a_server_that_is_slow_gets_more_time() -> None:
    """Up to a quarter of the lease; with an answer it is as before."""
    management = Management()
    heartbeat = management.heartbeat
    await heartbeat.renew()
    allowed = []
    for _ in range(5):
        allowed.append(round(heartbeat.patience, 2))
        management.fake.fail(how="drop")
        await heartbeat.renew()
    assert allowed == [1.67, 3.33, 6.67, 7.5, 7.5]
    await heartbeat.renew()
    assert heartbeat.patience < 1.7


async def test_another_write_of_the_manager_is_no_failure() -> None:
    """It read the Lease before settings were changed: it reads it again, at once."""
    management = Management()
    await management.heartbeat.renew()
    management.write({"leaseDurationSeconds": 120}, **{"fedq.io/renew-seconds": "20"})
    assert await management.heartbeat.renew() == 20.0
    assert management.heartbeat.lease.deadline == 1120.0


@pytest.mark.parametrize(
    ("notes", "duration", "terms"),
    [
        ({"fedq.io/renew-seconds": "soon"}, 30, Terms(5.0, 30.0, 45.0)),
        ({"fedq.io/renew-seconds": "1e9"}, 30, Terms(10.0, 30.0, 45.0)),
        ({"fedq.io/renew-seconds": "-1"}, 30, Terms(5.0, 30.0, 45.0)),
        ({"fedq.io/renew-seconds": "nan"}, 30, Terms(5.0, 30.0, 45.0)),
        ({"fedq.io/kill-seconds": "inf"}, 30, Terms(5.0, 30.0, 45.0)),
        ({"fedq.io/kill-seconds": "10"}, 10**12, Terms(5.0, 86400.0, 10.0)),
    ],
)
async def test_nonsense_in_the_lease(notes: dict[str, str], duration: int, terms: Terms) -> None:
    management = Management()
    management.write({"leaseDurationSeconds": duration}, **notes)
    await management.heartbeat.renew()
    assert management.heartbeat.lease.terms == terms


async def test_a_lease_without_a_duration_holds_nothing() -> None:
    management = Management()
    management.write({"leaseDurationSeconds": None})
    await management.heartbeat.renew()
    assert not management.heartbeat.lease.holds(management.now)
    assert "how long" in management.heartbeat.problem


# What the manager is told of renewals


class Telling(Management):
    """`told` is what stands on the Lease, `marks` are the renewTimes of all that were stored."""

    def told(self) -> Told:
        told = read_renewal(self.stored())
        assert told.of == self.stored()["spec"]["renewTime"]
        return told

    async def renews(self, after: float = 5.0) -> Told:
        self.now += after
        await self.heartbeat.renew()
        return self.told()

    def seen_by(self, watch: Watch) -> Watch:
        """What a manager knows that sees the Lease now."""
        return observe(watch, lease_seen(self.stored()), self.now, FAST)

    def failure_counts(self, watch: Watch, breaks: int) -> bool:
        """Whether the failure of a copy that is known now is its job's result. It was started after
        `breaks` ends of the lease.
        """
        standing = judge("a", watch, Facts(), self.now, FAST, Brake()).standing
        failed = copy(suspended=False, finished="Failed", breaks=breaks, epoch=3)
        here = record("a", 1, admitted=True)
        known = JobState(
            local=local(suspended=False, started=True), record=here, remotes={"a": failed}
        )
        rules = LifeRules(behind, timings=FAST)
        _, effects = step(known, on.ClusterStood(replace(standing, present=True)), 0.0, rules)
        return any(isinstance(effect, do.FinishWorkload) for effect in effects)

    def loses(self) -> None:
        """The next answer."""
        self.fake.fail(lambda request: request.method == "PUT", how="lost")


async def test_each_renewal_tells_which_one_is_known() -> None:
    """An answer that is lost leaves the agent with the one before."""
    management = Telling()
    first = await management.renews()
    assert (first.known, first.breaks) == ("", 1)
    second = await management.renews()
    assert second == Told(second.of, first.of, 1)
    management.loses()
    third = await management.renews()
    assert third == Told(third.of, second.of, 1)
    fourth = await management.renews()
    assert fourth == Told(fourth.of, second.of, 1)
    assert (await management.renews()).known == fourth.of


async def test_a_lease_that_ended_is_told() -> None:
    """Each time; what was started before may have been stopped."""
    management = Telling()
    await management.renews()
    late = await management.renews(31)
    assert (late.known, late.breaks) == ("", 2)
    assert (await management.renews()) == Told(management.told().of, late.of, 2)
    management.loses()
    assert (await management.renews(31)).breaks == 3
    assert (await management.renews(2)).breaks == 4, "nobody knows of the one before"
    assert management.heartbeat.lease.breaks == 4


async def test_an_answer_after_the_end_of_the_lease_extends_nothing() -> None:
    """What ran is stopped: the renewal is made again, so that the Lease tells of that."""
    management = Telling()
    await management.renews()

    def slow(request: Any) -> bool:
        management.now += 2 if request.method == "PUT" else 0
        return False

    management.fake.fail(slow)
    told = await management.renews(29)
    assert (told.known, told.breaks) == ("", 2)
    assert management.puts() == 3
    assert management.heartbeat.lease.breaks == 2


async def test_an_answer_that_took_too_long_does_not_count() -> None:
    """As of a machine that slept meanwhile: the manager may take a renewal that counts for a
    quarter of the lease old, and for no more.
    """
    management = Telling()
    await management.renews()

    def slow(request: Any) -> bool:
        management.now += 8 if management.puts() == 1 else 0
        return False

    management.fake.fail(slow)
    await management.renews()
    assert management.puts() == 3
    assert management.heartbeat.lease.deadline == 1018.0 + 30.0


async def test_an_agent_that_starts_again_goes_on_from_its_note(tmp_path: Path) -> None:
    """While that holds; one without a note cannot tell for how long nobody renewed."""
    management = Telling(file=note(tmp_path))
    first = await management.renews()
    management.heartbeat = management.agent("agent-2", file=note(tmp_path))
    assert management.heartbeat.lease.breaks == 1
    assert (await management.renews()) == Told(management.told().of, first.of, 1)
    management.heartbeat = management.agent("agent-3")
    elsewhere = await management.renews()
    assert (elsewhere.known, elsewhere.breaks) == ("", 2)


async def test_a_lease_that_was_made_anew_has_no_fewer_breaks() -> None:
    management = Telling()
    await management.renews()
    await management.renews(31)
    management.fake.delete(LEASES, "a", FEDQ_NAMESPACE)
    management.make()
    await management.renews()  # it is read anew then
    assert (await management.renews()).breaks == 2


@pytest.mark.parametrize("text", ["", "[", "[]", "{}", '{"of":1,"known":2,"breaks":"x"}', "null"])
async def test_nonsense_in_what_was_told(text: str) -> None:
    management = Telling()
    management.write(**{"fedq.io/renewal": text})
    assert (await management.renews()).breaks == 1


# Fences


async def test_a_fence() -> None:
    """The deadline stays, nothing new is started; the cluster is brought into the new epoch before
    the Lease is taken there.
    """
    management = Management()
    await management.heartbeat.renew()
    management.fence(4)
    seen: list[Lease] = []

    async def taken(epoch: int) -> int:
        seen.append(management.heartbeat.lease)
        assert management.stored()["spec"]["holderIdentity"] == FENCED
        return await management.taken(epoch)

    management.heartbeat.take_over = taken
    management.now += 5
    assert await management.heartbeat.renew() == 5.0
    (during,) = seen
    assert not during.holds(management.now)
    assert (during.epoch, during.seen, during.deadline) == (3, 4, 1030.0)
    lease = management.heartbeat.lease
    before = lease.before
    assert before is not None
    assert (lease.epoch, lease.deadline) == (4, 1035.0)
    assert (before.epoch, before.renewed, before.deadline) == (3, 1000.0, 1030.0)
    assert management.stored()["spec"]["holderIdentity"] == "agent-1"


async def test_a_cluster_that_cannot_be_brought_into_the_epoch_does_not_take_the_lease() -> None:
    management = Management()
    await management.heartbeat.renew()
    management.fence(4)

    async def fails(epoch: int) -> int:
        raise Unreachable("the worker's API server is down")

    management.heartbeat.take_over = fails
    assert await management.heartbeat.renew() == 1.25
    assert management.stored()["spec"]["holderIdentity"] == FENCED
    assert management.heartbeat.lease.deadline == 1030.0
    management.heartbeat.take_over = management.taken
    assert await management.heartbeat.renew() == 5.0
    assert management.heartbeat.lease.epoch == 4


async def test_a_fence_between_the_takeover_and_the_write() -> None:
    """The write fails, and the cluster is brought into the epoch after that."""
    management = Management()

    async def fenced_again(epoch: int) -> int:
        if epoch == 4:
            management.fence(5)
        return await management.taken(epoch)

    await management.heartbeat.renew()
    management.fence(4)
    management.heartbeat.take_over = fenced_again
    await management.heartbeat.renew()
    assert management.epochs == [3, 4, 5]
    assert management.heartbeat.lease.epoch == 5


async def test_a_lease_that_was_made_anew_does_not_go_back() -> None:
    """Somebody deleted it, and it begins with epoch 1: the cluster stays in its own."""
    management = Management()
    await management.heartbeat.renew()
    management.fake.delete(LEASES, "a", FEDQ_NAMESPACE)
    management.make(**{"fedq.io/epoch": "1"})
    assert await management.heartbeat.renew() == 5.0
    assert management.stored()["metadata"]["annotations"]["fedq.io/epoch"] == "3"
    assert management.heartbeat.lease.epoch == 3


async def test_a_higher_epoch_of_the_cluster_is_kept() -> None:
    """Its ConfigMap knows of one that the Lease does not."""
    management = Management()

    async def higher(epoch: int) -> int:
        return 7

    management.heartbeat.take_over = higher
    await management.heartbeat.renew()
    assert management.heartbeat.lease.epoch == 7
    assert management.stored()["metadata"]["annotations"]["fedq.io/epoch"] == "7"


@pytest.mark.parametrize("epoch", ["3", "1", None])
async def test_a_fence_ends_the_epoch_whatever_was_done_to_its_number(epoch: str | None) -> None:
    """Somebody edited the fenced Lease: what was stopped does not go on in its old epoch."""
    management = Management()
    await management.heartbeat.renew()
    management.fence(4)
    management.write(**{"fedq.io/epoch": epoch})  # type: ignore[arg-type]
    await management.heartbeat.renew()
    lease = management.heartbeat.lease
    assert (lease.epoch, management.epochs) == (4, [3, 4])
    assert management.stored()["metadata"]["annotations"]["fedq.io/epoch"] == "4"


@pytest.mark.parametrize("epoch", ["1000000000", "9" * 30, "x", "", "-4", "\uff14", "4.0"])
async def test_an_epoch_that_nobody_can_read_is_no_old_one(epoch: str) -> None:
    """It may be that of a fence: nothing is renewed until somebody has put it right."""
    management = Management()
    await management.heartbeat.renew()
    management.write(**{"fedq.io/epoch": epoch})
    management.now += 5
    assert await management.heartbeat.renew() == 1.25
    assert "nine digits" in management.heartbeat.problem
    assert management.heartbeat.lease.deadline == 1030.0
    management.write(**{"fedq.io/epoch": "3"})
    assert await management.heartbeat.renew() == 5.0


async def test_a_renewal_that_changes_nothing_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server stores no version for it, so that the manager fences as if it had not been."""
    moment = datetime(2026, 1, 1, tzinfo=UTC)

    class Stopped(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return moment

    monkeypatch.setattr(heartbeats, "datetime", Stopped)
    management = Management()
    await management.heartbeat.renew()
    management.now += 5
    assert await management.heartbeat.renew() == 1.25
    assert management.heartbeat.lease.deadline == 1030.0
    assert "clock" in management.heartbeat.problem
    moment += timedelta(seconds=1)
    assert await management.heartbeat.renew() == 5.0


# Two agents


async def test_an_agent_that_starts_takes_the_lease_and_the_other_ends() -> None:
    management = Management()
    await management.heartbeat.renew()
    second = management.agent("agent-2")
    assert await second.renew() == 5.0
    with pytest.raises(ReplacedError, match="taken over by agent-2"):
        await management.heartbeat.renew()
    assert await second.renew() == 5.0


async def test_a_lost_answer_is_no_other_agent() -> None:
    management = Management()
    management.fake.fail(lambda request: request.method == "PUT", how="lost")
    await management.heartbeat.renew()
    assert await management.heartbeat.renew() == 5.0


# The note of the deadline


def files(path: Path) -> list[str]:
    return [found.name for found in path.iterdir()]


def note(path: Path, boot: str = "boot-1") -> DeadlineFile:
    return DeadlineFile(path / "deadline.json", "a", boot)


async def test_the_deadline_is_noted_and_read_at_the_next_start(tmp_path: Path) -> None:
    management = Management(file=note(tmp_path))
    await management.heartbeat.renew()
    body = json.loads((tmp_path / "deadline.json").read_text())
    assert body == {
        "bootId": "boot-1", "cluster": "a", "epoch": 3, "renewed": 1000.0, "deadline": 1030.0,
        "kill": 45.0, "mark": management.stored()["spec"]["renewTime"], "breaks": 1,
    }  # fmt: skip
    assert (tmp_path / "deadline.json").stat().st_mode & 0o777 == 0o644
    assert files(tmp_path) == ["deadline.json"]
    lease = note(tmp_path).read(1020.0)
    assert (lease.epoch, lease.deadline, lease.holds(1020.0)) == (3, 1030.0, True)


async def test_an_agent_that_starts_again_sees_to_the_epoch_after_its_first_renewal(
    tmp_path: Path,
) -> None:
    management = Management(file=note(tmp_path))
    await management.heartbeat.renew()
    again = management.agent("agent-2", file=note(tmp_path))
    management.epochs.clear()
    await again.renew()
    await again.renew()
    assert management.epochs == [3]


@pytest.mark.parametrize(
    ("body", "boot", "now"),
    [
        (None, "boot-1", 1020.0),
        ("{}", "boot-1", 1020.0),
        ("[", "boot-1", 1020.0),
        ('{"deadline": "x"}', "boot-1", 1020.0),
        ("", "boot-2", 1020.0),
        ("", "boot-1", 900.0),
    ],
)
def test_a_note_that_says_nothing(tmp_path: Path, body: str | None, boot: str, now: float) -> None:
    file = note(tmp_path)
    if body is not None:
        file.write(Lease().renewal(1000.0, 3, Terms(5.0, 30.0, 45.0)))
        if body:
            (tmp_path / "deadline.json").write_text(body)
    assert note(tmp_path, boot).read(now) == Lease()


def test_a_deadline_that_has_passed_waits_for_the_first_renewal(tmp_path: Path) -> None:
    """An agent on another machine may have renewed since: only a renewal tells."""
    note(tmp_path).write(Lease().renewal(1000.0, 3, Terms(5.0, 30.0, 45.0)))
    lease = note(tmp_path).read(1031.0)
    assert (lease.epoch, lease.deadline) == (3, None)


def test_a_note_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "no-folder").write_text("")
    file = DeadlineFile(tmp_path / "no-folder" / "deadline.json", "a", "boot-1")
    assert "cannot be written: " in file.write(Lease().renewal(1000.0, 3, Terms(5.0, 30.0, 45.0)))
    assert file.read(1000.0) == Lease()


class Disk:
    """A folder that can be taken away. Guards of nodes go by the file in it."""

    def __init__(self, path: Path) -> None:
        self.folder = path / "fedq"
        self.file = DeadlineFile(self.folder / "deadline.json", "a", "boot-1")

    def fails(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.write_text("")

    def mended(self) -> None:
        self.folder.unlink()


async def test_what_guards_do_not_hear_of_extends_nothing_for_them(tmp_path: Path) -> None:
    """The agent goes on by its own renewals, and tells by which ones guards do. What it starts
    meanwhile lives under the lease that they know. It mends itself.
    """
    disk = Disk(tmp_path)
    management = Telling(file=disk.file, guarded=True)
    heartbeat = management.heartbeat
    noted = await management.renews()
    assert heartbeat.tier(Tier.GUARD) is Tier.GUARD
    disk.fails()
    for _ in range(2):
        told = await management.renews()
        assert (told.known, told.breaks, heartbeat.lease.breaks) == (noted.of, 1, 1)
    assert "deadline.json cannot be written: " in heartbeat.note_problem
    assert (heartbeat.tier(Tier.TOKEN), heartbeat.problem) == (Tier.AGENT, "")
    management.now += 15
    for breaks in (2, 3):
        told = await management.renews()
        assert (told.known, told.breaks, heartbeat.lease.breaks) == ("", breaks, 1)
        assert heartbeat.lease.deadline == management.now + 30
    disk.mended()
    back = await management.renews()
    assert (back.known, back.breaks, heartbeat.lease.breaks) == ("", 4, 4)
    assert heartbeat.tier(Tier.GUARD) is Tier.GUARD
    told = await management.renews()
    assert (told.known, told.breaks, heartbeat.lease.breaks) == (back.of, 4, 4)


async def test_a_note_that_no_guard_reads_is_only_missed(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    management = Telling(file=disk.file)
    disk.fails()
    first = await management.renews()
    for _ in range(8):
        told, before = await management.renews(), management.heartbeat.lease.breaks
        assert (told.breaks, before) == (first.breaks, 1)
    assert management.heartbeat.note_problem


@pytest.mark.parametrize("noted", [True, False], ids=["noted before", "never noted"])
async def test_what_a_guard_ends_that_hears_nothing_is_no_result(
    tmp_path: Path, noted: bool
) -> None:
    """As the manager sees it that watches the Lease, whatever was started when."""
    disk = Disk(tmp_path)
    management = Telling(file=disk.file, guarded=True)
    watch, started, last = Watch(), set[int](), -math.inf
    if noted:
        await management.renews()
        watch = management.seen_by(watch)
        started.add(management.heartbeat.lease.breaks)
        last = management.now
    disk.fails()
    for _ in range(20):
        await management.renews()
        watch = management.seen_by(watch)
        started.add(management.heartbeat.lease.breaks)
        if management.now >= last + 30:  # guards end all there is, at once
            for breaks in started:
                assert not management.failure_counts(watch, breaks)
    disk.mended()
    started.discard(0)  # in the very first lease: not noted, so it is doubted for a while only
    await management.renews()
    fresh = management.heartbeat.lease.breaks
    for _ in range(5):
        watch = management.seen_by(watch)
        assert not any(management.failure_counts(watch, breaks) for breaks in started)
        await management.renews()
    assert management.failure_counts(management.seen_by(watch), fresh)


# The epoch on the worker


class Cluster:
    def __init__(self) -> None:
        self.fake = FakeKube(namespaces=(FEDQ_NAMESPACE,))
        client = KubeClient(Endpoint("https://fake", name="a"), transport=self.fake)
        self.epochs = Epochs(client)

    def stored(self) -> Any:
        return self.fake.get(CONFIGMAPS, "fedq-epoch", FEDQ_NAMESPACE)["data"]


async def test_the_epoch_is_made_raised_and_never_lowered() -> None:
    cluster = Cluster()
    assert await cluster.epochs.raise_to(3) == 3
    assert await cluster.epochs.raise_to(5) == 5
    assert await cluster.epochs.raise_to(4) == 5
    assert cluster.stored() == {"epoch": "5"}


async def test_an_epoch_that_cannot_be_read_is_written_anew() -> None:
    cluster = Cluster()
    meta = {"name": "fedq-epoch", "namespace": FEDQ_NAMESPACE}
    cluster.fake.create(CONFIGMAPS, {"metadata": meta, "data": {"epoch": "three", "mine": "x"}})
    assert await cluster.epochs.raise_to(3) == 3
    assert cluster.stored() == {"epoch": "3", "mine": "x"}


async def test_two_raise_the_epoch_at_once() -> None:
    """The write of one fails; it reads again and finds the higher."""
    cluster = Cluster()
    await cluster.epochs.raise_to(1)
    both = await asyncio.gather(*(cluster.epochs.raise_to(n) for n in (2, 9, 4)))
    assert cluster.stored() == {"epoch": "9"}
    assert max(both) == 9


# The thread


async def test_renewals_go_on_while_the_agent_is_busy() -> None:
    """Nothing in the loop of the agent keeps them back."""
    management = Management(lease=False)
    management.make(**{"fedq.io/renew-seconds": "0.2"})
    client = management.client()
    heartbeat = Heartbeat(client, "a", "agent-1")
    changes: list[float] = []
    task = asyncio.create_task(
        Pulse(heartbeat, client).beat(management.taken, lambda: changes.append(time.monotonic()))
    )
    await until(lambda: heartbeat.lease.deadline is not None)
    before = heartbeat.lease
    time.sleep(1.0)  # noqa: ASYNC251  (the agent is busy)
    assert before.tenure is not None
    assert heartbeat.lease.tenure is not None
    assert heartbeat.lease.tenure.renewed > before.tenure.renewed + 0.5
    count = len(changes)
    await until(lambda: len(changes) > count, "the agent hears of it")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert management.epochs == [3]


async def test_the_agent_ends_with_its_heartbeat() -> None:
    management = Management()
    client = management.client()
    first = Heartbeat(client, "a", "agent-1")
    management.write(**{"fedq.io/renew-seconds": "0.2"})
    task = asyncio.create_task(Pulse(first, client).beat(management.taken, lambda: None))
    await until(lambda: first.lease.deadline is not None)
    await management.agent("agent-2").renew()
    with pytest.raises(ReplacedError):
        await task


async def test_offers_of_a_lease_that_is_over() -> None:
    """No answer while it is over; none of them is refused."""
    worker = Worker()
    over = Lease().renewal(0.0, 1, Terms())
    worker.lease = lambda: over
    async with worker.running():
        worker.add(mirrored("a"))
        await worker.at_rest()
        assert not worker.answered("a")
