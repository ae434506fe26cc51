"""The cards of a node: registered, counted by capacity, cut by node groups, closed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.devices.cards import HAMI_CORE, INSTANCE, SLICE, WHOLE, Card, Host
from federation.core.devices.inventory.inventory import HostReading, NodeFacts, carried, read_host
from federation.core.devices.inventory.node_groups import NodeGroup
from federation.core.devices.wire.vendor_table import HYGON, NVIDIA
from tests.unit.core.build import FEW
from tests.unit.core.devices.registrations import encode_colon, encode_json

REGISTER = NVIDIA.register
RECORDED = Path(__file__).parents[5] / "shared" / "conformance" / "vgpu"


def card(uuid: str = "GPU-1", index: int = 0, **changes: Any) -> Card:
    """An A100 with 80 GB."""
    return Card(uuid, "NVIDIA", "NVIDIA A100", 81920, index=index, **changes)


def registered(*cards: Card, **facts: Any) -> NodeFacts:
    """A node whose plugin registered NVIDIA cards."""
    annotations = {REGISTER: encode_json(cards), **facts.pop("annotations", {})}
    return NodeFacts("n", annotations, **facts)


def test_registered_cards() -> None:
    """In order of index, with the scores of their links."""
    links = json.dumps([{"uuid": "a", "score": {"b": 600}}])
    node = registered(card("b", 1), card("a"), annotations={"hami.io/node-nvidia-score": links})
    assert read_host(node) == HostReading(
        Host("n", (card("a"), card("b", 1)), {("a", "b"): 600, ("b", "a"): 600})
    )


def test_nothing() -> None:
    """A node without cards is a host without cards."""
    assert read_host(NodeFacts("n", capacity={"cpu": "8"})) == HostReading(Host("n", ()))


def test_registration_goes_before_capacity() -> None:
    """HAMi's plugin shows each card ten times, and MIG instances are its own affair."""
    capacity = {"nvidia.com/gpu": "10", "nvidia.com/mig-1g.5gb": "7"}
    assert read_host(registered(card(), capacity=capacity)).host.cards == (card(),)


@pytest.mark.parametrize("text", ["", "[", '[{"id":1}]', "g,1:", "[" * 9999])
def test_an_unreadable_registration_closes_the_node(text: str) -> None:
    """The sentence says which annotation, what is wrong and what to do; other vendors stay."""
    annotations = {REGISTER: text, HYGON.register: "d,1,1024,100,K100,0,true:"}
    reading = read_host(NodeFacts("n", annotations, capacity={"nvidia.com/gpu": "80"}))
    assert reading.fence.startswith(f"annotation {REGISTER} cannot be read: ")
    assert "check the device plugin of NVIDIA" in reading.fence
    assert reading.unread == {"NVIDIA"}
    assert [c.uuid for c in reading.host.cards] == ["d"]


def test_what_was_known_is_carried() -> None:
    """Cards of the vendor that cannot be read stay as they were, others are as they are."""
    before = Host("n", (card("GPU-1"), Card("d", "DCU", "K100", 1)), {("GPU-1", "x"): 1})
    reading = read_host(NodeFacts("n", {REGISTER: "?", HYGON.register: "e,1,9,100,K,0,true:"}))
    host = carried(reading, before)
    assert [c.uuid for c in host.cards] == ["e", "GPU-1"]
    assert host.links == {("GPU-1", "x"): 1}
    assert carried(reading, None) == reading.host
    sound = read_host(registered(card("GPU-2")))
    assert carried(sound, before) == sound.host


def test_a_plugin_that_has_not_registered_yet() -> None:
    """Its handshake shows that the capacity is no number of cards."""
    node = NodeFacts("n", {"hami.io/node-handshake": "Requesting_x"}, capacity={NVIDIA.count: "80"})
    reading = read_host(node)
    assert f"no annotation {REGISTER}" in reading.fence
    assert reading.unread == {"NVIDIA"}
    assert reading.host.cards == ()


def test_capacity_of_a_vendor_that_must_register() -> None:
    """It is not counted, and people are told."""
    reading = read_host(NodeFacts("n", capacity={HYGON.count: "4"}))
    assert reading.host.cards == ()
    assert not reading.fence
    assert "hami.io/node-dcu-register" in reading.problems[0]


LABELS = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920"}


def plain(count: str = "2", **facts: Any) -> NodeFacts:
    """A node with NVIDIA's own plugin."""
    labels = LABELS | facts.pop("labels", {})
    return NodeFacts("n", labels=labels, capacity={NVIDIA.count: count}, **facts)


def test_plain_capacity() -> None:
    """Cards have made-up names and are given out whole."""
    first, second = read_host(plain()).host.cards
    assert (first.uuid, second.uuid) == ("n-nvidia-0", "n-nvidia-1")
    assert first.model == "NVIDIA-A100-SXM4-80GB"
    assert (first.memory_mib, first.cores, first.slots, first.mode) == (81920, 100, 1, WHOLE)
    assert first.offers(0, 100, "")
    assert first.offers(81920, 0, "")
    assert not first.offers(4000, 0, "")
    assert not first.offers(0, 50, "")
    assert not first.offers(0, 100, "2g.10gb")


def test_plain_capacity_without_labels() -> None:
    """Cards are counted; of their memory nothing is known. An odd label is none."""
    for labels in ({}, {"nvidia.com/gpu.memory": "many"}):
        (one,) = read_host(NodeFacts("n", labels=labels, capacity={NVIDIA.count: "1"})).host.cards
        assert (one.model, one.memory_mib) == ("NVIDIA", 0)
        assert one.share(0, 100) == 0


def test_time_slicing() -> None:
    """Each replica is what a pod gets: a card with its part of the memory."""
    cards = read_host(plain("8", labels={"nvidia.com/gpu.replicas": "4"})).host.cards
    assert len(cards) == 8
    assert {c.memory_mib for c in cards} == {20480}


def test_cards_that_the_kubelet_found_unsound() -> None:
    """They are counted but take nothing new; which they are is not known."""
    cards = read_host(plain("3", allocatable={NVIDIA.count: "2"})).host.cards
    assert [c.healthy for c in cards] == [True, True, False]


def test_mig_instances_of_the_operator() -> None:
    """Each is a unit under its own resource name, with what the labels say of it."""
    labels = {"nvidia.com/mig-2g.10gb.memory": "9984", "nvidia.com/mig-2g.10gb.product": "A100-MIG"}
    capacity = {"nvidia.com/mig-2g.10gb": "2", "nvidia.com/mig-1g.10gb.me": "1", NVIDIA.count: "0"}
    cards = read_host(NodeFacts("n", labels=labels, capacity=capacity)).host.cards
    one = next(c for c in cards if c.uuid == "n-mig-2g.10gb-0")
    assert (one.vendor, one.model, one.memory_mib) == ("NVIDIA", "A100-MIG", 9984)
    assert (one.mode, one.slots) == (INSTANCE, 1)
    assert one.offers(0, 0, "2g.10gb")
    assert not one.offers(4000, 0, "")
    assert not one.offers(0, 100, "")
    media = next(c for c in cards if c.uuid.startswith("n-mig-1g"))
    assert (media.memory_mib, media.profiles[0].name) == (10240, "1g.10gb+me")
    assert len(cards) == 3


@pytest.mark.parametrize(("state", "closed"), [("pending", True), ("success", False), ("", False)])
def test_mig_geometry_under_change(state: str, closed: bool) -> None:
    """While the operator cuts cards anew, the node is closed."""
    assert bool(read_host(plain(labels={"nvidia.com/mig.config.state": state})).fence) is closed


@pytest.mark.parametrize(
    ("capacity", "cards"),
    [
        (
            {"cambricon.com/mlu.smlu.vcore": "200", "cambricon.com/mlu.smlu.vmemory": "192"},
            [
                ("n-cambricon-mlu-0", "MLU", 24576, 100, 100, 0),
                ("n-cambricon-mlu-1", "MLU", 24576, 100, 100, 0),
            ],
        ),
        (
            {"mthreads.com/sgpu-core": "32", "mthreads.com/sgpu-memory": "192"},
            [
                ("n-mthreads-0", "Mthreads", 49152, 16, 100, 0),
                ("n-mthreads-1", "Mthreads", 49152, 16, 100, 0),
            ],
        ),
        ({"metax-tech.com/gpu": "1"}, [("n-metax-0", "Metax-GPU", 65536, 100, 1, 0)]),
        (
            {"kunlunxin.com/xpu": "2"},
            [
                ("n-kunlun-0", "kunlun", 98304, 100, 1, 0),
                ("n-kunlun-1", "kunlun", 98304, 100, 1, 1),
            ],
        ),
        ({"aws.amazon.com/neuron": "1"}, [("n-AWSNeuron-0", "AWSNeuron", 0, 100, 1, 0)]),
    ],
    ids=["Cambricon", "Moore Threads", "MetaX", "Kunlun", "Neuron"],
)
def test_vendors_that_register_nothing(capacity: dict[str, str], cards: list[Any]) -> None:
    """Names, sizes and NUMA nodes are those that HAMi makes up."""
    found = read_host(NodeFacts("n", capacity=capacity)).host.cards
    told = [(c.uuid, c.vendor, c.memory_mib, c.cores, c.slots, c.numa) for c in found]
    assert told == cards
    assert {c.mode for c in found} == {HAMI_CORE}


@pytest.mark.parametrize("amount", ["many", "-1", "1.5", "1000000", "9e99", ""])
@pytest.mark.parametrize("resource", [NVIDIA.count, "kunlunxin.com/xpu", "nvidia.com/mig-1g.5gb"])
def test_amounts_that_are_none(resource: str, amount: str) -> None:
    """A node cannot make one count millions of cards."""
    reading = read_host(NodeFacts("n", capacity={resource: amount}))
    assert "cannot be read" in reading.fence
    assert reading.host.cards == ()


def test_the_word_of_the_vendor_is_not_needed() -> None:
    """The annotation decides whose a card is (d19, d25); that HAMi looks for the word is told."""
    node = registered(Card("a", "NVIDIA", "Tesla T4", 15360))
    reading = read_host(node)
    assert reading.host.cards[0].vendor == "NVIDIA"
    assert not reading.fence
    assert "NVIDIA is not in that text" in reading.problems[0]


def test_mig_cards_without_profiles() -> None:
    """They are told of, and nothing else."""
    reading = read_host(registered(card(mode="mig"), card("GPU-2", mode="mig")))
    assert not reading.fence
    (said,) = reading.problems
    assert said.startswith("card GPU-1 (and 1 others) is in MIG mode without profiles")


def test_two_vendors_with_the_same_card() -> None:
    """One of them must be wrong, so nothing new goes there."""
    annotations = {REGISTER: encode_json([card()]), HYGON.register: encode_colon([card()])}
    reading = read_host(NodeFacts("n", annotations))
    assert "NVIDIA and DCU both register the card GPU-1" in reading.fence
    assert [c.vendor for c in reading.host.cards] == ["NVIDIA"]


@pytest.mark.parametrize("text", ["GPU-1", " GPU-1 ,", "GPU-1,GPU-9"])
def test_cordoned_cards(text: str) -> None:
    """They stay in the inventory; a name that is no card of the node is told."""
    node = registered(card(), card("GPU-2", 1), annotations={"hami.io/device-cordon": text})
    reading = read_host(node)
    assert [c.cordoned for c in reading.host.cards] == [True, False]
    assert [("GPU-9" in p) for p in reading.problems] == ([True] if "GPU-9" in text else [])


def test_cordoned_node() -> None:
    """It gets nothing new and is still counted."""
    reading = read_host(registered(card(), unschedulable=True))
    assert reading.fence == "the node is cordoned: kubectl uncordon it"
    assert reading.host.cards == (card(),)


def test_unreadable_cordon_and_scores() -> None:
    """A cordon that cannot be read closes the node; scores are only preferences."""
    long = {"hami.io/device-cordon": "x" * 300_000}
    assert "Write UUIDs" in read_host(registered(card(), annotations=long)).fence
    reading = read_host(registered(card(), annotations={"hami.io/node-nvidia-score": "{"}))
    assert not reading.fence
    assert "is ignored" in reading.problems[0]


def test_lost_plugin() -> None:
    """Its cards are counted but take nothing new; other vendors' are not touched."""
    annotations = {HYGON.register: "d,1,1024,100,K100,0,true:"}
    node = registered(card(), annotations=annotations, lost=frozenset(["NVIDIA"]))
    reading = read_host(node)
    assert {c.uuid: c.healthy for c in reading.host.cards} == {"GPU-1": False, "d": True}
    assert "does not answer" in reading.problems[0]


GROUP = NodeGroup("g", {"gpu-type": "a100"}, slices=4, memory_mib=20000)


@pytest.mark.parametrize(
    ("slices", "memory", "asked", "share"),
    [
        (4, 20000, 16000, 20000),
        (4, 20000, 20000, 20000),
        (4, 20000, 20001, None),
        (2, 40000, 20001, 40000),
        (8, 10000, 10000, 10000),
        (4, 0, 1, 20480),
        (0, 30000, 1, 30000),
    ],
    ids=["4 of 20", "exact", "too large", "2 of 40", "8 of 10", "even parts", "what fits"],
)
def test_registered_cards_that_a_group_cuts(
    slices: int, memory: int, asked: int, share: int | None
) -> None:
    """A share takes a slice whatever it asks; the plugin's own limits stay."""
    group = NodeGroup("g", {"gpu-type": "a100"}, slices=slices, memory_mib=memory)
    (one,) = read_host(registered(card(), labels={"gpu-type": "a100"}), [group]).host.cards
    assert (one.uuid, one.slots, one.memory_mib, one.cores) == ("GPU-1", slices or 2, 81920, 100)
    assert one.share(asked, 0) == share
    assert one.share(0, 100) is None


def test_dynamic_groups_cut_nothing() -> None:
    """And so do groups of other nodes, and of MIG cards."""
    node = registered(card(), card("m", 1, mode="mig"), labels={"gpu-type": "a100"})
    dynamic = NodeGroup("d", {"gpu-type": "a100"})
    other = NodeGroup("o", {"gpu-type": "t4"}, slices=2)
    assert read_host(node, [dynamic, other]).host.cards[0] == card()
    assert read_host(node, [GROUP]).host.cards[1].slots == 10


def test_slices_that_do_not_fit_the_card() -> None:
    """As many as fit are counted, and people are told."""
    small = Card("GPU-1", "NVIDIA", "NVIDIA A100", 40960)
    reading = read_host(registered(small, labels={"gpu-type": "a100"}), [GROUP])
    assert reading.host.cards[0].slots == 2
    assert "of which card GPU-1 with 40960 MiB has 2" in reading.problems[0]


def test_slices_that_a_plugin_counts_as_cards() -> None:
    """Without a registration the capacity counts slices; a pod may ask for less than one."""
    cards = read_host(plain("8", labels={"gpu-type": "a100"}), [GROUP]).host.cards
    assert len(cards) == 8
    assert {(c.mode, c.memory_mib, c.slots, c.cores) for c in cards} == {(SLICE, 20000, 1, 100)}
    assert cards[0].offers(16000, 0, "")
    assert cards[0].share(16000, 0) == cards[0].share(0, 100) == 20000


def test_groups_that_claim_the_same_node() -> None:
    """The one that asks for more labels wins; two alike close the node."""
    strict = NodeGroup("s", {"gpu-type": "a100", "role": "t"}, slices=2, memory_mib=40000)
    node = registered(card(), labels={"gpu-type": "a100", "role": "t"})
    assert read_host(node, [GROUP, strict]).host.cards[0].slots == 2
    twin = NodeGroup("t", {"role": "t"}, slices=2)
    assert "node groups g and t alike" in read_host(node, [GROUP, twin]).fence


@pytest.mark.skipif(not RECORDED.exists(), reason="recorded sequences are not there")
def test_recorded_registrations() -> None:
    """All are read without a word, and written again mean the same."""
    count = 0
    for path in sorted(RECORDED.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            for node in json.loads(line)["nodes"]:
                annotations = {REGISTER: node["register"]}
                annotations |= {"hami.io/device-cordon": node.get("cordon", "")}
                annotations |= {"hami.io/node-nvidia-score": node.get("pair_scores", "")}
                reading = read_host(NodeFacts(node["name"], annotations))
                assert (reading.fence, reading.problems) == ("", ())
                again = annotations | {REGISTER: encode_json(reading.host.cards)}
                assert read_host(NodeFacts(node["name"], again)) == reading
                count += len(reading.host.cards)
    assert count > 1000


texts = st.text() | st.text(st.sampled_from('g1,:[]{}" id0'))
keys = st.sampled_from(
    [
        REGISTER,
        HYGON.register,
        NVIDIA.handshake,
        "hami.io/device-cordon",
        "hami.io/node-nvidia-score",
        "metax-tech.com/node-gpu-devices",
    ]
)
resources = st.sampled_from(
    [NVIDIA.count, "nvidia.com/mig-1g.5gb", "cambricon.com/mlu.smlu.vcore", "nvidia.com/mig-x"]
)
amounts = st.sampled_from(["0", "3", "1k", "-1", "x", "1e9"])
labels = st.dictionaries(
    st.sampled_from([*LABELS, "gpu-type", "nvidia.com/gpu.replicas"]),
    st.sampled_from(["a100", "0", "5", "x\n"]),
)


@FEW
@given(
    st.dictionaries(keys, texts),
    labels,
    st.dictionaries(resources, amounts),
    st.dictionaries(resources, amounts),
)
def test_any_node_is_read(
    annotations: dict[str, str],
    labelled: dict[str, str],
    capacity: dict[str, str],
    allocatable: dict[str, str],
) -> None:
    """Nothing is raised, UUIDs are there once, and what is unread is fenced."""
    node = NodeFacts("n", annotations, labelled, capacity, allocatable)
    reading = read_host(node, [GROUP])
    uuids = [c.uuid for c in reading.host.cards]
    assert len(uuids) == len(set(uuids))
    assert not reading.unread or reading.fence
