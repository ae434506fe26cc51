"""The status of the Workload that an effect writes."""

from __future__ import annotations

from federation.api import departure
from federation.api import record_patches as patches
from federation.api.kinds.paths import EACH, mappings
from federation.core import effects as do
from federation.core.facts import JobState, Queues, Record
from federation.core.pod_note import trouble
from federation.core.reasons import Reason
from federation.core.stay import LifeRules
from federation.edge.resources import Json


def status_body(
    effect: do.Effect, state: JobState, record: Record, rules: LifeRules, now: str
) -> Json:
    """A merge patch that loses against any change of the Workload since; `now` is RFC 3339."""
    queues, waits = state.queues or Queues(), rules.pods_ready is not None
    match effect:
        case do.Rebind(epoch):
            return patches.rebind_patch(record, epoch)
        case do.Admit(cluster):
            ready = state.pods_ready if waits else None
            held_s = state.remote.held_s if state.remote is not None else 0
            return patches.admit_patch(record, cluster, queues.own_check, ready, now, held_s)
        case do.FinishWorkload(reason, cluster):
            text, ready = end_message(state, reason, cluster), waits and reason == "Complete"
            pods = trouble(state, state.remote) if reason == "Failed" else ""
            return patches.finish_patch(record, reason, text, now, pods_ready=ready, pods=pods)
        case do.FailToStart(message):
            return patches.finish_patch(record, Reason.FAILED_TO_START, message, now)
        case do.Evict():
            return departure.evict_patch(record, effect, now)
        case do.Unbind():
            return departure.unbind_patch(record, effect, now)
        case do.Regrant(admission):
            return patches.regrant_patch(record, admission)
        case do.SetScaling(reason, message):
            return patches.scaling_patch(record, reason, message, now)
        case do.SetNote(message):
            return patches.note_patch(record, message)
        case do.SetPods(text):
            return patches.pods_patch(record, text)
        case do.Readmit(reason, message):
            return departure.readmit_patch(record, reason, message, now)
        case do.SetTarget(reason, message):
            return departure.target_patch(record, reason, message, now)
        case do.SyncChecks():
            return departure.checks_patch(record, queues, now)
        case do.SetPodsReady(ready):
            return departure.pods_ready_patch(record, ready, now)
        case do.Nominate(clusters):
            return patches.nominate_patch(record, clusters, now)
        case do.SetWaiting(reason, message, why):
            return patches.waiting_patch(record, reason, message, now, why)
    raise AssertionError(f"no handler for {effect}")


def end_message(state: JobState, ended: str, cluster: str) -> str:
    """What the copy says whose result it is; without a `cluster` one that ended so, if any did."""
    copies = state.remotes.values()
    found = [copy for copy in copies if copy.finished == ended and cluster in ("", copy.cluster)]
    copy = max(found, key=lambda copy: copy.attempt, default=None)
    if copy is None:
        return f"the job ended as {ended}"
    where = f" on cluster {copy.cluster}, attempt {copy.attempt}"
    if copy.ending:
        return f"{copy.ending}{where}"
    for condition in mappings(copy.status, ("conditions", EACH)):
        if condition.get("type") == ended and condition.get("message"):
            return f"{condition['message']}{where}"
    return f"the job ended as {ended}{where}"
