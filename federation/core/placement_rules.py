"""Which clusters a job may, or would rather, run on: what it and its queues say by annotations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # queue objects carry such rules themselves
    from federation.core.types import LabelSelector


@dataclass(frozen=True, slots=True)
class PlacementRules:
    """What one object says; None where it says nothing.

    Only the clusters named in `clusters` and those whose labels `selector` selects, none of
    `avoid`. Those of `prefer` come first, in this order. `data` are names of data sets that the job
    reads, with their sizes (of any unit, the same for all). After `give_up_after` seconds of
    waiting it is deactivated.
    """

    clusters: tuple[str, ...] | None = None
    avoid: tuple[str, ...] | None = None
    selector: LabelSelector | None = None
    selector_text: str = ""
    prefer: tuple[str, ...] | None = None
    data: tuple[tuple[str, int], ...] | None = None
    give_up_after: float | None = None

    @property
    def place(self) -> tuple[object, ...]:
        """What decides where it runs: workloads with the same are placed alike."""
        found = (self.clusters, self.avoid, self.selector_text, self.prefer, self.data)
        return found if any(found) else ()


NO_RULES = PlacementRules()


def nearest_rules(said: Iterable[PlacementRules]) -> PlacementRules:
    """What holds when several say something, the nearest to the job first: of each thing the first
    word.
    """
    known = [rules for rules in said if rules is not NO_RULES]
    if len(known) < 2:
        return known[0] if known else NO_RULES
    found = {}
    for field in fields(PlacementRules):
        words = [word for rules in known if (word := getattr(rules, field.name)) not in (None, "")]
        if words:
            found[field.name] = words[0]
    return PlacementRules(**found)
