"""The worker of one cluster against a fake API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from federation.core.facts import ObjectKey
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import JOBS, WORKER_REPORTS
from federation.jobs import batch_job
from federation.jobs.mirror import Identity
from manager import cluster_worker
from manager.cluster_worker import ClusterWorker
from manager.copy_writes import CopyWrites
from manager.protocol import (
    AdoptCopy,
    ClusterSpec,
    Command,
    CreateCopy,
    DeleteCopy,
    News,
    Outcome,
    Reply,
    Result,
)
from tests.fakes.kube_api import BUILT_IN, FakeKube
from tests.unit.manager.support import until, webhook_away

Json = dict[str, Any]
KEY = ObjectKey("team", "job")
SPEC = ClusterSpec("a", b"", "origin")
T0 = "2026-01-01T00:00:00Z"


def body(uid: str = "u", attempt: int = 1, name: str = "job", namespace: str = "team") -> Json:
    """What the manager offers."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = {
        "metadata": {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": T0},
        "spec": {"template": template},
    }
    return batch_job.remote_manifest(job, Identity("origin", uid, attempt, 1, T0, 0))


def create(uid: str = "u", attempt: int = 1, namespace: str = "team") -> CreateCopy:
    key = ObjectKey(namespace, "job")
    return CreateCopy(key, uid, attempt, body(uid, attempt, namespace=namespace))


class Cluster:
    """A fake cluster and its worker, which watches once `watching` is entered."""

    def __init__(self, fake: FakeKube | None = None) -> None:
        self.fake = fake or FakeKube(namespaces=("team",))
        self.client = KubeClient(Endpoint("https://fake", name="a"), transport=self.fake)
        self.worker = ClusterWorker(SPEC, self.client)

    async def do(self, command: CreateCopy | DeleteCopy | AdoptCopy) -> Outcome:
        (outcome,) = await self.worker.apply([command])
        return outcome

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.worker.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def job(self, name: str = "job") -> Json:
        return self.fake.get(JOBS, name, "team")

    def start(self, name: str = "job") -> None:
        self.fake.merge(JOBS, name, {"spec": {"suspend": False}}, "team")

    def deletes(self) -> int:
        return sum(method == "DELETE" for method, _ in self.fake.log)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


# Creating


async def test_create(cluster: Cluster) -> None:
    """The copy is there, suspended; the outcome carries its facts."""
    outcome = await cluster.do(create())
    assert outcome.result is Result.OK
    assert outcome.remote is not None
    assert (outcome.remote.attempt, outcome.remote.suspended) == (1, True)
    assert outcome.remote.uid == cluster.job()["metadata"]["uid"]


async def test_what_nobody_expected(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """One command fails, whose outcome is not known; the others are carried out."""
    run = CopyWrites.run

    async def faulty(self: CopyWrites, command: Command) -> Outcome:
        if isinstance(command, CreateCopy) and command.local_uid == "odd":
            raise RuntimeError("no such thing")
        return await run(self, command)

    monkeypatch.setattr(CopyWrites, "run", faulty)
    odd, other = await cluster.worker.apply([create("odd"), create("u")])
    assert (odd.result, odd.reply) == (Result.RETRY, Reply.NONE)
    assert "no such thing" in odd.message
    assert other.result is Result.OK


async def test_create_again(cluster: Cluster) -> None:
    """The same attempt that is there is success, whatever became of it: nothing is changed."""
    first = await cluster.do(create())
    cluster.start()
    again = await cluster.do(create())
    assert again.result is Result.OK
    assert again.remote is not None
    assert first.remote is not None
    assert (again.remote.uid, again.remote.suspended) == (first.remote.uid, False)
    assert cluster.deletes() == 0


async def test_create_whose_answer_was_lost(cluster: Cluster) -> None:
    """Maybe done: RETRY; done again it succeeds."""
    cluster.fake.fail(lambda request: request.method == "POST", how="lost")
    assert (await cluster.do(create())).result is Result.RETRY
    assert (await cluster.do(create())).result is Result.OK
    assert len(cluster.fake.items(JOBS)) == 1


@pytest.mark.parametrize(
    ("started", "ended", "stopping", "propagation"),
    [
        (False, False, 0, "Background"),
        (True, False, 0, "Foreground"),
        (True, True, 0, "Background"),
        (False, False, 1, "Foreground"),
    ],
)
async def test_a_lower_attempt_is_removed_first(
    cluster: Cluster, started: bool, ended: bool, stopping: int, propagation: str
) -> None:
    """In the foreground if it may have pods; the new one is created when it is gone, which is at
    once if nothing holds the old one.
    """
    await cluster.do(create(attempt=1))
    if propagation == "Foreground":  # the server's own, of pods that stop yet
        cluster.fake.merge(JOBS, "job", {"metadata": {"finalizers": ["pods"]}}, "team")
    if started:
        cluster.start()
    if stopping:  # it was held or stopped, and its pods have their grace
        cluster.fake.merge(JOBS, "job", {"status": {"terminating": stopping}}, "team", status=True)
    if ended:
        conditions = [{"type": t, "status": "True"} for t in ("FailureTarget", "Failed")]
        status = {"conditions": conditions, "startTime": T0}
        cluster.fake.merge(JOBS, "job", {"status": status}, "team", status=True)
    seen: list[Json] = []
    original = cluster.fake.objects.delete

    def delete(res: Any, key: Any, options: Json) -> Json:
        seen.append(options)
        return original(res, key, options)

    cluster.fake.objects.delete = delete  # type: ignore[method-assign]
    outcome = await cluster.do(create(attempt=2))
    if propagation == "Foreground":
        assert (outcome.result, outcome.reason) == (Result.RETRY, "Replacing")
        cluster.fake.merge(JOBS, "job", {"metadata": {"finalizers": None}}, "team")
        outcome = await cluster.do(create(attempt=2))
    assert [options["propagationPolicy"] for options in seen] == [propagation]
    assert outcome.result is Result.OK
    assert outcome.remote is not None
    assert outcome.remote.attempt == 2


async def test_a_lower_attempt_that_is_started_meanwhile(cluster: Cluster) -> None:
    """The agent starts it between our look and our deletion: it is not deleted as a waiting one."""
    await cluster.do(create(attempt=1))

    def start_it(request: Any) -> bool:
        if request.method == "DELETE" and cluster.job()["spec"]["suspend"]:
            cluster.start()
        return False

    cluster.fake.fail(start_it)
    assert (await cluster.do(create(attempt=2))).result is Result.RETRY
    assert not cluster.job()["spec"]["suspend"], "it was deleted with pods that may run"


async def test_a_later_attempt_is_left_alone(cluster: Cluster) -> None:
    """A stale manager's offer is refused."""
    await cluster.do(create(attempt=3))
    outcome = await cluster.do(create(attempt=2))
    assert (outcome.result, outcome.reason) == (Result.REFUSED, "Superseded")
    assert batch_job.remote_job("a", cluster.job()).attempt == 3


async def test_a_copy_of_another_job_of_that_name(cluster: Cluster) -> None:
    """Ours, of a job that was deleted and created anew: replaced, also if its attempt is higher."""
    await cluster.do(create("old", attempt=9))
    outcome = await cluster.do(create("new", attempt=1))
    assert outcome.result is Result.OK


@pytest.mark.parametrize("labels", [{}, {"kueue.x-k8s.io/multikueue-origin": "other"}])
async def test_a_foreign_job_is_not_touched(cluster: Cluster, labels: dict[str, str]) -> None:
    """Of a person there, or of another manager: refused, with what to do."""
    foreign = body()
    foreign["metadata"]["labels"] = labels
    cluster.fake.create(JOBS, foreign)
    before = cluster.job()
    outcome = await cluster.do(create())
    assert (outcome.result, outcome.reason) == (Result.REFUSED, "NameTaken")
    assert "rename one of the two" in outcome.message
    assert cluster.job() == before


async def test_no_such_namespace(cluster: Cluster) -> None:
    """Refused, with what to create."""
    outcome = await cluster.do(create(namespace="elsewhere"))
    assert (outcome.result, outcome.reason) == (Result.REFUSED, "NamespaceMissing")
    assert "namespace elsewhere does not exist on cluster a" in outcome.message


@pytest.mark.parametrize(
    ("status", "result"),
    [
        (403, Result.REFUSED),
        (422, Result.REFUSED),
        (400, Result.REFUSED),
        (401, Result.RETRY),
        (409, Result.RETRY),
        (429, Result.RETRY),
        (500, Result.RETRY),
        (503, Result.RETRY),
    ],
)
async def test_what_the_server_says(cluster: Cluster, status: int, result: Result) -> None:
    """A no that stays is a refusal; everything else is tried again."""
    cluster.fake.fail(status=status, times=9)
    assert (await cluster.do(create())).result is result


@pytest.mark.parametrize(
    ("attempt", "result"), [(1, Result.OK), (2, Result.REFUSED)], ids=["the same", "another one"]
)
@pytest.mark.parametrize("status", [403, 422])
async def test_a_no_to_an_offer_that_was_made_before(
    cluster: Cluster, status: int, attempt: int, result: Result
) -> None:
    """It may have been started since: a copy of this attempt that is there is not refused."""
    await cluster.do(create(attempt=1))
    cluster.start()
    cluster.fake.fail(lambda request: request.method == "POST", status=status)
    assert (await cluster.do(create(attempt=attempt))).result is result


@pytest.mark.parametrize("before", [False, True], ids=["new", "made before"])
async def test_a_webhook_that_is_away(cluster: Cluster, before: bool) -> None:
    """The cluster cannot take the offer: its API server has not carried it out."""
    if before:
        await cluster.do(create())
    cluster.fake.admit = webhook_away
    outcome = await cluster.do(create())
    assert outcome.result is (Result.OK if before else Result.REFUSED)
    assert before or "no endpoints available" in outcome.message


async def test_before_there_is_a_connection() -> None:
    """Commands that come first are tried again."""
    (outcome,) = await ClusterWorker(SPEC).apply([create()])
    assert outcome.result is Result.RETRY


# Deleting


def delete(uid: str, version: int | None = None, *, wait: bool = False) -> DeleteCopy:
    return DeleteCopy(KEY, uid, version, wait)


async def copied(cluster: Cluster) -> batch_job.RemoteJob:
    outcome = await cluster.do(create())
    assert outcome.remote is not None
    return outcome.remote


async def test_delete(cluster: Cluster) -> None:
    """Gone, and gone again."""
    copy = await copied(cluster)
    assert (await cluster.do(delete(copy.uid))).result is Result.ABSENT
    assert cluster.fake.items(JOBS) == []
    assert (await cluster.do(delete(copy.uid))).result is Result.ABSENT


async def test_delete_of_another_object(cluster: Cluster) -> None:
    """A Job that took the name is not ours to delete; ours is gone."""
    await copied(cluster)
    assert (await cluster.do(delete("another"))).result is Result.ABSENT
    assert cluster.job()


async def test_delete_loses_against_an_answer(cluster: Cluster) -> None:
    """On the version seen: the agent started it meanwhile, and the outcome shows it."""
    copy = await copied(cluster)
    cluster.start()
    outcome = await cluster.do(delete(copy.uid, copy.version))
    assert outcome.result is Result.RETRY
    assert outcome.remote is not None
    assert not outcome.remote.suspended
    assert cluster.job()


async def test_delete_loses_against_a_result(cluster: Cluster) -> None:
    """Its pods have ended meanwhile: that is told instead, and the copy stays."""
    copy = await copied(cluster)
    cluster.start()
    running = batch_job.remote_job("a", cluster.job())
    ended = [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Complete")]
    at = "2026-01-01T00:00:00Z"
    done = {"conditions": ended, "startTime": at, "completionTime": at}
    cluster.fake.merge(JOBS, "job", {"status": done}, "team", status=True)
    outcome = await cluster.do(delete(copy.uid, running.version, wait=True))
    assert outcome.result is Result.RETRY
    assert outcome.remote is not None
    assert outcome.remote.finished == "Complete"
    assert cluster.job()


async def test_delete_that_waits(cluster: Cluster) -> None:
    """While something holds the copy it is terminating, not gone."""
    copy = await copied(cluster)
    held = {"metadata": {"finalizers": ["foregroundDeletion"]}}
    cluster.fake.merge(JOBS, "job", held, "team")
    outcome = await cluster.do(delete(copy.uid, wait=True))
    assert outcome.result is Result.OK
    assert outcome.remote is not None
    assert outcome.remote.terminating
    assert (await cluster.do(delete(copy.uid, wait=True))).result is Result.OK


async def test_adopt(cluster: Cluster) -> None:
    """Whatever the agent wrote meanwhile, only the epoch changes."""
    copy = await copied(cluster)
    cluster.start()
    outcome = await cluster.do(AdoptCopy(KEY, copy.uid, 7))
    assert outcome.result is Result.OK
    assert outcome.remote is not None
    assert (outcome.remote.epoch, outcome.remote.suspended) == (7, False)
    assert outcome.remote.attempt == copy.attempt


async def test_adopt_what_is_not_there(cluster: Cluster) -> None:
    """Gone, or another object that took the name: that is left alone."""
    assert (await cluster.do(AdoptCopy(KEY, "u", 7))).result is Result.ABSENT
    await copied(cluster)
    assert (await cluster.do(AdoptCopy(KEY, "another", 7))).result is Result.ABSENT
    assert cluster.job()["metadata"]["annotations"]["fedq.io/epoch"] == "1"


async def test_adopt_into_an_epoch_that_is_over(cluster: Cluster) -> None:
    """The cluster's policy refuses it."""
    copy = await copied(cluster)
    cluster.fake.fail(lambda request: request.method == "PATCH", status=403)
    assert (await cluster.do(AdoptCopy(KEY, copy.uid, 1))).result is Result.REFUSED


async def test_many_commands_at_once(cluster: Cluster) -> None:
    """An outcome for each, in their order."""
    commands = [
        CreateCopy(ObjectKey("team", f"j{n}"), f"u{n}", 1, body(f"u{n}", name=f"j{n}"))
        for n in range(100)
    ]
    outcomes = await cluster.worker.apply(list(commands))
    assert [o.remote.key.name for o in outcomes if o.remote] == [f"j{n}" for n in range(100)]


# News


def seen(version: int, refused: str = "") -> Json:
    """A copy as a watch brings it."""
    job = body()
    job["metadata"].update(uid="c", resourceVersion=str(version))
    job["metadata"]["annotations"]["fedq.io/refused"] = refused
    return job


async def next_news(cluster: Cluster, after: News | None = None) -> News:
    instance, ack = (after.instance, after.seq) if after else ("", -1)
    return await cluster.worker.poll(instance, ack)


async def collect(cluster: Cluster, wanted: int) -> tuple[list[str], News]:
    """Names of copies until there are `wanted`, and the last news."""
    news = await next_news(cluster)
    names = [copy.remote.key.name for copy in news.copies]
    while len(names) < wanted:
        news = await next_news(cluster, news)
        names += [copy.remote.key.name for copy in news.copies]
    return names, news


async def test_inventory_and_changes(cluster: Cluster) -> None:
    """First a full listing of our copies, then what changes; foreign jobs are not looked at."""
    foreign = body(name="foreign")
    foreign["metadata"]["labels"] = {}
    cluster.fake.create(JOBS, foreign)
    await copied(cluster)
    async with cluster.watching():
        news = await next_news(cluster)
        while news.inventory is None:
            news = await next_news(cluster, news)
        assert news.inventory.local_uids == {"u"}
        assert news.inventory.version == cluster.fake.objects.version
        cluster.start()
        while not any(not copy.remote.suspended for copy in news.copies):
            news = await next_news(cluster, news)
        assert news.inventory is None
        cluster.fake.delete(JOBS, "job", "team")
        while not any(copy.remote.gone for copy in news.copies):
            news = await next_news(cluster, news)
    assert "foreign" not in {copy.remote.key.name for copy in news.copies}


async def test_only_the_latest_state_of_each_copy(cluster: Cluster) -> None:
    """Several changes between two polls are one."""
    for version in range(1, 5):
        cluster.worker.see_copy(seen(version, f"refused {version}"))
    news = await next_news(cluster)
    assert [copy.remote.version for copy in news.copies] == [4]


async def test_what_makes_no_difference_is_no_news(cluster: Cluster) -> None:
    """A new version of a waiting copy with the same facts."""
    cluster.worker.see_copy(seen(1))
    first = await next_news(cluster)
    cluster.worker.see_copy(seen(2))
    assert await cluster.worker.poll(first.instance, first.seq - 1) is first
    cluster.worker.see_copy(seen(3, "no room"))
    second = await next_news(cluster, first)
    assert [copy.remote.version for copy in second.copies] == [3]


async def test_the_status_of_a_held_copy_is_news(cluster: Cluster) -> None:
    """The local Job shows that nothing of it is active any more."""
    held = seen(1)
    held["metadata"]["annotations"]["fedq.io/held"] = "the lease is over"
    cluster.worker.see_copy({**held, "status": {"active": 1}})
    first = await next_news(cluster)
    stopped = {**held, "metadata": {**held["metadata"], "resourceVersion": "2"}}
    cluster.worker.see_copy({**stopped, "status": {"ready": 0}})
    second = await next_news(cluster, first)
    assert [copy.remote.status for copy in second.copies] == [{"ready": 0}]


async def test_news_are_sent_again_until_they_are_acknowledged(cluster: Cluster) -> None:
    """An answer that was lost on its way to the manager costs nothing."""
    cluster.worker.see_copy(seen(1))
    first = await next_news(cluster)
    cluster.worker.see_copy(seen(2, "no room"))
    assert await next_news(cluster) is first
    assert await cluster.worker.poll(first.instance, first.seq - 1) is first
    second = await next_news(cluster, first)
    assert [copy.remote.version for copy in second.copies] == [2]


async def test_a_call_given_up_takes_no_news_away(cluster: Cluster) -> None:
    """The runtime lost the connection, the call still waits in the worker; the next one asks."""
    first = await next_news(cluster)
    given_up = asyncio.create_task(cluster.worker.poll(first.instance, first.seq))
    asked = asyncio.create_task(cluster.worker.poll(first.instance, first.seq))
    await asyncio.sleep(0)
    cluster.worker.see_copy(seen(1))
    news = await asked
    assert [copy.remote.version for copy in news.copies] == [1]
    assert await given_up is news


async def test_a_manager_that_restarted(cluster: Cluster) -> None:
    """It knows nothing of what its predecessor acknowledged: everything comes again."""
    await copied(cluster)
    async with cluster.watching():
        _, news = await collect(cluster, 1)
        first = await next_news(cluster, news) if news.report or not news.health.ok else news
        again = await cluster.worker.poll("", -1)
        assert again.instance == first.instance


async def test_no_news_are_news(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """They prove the worker alive."""
    monkeypatch.setattr(cluster_worker, "POLL_S", 0.001)
    first = await next_news(cluster)
    second = await next_news(cluster, first)
    assert (first.copies, second.seq) == ((), first.seq + 1)


async def test_the_report_of_this_cluster(cluster: Cluster) -> None:
    """And not that of another, which a mistake left there."""
    for name in ("b", "a"):
        cluster.fake.create(WORKER_REPORTS, {"metadata": {"name": name}})
    async with cluster.watching():
        news = await next_news(cluster)
        while news.report is None:
            news = await next_news(cluster, news)
    assert news.report["metadata"]["name"] == "a"


# Health


async def health_of(cluster: Cluster, wanted: str) -> News:
    async with cluster.watching():
        news = await next_news(cluster)
        while news.health.reason != wanted:
            news = await next_news(cluster, news)
    return news


async def test_healthy(cluster: Cluster) -> None:
    """Kueue's words for a cluster that works."""
    news = await health_of(cluster, "Active")
    assert (news.health.ok, news.health.message) == (True, "Connected")


async def test_custom_resources_that_are_missing() -> None:
    """A cluster on which nothing was installed yet: said, with what to do."""
    cluster = Cluster(FakeKube(BUILT_IN, namespaces=("team",)))
    news = await health_of(cluster, "MissingCustomResources")
    assert not news.health.ok
    assert "workerreports.fedq.io is not served there" in news.health.message


@pytest.mark.parametrize(
    ("status", "reason"),
    [(401, "BadKubeConfig"), (403, "BadKubeConfig"), (500, "ClientConnectionFailed")],
)
async def test_a_server_that_says_no(cluster: Cluster, status: int, reason: str) -> None:
    """Credentials that do not work are told from a server that does not."""
    cluster.fake.fail(times=1000, status=status)
    assert not (await health_of(cluster, reason)).health.ok


async def test_out_of_reach(cluster: Cluster) -> None:
    """Cut off from the start."""
    cluster.fake.cut()
    await health_of(cluster, "ClientConnectionFailed")


async def test_a_kubeconfig_that_cannot_be_used() -> None:
    """Reported, and the worker ends; it does not crash."""
    worker = ClusterWorker(ClusterSpec("a", b"not: a kubeconfig", "origin"))
    await worker.run()
    news = await worker.poll("", -1)
    assert not news.health.ok
    assert news.health.message


async def test_hostile_copies_do_not_stop_the_worker(cluster: Cluster) -> None:
    """Whatever annotations somebody puts on a copy, the watch goes on."""
    async with cluster.watching():
        for n, text in enumerate(["soon", "9" * 5000, "-1", "{", "\x00"]):
            job = body(f"u{n}", name=f"j{n}")
            keys = ("attempt", "epoch", "deciding", "refused", "admission", "priority", "queued-at")
            job["metadata"]["annotations"].update({f"fedq.io/{key}": text for key in keys})
            cluster.fake.create(JOBS, job)
        cluster.fake.create(JOBS, body("last", name="last"))
        names, _ = await collect(cluster, 6)
    assert set(names) == {"j0", "j1", "j2", "j3", "j4", "last"}
    await until(lambda: cluster.fake.watches == 0)


@pytest.mark.parametrize("plain", [True, False])
async def test_an_offer_for_the_worker_that_takes_over(plain: bool) -> None:
    """Somebody has just said that there is an agent, or none: nothing is sent, nothing breaks."""
    cluster = Cluster()
    cluster.worker.spec = replace(SPEC, plain=plain)
    command = create() if plain else replace(create(), clone={"metadata": {"name": "w"}})
    outcome = await cluster.do(command)
    assert (outcome.result, outcome.reply) == (Result.RETRY, Reply.UNSENT)
    assert not cluster.fake.log
