"""Worker clusters that plain Kueue runs, without our agent: what goes there, and when it is lost.

Source: DESIGN section 5, the specification of MultiKueue sections 1.3 and 3. Nobody there stops a
job when the cluster is cut off, so what was lost may go on while it runs elsewhere: two copies are
possible. Until then a cluster counts as having what it had; the only sign of life is that its API
server answers the manager. All times are seconds on the manager's own clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from federation.core.facts import BATCH_JOB, LocalJob
from federation.core.failover import OnDisconnect, Standing, Timings
from federation.core.health import Brake, Facts, Phase, Step, Verdict
from federation.core.wishes import Disconnect, Wishes, nearest

WORKER_LOST_S = 900.0
"""As MultiKueue's workerLostTimeout."""


def policy(said: Iterable[Wishes]) -> Disconnect:
    """What holds there of a job: as `wishes.nearest`, but where nobody says anything it runs again
    elsewhere when the cluster is lost, whatever becomes of its copy.
    """
    known = list(said)
    found = nearest(known)
    if any(wishes.policy is not None for wishes in known):
        return found
    return replace(found, policy=OnDisconnect.DUPLICATE_OK)


def agent_only(local: LocalJob, said: Iterable[Wishes]) -> str:
    """Why a job is not placed there; '' if it may be."""
    none = "it has no agent, which"
    if local.kind != BATCH_JOB:
        return f"{none} a {local.kind.partition('.')[0]} needs"
    if local.elastic:
        return f"{none} an elastic job needs"
    if any(pods.topology is not None for pods in local.pod_sets):
        return f"{none} a wish for a topology needs"
    found = policy(said)
    if found.policy is OnDisconnect.STOP:
        return f"{none} its policy stop needs (fedq.io/on-disconnect): nobody would stop it there"
    if found.stops:
        return f"{none} the limit of its policy keep needs (fedq.io/rerun-after)"
    return ""


@dataclass(frozen=True, slots=True)
class Contact:
    """When its API server last answered, or since when it is asked if it never did (`met`), and
    whether it was given up since.
    """

    at: float
    met: bool = False
    lost: bool = False

    def silent(self, now: float) -> float:
        """For how long it has not answered."""
        return max(0.0, now - self.at)


def looked(old: Contact | None, facts: Facts, now: float, lost_s: float, free_at: float) -> Contact:
    """What is known at `now`. The time begins anew with each manager: it waits longer, not less.
    Nothing is given up before `free_at` (`Brake.free_at`).
    """
    if old is None or facts.contact:
        return Contact(now, met=facts.contact)
    over = old.silent(now) >= lost_s and now >= free_at
    return replace(old, lost=old.lost or over)


def counts(contact: Contact, facts: Facts, now: float, timings: Timings) -> tuple[int, int]:
    """What it adds to the silent clusters and to the members of `health.brake`."""
    if contact.lost or (facts.missing_since is not None and not facts.bound):
        return 0, 0
    return int(contact.silent(now) >= timings.suspect), 1


def judge(
    name: str, contact: Contact, facts: Facts, epoch: int, lost_s: float, held: Brake, now: float
) -> Verdict:
    """How it stands. There is no Lease: nothing is fenced, and nothing is to be done about one."""
    away = contact.silent(now)
    step = Step("its jobs run elsewhere, two copies are possible", contact.at + lost_s)
    if held.reason:
        step = Step(f"nothing while {held.reason}", math.inf)
    since: float | None = contact.at
    if contact.lost:
        phase, cause = Phase.LOST, "there is no contact with its API server"
        next_: Step | None = Step("what is left there of its jobs is removed when it is back")
    elif facts.missing_since is not None:
        phase, cause, next_ = Phase.LEAVING, "its MultiKueueCluster was deleted", step
    elif not facts.contact and not contact.met and not facts.bound:
        phase, cause, next_, since = Phase.UNKNOWN, facts.unusable, None, None
    elif not facts.contact:
        phase, cause, next_ = Phase.SUSPECT, "there is no contact with its API server", step
    elif facts.unusable:
        phase, cause, next_, since = Phase.UNUSABLE, facts.unusable, None, None
    else:
        phase, cause, next_, since = Phase.READY, "", None, None
    standing = Standing(
        name,
        epoch,
        present=phase is Phase.READY and facts.listed,
        suspect=contact.lost,
        silent=away if contact.lost else 0.0,
        plain=True,
    )
    return Verdict(phase, standing, cause, since, next_)
