"""Recorded cases in which HAMi errs in reading requests: the answer that is right instead."""

import json
from pathlib import Path

import pytest

from federation.core.devices.asking.asking import ContainerAsk, WantsError, pod_wants
from federation.core.devices.cards import Allocation, Amount, CardUse, HostUse
from federation.core.devices.host.fit import find
from federation.core.devices.inventory.inventory import read_host
from federation.core.devices.inventory.node_facts import NodeFacts
from federation.core.devices.ledger.charge import charge
from federation.core.devices.wants import Role

RECORDED = Path(__file__).parents[5] / "shared" / "conformance" / "vgpu-defects.jsonl"

pytestmark = pytest.mark.skipif(not RECORDED.exists(), reason="the recorded cases are not here")


def case(name):
    """Its one host, and its pods in order."""
    lines = map(json.loads, RECORDED.read_text().splitlines())
    found = next(line for line in lines if line["id"] == name)
    (node,) = found["nodes"]
    notes = {"hami.io/node-nvidia-register": node["register"]}
    host = read_host(NodeFacts(node["name"], notes)).host
    return host, [step["pod"] for step in found["steps"]], found["right"]


def wants_of(pod):
    asks = [ContainerAsk(c["name"], Role.APP, c["requests"]) for c in pod["containers"]]
    return pod_wants(asks, pod["annotations"])


def placed(host, pod, uses=None):
    """What it is charged on the host; None if it does not fit."""
    wants = wants_of(pod)
    found = find(HostUse(host, uses or {}), wants)
    if not isinstance(found, tuple):
        return None
    allocation: Allocation = found
    return charge([c.role for c in wants.containers], allocation)


def test_d04_bytes_are_converted_and_refused_on_the_full_card():
    host, (full, p, q), right = case("d04")
    held = placed(host, full)
    uses = {uuid: CardUse(amount) for uuid, amount in held.items()}
    assert (placed(host, p, uses) is not None, placed(host, q, uses) is not None) == (
        right["p_fits"],
        right["q_fits"],
    )
    (uuid,) = held
    assert placed(host, p) == {uuid: Amount(1, 20480, 0)}


def test_d08_no_percentage_is_the_whole_card_with_its_compute():
    host, (p, _), right = case("d08")
    (amount,) = placed(host, p).values()
    wanted = right["p_charge"]
    assert (amount.memory_mib, amount.cores) == (wanted["memMiB"], wanted["cores"])


def test_d20_unknown_policies_and_bad_weights_are_refused():
    _, (p, q), _ = case("d20")
    with pytest.raises(WantsError, match="'bin-pack' is not known: write binpack, spread"):
        wants_of(p)
    with pytest.raises(WantsError, match="as in slot=1,core=1,memory=3"):
        wants_of(q)
