"""What comes from worker clusters, brought to the jobs that are there: copies, inventories, and how
the clusters stand.

Standings come again and again. Jobs hear what is new of them, and how long the silence lasts only
where that matters. What lets a job run elsewhere is told to so many jobs in a second, those of the
highest priority first: a lost cluster must not become a storm on the management API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import structlog

from federation.api.names import ActiveReason
from federation.core import events as on
from federation.core.bound import remove
from federation.core.elastic import growth_uid
from federation.core.facts import JobState, RemoteJob
from federation.core.failover import Standing, Timings
from federation.core.loss import harmless, may_rerun, stranded, waits_for_time
from manager.link import ClusterLink
from manager.protocol import Copy, DeleteCopy, Inventory, News, Result
from manager.reruns import Reruns

log = structlog.get_logger(__name__)

_CUT_OFF = frozenset(
    {
        ActiveReason.BAD_KUBE_CONFIG,
        ActiveReason.INSECURE_KUBE_CONFIG,
        ActiveReason.CLIENT_CONNECTION_FAILED,
        ActiveReason.WORKER_UNAVAILABLE,
        ActiveReason.OTHER_CLUSTER,
        ActiveReason.MANAGEMENT_CLUSTER,
    }
)
"""Why nothing can be done on a cluster; with any other problem it is tried."""

ORPHAN_AGAIN_S = 10.0

Feed = Callable[[str, on.Event], None]
Start = Callable[[str, Coroutine[Any, Any, None]], None]


class ClusterNews:
    """One per controller, whose `states` it reads. `start` runs a task for a job (UID)."""

    def __init__(
        self, states: dict[str, JobState], feed: Feed, start: Start, timings: Timings
    ) -> None:
        self._states, self._feed, self._start = states, feed, start
        self._timings = timings
        self._standings: dict[str, Standing] = {}
        self._there: dict[str, set[str]] = {}
        """UIDs of the jobs that each cluster matters to."""
        self._here: dict[str, set[str]] = {}
        """UIDs of the jobs whose copies were seen on the physical cluster that has a name now."""
        self._reruns = Reruns(self._rerun)
        self._orphans: dict[str, dict[str, Copy]] = {}
        self._again: dict[str, asyncio.TimerHandle] = {}
        self._versions: dict[tuple[str, str], int] = {}
        """The newest version that was heard of on each cluster, by kind: listings of several kinds
        may overtake each other."""

    def close(self) -> None:
        """Tell nothing any more."""
        self._reruns.close()
        for timer in self._again.values():
            timer.cancel()

    # Which jobs are where

    def moved(self, uid: str, before: JobState, after: JobState) -> None:
        """A job changed. It is told what is known of each cluster that is new to it."""
        if before.record is after.record and before.remotes is after.remotes:
            return
        was, now = before.places, after.places
        for cluster in was - now:
            self._there.get(cluster, set()).discard(uid)
        for cluster in now - was:
            self._there.setdefault(cluster, set()).add(uid)
        for cluster in now - after.standings.keys():
            if (standing := self._standings.get(cluster)) is not None:
                self._tell(uid, after, standing)
        for cluster in now:
            self._let_go(uid, after, cluster)

    def _let_go(self, uid: str, state: JobState, cluster: str) -> None:
        """A copy on a physical cluster that lost its name is out of reach for good: once it keeps
        nothing from starting, and nothing is bound to it, it counts as gone.
        """
        standing, copy = self._standings.get(cluster), state.remotes.get(cluster)
        if standing is None or copy is None or copy.gone:
            return
        bound = state.bound
        if (bound is not None and bound.cluster == cluster) or not self._apart(
            uid, state, standing
        ):
            return
        if harmless(copy, standing.of_the_one_before, self._timings):
            self._feed(uid, on.RemoteAbsent(cluster, copy.version))

    def _apart(self, uid: str, state: JobState, standing: Standing) -> bool:
        """Whether a job is on the physical cluster that had the name before."""
        return stranded(state, standing) and uid not in self._here.get(standing.cluster, ())

    def _own(self, uid: str, state: JobState, standing: Standing) -> Standing:
        """How a cluster stands for a job: that where the job is, if two had the name."""
        apart = self._apart(uid, state, standing)
        return standing.of_the_one_before if apart else standing

    def _jobs(self, cluster: str) -> Iterator[tuple[str, JobState]]:
        for uid in list(self._there.get(cluster, ())):
            if (state := self._states.get(uid)) is not None:
                yield uid, state

    # How clusters stand

    def stood(self, standing: Standing) -> None:
        """How a cluster stands now. `reachable` is known here, whatever it says."""
        name = standing.cluster
        known = self._standings.get(name)
        standing = replace(standing, reachable=known.reachable if known else True)
        self._standings[name] = standing
        new = known is None or known.timeless != standing.timeless
        for uid, state in self._jobs(name):
            if new or waits_for_time(state):
                self._tell(uid, state, standing)
            self._let_go(uid, self._states.get(uid, state), name)

    def _tell(self, uid: str, state: JobState, standing: Standing) -> None:
        """Tell a job, later if that makes it run elsewhere."""
        standing = self._own(uid, state, standing)
        bound = state.bound
        moves = bound is not None and bound.cluster == standing.cluster
        if moves and bound is not None and may_rerun(bound, standing, self._timings):
            record, local = state.record, state.local
            priority = record.priority if record else 0
            self._reruns.put(uid, standing.cluster, priority, local.created if local else 0.0)
        elif standing != state.standings.get(standing.cluster):
            self._feed(uid, on.ClusterStood(standing))

    def _rerun(self, uid: str, cluster: str) -> None:
        """It is the turn of a job whose cluster is lost, if it still is."""
        if uid in self._states and cluster in self._states[uid].places:
            standing = self._own(uid, self._states[uid], self._standings[cluster])
            self._feed(uid, on.ClusterStood(standing))

    def _reach(self, cluster: str, *, reachable: bool) -> None:
        known = self._standings.get(cluster) or Standing(cluster)
        self._standings[cluster] = replace(known, reachable=reachable)
        for uid, state in self._jobs(cluster):
            if self._apart(uid, state, known):
                continue
            told = state.standings.get(cluster)
            if told is None or told.reachable != reachable:
                self._feed(uid, on.ClusterStood(replace(told or known, reachable=reachable)))

    def cut_off(self, cluster: str) -> None:
        """There is no link to a cluster: nothing is tried there before there is one."""
        if (known := self._standings.get(cluster)) is None or known.reachable:
            self._reach(cluster, reachable=False)

    # What is on clusters

    def replaced(self, cluster: str) -> None:
        """A cluster is reached anew; its first inventory follows."""
        self._read_anew(cluster)
        self._here.pop(cluster, None)
        self._orphans.pop(cluster, None)
        self._reach(cluster, reachable=True)

    def _read_anew(self, cluster: str) -> None:
        """Versions begin anew there, of copies too that were known to be gone."""
        for uid, state in list(self._states.items()):
            if cluster in state.remotes:
                self._feed(uid, on.ClusterReplaced(cluster))

    def take(self, link: ClusterLink, news: News) -> None:
        """What the worker of a cluster saw."""
        reachable = news.health.reason not in _CUT_OFF
        known = self._standings.get(link.name)
        if reachable != (known.reachable if known else True):
            self._reach(link.name, reachable=reachable)
            self._orphans_again(link)
        self._note_version(link.name, news)
        for pods in news.pods:
            if pods.local_uid in self._there.get(link.name, ()):
                self._feed(pods.local_uid, on.PodsSeen(pods.attempt, pods.text))
        for copy in news.copies:
            self._see_copy(link, copy)
        for inventory in _inventories(news):
            self._check_inventory(link, inventory)

    def _note_version(self, cluster: str, news: News) -> None:
        """A list is never older than what was seen before it, unless the store of the cluster was
        restored from a backup: then what it says now is the truth, of copies too that are there
        again although they were gone.
        """
        for inventory in _inventories(news):
            at, listed = (cluster, inventory.kind), inventory.version
            if listed < self._versions.get(at, 0):
                log.warning("cluster.restored", cluster=cluster, version=listed)
                self._versions[at] = 0
                self._read_anew(cluster)
            self._versions[at] = max(self._versions.get(at, 0), listed)
        for remote in (copy.remote for copy in news.copies):
            at = (cluster, remote.kind)
            self._versions[at] = max(self._versions.get(at, 0), remote.version)

    def _see_copy(self, link: ClusterLink, copy: Copy) -> None:
        remote, state = copy.remote, self._states.get(copy.local_uid)
        if state is not None and _is_elsewhere(state, remote):
            log.warning("copy.forged", cluster=link.name, job=str(remote.key), uid=copy.local_uid)
            return
        if not remote.gone:
            self._here.setdefault(link.name, set()).add(copy.local_uid)
        elif copy.local_uid in self._here.get(link.name, ()):
            self._here[link.name].discard(copy.local_uid)
        if remote.gone or remote.finished:
            for uid in (copy.local_uid, growth_uid(copy.local_uid)):
                link.ledger.ended(uid, remote.version)
        if state is not None:
            self._feed(copy.local_uid, on.RemoteSeen(remote))
        elif not remote.gone and not remote.terminating:
            log.info("orphan.found", cluster=link.name, job=str(remote.key), uid=copy.local_uid)
            self._orphans.setdefault(link.name, {})[remote.uid] = copy
            self._start("", self._remove_orphan(link, copy))
        else:
            self._orphans.get(link.name, {}).pop(remote.uid, None)

    async def _remove_orphan(self, link: ClusterLink, copy: Copy) -> None:
        """Delete a copy whose local job is gone. It may never change again, so that no event tells
        of it: if it cannot be done now, it is done when the cluster is reached, or in a while.

        Also of one that is held some pods may stop yet: they keep their room. Nobody asks for its
        result, so one that runs need not be as it was seen.
        """
        remote, removal = copy.remote, remove(copy.remote)
        version = None if removal.wait else removal.version
        command = DeleteCopy(
            remote.key, remote.uid, version, removal.wait, remote.kind, copy.local_uid
        )
        outcome = await link.command(command)
        if outcome.result in (Result.OK, Result.ABSENT):
            self._orphans.get(link.name, {}).pop(remote.uid, None)
            return
        log.warning("orphan.kept", cluster=link.name, job=str(remote.key), why=outcome.message)
        if link.name not in self._again:
            loop = asyncio.get_running_loop()
            self._again[link.name] = loop.call_later(ORPHAN_AGAIN_S, self._orphans_again, link)

    def _orphans_again(self, link: ClusterLink) -> None:
        self._again.pop(link.name, None)
        known = self._standings.get(link.name)
        for copy in list(self._orphans.get(link.name, {}).values()):
            if known is None or known.reachable:
                self._start("", self._remove_orphan(link, copy))

    def _check_inventory(self, link: ClusterLink, found: Inventory) -> None:
        jobs = self._jobs(link.name)
        concerned = {uid: state for uid, state in jobs if state.kind == found.kind}
        standing = self._standings.get(link.name)
        for uid in concerned.keys() - found.local_uids:
            if standing is None or not self._apart(uid, concerned[uid], standing):
                self._feed(uid, on.RemoteAbsent(link.name, found.version))


def _is_elsewhere(state: JobState, remote: RemoteJob) -> bool:
    """Whether it is in another namespace than the job that it says it is a copy of. Who may write
    there can copy the annotations of any copy that they see.
    """
    known = state.local or state.record
    return known is not None and known.key.namespace != remote.key.namespace


def _inventories(news: News) -> Iterator[Inventory]:
    if news.inventory is not None:
        yield news.inventory
    yield from news.others
