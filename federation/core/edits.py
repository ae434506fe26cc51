"""A job that people edit while it is bound: its priority and its number of pods follow.

Fewer pods go on where they are; for more there is no quota: the job leaves, as Kueue has it, and
queues for what it asks for now, unless it is elastic (`federation.core.elastic`). Nothing of it is
done to a job that leaves already.
"""

from __future__ import annotations

from federation.core import effects as do
from federation.core import elastic
from federation.core.facts import JobState, LocalJob, Record, RemoteJob
from federation.core.loss import reached
from federation.core.reasons import Reason
from federation.core.sizes import exceeds, fewest


def outgrown(
    state: JobState, local: LocalJob, record: Record, copy: RemoteJob | None
) -> do.Evict | None:
    """The eviction of a job that asks for more pods than it was given, unless it is elastic."""
    if elastic.applies(local, record):
        return None
    for pods in local.pod_sets:
        had = _given(record, copy, pods.name)
        if had is not None and pods.count > had:
            text = f"It asks for {pods.count} pods now and was admitted with {had}"
            return do.Evict(Reason.OUT_OF_SYNC, text, "", record.life.requeue)
    return None


def _given(record: Record, copy: RemoteJob | None, name: str) -> int | None:
    """The pods of a set that it may have at most: what it asked for when it was admitted, or less
    if it was given fewer since. A copy whose worker had no room for all was not.
    """
    asked = record.counts.get(name)
    admitted = elastic.given(record).get(name)
    if copy is None or copy.size is None or admitted is None:
        return asked
    wanted = copy.size.asked.get(name, admitted)
    return wanted if wanted < admitted else asked


def priority(state: JobState, record: Record) -> tuple[do.SetPriority, ...]:
    """What writes another priority into the record. While it holds quota only another
    WorkloadPriorityClass can take the place of one; all else counts when it is queued again.
    """
    named, known = state.priority_class, record.priority_class
    return (do.SetPriority(),) if named and known and named != known else ()


def on_copy(
    state: JobState, local: LocalJob, record: Record, copy: RemoteJob
) -> tuple[do.Effect, ...]:
    """What brings a copy in line with the job."""
    if not reached(state, copy.cluster):
        return ()
    effects: list[do.Effect] = []
    if copy.priority not in (None, record.priority):
        effects.append(do.Prioritize(copy.cluster, copy.uid, record.priority))
    if local.live != copy.live and local.live:
        effects.append(do.PushLive(copy.cluster, copy.uid))
    runs, wanted = copy.size.runs if copy.size else {}, elastic.wanted(local)
    can = copy.size is not None and elastic.follows(local, copy.size)
    if can and wanted.keys() == runs.keys() and exceeds(runs, wanted):
        effects.append(do.Resize(copy.cluster, copy.uid, fewest(wanted, runs)))
    return tuple(effects)
