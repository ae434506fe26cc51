"""Admits Jobs on one worker cluster: copies are answered at once, local Jobs wait in line.

The Job itself is the record: one patch starts it and notes what was charged, one patch stops it
and notes why, so a crash at any moment leaves a Job of which the next agent knows what to do.
Everything in memory can be read again from the Jobs.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from federation.core.cycle import Fit
from federation.core.holding import Lease
from federation.core.quota import QuotaTree
from federation.core.types import Admission, Holder
from federation.core.why import Explainer
from federation.edge.catalog import Catalog
from federation.edge.kube import KubeClient
from federation.edge.resources import Json
from federation.edge.turns import in_turns
from worker_agent.controls import Controls
from worker_agent.decisions import Decisions
from worker_agent.device_claims import DeviceClaims
from worker_agent.devices import Devices
from worker_agent.displaced import Displaced
from worker_agent.facts import Stage, WorkerJob
from worker_agent.failures import placed
from worker_agent.holds import Holds
from worker_agent.latecomers import Latecomers
from worker_agent.nodes import Nodes
from worker_agent.repair import Repair
from worker_agent.state import Settings, State
from worker_agent.texts import Waiting
from worker_agent.views import holder, pending
from worker_agent.world import arranged, surroundings

__all__ = ["Agent", "Settings"]

PLACES_REST = 9
"""News of nodes and pods are taken in before every decision. While nothing else is to be decided,
not more than a tenth of the time goes there: after taking in some, the next wait for so many times
as long as that took."""


class Agent:
    """One per worker cluster. `on_decided` hears that a round of decisions is over, `on_pods` of
    each Job whose pods may be let go to their places.
    """

    def __init__(
        self,
        client: KubeClient,
        catalog: Catalog,
        lease: Callable[[], Lease],
        settings: Settings | None = None,
    ) -> None:
        """`lease` is the cluster's as it is known now: copies run by it. See `lease_changed`."""
        self.state = State(client, catalog, lease, settings or Settings())
        self.book, self.scheduler = self.state.book, self.state.scheduler
        self.devices = Devices(self.state)
        claims = catalog.claims if self.devices.watchers else None
        self.nodes = Nodes(
            client, self.places_changed, self._pods_moved, self.devices.watchers, claims
        )
        self.devices.connect(self.nodes, self.places_changed)
        self.claims = DeviceClaims(self.devices.ledger, catalog.claims, self.devices.nodes)
        self.decided_version = 0
        self.on_decided: Callable[[], None] = lambda: None
        self.on_pods: Callable[[str], None] = lambda uid: None
        self._decisions = Decisions(self.state, self.devices)
        self._latecomers = Latecomers(self.state)
        self._controls = Controls(self.state, self.devices)
        self._holds = Holds(self.state, self._look_for_losses)
        self._repair = Repair(self.state, self.nodes, self.devices)
        self._displaced = Displaced(self.state, self.devices)
        self.devices.on_moved = self._pods_moved
        self.state.on_queues = self.quotas_changed
        self._generations = itertools.count(1)
        self._stale_quotas = True
        self._stale_places: float | None = None
        self._places_rest = 0.0
        self._repair_at: float | None = None

    @property
    def jobs(self) -> dict[str, WorkerJob]:
        """All queue-labelled Jobs, by UID."""
        return self.book.jobs

    @property
    def waits(self) -> dict[str, Waiting]:
        """Why local Jobs wait, by UID."""
        return self.state.waits

    @property
    def tree(self) -> QuotaTree:
        """Quota and usage as of the last decision."""
        return self.scheduler.snapshot.tree

    def body(self, uid: str) -> Json | None:
        """The whole Job."""
        return self.book.bodies.get(uid)

    def priority(self, job: WorkerJob) -> tuple[int, Json | None]:
        """Its priority, and the priorityClassRef that it comes from."""
        return self.state.standings.priority(job)

    def active(self, queue: str) -> bool:
        """Whether a ClusterQueue admits anything."""
        return self._decisions.lines.idle(queue) is None

    def quotas_changed(self) -> None:
        """Queue objects changed: everything is looked at again before the next decision."""
        self._stale_quotas = True
        self.state.wake.set()

    def lease_changed(self) -> None:
        """The lease is another one: copies may have to stop, or may go on."""
        self.state.wake.set()

    def places_changed(self) -> None:
        """Nodes or what runs on them changed."""
        if self._stale_places is None:
            self._stale_places = max(self.state.settings.clock(), self._places_rest)
            self.state.wake.set()

    def reseat(self, job: str, index: int) -> None:
        """A pod cannot have the cards of its seat: others are looked for at once."""
        self._repair.reseating.ask(job, index)
        self._look_for_losses()

    def _look_for_losses(self) -> None:
        """Some Job may be on nodes that are lost, and no news of nodes told of it."""
        self._repair_at = self.state.settings.clock()
        self.state.wake.set()

    def _pods_moved(self, uid: str) -> None:
        self.on_pods(uid)
        if self._repair.failures.concerns(uid):
            self.places_changed()

    # The loop

    async def run(self) -> None:
        """Decide until cancelled, whenever something changed or time asks for it."""
        async with asyncio.TaskGroup() as self.state.tasks:
            while True:
                await self._woken()
                await self._round()
                self.on_decided()

    async def _woken(self) -> None:
        now = self.state.settings.clock()
        dues = (
            self.scheduler.due(),
            self._decisions.copies.due(),
            self._controls.due(),
            self._holds.due(),
            self.devices.due(),
            self._displaced.due(),
            self._repair_at,
            self._stale_places,
        )
        delay = min((max(0.0, at - now) for at in dues if at is not None), default=None)
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self.state.wake.wait()
        self.state.wake.clear()

    async def _round(self) -> None:
        """Cycles until nothing new can be decided; then every copy gets its answer."""
        now = self.state.settings.clock()
        self._take_in(now)
        while True:
            self._controls.wake(now)
            self._holds.wake()
            version, touched = self.book.seen_version, list(self.state.dirty)
            self.state.dirty.clear()
            async for uid in in_turns(touched):
                self._sync(uid, now)
            if self._repair_at is not None and self._repair_at <= now:
                self._repair_at = self._repair.run(now)
            for queue in self.devices.take_in(now):
                self.scheduler.wake_at_once(queue, now)
            self._displaced.run(self.devices.stirred, now)
            self.devices.stirred.clear()
            due = self.scheduler.due()
            if not self.state.dirty and not self.scheduler.ready and (due is None or due > now):
                break
            decisions = await self.scheduler.cycle(now, self._decisions.place)
            self.devices.settle(d.item.uid for d in decisions if isinstance(d, Fit))
            explainer = Explainer(self.scheduler.snapshot)
            for decision in decisions:
                self._decisions.act(decision, explainer, now)
            await asyncio.sleep(0)  # let the watches and the heartbeat through
        self._decisions.tell(now)
        self.decided_version = version

    def _take_in(self, now: float) -> None:
        """Changed queue objects, changed nodes."""
        places = self._stale_places is not None and (
            self._stale_places <= now or bool(self.state.dirty) or self.scheduler.ready
        )
        if self._stale_quotas:
            self.book.refresh_defaults()
            self.state.dirty |= dict.fromkeys(self.jobs)
        if not (self._stale_quotas or places):
            return
        self._stale_quotas, self._stale_places = False, None
        world, inactive = surroundings(self.state, self.nodes, self.devices)
        self.scheduler.configure(world, now)
        self._decisions.look_again(self._decisions.lines.configured(inactive))
        if places:
            self.state.dirty |= dict.fromkeys(sorted(self.state.unplaced))
            for name in arranged(world):
                self.scheduler.wake(name, now)
        self._repair_at = now
        self._places_rest = now + PLACES_REST * (self.state.settings.clock() - now)

    # From Jobs to the scheduler

    def _sync(self, uid: str, now: float) -> None:
        """Bring the scheduler in line with what is known of one Job."""
        job, state = self.jobs.get(uid), self.state
        if job is None:
            state.evicting.pop(uid, None)
            self.scheduler.release(uid, now)
            self.devices.forget(uid)
            self._decisions.growths.forget(uid, now)
            self._leave(uid, now)
            return
        if state.busy(uid):  # looked at again when the write is done
            return
        stage = job.stage
        if stage in (Stage.RESERVED, Stage.RUNNING, Stage.HELD, Stage.STOPPING):
            assert job.holds is not None
            self._leave(uid, now)
            self._hold(job, job.holds, now)
            self._decisions.growths.look(job, now)
            self._latecomers.look(job)
            self._controls.judge(job, now)
            return
        self._decisions.growths.forget(uid, now)
        state.evicting.pop(uid, None)
        self.scheduler.release(uid, now)
        self.devices.release(uid)
        if stage is Stage.WAITING:
            self._enqueue(job, now)
            return
        self._leave(uid, now)
        if stage is Stage.STRAY:
            state.write(job, state.api.suspend)
        elif job.reservation is not None and stage is not Stage.OVER:  # it ran past the queue
            state.write(job, state.api.unreserve)
        elif stage is Stage.STOPPED and not (job.mirrored and job.admission):
            state.write(job, lambda job: state.api.reset(job, self.book.bodies[job.uid]))

    def _leave(self, uid: str, now: float) -> None:
        """A Job does not wait (any more)."""
        self.scheduler.take_out(uid, now)
        self._decisions.forget(uid)
        self.waits.pop(uid, None)
        self.state.unplaced.discard(uid)

    def _hold(self, job: WorkerJob, admission: Admission, now: float) -> None:
        state = self.state
        eviction = state.evicting.get(job.uid)
        held = holder(job, admission, self.priority(job)[0], evicted=eviction is not None)
        if not state.policies.rules.block_admission:  # nobody asks: spare the changes
            held = replace(held, pods_ready=True)
        before = self.scheduler.holder(job.uid)
        self.scheduler.hold(held)
        self.devices.hold(job)
        if before is not None and _helps(before, held):
            self.scheduler.wake(held.cluster_queue, now)
        if job.stage is Stage.STOPPING:
            state.evicting.pop(job.uid, None)
        elif eviction is not None and (job.pods.started or job.stage is not Stage.RUNNING):
            # Before the start time the Job controller may be about to make pods unseen.
            self._controls.stop(job, eviction)
        elif not self._holds.look(job) and placed(job):
            self.on_pods(job.uid)

    def _enqueue(self, job: WorkerJob, now: float) -> None:
        if not self.state.may_start(job) and job.epoch >= self.state.lease().epoch:
            self._leave(job.uid, now)  # a copy gets its answer when the lease holds
            return
        standing = self._controls.held(job, now) or self.state.standings.find(job)
        if not isinstance(standing, Waiting) and self.devices.unread(job):
            self._leave(job.uid, now)
            return
        if isinstance(standing, Waiting):
            self.scheduler.take_out(job.uid, now)
            self._decisions.forget(job.uid)
            self.state.set_aside(job, standing)
            return
        known = self.scheduler.items.get(job.uid)
        item = pending(job, standing, known.generation if known else 0)
        if item != known:
            self.scheduler.put(replace(item, generation=next(self._generations)), now)
        self._decisions.queued(job, now, changed=item != known)


def _helps(before: Holder, after: Holder) -> bool:
    """Whether a change of what holds quota may let others in."""
    less = any(after.usage.get(key, 0) < amount for key, amount in before.usage.items())
    return less or before.priority != after.priority
