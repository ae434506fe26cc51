"""What really runs where: the containers of the simulation, and what must hold of them always.

Nothing here is told by the system under test, except which job and attempt a copy says it is.
Times are true time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.dst.card_truth import Ask, CardTruth


@dataclass
class Run:
    """The containers of one copy, from the start of the first to the end of the last."""

    local_uid: str
    attempt: int
    cluster: str
    job_uid: str
    amount: int
    start: float
    end: float | None = None
    outcome: str = ""
    """'' while it runs or when it was stopped; Complete or Failed when it ended by itself."""


@dataclass
class Traits:
    """What a job is like, whoever runs it. `exits` is how long it takes to end on SIGTERM."""

    name: str
    amount: int
    duration: float
    outcome: str
    exits: float
    policy: str
    rerun_after: float | None = None
    """With policy `keep`: after so many seconds of silence it stops, and may run elsewhere."""
    retries: bool = True
    """Whether it is tried again where it was when its pods are killed; else it has failed."""
    ask: Ask | None = None
    """What each of its pods asks of cards."""
    elastic: bool = False
    """Whether its number of pods changes while it runs."""
    gone: bool = False
    """Somebody deleted or deactivated it: nobody owes it a result."""


@dataclass
class Truth:
    """`violate` hears of every broken rule: (rule, text)."""

    violate: Callable[[str, str], None]
    quotas: dict[str, int] = field(default_factory=dict)
    """Cluster to what fits there."""
    traits: dict[str, Traits] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    live: dict[str, list[Run]] = field(default_factory=dict)
    used: Counter[str] = field(default_factory=Counter)
    """What runs on each cluster."""
    ended: dict[str, list[Run]] = field(default_factory=dict)
    """The runs of each job that ended by themselves."""
    on_end: Callable[[Run], None] = lambda run: None
    """Hears of runs that ended by themselves."""
    cards: CardTruth = field(init=False)

    def __post_init__(self) -> None:
        self.cards = CardTruth(self.violate)

    def begin(self, run: Run) -> None:
        """The containers of a copy start."""
        others = self.live.setdefault(run.local_uid, [])
        known = self.traits.get(run.local_uid)
        for other in others:
            if known and known.policy != "duplicate-ok":
                self.violate(
                    "one-copy",
                    f"{known.name} ({known.policy}): attempt {run.attempt} starts on {run.cluster}"
                    f" while attempt {other.attempt} runs on {other.cluster}",
                )
        others.append(run)
        self.runs.append(run)
        self.used[run.cluster] += run.amount
        used = self.used[run.cluster]
        if used > self.quotas[run.cluster]:
            self.violate("quota", f"{used} of {self.quotas[run.cluster]} run on {run.cluster}")

    def resize(self, run: Run, amount: int) -> None:
        """A copy that runs has another number of pods. Those that stop count no more: of elastic
        jobs they hold no quota.
        """
        more, run.amount = amount - run.amount, amount
        self.used[run.cluster] += more
        used = self.used[run.cluster]
        if more > 0 and used > self.quotas[run.cluster]:
            self.violate("quota", f"{used} of {self.quotas[run.cluster]} run on {run.cluster}")

    def end(self, run: Run, now: float, outcome: str = "") -> None:
        """The last container of a copy is gone."""
        run.end, run.outcome = now, outcome
        self.live[run.local_uid].remove(run)
        self.used[run.cluster] -= run.amount
        if outcome:
            self.ended.setdefault(run.local_uid, []).append(run)
            self.on_end(run)
