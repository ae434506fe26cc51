"""Carries out effects on worker clusters: offers, adoptions, removals, by commands to their links.

What cannot be done because there is no link is not tried again and again: the job is told that the
cluster cannot be reached, and its plan is made again when that changes.
"""

from __future__ import annotations

from dataclasses import replace

from federation.api.names import Label, Mirror, Option
from federation.core import effects as do
from federation.core import events as on
from federation.core.facts import BATCH_JOB, JobState, LocalJob, Record, RemoteJob
from federation.core.loss import standing_of
from federation.core.stay import checked
from federation.core.wishes import Disconnect
from federation.edge.kind_objects import objects
from federation.edge.kube import KubeClient
from federation.edge.resources import Json
from federation.jobs import elastic
from federation.jobs.kinds.pod_groups import newcomers, without_class
from federation.jobs.mirror import Identity
from federation.jobs.offer import copy_of, start_problem
from federation.jobs.plain_kueue import clone_of, job_of
from manager.clusters import Clusters
from manager.controller import Controller
from manager.link import ClusterLink
from manager.outcomes import AFTER_CONFLICT_S, Again, Ended, facts
from manager.protocol import AdoptCopy, ChangeCopy, CreateCopy, DeleteCopy, Outcome, Reply, Result

Change = do.Prioritize | do.PushLive | do.Resize | do.AskForMore | do.WithdrawGrowth


class Copies:
    """One per manager. Raises Again and Ended; see `manager.outcomes`."""

    def __init__(
        self, client: KubeClient, controller: Controller, clusters: Clusters, origin: str
    ) -> None:
        self._client, self._controller = client, controller
        self._clusters, self._origin = clusters, origin
        self.fresh: dict[str, int] = {}
        """Attempts that were bound here and never offered, by UID: nobody knows of them."""

    def _link(self, state: JobState, cluster: str) -> ClusterLink:
        link = self._clusters.links.get(cluster)
        if link is None:
            self._controller.news.cut_off(cluster)
            cut = replace(standing_of(state, cluster), reachable=False)
            raise Ended(on.CannotReach(cut))
        return link

    async def offer(self, uid: str, state: JobState, offer: do.Offer) -> None:
        """Create the copy."""
        local, record = facts(state)
        link = self._link(state, offer.cluster)
        job, kind = await self.job_body(uid, local), self._controller.kinds[local.kind]
        if not offer.void and (problem := start_problem(job, record, kind)):
            raise Ended(on.CannotStart(problem))
        body = await self._copy(uid, local, record, offer, job)
        latest = self._controller.states.get(uid) or JobState()
        if not offer.void and not checked(latest, latest.record or record):
            raise Again("", AFTER_CONFLICT_S)  # a check has changed its mind meanwhile
        first = self.fresh.pop(uid, 0) == offer.attempt
        command = CreateCopy(local.key, uid, offer.attempt, body)
        if self._clusters.plain(offer.cluster):
            command = _for_plain_kueue(command, record)
        outcome = await link.command(command)
        unsent = first and outcome.reply is Reply.UNSENT
        if outcome.result is Result.REFUSED or unsent:
            link.ledger.ended(uid, 0)
            text = f"it was not offered: {outcome.message}" if unsent else outcome.message
            raise Ended(on.OfferRefused(offer.cluster, outcome.reason, text))
        _check(outcome)
        if outcome.remote is not None:
            link.ledger.created(uid, outcome.remote.version)
            self._controller.feed(uid, on.RemoteSeen(outcome.remote))

    async def _copy(
        self, uid: str, local: LocalJob, record: Record, offer: do.Offer, job: Json
    ) -> Json:
        bound = record.binding
        identity = Identity(
            origin=self._origin,
            local_uid=uid,
            attempt=offer.attempt,
            epoch=bound.epoch if bound else 0,
            queued_at=job["metadata"]["creationTimestamp"],
            priority=record.priority,
            disconnect=Disconnect(bound.policy, bound.rerun_after) if bound else Disconnect(),
        )
        kind = self._controller.kinds[local.kind]
        vendors = self._controller.policies.resources.vendors
        views = self._controller.views
        most = views.timings.kill if views.clamp_grace else None
        body = copy_of(
            job, identity, record, kind=kind, vendors=vendors, void=offer.void, most_grace_s=most
        )
        if kind.bundled:
            body = without_class(body, self._controller.catalog.default_pod_class)
        if not views.preemptible(local):  # its queues here may have said it
            body["metadata"]["annotations"][Option.NON_PREEMPTIBLE.value] = "true"
        return body

    async def job_body(self, uid: str, local: LocalJob) -> Json:
        """The whole Job, read again if it is not in memory any more."""
        job = self._controller.body(uid)
        if job is None:
            kind = self._controller.kinds[local.kind]
            job = await objects(self._client, kind).get(local.key.name, local.key.namespace)
            if job["metadata"]["uid"] != uid:
                raise Again("the job was replaced", AFTER_CONFLICT_S)
        return job

    async def adopt(self, uid: str, state: JobState, effect: do.Adopt) -> None:
        """Raise the epoch of the copy."""
        link = self._link(state, effect.cluster)
        copy = state.remotes[effect.cluster]
        outcome = await link.command(AdoptCopy(copy.key, effect.uid, effect.epoch, copy.kind, uid))
        self._take(uid, copy, outcome)

    async def prioritize(self, uid: str, state: JobState, effect: do.Prioritize) -> None:
        """Write another priority onto the copy, with the class that it comes from."""
        local, _ = facts(state)
        notes = {Mirror.PRIORITY.value: str(effect.priority)}
        labels = {Label.PRIORITY_CLASS.value: local.priority_class or None}
        body: Json = {"metadata": {"annotations": notes, "labels": labels}}
        await self._change(uid, state, effect, body)

    async def push(self, uid: str, state: JobState, effect: do.PushLive) -> None:
        """Have the copy say what the job says now, as far as it follows while it runs."""
        local, record = facts(state)
        job, kind = await self.job_body(uid, local), self._controller.kinds[local.kind]
        copy, added = state.remotes[effect.cluster], None
        if kind.bundled and (fresh := newcomers(job, copy.status.get("pods") or ())) is not None:
            offer = do.Offer(effect.cluster, copy.attempt)
            added = await self._copy(uid, local, record, offer, fresh)
        await self._change(uid, state, effect, kind.live_patch(job), added=added)

    async def resize(
        self, uid: str, state: JobState, effect: do.Resize | do.AskForMore | do.WithdrawGrowth
    ) -> None:
        """Give the copy fewer pods, or have its agent give it more, or not. What was decided on an
        earlier state of the copy, and arrives late, changes nothing.
        """
        local, _ = facts(state)
        job, kind = await self.job_body(uid, local), self._controller.kinds[local.kind]
        body: Json = {"metadata": {"annotations": dict(elastic.NOTHING_ASKED)}}
        size: Json | None = None
        match effect:
            case do.Resize():
                size = kind.resized(job, effect.pods)
                if local.kind == BATCH_JOB:  # no lists are in the way
                    body["spec"], size = kind.resize(job, size), None
            case do.AskForMore():
                body = elastic.ask_patch(kind.resized(job, effect.pods))
            case do.WithdrawGrowth(refused=str(why)) if why:
                body = {"metadata": {"annotations": {Mirror.GROW_REFUSED.value: why}}}
        if not isinstance(effect, do.WithdrawGrowth):
            body["metadata"]["resourceVersion"] = str(state.remotes[effect.cluster].version)
        await self._change(uid, state, effect, body, size=size)

    async def _change(
        self,
        uid: str,
        state: JobState,
        effect: Change,
        body: Json,
        *,
        size: Json | None = None,
        added: Json | None = None,
    ) -> None:
        link, copy = self._link(state, effect.cluster), state.remotes[effect.cluster]
        command = ChangeCopy(copy.key, effect.uid, body, copy.kind, uid, size, added)
        self._take(uid, copy, await link.command(command))

    async def remove(self, uid: str, state: JobState, effect: do.RemoveRemote) -> None:
        """Delete the copy."""
        link = self._link(state, effect.cluster)
        copy = state.remotes[effect.cluster]
        command = DeleteCopy(copy.key, effect.uid, effect.version, effect.wait, copy.kind, uid)
        outcome = await link.command(command)
        self._take(uid, copy, outcome)
        if outcome.result is Result.ABSENT:
            link.ledger.ended(uid, copy.version)

    def _take(self, uid: str, copy: RemoteJob, outcome: Outcome) -> None:
        """What an answer says of a copy that was there."""
        if outcome.remote is not None:
            self._controller.feed(uid, on.RemoteSeen(outcome.remote))
        if outcome.result is Result.ABSENT:
            self._controller.feed(uid, on.RemoteAbsent(copy.cluster, copy.version))
        elif _has_changed(copy, outcome):
            raise Again("", AFTER_CONFLICT_S)
        else:
            _check(outcome)


def _for_plain_kueue(command: CreateCopy, record: Record) -> CreateCopy:
    """The same with the Workload that goes first. It has the name of the record, as upstream."""
    name = record.key.name
    clone = clone_of(command.body, name, record.priority)
    return replace(command, body=job_of(command.body, name), clone=clone)


def _has_changed(copy: RemoteJob, outcome: Outcome) -> bool:
    """Whether what was to be done was decided on another state, and the one there is now is known.
    What is refused of a copy that is as it was would be refused again at once.
    """
    found = outcome.remote
    return outcome.result is Result.RETRY and found is not None and found.version != copy.version


def _check(outcome: Outcome) -> None:
    if outcome.result is not Result.OK:
        raise Again(outcome.message)
