"""Clusters that are cut off and come back: their Leases, and agents that keep to them.

Time is what the test says: a lease ends, a fence is written and a wait is over when it is told so,
and only in the order that the protocol's inequality allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from federation.api.names import Mirror
from federation.core import effects as do
from federation.core import events as on
from federation.core.failover import OnDisconnect, Standing
from federation.core.loss import standing_of
from federation.edge.resources import JOBS
from federation.jobs import batch_job
from federation.jobs.mirror import mirrored_epoch

if TYPE_CHECKING:
    from tests.unit.core.simulation import World

Json = dict[str, Any]


@dataclass
class Tenure:
    """One cluster. `epoch` is in its Lease, `agent` the one its agent is in; `over` whether the
    agent's lease has ended; `noticed` whether the manager has found it silent.
    """

    epoch: int = 1
    agent: int = 1
    cut: bool = False
    over: bool = False
    noticed: bool = False
    fenced: bool = False
    stopped: int = 1


class Tenures:
    """Of all clusters of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.of = {name: Tenure() for name in world.workers}

    def standing(self, name: str) -> Standing:
        """How the manager sees a cluster."""
        found = self.of[name]
        return Standing(
            name,
            found.epoch,
            present=not (found.cut or found.fenced),
            suspect=found.noticed,
            silent=100.0 if found.noticed else 0.0,
            fenced_below=found.epoch,
            stopped_below=found.stopped,
            reachable=not found.noticed,
        )

    def tell(self, name: str) -> None:
        """All jobs hear how a cluster stands."""
        for uid, state in list(self._world.shell.states.items()):
            if name in state.places:
                self._world.feed(uid, on.ClusterStood(self.standing(name)))

    def begin_anew(self) -> None:
        """A manager that starts has seen no silence yet, and waits once more for what it found
        fenced.
        """
        for found in self.of.values():
            found.noticed = found.fenced
            found.stopped = min(found.stopped, found.epoch - found.fenced)

    def tell_new(self, uid: str) -> None:
        """A job hears of clusters that are new to it."""
        state = self._world.shell.states.get(uid)
        if state is not None:
            for name in sorted((state.places & self.of.keys()) - state.standings.keys()):
                self._world.feed(uid, on.ClusterStood(self.standing(name)))

    # What happens

    def cut(self, name: str) -> None:
        """The cluster is cut off, from manager and Lease alike."""
        self.of[name].cut = True

    def notice(self, name: str) -> None:
        """The manager finds it silent."""
        self.of[name].noticed = True
        self.tell(name)

    def expire(self, name: str) -> None:
        """The agent's lease ends: what has the policy stop is suspended, and nothing is started."""
        self.of[name].over = True
        for copy in self._copies(name):
            notes = copy["metadata"]["annotations"]
            ended = batch_job.finished(copy["status"]) or "deletionTimestamp" in copy["metadata"]
            stop = notes.get("fedq.io/on-disconnect", "stop") == "stop"
            if stop and not ended and not copy["spec"]["suspend"]:
                held = {"metadata": {"annotations": {Mirror.HELD.value: "the lease is over"}}}
                self._patch(name, {**held, "spec": {"suspend": True}})

    def fence(self, name: str) -> None:
        """The manager raises the epoch, long enough after the last renewal."""
        if not self.of[name].over:
            self.expire(name)
        self.of[name].epoch += 1
        self.of[name].fenced = True
        self.tell(name)

    def end_wait(self, name: str) -> None:
        """L_M is over: by then all that has to stop has stopped."""
        world = self._world
        for copy in self._copies(name):
            if copy["spec"]["suspend"] and copy["metadata"]["uid"] in world.pods:
                world.reap(copy["metadata"]["uid"])
        self.of[name].stopped = self.of[name].epoch
        self.tell(name)

    def heal(self, name: str) -> None:
        """It is reached again, and its agent renews, in a new epoch if it was fenced."""
        found = self.of[name]
        found.cut = found.over = found.noticed = found.fenced = False
        found.agent = found.epoch
        self.tell(name)

    def resume(self, name: str) -> None:
        """What was held, and may go on, does."""
        held = {"metadata": {"annotations": {Mirror.HELD.value: None}}}
        self._patch(name, {**held, "spec": {"suspend": False}})

    # What may happen

    def resumable(self) -> list[str]:
        """Clusters whose agent lets a held copy go on."""
        return [
            name
            for name, copy in self._held()
            if not self.of[name].over
            and mirrored_epoch(copy) >= self.of[name].agent
            and not copy["status"].get("startTime")
        ]

    def ending(self) -> list[str]:
        """Clusters with a held copy whose pods had ended before it was suspended."""
        return [name for name, copy in self._held() if copy["status"].get("startTime")]

    def _held(self) -> Iterator[tuple[str, Json]]:
        for name, copy in self._world.copies():
            meta = copy["metadata"]
            held = Mirror.HELD.value in meta["annotations"] and copy["spec"]["suspend"]
            ended = batch_job.finished(copy["status"]) or "deletionTimestamp" in meta
            if held and meta["uid"] not in self._world.pods and not ended:
                yield name, copy

    def stale(self, name: str, copy: Json) -> bool:
        """Whether the agent starts nothing of the epoch of this offer."""
        return mirrored_epoch(copy) < self.of[name].agent

    def _copies(self, name: str) -> list[Json]:
        return [copy for cluster, copy in self._world.copies() if cluster == name]

    def _patch(self, name: str, body: Json) -> None:
        self._world.kubes[name].merge(JOBS, "job", body, "team")

    # What the manager does

    def check_link(self, uid: str, cluster: str) -> None:
        """A command needs a cluster that can be reached."""
        from tests.unit.core.simulation import Again, Ended

        if self.of[cluster].cut:
            if self.of[cluster].noticed:
                state = self._world.shell.states[uid]
                assert not standing_of(state, cluster).reachable or state.busy
                raise Ended(on.CannotReach(self.standing(cluster)))
            raise Again(1.0)

    def adopt(self, uid: str, effect: do.Adopt) -> Json | None:
        """Raise the epoch of a copy; None if it is not there any more."""
        from tests.unit.core.simulation import Again

        self.check_link(uid, effect.cluster)
        found = next(iter(self._copies(effect.cluster)), None)
        if found is None or found["metadata"]["uid"] != effect.uid:
            return None
        if effect.epoch < self.of[effect.cluster].agent:
            raise Again(1.0)  # the policy fedq-epoch refuses it
        notes = {"annotations": {Mirror.EPOCH.value: str(effect.epoch)}}
        self._patch(effect.cluster, {"metadata": notes})
        return self._copies(effect.cluster)[0]


POLICIES = tuple(OnDisconnect)
