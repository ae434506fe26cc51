"""The Lease of a cluster (`fedq-system/<cluster>`): as the core sees it, as the manager writes it.

The agent writes `holderIdentity`, `renewTime` and what it knows of earlier renewals, the manager
everything else. Either may find nonsense there that the other wrote: numbers that cannot be read
count as not given.
"""

from __future__ import annotations

from typing import Any

from federation.api.epochs import epoch_of, read_epoch
from federation.api.names import FEDQ_NAMESPACE, FENCED, Lease, Mirror
from federation.api.renewal import read_renewal
from federation.core import confirming
from federation.core.confirming import Confirm
from federation.core.failover import PROFILES, Timings
from federation.core.health import Create, Fence, identity_note
from federation.core.lease import Cause, LeaseSeen

Json = dict[str, Any]

API = "coordination.k8s.io/v1"
LONGEST_S = 10**6
"""No time on a Lease is longer than this: more is nonsense."""


def lease_seen(obj: Json) -> LeaseSeen:
    """Read a Lease."""
    meta, spec = obj["metadata"], obj.get("spec") or {}
    notes = meta.get("annotations") or {}
    holder, renewed = str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or "")
    told = read_renewal(obj)
    current = told.of == renewed  # an agent that tells nothing leaves what another one told
    return LeaseSeen(
        version=int(meta["resourceVersion"]),
        epoch=epoch_of(obj),
        fenced=holder == FENCED,
        holder=holder,
        renewed=renewed,
        lease=min(_number(spec.get("leaseDurationSeconds")), LONGEST_S),
        renew=min(_number(notes.get(Lease.RENEW_SECONDS.value)), LONGEST_S),
        kill=min(_number(notes.get(Lease.KILL_SECONDS.value)), LONGEST_S),
        lowered_from=min(_number(notes.get(Lease.LOWERED_FROM.value)), LONGEST_S),
        cause=str(notes.get(Lease.FENCE_CAUSE.value, "")),
        fenced_version=int(_number(notes.get(Lease.FENCED_VERSION.value))),
        identity=str(notes.get(Lease.IDENTITY.value, "")),
        own_since=read_epoch(str(notes.get(Lease.OWN_SINCE.value, ""))),
        known=told.known if current and told.breaks else None,
        breaks=told.breaks if current else 0,
        confirmed_below=read_epoch(str(notes.get(Lease.CONFIRMED_BELOW.value, ""))),
    )


def over_below(obj: Json) -> int:
    """What was bound below this epoch is over, as the Lease is: see `confirming.over_below`."""
    return confirming.over_below(lease_seen(obj))


def _number(value: object) -> float:
    """What is not a positive number, written plainly, counts as 0."""
    text = str(value)
    plain = text.isascii() and text.replace(".", "", 1).isdigit() and len(text) <= 20
    return float(text) if plain else 0.0


def created(name: str, create: Create, timings: Timings, now: str) -> Json:
    """A Lease to create. `now` is RFC 3339. Nobody knows what an agent goes by whose Lease is
    gone: the longest lease of all profiles is allowed for.
    """
    notes = {Mirror.EPOCH.value: str(create.epoch), **_settings(timings, timings.kill)}
    spec: Json = {"leaseDurationSeconds": int(timings.lease), "leaseTransitions": create.epoch}
    if create.fenced:
        spec["holderIdentity"] = FENCED
        notes |= {Lease.FENCED_AT.value: now, Lease.FENCE_CAUSE.value: Cause.EPOCH_LOST.value}
        longest = max(profile.lease for profile in PROFILES.values())
        if longest > timings.lease:
            notes[Lease.LOWERED_FROM.value] = f"{longest:g}"
    return {
        "apiVersion": API,
        "kind": "Lease",
        "metadata": {"name": name, "namespace": FEDQ_NAMESPACE, "annotations": notes},
        "spec": spec,
    }


def fenced(obj: Json, fence: Fence, now: str) -> Json:
    """The Lease to put in the place of `obj`; the write loses if that changed meanwhile."""
    notes = {
        Mirror.EPOCH.value: str(fence.epoch),
        Lease.FENCED_AT.value: now,
        Lease.FENCE_CAUSE.value: fence.cause.value,
        Lease.FENCED_VERSION.value: str(fence.version),
    }
    if fence.cause is Cause.CONFIRMED:
        notes[Lease.CONFIRMED_BELOW.value] = str(fence.epoch)
    if fence.identity:
        notes |= _identity(fence.identity, fence.epoch)
    spec = {"holderIdentity": FENCED, "leaseTransitions": fence.epoch}
    meta = {"resourceVersion": str(fence.version)}
    return _changed(obj, notes, spec, meta)


def confirmed(obj: Json, confirm: Confirm) -> Json:
    """The Lease to put in the place of `obj`; the write loses if that changed meanwhile."""
    notes = {Lease.CONFIRMED_BELOW.value: str(confirm.epoch)}
    return _changed(obj, notes, {}, {"resourceVersion": str(confirm.version)})


def configured(
    obj: Json, epoch: int, timings: Timings, longest: float, kill: float, identity: str = ""
) -> Json | None:
    """The Lease with the settings as they are now and its epoch as it is known; None if it has
    them. `longest` is the lease that the last renewal may have been made under. `kill` is the least
    K that has to be kept: what runs there may have been admitted under it. `identity` is that of
    the physical cluster which answers.
    """
    seen, notes = lease_seen(obj), dict(obj["metadata"].get("annotations") or {})
    wanted = {Mirror.EPOCH.value: str(epoch), **_settings(timings, max(timings.kill, kill))}
    if longest > timings.lease:
        wanted[Lease.LOWERED_FROM.value] = f"{longest:g}"
    noted = identity_note(seen, identity)
    if noted != (seen.identity, seen.own_since):
        wanted |= _identity(*noted)
    stale = Lease.LOWERED_FROM.value in notes and Lease.LOWERED_FROM.value not in wanted
    same = all(notes.get(key) == value for key, value in wanted.items())
    if same and not stale and seen.lease == timings.lease:
        return None
    return _changed(obj, wanted, {"leaseDurationSeconds": int(timings.lease)}, {}, stale=stale)


def _identity(identity: str, since: int) -> dict[str, str]:
    return {Lease.IDENTITY.value: identity, Lease.OWN_SINCE.value: str(since)}


def _settings(timings: Timings, kill: float) -> dict[str, str]:
    return {
        Lease.RENEW_SECONDS.value: f"{timings.renew:g}",
        Lease.KILL_SECONDS.value: f"{kill:g}",
    }


def _changed(
    obj: Json, notes: dict[str, str], spec: Json, meta: Json, *, stale: bool = False
) -> Json:
    all_notes = {**(obj["metadata"].get("annotations") or {}), **notes}
    if stale:
        del all_notes[Lease.LOWERED_FROM.value]
    return {
        **obj,
        "apiVersion": API,  # items of a list do not tell it
        "kind": "Lease",
        "metadata": {**obj["metadata"], "annotations": all_notes, **meta},
        "spec": {**(obj.get("spec") or {}), **spec},
    }
