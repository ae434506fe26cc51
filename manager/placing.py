"""Chooses clusters in one cycle: for what is admitted, and for what would be after evictions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from federation.api.names import ActiveReason
from federation.core import events as on
from federation.core.cluster_cards import gang_of
from federation.core.dispatch import Choice, ClusterView, NoCluster, choose
from federation.core.dispatchers import NOT_NOMINATED, Dispatcher
from federation.core.easing import Freed, eased, expected, reserved
from federation.core.facts import JobState
from federation.core.nominating import candidates, next_nominees, why_never
from federation.core.scoring import DEFAULT_TERMS, Weighted
from federation.core.stay import earlier
from federation.core.types import Admission, Pending
from manager.clusters import Clusters
from manager.controller import Controller


class Placing:
    """What it chose counts at once. `expected` are workloads that have cards somewhere and are not
    offered yet: UID to cluster.
    """

    def __init__(
        self,
        controller: Controller,
        clusters: Clusters,
        now: float,
        terms: Sequence[Weighted] = DEFAULT_TERMS,
    ) -> None:
        self._controller, self._clusters, self._now = controller, clusters, now
        self._terms, self._settings = terms, controller.policies.dispatching
        self._nominated: dict[str, tuple[str, ...]] = {}
        self._views: dict[str, ClusterView] = {}
        self._kept: set[str] = set()
        """UIDs of those whose room is kept for others already."""
        self._freed: dict[str, tuple[str, Freed] | None] = {}
        self.expected: dict[str, str] = {}

    def settle(self) -> None:
        """The cycle is over: what it chose and nobody offered does not count, and the next rounds
        of nominations begin.
        """
        for uid, nominees in self._nominated.items():
            self._controller.feed(uid, on.Nominated(nominees))
        self._nominated.clear()
        for uid, cluster in self.expected.items():
            if (link := self._clusters.links.get(cluster)) is not None:
                link.ledger.forgo(uid)

    def __call__(self, item: Pending, admission: Admission) -> Choice | NoCluster:
        """The cluster for what is admitted now; its room is taken."""
        allowed = self._allowed(item)
        if isinstance(allowed, NoCluster):
            return allowed
        asking = [(pods, pods.count, ()) for pods in item.pod_sets if pods.cards is not None]
        self._clusters.judge.learn(item.uid, gang_of(asking, {}))
        among = self._among(item, allowed)
        choice = self._choose(item, admission, {name: self._view(name) for name in among})
        if isinstance(choice, NoCluster) and item.growth is not None:
            return choice
        if isinstance(choice, NoCluster):
            return self._not_nominated(item, admission, allowed, choice)
        if self._settings.kind is Dispatcher.ALL_AT_ONCE:
            usable = [name for name in allowed if not self._view(name).problem]
            choice = replace(choice, nominees=tuple(sorted(usable)))
        if isinstance(choice, Choice):
            view = self._views[choice.cluster]
            view = reserved(view, choice.queue, choice.usage, ())
            room = None if view.room is None else view.room - 1
            self._views[choice.cluster] = replace(view, room=room)
            if choice.gang:
                self._clusters.links[choice.cluster].ledger.expect(item.uid, choice)
                self.expected[item.uid] = choice.cluster
        return choice

    # If others had left (`Sites`)

    def names(self, item: Pending) -> Sequence[str]:
        """The clusters that a workload may be offered to."""
        allowed = self._allowed(item)
        return () if isinstance(allowed, NoCluster) else self._among(item, allowed)

    def choose(
        self, item: Pending, admission: Admission, gone: AbstractSet[str], among: Collection[str]
    ) -> Choice | NoCluster:
        """The cluster that takes it if those `gone` had left theirs. Changes nothing."""
        allowed = self._allowed(item)
        if isinstance(allowed, NoCluster):
            return allowed
        freed: dict[str, list[Freed]] = {}
        for cluster, part in self._gifts(gone):
            freed.setdefault(cluster, []).append(part)
        views = {}
        for name in among:
            view = self._view(name)
            queue = view.local_queues.get((item.namespace, item.local_queue), "")
            views[name] = eased(view, queue, freed.get(name, ()))
        return self._choose(item, admission, views)

    def keep(self, item: Pending, choice: Choice, gone: AbstractSet[str]) -> None:
        """For the rest of the cycle nobody else gets the room that it is to have."""
        view = self._view(choice.cluster)
        freed = [part for cluster, part in self._gifts(gone) if cluster == choice.cluster]
        self._views[choice.cluster] = reserved(view, choice.queue, choice.usage, freed)
        self._kept |= gone

    def _gifts(self, gone: AbstractSet[str]) -> Iterator[tuple[str, Freed]]:
        """What those `gone` give back, by cluster."""
        for uid in gone:
            if uid in self._kept:
                continue
            if uid not in self._freed:
                self._freed[uid] = self._gift(uid)
            if (gift := self._freed[uid]) is not None:
                yield gift

    def _gift(self, uid: str) -> tuple[str, Freed] | None:
        """What a workload gives back when it leaves, and where; None if nothing is known of it."""
        state = self._controller.states.get(uid)
        holder = self._controller.scheduler.holder(uid)
        if state is None or holder is None:
            return None
        chosen = state.choice.cluster if state.choice else ""
        cluster = state.bound.cluster if state.bound else chosen
        if (link := self._clusters.links.get(cluster)) is None:
            return None
        known = link.ledger.owes(uid)
        if known is not None:
            return (cluster, known) if known[1] else None
        view = self._view(cluster)
        queue = view.local_queues.get((holder.namespace, holder.local_queue))
        return None if queue is None else (cluster, (queue, expected(holder, queue, view)))

    def why_never_on(self, item: Pending, admission: Admission, cluster: str) -> str:
        """Why a cluster could not take a workload even if nothing ran there; '' if it could."""
        allowed = self._allowed(item)
        if isinstance(allowed, NoCluster):
            return allowed.message()
        if cluster not in allowed:
            return "jobs of its queue cannot run there"
        view, state = self._view(cluster), self._controller.states.get(item.uid) or JobState()
        refusal = state.refusals.get(cluster)
        if refusal is not None and not refusal.final and refusal.until <= self._now:
            refusal = None  # that may be mended by now
        return view.problem or why_never(item, admission, view, refusal)

    def _among(self, item: Pending, allowed: list[str]) -> Sequence[str]:
        """More pods of what runs go where that runs."""
        if item.growth is not None:
            return [item.growth.cluster]
        return candidates(item, allowed, self._settings)

    def _allowed(self, item: Pending) -> list[str] | NoCluster:
        queue = self._controller.scheduler.snapshot.queues[item.cluster_queue]
        allowed = self._clusters.membership.clusters_for(queue.check_names)
        return NoCluster({queue.name: allowed}) if isinstance(allowed, str) else allowed

    def _choose(
        self, item: Pending, admission: Admission, views: dict[str, ClusterView]
    ) -> Choice | NoCluster:
        state = self._controller.states.get(item.job) or JobState()
        return choose(item, admission, views, state.refusals, self._now, self._terms)

    def _not_nominated(
        self, item: Pending, admission: Admission, allowed: list[str], why: NoCluster
    ) -> NoCluster:
        """No nominee takes it: others may be nominated, by us or by whoever does it."""
        settings = self._settings
        if settings.kind is Dispatcher.EXTERNAL and not item.nominees:
            text = f"{settings.name} has nominated no cluster (status.nominatedClusterNames)"
            return NoCluster({item.cluster_queue: text})
        if settings.kind is not Dispatcher.INCREMENTAL:
            return why
        state = self._controller.states.get(item.uid) or JobState()
        known = state.record.nomination if state.record else NOT_NOMINATED
        views = {name: self._view(name) for name in allowed}
        found = next_nominees(item, admission, known, views, state.refusals, settings, self._now)
        if found.nominate is not None:
            self._nominated[item.uid] = found.nominate
        others = [name for name in allowed if name not in item.nominees]
        text = "it is nominated later" if found.nominate is None else "it is being nominated"
        reasons = {**why.reasons, **dict.fromkeys(others, text)}
        return NoCluster(reasons, earlier(why.retry_at, found.at))

    def _view(self, name: str) -> ClusterView:
        if name not in self._views:
            link = self._clusters.links.get(name)
            if link is None:
                return ClusterView(name, "there is no MultiKueueCluster of this name")
            view = link.ledger.view(self._clusters.problem(link))
            room, traits = self._clusters.room(name), self._clusters.traits(name)
            plain, kinds = self._clusters.plain(name), link.kinds
            coming = link.health.reason == ActiveReason.CONNECTING
            self._views[name] = replace(
                view, room=room, traits=traits, plain=plain, kinds=kinds, coming=coming
            )
        return self._views[name]
