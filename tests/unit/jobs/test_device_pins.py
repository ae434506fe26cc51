"""Seats: which pod gets which, and what is written on it."""

from __future__ import annotations

from typing import Any

import pytest

from federation.core.devices.cards import Grant
from federation.core.devices.wire.plan_note import Seat
from federation.jobs.device_pins import (
    Pinned,
    Taking,
    Template,
    chosen,
    mark_of,
    pin_patch,
    taken,
    takings,
    template_for,
)

GATE = {"name": "fedq.io/devices"}
OTHER = {"name": "example.com/other"}


def seat(host: str, *uuids: str, vendor: str = "NVIDIA") -> Seat:
    return Seat(host, (tuple(Grant(uuid, vendor, 1000, 10) for uuid in uuids),))


def pod(name: str, mark: str = "", rank: str = "", *, gated: bool = False, phase: str = "") -> Any:
    annotations = {"fedq.io/seat": mark} if mark else {}
    if rank:
        annotations["batch.kubernetes.io/job-completion-index"] = rank
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "annotations": annotations},
        "spec": {"schedulingGates": [OTHER, GATE]} if gated else {},
        "status": {"phase": phase},
    }


def always(host: str, uuid: str) -> bool:
    return True


def template(seats: list[Seat], hostname: str, selectable: Any, *, alone: bool) -> Template:
    pins = [Pinned(seat.host, chosen(seat, selectable)) for seat in seats]
    return template_for(pins, hostname, alone=alone)


def test_gated_pods_get_free_seats_by_name() -> None:
    pods = [pod("c", gated=True), pod("b", "1"), pod("a", gated=True), pod("d", gated=True)]
    assert takings(pods, 3, range(3)) == [Taking("a", 0), Taking("c", 2)]


def test_ranks_get_the_seat_of_their_number() -> None:
    pods = [pod("x", rank="1", gated=True), pod("y", rank="0", gated=True)]
    assert takings(pods, 2, range(2)) == [Taking("x", 1), Taking("y", 0)]
    later = [
        pod("x", "1", "1", phase="Succeeded"),
        pod("y", "0", "0"),
        pod("z", rank="7", gated=True),
    ]
    assert takings(later, 2, range(2)) == [Taking("z", 1)]


def test_only_seats_that_are_kept_are_given() -> None:
    """One pod is still needed: it gets the seat that is kept, whatever its rank."""
    pods = [pod("x", "0", "0", phase="Succeeded"), pod("y", rank="1", gated=True)]
    assert takings(pods, 2, {0}) == [Taking("y", 0)]
    assert takings(pods, 2, {1}) == [Taking("y", 1)]
    assert takings(pods, 2, ()) == []


def test_a_seat_is_free_when_its_pod_has_ended_and_not_before() -> None:
    stopping = pod("a", "0")
    stopping["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    fresh = pod("b", gated=True)
    assert takings([stopping, fresh], 1, {0}) == []
    assert takings([pod("a", "0", phase="Failed"), fresh], 1, {0}) == [Taking("b", 0)]


def test_marks_that_somebody_made_up() -> None:
    """A second pod with a mark, one beyond the seats, and text: none has a seat by that."""
    pods = [pod("a", "0"), pod("b", "0"), pod("c", "9"), pod("d", "-1"), pod("e", "1" * 30)]
    assert taken(pods[:3], 2) == {"uid-a": 0}
    assert mark_of(pods[3]) is None
    assert mark_of(pods[4]) is None


def test_pods_of_a_pinned_template_have_seats_without_marks() -> None:
    assert taken([pod("b"), pod("a"), pod("c", "0")], 3) == {"uid-c": 0, "uid-a": 1, "uid-b": 2}


def test_the_template_says_it_where_all_seats_are_the_same() -> None:
    same = [seat("n1", "g1", "g2")] * 3
    found = template(same, "host-1", always, alone=False)
    assert (found.gated, dict(found.node_selector)) == (False, {"kubernetes.io/hostname": "host-1"})
    assert found.annotations == {"nvidia.com/use-gpuuuid": "g1,g2"}


@pytest.mark.parametrize(
    ("seats", "hostname", "alone"),
    [
        ([seat("n1", "g1"), seat("n1", "g2")], "h", False),
        ([seat("n1", "g1"), seat("n2", "g1")], "h", False),
        ([seat("n1", "g1")], "h", True),
        ([seat("n1", "g1")], "", False),
    ],
    ids=["cards", "nodes", "annotations of its own", "no hostname"],
)
def test_else_pods_are_gated(seats: list[Seat], hostname: str, alone: bool) -> None:
    found = template(seats, hostname, always, alone=alone)
    assert found.gated
    assert not found.node_selector
    assert not found.annotations


def test_cards_that_are_not_shared_are_told_by_node_alone() -> None:
    seats = [seat("n1", "n1-nvidia-0"), seat("n1", "n1-nvidia-1")]
    found = template(seats, "h", lambda host, uuid: False, alone=False)
    assert not found.gated
    assert not found.annotations


def test_each_vendor_is_chosen_by_its_own_annotation() -> None:
    both = Seat("n", ((Grant("g", "NVIDIA", 1, 0),), (Grant("d", "DCU", 1, 0),)))
    assert chosen(both, always) == {"nvidia.com/use-gpuuuid": "g", "hygon.com/use-gpuuuid": "d"}


def test_one_write_seats_a_pod() -> None:
    patch = pin_patch(pod("a", gated=True), 3, {"kubernetes.io/hostname": "h"}, {"k": "v"})
    assert patch == {
        "metadata": {"uid": "uid-a", "annotations": {"k": "v", "fedq.io/seat": "3"}},
        "spec": {"nodeSelector": {"kubernetes.io/hostname": "h"}, "schedulingGates": [OTHER]},
    }
