"""How many pods a copy has, is asked to have, and how many more of a job wait: by pod set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Counts = Mapping[str, int]
"""Pods by pod set; one that is not in it has none."""

NO_PODS: Counts = {}


def exceeds(counts: Counts, other: Counts) -> bool:
    """Whether there are more pods of any set in `counts`."""
    return any(n > other.get(name, 0) for name, n in counts.items())


def fewest(counts: Counts, *others: Counts) -> Counts:
    """Of each set of `counts` as many as all have."""
    return {name: min(n, *(other.get(name, 0) for other in others)) for name, n in counts.items()}


def missing(wanted: Counts, counts: Counts) -> Counts:
    """Of each set how many `counts` lacks; those of which it lacks none are left out."""
    lacks = {name: n - counts.get(name, 0) for name, n in wanted.items()}
    return {name: n for name, n in lacks.items() if n > 0}


class Size(NamedTuple):
    """The pods of a copy: as many as `asked` for, `runs` as its spec is now (fewer if its worker
    had no room for all), and `there`: those that exist or may yet be made. `steps` as of LocalJob.
    """

    asked: Counts
    runs: Counts
    there: Counts
    steps: Counts = NO_PODS


class Asked(NamedTuple):
    """So many pods the manager asked the agent to let a copy have, none if it did not; `refused` is
    the agent's no, with its reason.
    """

    pods: Counts = NO_PODS
    refused: str = ""

    @property
    def open(self) -> bool:
        """Whether something of it stands on the copy."""
        return bool(self.pods or self.refused)


NOT_ASKED = Asked()


class Growing(NamedTuple):
    """So many more pods of a job that runs wait, with this priority."""

    pods: Counts
    priority: int
