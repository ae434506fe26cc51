"""Terms of the score that people add: entry points of the group `fedq.score_terms`.

An entry point names a function of (workload, cluster view, choice) that returns a number, zero or
more, lower is better; see `federation.core.scoring`. One that cannot be loaded is reported and left
out. One that fails later is reported once and counts nothing from then on: no cycle ends for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points

import structlog

from federation.core.dispatch import Choice, ClusterView
from federation.core.scoring import BUILT_IN, Term, Weighted, weighted
from federation.core.types import Pending

log = structlog.get_logger(__name__)

GROUP = "fedq.score_terms"


class Guarded:
    """A term of others."""

    def __init__(self, name: str, term: Term) -> None:
        self._name, self._term, self._broken = name, term, False

    def __call__(self, item: Pending, cluster: ClusterView, choice: Choice) -> float:
        """Its value; 0 once it is known to be broken."""
        if self._broken:
            return 0.0
        try:
            value = float(self._term(item, cluster, choice))
        except Exception as error:  # whatever it raises: it is not our code
            return self._break(repr(error), cluster)
        if not math.isfinite(value) or value < 0:
            return self._break(f"it returned {value}", cluster)
        return value

    def _break(self, why: str, cluster: ClusterView) -> float:
        self._broken = True
        text = "it counts nothing until the next start: correct it, or set its weight to 0"
        log.error("score_term.broken", term=self._name, cluster=cluster.name, why=why, what=text)
        return 0.0


def load_terms(
    weights: Mapping[str, float], points: Iterable[EntryPoint] | None = None
) -> tuple[Weighted, ...]:
    """All terms that weigh something: the built-in ones and those of installed packages."""
    more: dict[str, Term] = {}
    for point in entry_points(group=GROUP) if points is None else points:
        if point.name in BUILT_IN or point.name in more:
            log.error("score_term.name_taken", term=point.name, of=point.value)
            continue
        try:
            term = point.load()
        except Exception as error:  # whatever importing it raises
            log.error("score_term.not_loaded", term=point.name, of=point.value, why=repr(error))
            continue
        if not callable(term):
            log.error("score_term.not_callable", term=point.name, of=point.value)
            continue
        more[point.name] = Guarded(point.name, term)
    for name in weights.keys() - BUILT_IN.keys() - more.keys():
        log.warning("score_term.unknown", term=name, known=sorted([*BUILT_IN, *more]))
    return weighted(weights, more)
