"""Leases of clusters on the wire: what is read of them, and what is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.api.lease import configured, created, fenced, lease_seen
from federation.api.names import FENCED, Lease, Mirror
from federation.api.renewal import Told, renewal_note
from federation.core.failover import DEFAULT, FAST
from federation.core.health import Create, Fence
from federation.core.lease import Cause

Json = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"


def stored() -> Json:
    """A Lease that was made, as the API gives it back."""
    body = created("a", Create(1, fenced=False), DEFAULT, NOW)
    return {**body, "metadata": {**body["metadata"], "resourceVersion": "5"}}


def test_made() -> None:
    """With everything that the agent goes by."""
    seen = lease_seen(stored())

    assert (seen.version, seen.epoch, seen.fenced, seen.held) == (5, 1, False, False)
    assert (seen.lease, seen.renew, seen.kill) == (120, 20, 45)


def test_made_where_there_was_one() -> None:
    """It counts as fenced, by an agent that may have gone by the longest lease."""
    body = created("a", Create(4, fenced=True), FAST, NOW)
    seen = lease_seen({**body, "metadata": {**body["metadata"], "resourceVersion": "1"}})

    assert (seen.epoch, seen.fenced, seen.cause) == (4, True, Cause.EPOCH_LOST)
    assert (seen.lease, seen.lowered_from) == (30, 120)


def test_fenced() -> None:
    """Holder, epoch and why; what the agent wrote stays to be read."""
    lease = stored()
    lease["spec"] |= {"holderIdentity": "agent", "renewTime": "then"}
    body = fenced(lease, Fence(2, Cause.SILENT, 5), NOW)

    assert body["metadata"]["resourceVersion"] == "5"
    assert (body["spec"]["holderIdentity"], body["spec"]["renewTime"]) == (FENCED, "then")
    assert body["metadata"]["annotations"][Lease.FENCED_AT.value] == NOW
    seen = lease_seen(body)
    assert (seen.epoch, seen.cause, seen.fenced_version) == (2, "silent", 5)
    assert lease["spec"]["holderIdentity"] == "agent"


def test_settings_that_are_as_they_should_be() -> None:
    """Nothing to write."""
    assert configured(stored(), 1, DEFAULT, 120, 45) is None


def test_settings_that_changed() -> None:
    """A shorter lease says what it was, and takes that back once it is known."""
    first = configured(stored(), 1, FAST, 120, 45)
    assert first is not None
    lowered = lease_seen(first)
    second = configured(first, 1, FAST, 30, 45)
    assert second is not None

    assert (lowered.lease, lowered.renew, lowered.lowered_from) == (30, 5, 120)
    assert lease_seen(second).lowered_from == 0
    assert configured(second, 1, FAST, 30, 45) is None


def test_a_longer_kill_time_is_kept() -> None:
    """While something runs that was admitted under it."""
    short = replace(DEFAULT, kill=30.0)
    free = configured(stored(), 1, short, 120, 0)

    assert configured(stored(), 1, short, 120, 45) is None
    assert free is not None
    assert lease_seen(free).kill == 30


@pytest.mark.parametrize(
    "text", ["", "nonsense", "-3", "1e9", "9" * 30, "٣", "0x10", "1.2.3", "NaN", None, [], "²"]
)
def test_nonsense(text: object) -> None:
    """The agent may write what it likes: it counts as nothing, and the manager writes it again."""
    lease = stored()
    lease["metadata"]["annotations"] |= {
        Mirror.EPOCH.value: text,
        Lease.RENEW_SECONDS.value: text,
        Lease.KILL_SECONDS.value: text,
    }
    lease["spec"] |= {"leaseDurationSeconds": text, "renewTime": text, "holderIdentity": text}
    seen = lease_seen(lease)
    again = configured(lease, 7, DEFAULT, 0, 0)

    assert (seen.epoch, seen.lease, seen.renew, seen.kill) == (0, 0, 0, 0)
    assert again is not None
    assert (lease_seen(again).epoch, lease_seen(again).lease) == (7, 120)


def test_what_the_agent_tells_of_its_renewals() -> None:
    """It counts for the renewal that it was written with: an agent of before leaves it as it is."""
    lease = stored()
    lease["spec"] |= {"holderIdentity": "agent", "renewTime": "b"}
    assert (lease_seen(lease).known, lease_seen(lease).breaks) == (None, 0)

    note = renewal_note(Told("b", "a", 3))
    lease["metadata"]["annotations"][Lease.RENEWAL.value] = note
    assert (lease_seen(lease).known, lease_seen(lease).breaks) == ("a", 3)
    fence = fenced(lease, Fence(2, Cause.SILENT, 7), "now")
    assert lease_seen(fence).breaks == 3

    lease["spec"]["renewTime"] = "c"
    assert (lease_seen(lease).known, lease_seen(lease).breaks) == (None, 0)


def test_too_much() -> None:
    """Times are bounded; an epoch that no API takes is none."""
    lease = stored()
    lease["metadata"]["annotations"][Mirror.EPOCH.value] = str(2**31)
    lease["spec"]["leaseDurationSeconds"] = 2**31 - 1

    assert (lease_seen(lease).epoch, lease_seen(lease).lease) == (0, 10**6)
