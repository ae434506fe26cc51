"""What the annotations of a pod say about the choice of its cards; refused if not understood.

HAMi takes an unknown policy for `spread` and an unclear numa-bind for none; here what cannot be
followed is an error, so that nobody waits for something that never comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from federation.core.booleans import parse_bool
from federation.core.devices.wants import Wishes
from federation.core.devices.wire.vendors import Vendor

NODE_POLICIES: Final = ("binpack", "spread")
CARD_POLICIES: Final = ("binpack", "spread", "mutex", "numa", "topology-aware")
MODES: Final = ("hami-core", "mig", "mps")

NODE_POLICY: Final = "hami.io/node-scheduler-policy"
CARD_POLICY: Final = "hami.io/gpu-scheduler-policy"
WEIGHTS: Final = "hami.io/device-scoring-weights"
NUMA_BIND: Final = "nvidia.com/numa-bind"
MODE: Final = "nvidia.com/vgpu-mode"

_WEIGHTS: Final = ("slot", "core", "memory")


class WishError(ValueError):
    """An annotation that cannot be followed. The text names it and says what may be written."""


def read_wishes(annotations: Mapping[str, str], vendors: Sequence[Vendor]) -> Wishes:
    """The wishes of a pod that asks for cards of these vendors. Raises WishError."""
    _one_sided(annotations, vendors)
    uuids = _lists(annotations, (vendor.use_uuids for vendor in vendors))
    return Wishes(
        use_models=_lists(annotations, (vendor.use_models for vendor in vendors)),
        avoid_models=_lists(annotations, (vendor.avoid_models for vendor in vendors)),
        use_uuids=frozenset(uuids) if uuids else None,
        avoid_uuids=frozenset(_lists(annotations, (vendor.avoid_uuids for vendor in vendors))),
        modes=_words(annotations, MODE, MODES),
        numa_bind=_flag(annotations, NUMA_BIND),
        node_policy=_node_policy(annotations),
        policy=_words(annotations, CARD_POLICY, CARD_POLICIES),
        weights=_weights(annotations),
    )


def _one_sided(annotations: Mapping[str, str], vendors: Sequence[Vendor]) -> None:
    """A list of the cards to use speaks of all cards of a pod, so each vendor needs its own."""
    for key in (attrgetter("use_models"), attrgetter("use_uuids")):
        having = [v for v in vendors if _listed(annotations.get(key(v), ""))]
        missing = next((v for v in vendors if v not in having), None)
        if having and missing:
            raise WishError(
                f"annotation {key(having[0])} chooses cards of {having[0].key}, but the pod asks"
                f" for cards of {missing.key} too: "
                + (f"choose those as well ({key(missing)})" if key(missing) else "use two pods")
            )


def _lists(annotations: Mapping[str, str], keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(word for key in keys for word in _listed(annotations.get(key, "")))


def _listed(text: str) -> tuple[str, ...]:
    """The words of a comma list; blanks and stray commas are nothing."""
    return tuple(word for part in text.split(",") if (word := part.strip()))


def _words(annotations: Mapping[str, str], key: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    words = _listed(annotations.get(key, ""))
    for word in words:
        if word not in allowed:
            raise WishError(f"annotation {key}: {word!r} is not known: {_choice(allowed)}")
        if words.count(word) > 1:
            raise WishError(f"annotation {key}: {word} is there twice")
    return words


def _choice(allowed: tuple[str, ...]) -> str:
    return f"write {', '.join(allowed[:-1])} or {allowed[-1]}"


def _node_policy(annotations: Mapping[str, str]) -> str:
    words = _words(annotations, NODE_POLICY, NODE_POLICIES)
    if len(words) > 1:
        raise WishError(f"annotation {NODE_POLICY}: write one policy, not {len(words)}")
    return words[0] if words else ""


def _flag(annotations: Mapping[str, str], key: str) -> bool:
    text = annotations.get(key, "").strip()
    try:
        return bool(text) and parse_bool(text)
    except ValueError as error:
        raise WishError(f"annotation {key}: {error}") from None


def _weights(annotations: Mapping[str, str]) -> tuple[int, int, int]:
    text = annotations.get(WEIGHTS, "").strip()
    if not text:
        return Wishes().weights
    found: dict[str, int] = {}
    for part in text.split(","):
        name, equals, number = (word.strip() for word in part.partition("="))
        if not equals or name not in _WEIGHTS or name in found or not _is_weight(number):
            raise WishError(_bad_weights(text))
        found[name] = int(number)
    if found.keys() != set(_WEIGHTS) or not any(found.values()):
        raise WishError(_bad_weights(text))
    return found["slot"], found["core"], found["memory"]


def _is_weight(number: str) -> bool:
    return number.isascii() and number.isdecimal() and len(number) < 10


def _bad_weights(text: str) -> str:
    return (
        f"annotation {WEIGHTS}: {text[:80]!r} is not usable: write whole numbers from 0 for all"
        " three, not all of them 0, as in slot=1,core=1,memory=3"
    )
