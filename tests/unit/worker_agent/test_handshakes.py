"""When a device plugin counts as gone."""

from __future__ import annotations

from federation.core.devices.inventory.node_facts import NodeFacts
from federation.core.devices.wire.vendor_table import VENDORS
from worker_agent.handshakes import Handshakes

KEY = "hami.io/node-handshake"
ASKED = "Requesting_2026-01-01 00:00:00"


def node(text: str = ASKED, cards: str = "0") -> NodeFacts:
    return NodeFacts("n", {KEY: text}, capacity={"nvidia.com/gpu": cards})


def test_a_request_that_nobody_answers_for_a_minute() -> None:
    """By the clock here, whatever time is written in it."""
    shakes = Handshakes(VENDORS)
    assert not shakes.lost(node(), 1000.0)
    assert shakes.due() == 1060.0
    assert shakes.overdue(1060.0) == []
    assert shakes.overdue(1061.0) == ["n"]
    assert shakes.lost(node(), 1061.0) == {"NVIDIA"}
    assert shakes.due() is None
    assert not shakes.lost(node("Reported_x"), 1062.0)


def test_cards_to_allocate_and_a_new_request_mean_that_it_lives() -> None:
    shakes = Handshakes(VENDORS)
    assert not shakes.lost(node(cards="10"), 0.0)
    assert shakes.due() is None
    assert not shakes.lost(node(cards="10"), 100.0)
    assert not shakes.lost(node("Requesting_2026-01-01 00:01:30"), 100.0)
    assert not shakes.lost(node("Requesting_2026-01-01 00:01:30"), 159.0)


def test_a_node_that_is_gone_is_forgotten() -> None:
    shakes = Handshakes(VENDORS)
    shakes.lost(node(), 0.0)
    shakes.forget("n")
    assert shakes.due() is None
    assert not shakes.lost(node(), 100.0)
