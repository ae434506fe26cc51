"""What a pod is charged for its cards, by table and against a count moment by moment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.devices.cards import Allocation, Amount, Grant, Slice
from federation.core.devices.ledger.charge import charge, occupied
from federation.core.devices.wants import Role

INIT, SIDECAR, APP = Role.INIT, Role.SIDECAR, Role.APP


def grant(memory: int, cores: int = 0, uuid: str = "a", place: Slice | None = None) -> Grant:
    """A share of a card."""
    return Grant(uuid, "NVIDIA", memory, cores, place)


@pytest.mark.parametrize(
    ("roles", "memory", "peak", "after"),
    [
        pytest.param([APP], [8], (1, 8), (1, 8), id="one app"),
        pytest.param([APP, APP], [8, 4], (2, 12), (2, 12), id="apps add up, two slots"),
        pytest.param([INIT, APP], [20, 10], (1, 20), (1, 10), id="init is a peak"),
        pytest.param([INIT, APP], [5, 10], (1, 10), (1, 10), id="small init costs nothing"),
        pytest.param([INIT, INIT, APP], [7, 9, 1], (1, 9), (1, 1), id="inits do not add up"),
        pytest.param([INIT, APP], [0, 10], (1, 10), (1, 10), id="init without cards (d02)"),
        pytest.param([INIT, APP, APP], [0, 16, 16], (2, 32), (2, 32), id="no shift (d01)"),
        pytest.param([SIDECAR, APP], [10, 10], (2, 20), (2, 20), id="sidecars add up (d17)"),
        pytest.param([SIDECAR, INIT, APP], [4, 20, 10], (2, 24), (2, 14), id="beside a sidecar"),
        pytest.param([INIT, SIDECAR, APP], [20, 4, 10], (2, 20), (2, 14), id="before a sidecar"),
        pytest.param([INIT], [3], (1, 3), None, id="nothing left after init"),
    ],
)
def test_charge_on_one_card(
    roles: list[Role], memory: list[int], peak: tuple[int, int], after: tuple[int, int] | None
) -> None:
    """Slots and MiB, before and after the init containers ended; 0 MiB is a container without."""
    allocation = tuple((grant(mib),) if mib else () for mib in memory)

    assert charge(roles, allocation)["a"][:2] == peak
    now = charge(roles, allocation, init_done=True)
    assert (now["a"][:2] if now else None) == after


def test_each_quantity_has_its_own_peak() -> None:
    """Cores may be most at another moment than memory."""
    allocation = ((grant(20, 5),), (grant(10, 30),))

    assert charge([INIT, APP], allocation) == {"a": Amount(1, 20, 30)}


def test_each_card_has_its_own_peak() -> None:
    """An init container on another card than the app leaves that card when it ends."""
    allocation = ((grant(20, uuid="b"),), (grant(10),))

    assert charge([INIT, APP], allocation) == {"a": Amount(1, 10), "b": Amount(1, 20)}
    assert charge([INIT, APP], allocation, init_done=True) == {"a": Amount(1, 10)}


def test_a_grant_without_memory_takes_a_slot() -> None:
    """Whatever the amounts are, somebody is on the card."""
    assert charge([APP], ((grant(0),),)) == {"a": Amount(1, 0, 0)}


def test_roles_and_allocation_must_match() -> None:
    """Rather an error than a pod charged for half of it."""
    with pytest.raises(ValueError):
        charge([APP, APP], ((grant(1),),))


def test_places_on_a_mig_card() -> None:
    """All, whatever has ended: the plugin keeps instances while the pod lives."""
    low, high, all_of_it = Slice("1g", 0, 1), Slice("1g", 6, 1), Slice("7g", 0, 8)
    allocation = ((grant(1, place=all_of_it),), (grant(1, place=high), grant(1, place=low)), ())

    assert occupied(allocation) == {"a": (low, all_of_it, high)}
    assert occupied(((grant(1),),)) == {}


@st.composite
def pods(draw: st.DrawFn) -> tuple[list[Role], Allocation]:
    """Some init containers and sidecars, then some apps, on three cards."""
    roles = draw(st.lists(st.sampled_from([INIT, SIDECAR]), max_size=4))
    roles = roles + [APP] * draw(st.integers(1, 3))
    grants = st.builds(grant, st.integers(0, 99), st.integers(0, 99), st.sampled_from("abc"))
    containers = [tuple(draw(st.lists(grants, max_size=3))) for _ in roles]
    return roles, tuple(containers)


@given(pods())
def test_charge_is_the_largest_of_all_moments(pod: tuple[list[Role], Allocation]) -> None:
    """Counted by playing the start of the pod, with every grant in a list."""
    roles, allocation = pod
    moments, running = [], []
    for role, grants in zip(roles, allocation, strict=True):
        if role is INIT:
            moments.append([*running, *grants])
        else:
            running += grants
            moments.append(list(running))
    for done, seen in ((False, moments), (True, moments[-1:])):
        expected = {}
        for uuid in sorted({g.uuid for moment in seen for g in moment}):
            sums = [
                (len(on), sum(g.memory_mib for g in on), sum(g.cores for g in on))
                for on in ([g for g in moment if g.uuid == uuid] for moment in seen)
            ]
            expected[uuid] = Amount(*map(max, zip(*sums, strict=True)))
        assert charge(roles, allocation, init_done=done) == expected
