"""Every recorded request against what HAMi's webhook made of it."""

import json
from pathlib import Path

import pytest

from federation.core.devices.asking.asking import ContainerAsk, WantsError, pod_wants
from federation.core.devices.wants import Role
from federation.core.quantity import parse_quantity

RECORDED = Path(__file__).parents[5] / "shared" / "conformance" / "vgpu"
FILES = sorted(RECORDED.glob("*.jsonl"))

pytestmark = pytest.mark.skipif(not FILES, reason="the recorded sequences are not here")


def admits(file):
    for line in file.read_text().splitlines():
        for step in json.loads(line)["steps"]:
            if step["op"] == "admit":
                yield step


def asks(pod, wire):
    return [
        ContainerAsk(container["name"], role, limits)
        for role, field in ((Role.INIT, "init"), (Role.APP, "containers"))
        for container, limits in wire(pod, field)
    ]


def as_written(pod, field):
    return [(container, container["requests"]) for container in pod.get(field, [])]


def numbers(limits):
    """Cards, MiB, percent, cores of HAMi's parser, read from limits that are complete."""
    name = "nvidia.com/gpu"
    if name not in limits:
        return ()
    amount = {key: parse_quantity(key, text) for key, text in limits.items()}
    memory = amount.get(name + "mem", 0)
    percent = 0 if memory else amount.get(name + "mem-percentage", 100)
    return ((amount[name], memory, percent, min(100, amount.get(name + "cores", 0))),)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_same_as_the_webhook(file):
    seen = 0
    for step in admits(file):
        pod, effective = step["pod"], step.get("effective")
        if effective is None:
            assert step["result"]["decided_by"] == "webhook"
            with pytest.raises(WantsError):
                pod_wants(asks(pod, as_written), pod["annotations"])
            continue
        wants = pod_wants(asks(pod, as_written), pod["annotations"])
        limits = [*(effective.get("init") or []), *effective["containers"]]
        for container, complete in zip(wants.containers, limits, strict=True):
            found = [(c.cards, c.memory_mib, c.percent, c.cores) for c in container.cards]
            assert tuple(found) == numbers(complete), (pod["name"], container.name)
            seen += 1
    assert seen


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_numbers_of_each_choice(file):
    """What the parser was understood to say must be what HAMi gave: MiB and cores of each card."""
    for step in admits(file):
        choice = step["result"].get("choice")
        if not choice or choice.get("mig"):
            continue
        pod = step["pod"]
        wants = pod_wants(asks(pod, as_written), pod["annotations"])
        for container, given in zip(wants.containers, choice["devices"], strict=True):
            assert sum(c.cards for c in container.cards) == len(given["cards"])
            for want in container.cards:
                for _, _, memory, cores in given["cards"]:
                    assert cores == want.cores
                    assert want.memory_mib in (0, memory)
