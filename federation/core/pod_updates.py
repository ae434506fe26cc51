"""What admission adds to the pods of a set, merged from several sources that must agree.

Source: the admission specification, sections 1.5 (podSetUpdates) and 8 (injection).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from federation.core.types import Toleration


@dataclass(frozen=True, slots=True)
class PodSetUpdate:
    """Additions to the pod template of the pod set `name`."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two sources set one key to different values: the pods cannot be started as both want."""

    pod_set: str
    what: str
    key: str
    values: tuple[str, str]

    def __str__(self) -> str:
        first, second = self.values
        return (
            f"pod set {self.pod_set}: {self.what} {self.key!r} is {first!r} and is to become "
            f"{second!r}; only one can be"
        )


def merged(name: str, sources: Iterable[PodSetUpdate]) -> PodSetUpdate | Conflict:
    """All additions to the pod set `name`; updates of other pod sets are passed over.

    Put what the template itself has first: equal values are fine, different ones are a Conflict,
    of which the first in order of sources and then of keys is told. Tolerations add up, each once.
    """
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    selector: dict[str, str] = {}
    tolerations: dict[Toleration, None] = {}
    for source in sources:
        if source.name != name:
            continue
        pairs = (
            ("label", labels, source.labels),
            ("annotation", annotations, source.annotations),
            ("nodeSelector", selector, source.node_selector),
        )
        for what, into, more in pairs:
            for key in sorted(more):
                if into.setdefault(key, more[key]) != more[key]:
                    return Conflict(name, what, key, (into[key], more[key]))
        tolerations.update(dict.fromkeys(source.tolerations))
    return PodSetUpdate(name, labels, annotations, selector, tuple(tolerations))
