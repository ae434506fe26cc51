"""The part of a WorkerReport that says what is free of nodes and cards, both ways."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from federation.api.worker_report import (
    MOST,
    CardKind,
    NodeSite,
    ReportedFlavor,
    ReportedPlacement,
)
from federation.core.devices.cards import Card, MigProfile
from federation.core.devices.fleet.buckets import Classes, NodeClass, Site
from federation.core.types import ResourceFlavor, Taint, Toleration

Json = dict[str, Any]


def placement_to_wire(classes: Classes) -> Json:
    """`status.placement`; what has its default is left out, and all that was there before is
    overwritten.
    """
    return {
        "cards": [_card(card) for card in classes.cards],
        "sites": [_site(site) for site in classes.sites],
        "resources": list(classes.resources),
        "classes": [_class(one) for one in classes.classes],
        "omittedLabels": list(classes.omitted),
        "unlisted": classes.unlisted,
    }


def _class(one: NodeClass) -> Json:
    out: Json = {"free": [max(-MOST, min(n, MOST)) for n in one.free], "cards": one.cards}
    if one.site:
        out["site"] = one.site
    if one.count != 1:
        out["count"] = one.count
    return out


def _card(card: Card) -> Json:
    out: Json = {
        "vendor": card.vendor,
        "model": card.model,
        "memoryMiB": card.memory_mib,
        "cores": card.cores,
        "slots": card.slots,
        "mode": card.mode,
    }
    if card.profiles:
        out["profiles"] = [
            {
                "name": profile.name,
                "memoryMiB": profile.memory_mib,
                "cores": profile.cores,
                "slices": profile.slices,
                "placements": [number for place in profile.placements for number in place],
            }
            for profile in card.profiles
        ]
    return out | ({"sizes": list(card.sizes)} if card.sizes else {})


def _site(site: Site) -> Json:
    out: Json = {"labels": dict(site.labels)} if site.labels else {}
    if site.taints:
        out["taints"] = [{"key": t.key, "value": t.value, "effect": t.effect} for t in site.taints]
    if site.links:
        out["links"] = [number for link in site.links for number in link]
    return out | ({} if site.ready else {"ready": False})


def placement_from_wire(wire: ReportedPlacement) -> Classes:
    """What was told. ValueError if lists do not have the lengths that belong together."""
    return Classes(
        tuple(_to_card(kind) for kind in wire.cards),
        tuple(_to_site(site) for site in wire.sites),
        tuple(wire.resources),
        tuple(NodeClass(c.count, c.site, tuple(c.free), c.cards) for c in wire.classes),
        tuple(wire.omitted_labels),
        wire.unlisted,
    )


def _to_card(kind: CardKind) -> Card:
    profiles = tuple(
        MigProfile(p.name, p.memory_mib, p.cores, p.slices, tuple(_chunks(p.placements)))
        for p in kind.profiles
    )
    return Card(
        "",
        kind.vendor,
        kind.model,
        kind.memory_mib,
        kind.cores,
        kind.slots,
        mode=kind.mode,
        profiles=profiles,
        sizes=tuple(kind.sizes),
    )


def _to_site(site: NodeSite) -> Site:
    numbers = iter(site.links)
    return Site(
        tuple(sorted(site.labels.items())),
        tuple(Taint(t.key, t.value, t.effect) for t in site.taints),
        tuple(zip(numbers, numbers, numbers, strict=True)),
        site.ready,
    )


def _chunks(numbers: Iterable[int]) -> Iterable[tuple[int, int]]:
    each = iter(numbers)
    return zip(each, each, strict=True)


def flavors_to_wire(flavors: Iterable[ResourceFlavor]) -> list[Json]:
    """`status.flavors`: those that do anything to pods."""
    return [
        {
            "name": flavor.name,
            "nodeLabels": dict(flavor.node_labels),
            "tolerations": [
                {"key": t.key, "operator": t.operator, "value": t.value, "effect": t.effect}
                for t in flavor.tolerations
            ],
        }
        for flavor in flavors
        if flavor.node_labels or flavor.tolerations
    ]


def flavors_from_wire(wire: Iterable[ReportedFlavor]) -> dict[str, ResourceFlavor]:
    """By name."""
    return {
        flavor.name: ResourceFlavor(
            flavor.name,
            tuple(sorted(flavor.node_labels.items())),
            tolerations=tuple(
                Toleration(t.key, t.operator, t.value, t.effect) for t in flavor.tolerations
            ),
        )
        for flavor in wire
    }
