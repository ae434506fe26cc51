"""The worker of one cluster: mirrors jobs onto it, watches the copies, probes it.

A plain class; `ray_runtime` makes an actor of it. Success of a command means that the cluster's
API server stored it; any other outcome means maybe, therefore commands are safe to repeat.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

import structlog

from federation.api.names import ActiveReason, Label
from federation.core.facts import BATCH_JOB, RemoteJob
from federation.edge.errors import (
    REFUSED,
    ApiError,
    ConfigError,
    Halted,
    NotFound,
    Unreachable,
)
from federation.edge.informer import Calls, Informer, Select
from federation.edge.kind_informers import NOTHING, KindInformers
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import parse_untrusted
from federation.edge.resources import JOBS, PODS, WORKER_REPORTS, Json
from federation.jobs.kinds.kind import JobKind
from federation.jobs.kinds.registry import BATCH_ONLY, known
from manager.attempts import FIRST_PAUSE_S, Attempts
from manager.copy_writes import CopyWrites, local_uid
from manager.leash import Leash
from manager.lingering import Lingering
from manager.physical import PhysicalCluster
from manager.plain_copies import PlainCopies, PlainQueues, plain_informers
from manager.plain_writes import PlainWrites
from manager.pod_watch import SELECT, Attempt, PodWatch
from manager.protocol import (
    ClusterSpec,
    Command,
    Copy,
    CreateCopy,
    DeleteCopy,
    Health,
    Inventory,
    News,
    Outcome,
    Reply,
    Result,
)

log = structlog.get_logger(__name__)

PROBE_S = 5.0
POLL_S = 5.0
"""A worker that says nothing for twice as long is in trouble: see `manager.runtime`."""
NEWS_APART_S = 0.1
"""Least time between two batches of news: under load it makes batches, idle it costs nothing."""
_IN_FLIGHT = 32


class ClusterWorker:
    """One per cluster. `run` must be running; `apply` and `poll` may be called at any time."""

    def __init__(
        self, spec: ClusterSpec, client: KubeClient | None = None, leash: Leash | None = None
    ) -> None:
        """With a `leash` it writes only as long as its manager is heard of."""
        self.spec = spec
        self._leash = leash
        self.instance = uuid.uuid4().hex
        self._client = client
        self._news = asyncio.Event()
        self._health = Health()
        self._copies: dict[str, Copy] = {}
        self._pods = PodWatch(self._news.set)
        self._pods.on_change = self._pods_changed
        self._lingering = Lingering(self._pods.live)
        self._inventory: Inventory | None = None
        self._others: dict[str, Inventory] = {}
        self._kinds = BATCH_ONLY
        if spec.external is not None:
            self._kinds = known(spec.external, spec.off)
        self._served: frozenset[str] | None = None
        self._report: Json | None = None
        self._seq = 0
        self._sent: News | None = None
        self._sent_at = 0.0
        self._told: dict[str, RemoteJob] = {}
        self._limit = asyncio.Semaphore(_IN_FLIGHT)
        self._polling = asyncio.Lock()
        self._physical = PhysicalCluster(spec, self._news.set, self._set_health)
        self._plain = PlainCopies(spec.name, self.tell, self.tell_all) if spec.plain else None

    async def run(self) -> None:
        """Watch and probe until cancelled. A kubeconfig that cannot be used is reported."""
        try:
            client = self._client or KubeClient(
                parse_untrusted(self.spec.kubeconfig, self.spec.name), user_agent="fedq-manager"
            )
        except ConfigError as error:
            self._set_health(
                Health(False, error.reason or ActiveReason.BAD_KUBE_CONFIG.value, str(error))
            )
            return
        self._client = client
        if self._leash is not None:
            client.halted = self._leash.problem
        own = Select(label_selector=f"{Label.MULTIKUEUE_ORIGIN.value}={self.spec.origin}")
        needed = self._informers(client, own)
        others = KindInformers(client, self._kinds, self._on_copies, select=own, partial=True)
        others.on_change = self._serves
        pods = Informer(client, PODS, self._pods.handler(), select=SELECT)
        try:
            async with asyncio.TaskGroup() as tasks:
                for informer in needed:
                    tasks.create_task(informer.run())
                if self._plain is None:
                    tasks.create_task(others.run())
                tasks.create_task(pods.run())  # a cluster that does not show them works as well
                tasks.create_task(self._probe(client, needed))
        finally:
            await client.aclose()

    def _informers(self, client: KubeClient, own: Select) -> tuple[Informer, ...]:
        """Of what the cluster cannot be worked with without."""
        jobs = own if BATCH_JOB in self._kinds else NOTHING
        if self._plain is not None:
            queues = PlainQueues(self.spec.name, self.see_report)
            return plain_informers(client, jobs, self._plain, queues, self._physical.is_meant)
        on_copy = Calls(self._see_listed, self.see_copy, partial(self.see_copy, gone=True))
        on_report = Calls(self.see_reports, self.see_report, lambda report: None)
        return (
            Informer(client, JOBS, on_copy, select=jobs),
            Informer(client, WORKER_REPORTS, on_report),
        )

    async def apply(self, commands: list[Command]) -> list[Outcome]:
        """Carry out commands side by side; an outcome for each, in order."""
        return list(await asyncio.gather(*(self._one(command) for command in commands)))

    async def poll(self, instance: str, ack: int) -> News:
        """The next news; the same again while they are not acknowledged.

        Waits up to POLL_S and then returns news without content, which prove the worker alive.
        A call that its caller has given up may still wait here: the next one waits behind it, and
        then returns what it took.
        """
        async with self._polling:
            if instance != self.instance:
                ack = -1
            elif self._leash is not None:
                self._leash.acknowledged(ack)
            if self._sent is not None and self._sent.seq != ack:
                return self._sent
            return await self._next_news()

    async def _next_news(self) -> News:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(POLL_S):
                await self._news.wait()
                # What comes meanwhile goes along: see NEWS_APART_S.
                await asyncio.sleep(self._sent_at + NEWS_APART_S - loop.time())
        except TimeoutError:
            pass
        self._news.clear()
        self._sent_at = loop.time()
        self._seq += 1
        copies, self._copies = tuple(self._copies.values()), {}
        inventory, self._inventory = self._inventory, None
        others, self._others = tuple(self._others.values()), {}
        report, self._report = self._report, None
        requests = dict(self._client.requests) if self._client else {}
        if self._leash is not None:
            self._leash.told(self._seq)
        self._sent = News(
            self.instance, os.getpid(), self._seq, self._health, copies, inventory, report,
            requests, self._physical.seen, self._pods.news(), others, self._served,
        )  # fmt: skip
        return self._sent

    # What is seen

    async def _see_listed(self, items: Sequence[Json], version: str) -> None:
        """A full listing, whichever physical cluster it comes from: it is read first, so that a
        change between the two is found.
        """
        assert self._client is not None
        if await self._physical.is_meant(self._client):
            self.see_copies(items, version)

    def see_copies(self, items: Sequence[Json], version: str) -> None:
        """A full listing of the copies that are Jobs."""
        self._inventory = self._listed(items, version, BATCH_JOB)

    def tell_all(self, copies: Sequence[Copy], inventory: Inventory) -> None:
        """All copies on a cluster that plain Kueue runs."""
        self._told.clear()
        for copy in copies:
            self.tell(copy)
        self._inventory = inventory
        self._news.set()

    def _serves(self, kinds: frozenset[str]) -> None:
        self._served = kinds
        self._news.set()

    def _on_copies(self, kind: JobKind) -> Calls:
        """Who is told of the copies of another kind."""

        async def listed(items: Sequence[Json], version: str) -> None:
            assert self._client is not None
            if await self._physical.is_meant(self._client):
                self._others[kind.name] = self._listed(items, version, kind.name)

        return Calls(listed, self.see_copy, partial(self.see_copy, gone=True))

    def _listed(self, items: Sequence[Json], version: str, kind: str) -> Inventory:
        self._told = {uid: told for uid, told in self._told.items() if told.kind != kind}
        for item in items:
            self.see_copy(item)
        self._news.set()
        there = {local_uid(item) for item in items} | self._lingering.of(kind)
        return Inventory(int(version), frozenset(there), kind)

    def see_copy(self, job: Json, *, gone: bool = False) -> None:
        """One copy as it is now. What makes no difference to the manager is not passed on."""
        if self._physical.wrong is None:
            copy = self._copy(job, gone=gone)
            self.tell(self._gone(copy) if gone else copy)

    def _gone(self, copy: Copy) -> Copy:
        """What is to be told of a copy that is gone. Those of Jobs and pods are not before their
        pods.
        """
        kind = self._kinds[copy.remote.kind]
        plain = kind.name == BATCH_JOB or kind.bundled
        return copy if plain else self._lingering.gone(copy)

    def _pods_changed(self, attempt: Attempt) -> None:
        if (copy := self._lingering.ended(attempt)) is not None:
            self.tell(copy)

    def tell(self, copy: Copy) -> None:
        """The same, as the manager knows a copy."""
        uid = copy.remote.uid
        kind = self._kinds[copy.remote.kind]
        if self._physical.wrong or _same(self._told.get(uid), copy.remote, kind):
            return
        if copy.remote.gone:
            self._told.pop(uid, None)
        else:
            self._told[uid] = copy.remote
        self._copies[uid] = copy
        self._news.set()

    def _copy(self, job: Json, *, gone: bool = False) -> Copy:
        remote = self._kinds.of(job).remote_job(self.spec.name, job, gone=gone)
        return Copy(local_uid(job), remote)

    def see_reports(self, items: Sequence[Json], version: str) -> None:
        """A full listing of the reports."""
        for item in items:
            self.see_report(item)

    def see_report(self, report: Json) -> None:
        """The agent's report, if it is the one of this cluster."""
        if report["metadata"]["name"] == self.spec.name:
            self._report = report
            self._news.set()

    async def _probe(self, client: KubeClient, needed: Sequence[Informer]) -> None:
        """Ask whether the API server answers, apart from what the watches say."""
        attempts = Attempts()
        while True:
            health = attempts.told(await self._diagnose(client, needed))
            self._set_health(health)
            await _rest(PROBE_S if health.ok else attempts.pause, needed)

    async def _diagnose(self, client: KubeClient, needed: Sequence[Informer]) -> Health:
        try:
            async with asyncio.timeout(PROBE_S):
                await client.raw("GET", "/readyz")
                await self._physical.look(client)
        except TimeoutError:
            return Health(
                False,
                ActiveReason.CLIENT_CONNECTION_FAILED.value,
                f"no answer within {PROBE_S:.0f} s",
            )
        except ApiError as error:
            return Health(False, _reason(error), str(error))
        if (wrong := self._physical.wrong) is not None:
            return wrong
        return replace(self._reading(needed), answered=True)

    def _reading(self, needed: Sequence[Informer]) -> Health:
        """Whether all that is needed can be read from an API server that answers."""
        for informer in needed:
            if isinstance(informer.error, NotFound):
                text = _missing(informer, plain=self.spec.plain)
                return Health(False, ActiveReason.MISSING_CUSTOM_RESOURCES.value, text)
            if informer.error is not None:
                return Health(False, _reason(informer.error), str(informer.error))
            if not informer.synced.is_set():
                return Health(
                    False, ActiveReason.CONNECTING.value, f"reading {informer.resource.plural}"
                )
        return Health(True, ActiveReason.ACTIVE.value, "Connected")

    def _set_health(self, health: Health) -> None:
        if health != self._health:
            self._health = health
            self._news.set()

    # What is done

    def _writes(self, client: KubeClient) -> CopyWrites | PlainWrites:
        if self._plain is not None:
            return PlainWrites(client, self.spec, self._plain)

        def made(remote: RemoteJob) -> None:
            self._told.setdefault(remote.uid, remote)

        return CopyWrites(client, self._kinds, self.spec, lambda job: self._copy(job).remote, made)

    async def _one(self, command: Command) -> Outcome:
        if self._client is None:
            text = "no connection yet"
            return Outcome(Result.RETRY, ActiveReason.CONNECTING.value, text, reply=Reply.UNSENT)
        if isinstance(command, CreateCopy) and (command.clone is not None) != self.spec.plain:
            text = "it has just been said whether there is an agent: another worker takes over"
            return Outcome(Result.RETRY, ActiveReason.CONNECTING.value, text, reply=Reply.UNSENT)
        try:
            async with self._limit:
                if (wrong := self._physical.wrong) is not None:
                    return Outcome(Result.RETRY, wrong.reason, wrong.message, reply=Reply.UNSENT)
                outcome = await self._writes(self._client).run(command)
                return self._unless_it_lingers(command, outcome)
        except REFUSED as error:
            return Outcome(Result.REFUSED, error.reason, str(error))
        except ApiError as error:
            return Outcome(Result.RETRY, error.reason, str(error), reply=_reply(error))
        except Exception as error:  # a fault of ours with one copy must not stop the others
            log.exception("command.crashed", cluster=self.spec.name, command=type(command).__name__)
            why = f"{type(error).__name__} in this manager, see its log: {error}"
            return Outcome(Result.RETRY, "Crashed", why, reply=Reply.NONE)

    def _unless_it_lingers(self, command: Command, outcome: Outcome) -> Outcome:
        if not isinstance(command, DeleteCopy) or outcome.result is not Result.ABSENT:
            return outcome
        if (told := self._told.get(command.uid)) is None:
            return outcome
        copy = self._gone(Copy(command.local_uid, replace(told, gone=True)))
        return outcome if copy.remote.gone else Outcome(Result.OK, remote=copy.remote)


def _same(told: RemoteJob | None, now: RemoteJob, kind: JobKind) -> bool:
    """Whether the manager would do the same about both.

    The status of a suspended copy is of no interest unless it is held, nor is one that its
    controller is about to write again.
    """
    if told is None or now.gone:
        return False
    facts = replace(now, version=told.version, status=told.status)
    idle = now.suspended and not now.held
    return facts == told and (idle or kind.in_transit(now.status))


async def _rest(seconds: float, informers: Iterable[Informer]) -> None:
    """Wait for the next probe: a probe has a period. Where a watch has contact again, the next one
    is due.
    """
    away = [informer for informer in informers if informer.error is not None]
    if not away:
        await asyncio.sleep(seconds)
        return
    end = asyncio.get_running_loop().time() + seconds
    while (left := end - asyncio.get_running_loop().time()) > 0:
        await asyncio.sleep(min(left, FIRST_PAUSE_S))  # contact is no event
        if any(informer.error is None for informer in away):
            return


def _reply(error: ApiError) -> Reply:
    if isinstance(error, Halted) or (isinstance(error, Unreachable) and not error.sent):
        return Reply.UNSENT
    return Reply.NONE if isinstance(error, Unreachable) else Reply.GIVEN


def _reason(error: ApiError) -> str:
    if isinstance(error, ConfigError) or error.status in (401, 403):
        return ActiveReason.BAD_KUBE_CONFIG.value
    return ActiveReason.CLIENT_CONNECTION_FAILED.value


def _missing(informer: Informer, *, plain: bool) -> str:
    todo = "the worker base (kubectl apply -k deploy/kustomize/worker) and start the agent"
    todo = "Kueue (0.15 or newer), or our agent" if plain else todo
    what = f"{informer.resource.plural}.{informer.resource.group}"
    return f"{what} is not served there: install {todo}"
