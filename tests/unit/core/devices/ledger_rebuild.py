"""The ledger from what is noted: registrations, seats on Jobs, annotations and phases of pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from federation.core.devices.cards import Host
from federation.core.devices.ledger.claims import Claimed
from federation.core.devices.ledger.holding import Reservation
from federation.core.devices.ledger.ledger import Ledger
from federation.core.devices.ledger.observed import ObservedPod


def rebuild(
    hosts: Iterable[Host],
    pods: Iterable[ObservedPod],
    seats: Iterable[Reservation] = (),
    need: Mapping[str, int] | None = None,
    claims: Iterable[Claimed] = (),
    *,
    now: float,
) -> Ledger:
    """A ledger equal to one that heard of all this as it happened, but for decisions that were
    not noted yet; those had no effect. `need` is how many pods of a Job hold cards at one time,
    where that is fewer than it has seats. Fences and limits are set again by who set them.
    """
    ledger = Ledger()
    for host in hosts:
        ledger.set_host(host)
    ledger.recall(seats)
    for job, count in (need or {}).items():
        ledger.need(job, count)
    for claim in claims:
        ledger.claim(claim)
    for pod in pods:
        ledger.observe(pod)
    ledger.expire(now)
    return ledger
