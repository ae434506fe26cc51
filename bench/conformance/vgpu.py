"""Replays one sequence recorded of HAMi's scheduler through the parts of the product.

Registrations, requests, charges and the rules of fit are the product's own; the state is built
from the recorded choices. At each arrival the verdict over the offered nodes is compared, the
recorded choice must be legal and its charge equal. What HAMi missed since it places containers one
after the other (greedy_miss) is not scored and changes nothing; a pod that joins a card whose owner
asked for mutex is not scored, but counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from bench.conformance.outcome import Outcome
from federation.core.devices.asking.asking import WantsError
from federation.core.devices.cards import Allocation, Amount, CardUse, Host, HostUse, Slice
from federation.core.devices.host.fit import find
from federation.core.devices.host.legality import check
from federation.core.devices.host.misfit import Misfit
from federation.core.devices.ledger.charge import charge, occupied
from federation.core.devices.wants import PodWants
from federation.core.devices.wire import allocation_note, registration
from federation.core.devices.wire.vendor_table import NVIDIA
from federation.core.quantity import QuantityError
from federation.jobs.devices import card_wants

Json = dict[str, Any]
JOINS_MUTEX = "joins_card_of_mutex_pod"


def replay(sequence: Json) -> Outcome:
    """Make all steps of a sequence, and compare."""
    outcome = Outcome(str(sequence.get("id")))
    try:
        run = _Run(sequence, outcome)
        checkpoints = {point["after_step"]: point["usage"] for point in sequence["checkpoints"]}
        for number, step in enumerate(sequence["steps"]):
            run.step(number, step)
            if number in checkpoints:
                usage = checkpoints.pop(number)
                run.compare(f"after step {number}", "usage", usage, run.usage())
        if checkpoints:
            raise ValueError(f"checkpoints after steps that are not there: {sorted(checkpoints)}")
        run.compare("at the end", "usage", sequence["expected_final_usage"], run.usage())
    except Exception as error:  # one that cannot be replayed must not hide the others
        outcome.mismatches.append(f"cannot be replayed: {type(error).__name__}: {error}")
    return outcome


@dataclass(slots=True)
class _Pod:
    host: str
    wants: PodWants
    allocation: Allocation
    init_done: bool = False

    def charge(self) -> dict[str, Amount]:
        return charge(self.wants.roles, self.allocation, init_done=self.init_done)

    def places(self) -> dict[str, tuple[Slice, ...]]:
        return occupied(self.allocation)


@dataclass(slots=True)
class _Run:
    sequence: Json
    outcome: Outcome
    hosts: dict[str, Host] = field(default_factory=dict)
    pods: dict[str, _Pod] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.sequence["nodes"]:
            self.hosts[node["name"]] = _host(node)

    def step(self, number: int, step: Json) -> None:
        """Compare, then make, one step."""
        where = f"step {number} {step['op']}"
        match step["op"]:
            case "admit":
                self._admit(f"{where} {step['pod']['name']}", step)
            case "finish" | "delete":
                self.pods.pop(step["pod"]["name"], None)
            case "init_done":
                pod = self.pods[step["pod"]["name"]]
                pod.init_done = True
                self.compare(where, "charge", step["result"]["charge"], pod.charge())
            case "node_update":
                node = step["node"]
                cards = registration.decode(node["register"], NVIDIA)
                before = self.hosts[node["name"]]
                cordoned = {card.uuid for card in before.cards if card.cordoned}
                self.hosts[node["name"]] = replace(before, cards=_cordoned(cards, cordoned))
            case other:
                raise ValueError(f"{where}: {other!r} is no known step")

    def _admit(self, where: str, step: Json) -> None:
        result = step["result"]
        if result.get("greedy_miss"):
            return
        try:
            wants = card_wants(_template(step["pod"]))
        except (WantsError, QuantityError) as error:
            if result["fits"]:
                self.outcome.mismatches.append(f"{where}: refused ({error}), recorded as placed")
            return
        scored = JOINS_MUTEX not in result.get("notes", ())
        if scored:
            candidates = step.get("candidates")
            self._verdict(where, wants, self.hosts if candidates is None else candidates, result)
        if result["fits"]:
            self._place(where, step["pod"]["name"], wants, result, scored)

    def _verdict(self, where: str, wants: PodWants, names: Iterable[str], result: Json) -> None:
        why: list[str] = []
        for name in names:
            found = find(use := self._use(name), wants)
            if isinstance(found, Misfit):
                why.append(str(found))
                if found.given_up:
                    self.outcome.hints.append(f"{where}: {found}")
                continue
            if broken := check(use, wants, found):
                self.outcome.mismatches.append(f"{where}: the placement found: {broken}")
            if not result["fits"]:
                self.outcome.mismatches.append(f"{where}: fits on {name}, recorded as refused")
            return
        if result["fits"]:
            self.outcome.mismatches.append(f"{where}: fits nowhere, recorded as placed: {why}")

    def _place(self, where: str, name: str, wants: PodWants, result: Json, scored: bool) -> None:
        choice = result["choice"]
        pod = _Pod(choice["node"], wants, _allocation(wants, choice))
        broken = check(self._use(pod.host), wants, pod.allocation) if scored else ""
        if broken:
            self.outcome.mismatches.append(f"{where}: the recorded placement: {broken}")
        self.compare(where, "charge", result["charge"], pod.charge())
        self.pods[name] = pod

    def _use(self, name: str) -> HostUse:
        uses: dict[str, CardUse] = {}
        for pod in self.pods.values():
            if pod.host != name:
                continue
            places = pod.places()
            for uuid, amount in pod.charge().items():
                held = uses.get(uuid, CardUse())
                uses[uuid] = CardUse(
                    held.amount.plus(amount),
                    (*held.slices, *places.get(uuid, ())),
                    held.closed or pod.wants.wishes.mutex,
                )
        return HostUse(self.hosts[name], uses)

    def usage(self) -> dict[str, Amount]:
        """Of all cards that are not idle; UUIDs of a sequence are unique over its nodes."""
        used: dict[str, Amount] = {}
        for pod in self.pods.values():
            for uuid, amount in pod.charge().items():
                used[uuid] = used.get(uuid, Amount()).plus(amount)
        return used

    def compare(self, where: str, what: str, wanted: Json, found: dict[str, Amount]) -> None:
        """Note each card that differs; idle cards may be left out."""
        recorded = {
            uuid: Amount(use["slots"], use["memMiB"], use["cores"]) for uuid, use in wanted.items()
        }
        for uuid in sorted(recorded.keys() | found.keys()):
            want, have = recorded.get(uuid, Amount()), found.get(uuid, Amount())
            if want != have:
                text = f"{where}: {what} of {uuid} is {tuple(have)}, recorded {tuple(want)}"
                self.outcome.mismatches.append(text)


def _host(node: Json) -> Host:
    cards = registration.decode(node["register"], NVIDIA)
    cordoned = registration.decode_cordon(node.get("cordon", ""))
    links = registration.decode_links(node["pair_scores"]) if "pair_scores" in node else {}
    return Host(node["name"], _cordoned(cards, cordoned), links)


def _cordoned(cards: tuple[Any, ...], uuids: Iterable[str]) -> tuple[Any, ...]:
    shut = frozenset(uuids)
    return tuple(replace(card, cordoned=card.uuid in shut) for card in cards)


def _template(pod: Json) -> Json:
    """The pod as Kubernetes has it; sequences name its limits `requests`."""
    return {
        "metadata": {"annotations": pod["annotations"]},
        "spec": {
            "initContainers": [_container(container) for container in pod.get("init", ())],
            "containers": [_container(container) for container in pod["containers"]],
        },
    }


def _container(recorded: Json) -> Json:
    rest = {key: value for key, value in recorded.items() if key != "requests"}
    return {**rest, "resources": {"limits": recorded["requests"]}}


def _allocation(wants: PodWants, choice: Json) -> Allocation:
    """The recorded annotation, with places on MIG cards."""
    entries = allocation_note.decode(choice["annotation"])
    asked = [sum(cards.cards for cards in container.cards) for container in wants.containers]
    allocation = allocation_note.of_containers(entries, asked)
    places = {
        (place["container"], place["deviceIndex"], place["uuid"]): Slice(
            place["profile"], place["start"], place["size"]
        )
        for place in choice.get("mig", ())
    }
    placed = tuple(
        tuple(
            grant._replace(slice=places.pop((container.name, device, grant.uuid), None))
            for device, grant in enumerate(grants)
        )
        for container, grants in zip(wants.containers, allocation, strict=True)
    )
    if places:
        raise ValueError(f"places of no card: {sorted(places)}")
    return placed
