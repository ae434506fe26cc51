"""Quota of a namespace for cards: what is held in all against the tightest limit."""

import pytest

from federation.core.devices.cards import Amount
from federation.core.devices.ledger.spaces import Limit, Spaces
from federation.core.devices.quota.namespace import namespace_limits

MEMORY = "limits.nvidia.com/gpumem"


def allowed(hard, held, asked, vendor="NVIDIA"):
    """Whether a pod with this charge on cards may join what is held."""
    spaces = Spaces()
    limits, _ = namespace_limits("q", hard)
    spaces.limit("ns", "q", limits)
    spaces.add("ns", {vendor: _sum(held)})
    return not spaces.objection("ns", {vendor: _sum(asked)})


def _sum(amounts):
    total = Amount()
    for amount in amounts:
        total = total.plus(Amount(*amount))
    return total


def test_two_cards_count_twice():
    limit = {MEMORY: "4096"}
    assert allowed(limit, [], [(1, 2048, 0), (1, 2048, 0)])
    assert not allowed(limit, [(1, 2048, 0), (1, 2048, 0)], [(1, 1, 0)])


def test_a_whole_card_is_denied_before_it_is_placed():
    assert not allowed({MEMORY: "25600"}, [], [(1, 40960, 100)])


@pytest.mark.parametrize("key", ["limits.nvidia.com/", "requests.nvidia.com/"])
@pytest.mark.parametrize(
    ("name", "most", "fits"),
    [
        ("gpumem", "3000", True),
        ("gpumem", "2999", False),
        ("gpumem", "3Gi", True),
        ("gpumem", "0", False),
        ("gpu-memory", "2999", False),
        ("total-gpumem", "2999", False),
        ("gpucores", "30", True),
        ("gpucores", "29", False),
        ("total-gpucores", "29", False),
        ("gpu", "1", True),
        ("gpu", "0", False),
    ],
)
def test_limits(key, name, most, fits):
    assert allowed({key + name: most}, [], [(1, 3000, 30)]) is fits


def test_absent_is_unlimited_and_other_vendors_are_not_touched():
    assert allowed({}, [], [(1, 10**6, 100)])
    assert allowed({MEMORY: "0"}, [], [(1, 5000, 0)], vendor="DCU")


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_objects_the_tighter_counts_in_any_order(order):
    spaces = Spaces()
    quotas = [("loose", {MEMORY: "9000"}), ("tight", {"requests.nvidia.com/gpumem": "5000"})]
    for name, hard in quotas[::order]:
        spaces.limit("ns", name, namespace_limits(name, hard)[0])
    assert not spaces.objection("ns", {"NVIDIA": Amount(1, 5000, 0)})
    assert "tight allows 5000" in spaces.objection("ns", {"NVIDIA": Amount(1, 5001, 0)})
    spaces.limit("ns", "tight", {})
    assert not spaces.objection("ns", {"NVIDIA": Amount(1, 9000, 0)})


def test_of_two_keys_the_tighter_counts():
    hard = {MEMORY: "9000", "requests.nvidia.com/gpu-memory": "5Gi", "limits.nvidia.com/gpu": "3"}
    assert namespace_limits("q", hard) == ({"NVIDIA": Limit(3, 5120, None)}, ())


def test_units_of_a_vendor_apply_to_limits():
    limits = {"limits.cambricon.com/mlu.smlu.vmemory": "10"}
    assert allowed(limits, [], [(1, 2560, 0)], vendor="MLU")
    assert not allowed(limits, [], [(1, 2561, 0)], vendor="MLU")


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("limits.nvidia.com/gpumemory", "did you mean limits.nvidia.com/gpu-memory?"),
        ("nvidia.com/gpumem", "did you mean limits.nvidia.com/gpumem?"),
        ("limits.nvidia.com/gpumem-percentage", "limits no cards"),
    ],
)
def test_unknown_keys_are_told(key, said):
    limits, (warning,) = namespace_limits("q", {key: "1"})
    assert not limits
    assert said in warning
    assert key in warning


def test_keys_that_are_not_about_cards_are_nobodys_business():
    hard = {"limits.cpu": "1", "requests.example.com/x": "1", "pods": "2"}
    assert namespace_limits("q", hard) == ({}, ())


def test_what_cannot_be_read_lets_nothing_in():
    limits, (warning,) = namespace_limits("q", {MEMORY: "500m"})
    assert limits == {"NVIDIA": Limit(memory_mib=0)}
    assert "nothing is let in" in warning
