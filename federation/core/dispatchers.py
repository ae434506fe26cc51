"""Who chooses among the worker clusters, and which of them a workload may be offered to now.

A workload is offered to one cluster at a time whatever the dispatcher is. `Scored` looks at all
clusters. `AllAtOnce` and `Incremental` nominate some, and the best of the nominees is chosen; an
external dispatcher nominates in our place. Nominations, and when the last round began, stand in
the status of the Workload and nowhere else: a restart of the manager changes no round.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Dispatcher(StrEnum):
    """The kinds there are."""

    SCORED = "Scored"
    ALL_AT_ONCE = "AllAtOnce"
    INCREMENTAL = "Incremental"
    EXTERNAL = "External"


@dataclass(frozen=True, slots=True)
class Dispatching:
    """Settings: the kind, its name in the configuration, clusters per round, seconds per round, and
    weights of the score's terms (those not named keep their default).
    """

    kind: Dispatcher = Dispatcher.SCORED
    name: str = ""
    step: int = 3
    round_s: float = 300.0
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Nomination:
    """The clusters that a workload may be offered to, in the order they were nominated, and when
    the last round began (seconds since the epoch; None if that is not known).
    """

    clusters: tuple[str, ...] = ()
    since: float | None = None


NOT_NOMINATED = Nomination()


@dataclass(frozen=True, slots=True)
class Round:
    """What to do about the nomination: `nominate` these (None: leave it), look again at `at`."""

    nominate: tuple[str, ...] | None = None
    at: float | None = None


def next_round(
    known: Nomination,
    order: Sequence[str],
    usable: Collection[str],
    hopeless: Collection[str],
    settings: Dispatching,
    now: float,
) -> Round:
    """The next round of the incremental dispatcher, for a workload that no nominee takes now.

    `order` are the clusters it may run on, in the order of the MultiKueueConfig, `usable` those of
    them that can be reached, `hopeless` those that can never take it as they are. A round adds the
    next clusters that are usable: none is wasted on one that is away (its turn comes when it is
    back). It is over after `round_s`, or as soon as no usable nominee could take the workload at
    any time. After the last cluster there is nothing more to do, and that is no error. A time that
    lies further ahead than a round takes is none: a clock was wrong, and nobody waits for it.
    """
    nominated = frozenset(known.clusters)
    nominees = [name for name in order if name in nominated]
    batch = [name for name in order if name not in nominated and name in usable]
    batch = batch[: settings.step]
    if not batch:
        return Round()
    hopeful = any(name in usable and name not in hopeless for name in nominees)
    over = now
    if known.since is not None and known.since <= now + settings.round_s:
        over = known.since + settings.round_s
    if nominees and hopeful and now < over:
        return Round(at=over)
    return Round(nominate=(*nominees, *batch))
