"""Cards as device plugins would register them: the opposite of what is read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from federation.core.devices.cards import Card, MigProfile


def encode_json(cards: Iterable[Card]) -> str:
    """The JSON form, as Go writes it: without what is zero, false or empty."""
    return json.dumps([_item(card) for card in cards], separators=(",", ":"), ensure_ascii=False)


def _item(card: Card) -> dict[str, Any]:
    item: dict[str, Any] = {
        "id": card.uuid,
        "index": card.index,
        "count": card.slots,
        "devmem": card.memory_mib,
        "devcore": card.units or card.cores,
        "type": card.model,
        "numa": card.numa,
        "mode": card.mode,
        "health": card.healthy,
        "migProfiles": [_profile_item(profile) for profile in card.profiles],
    }
    return {key: value for key, value in item.items() if value}


def _profile_item(profile: MigProfile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "memoryMB": profile.memory_mib,
        "core": profile.cores,
        "sliceCount": profile.slices,
        "placements": [{"start": start, "size": size} for start, size in profile.placements],
    }


def encode_colon(cards: Iterable[Card]) -> str:
    """The colon form with 9 fields. It has no MIG profiles, and no texts with commas or colons."""
    text = []
    for card in cards:
        assert not card.profiles
        health = "true" if card.healthy else "false"
        first = (card.uuid, card.slots, card.memory_mib, card.cores, card.model, card.numa, health)
        text.append(",".join(map(str, (*first, card.index, card.mode))) + ":")
    return "".join(text)


def encode_links(links: Mapping[tuple[str, str], int]) -> str:
    """The text of scores, one entry per card."""
    scores: dict[str, dict[str, int]] = {}
    for (one, other), score in links.items():
        scores.setdefault(one, {})[other] = score
    items = [{"uuid": uuid, "score": of} for uuid, of in scores.items()]
    return json.dumps(items, separators=(",", ":"), ensure_ascii=False)
