"""Offers that a cluster has not answered yet, and how many more it may be made.

What was offered and not answered may run there. If the cluster is lost, such a job waits for the
fence like one that runs; so a cluster that has fallen silent gets no more of them, long before its
Lease makes it suspect. How many may be open at once follows from how fast it answers.
"""

from __future__ import annotations

from dataclasses import dataclass

from federation.core.facts import JobState, RemoteJob


@dataclass(frozen=True, slots=True)
class OfferLimits:
    """`patience` is for how many seconds an offer, or another command, may be unanswered before its
    cluster gets no more. `first` is how many offers more than it answered lately may be open to one
    that did, `idle` how many to one that answered none, `most` how many at any time.
    """

    patience: float = 2.0
    first: int = 8
    most: int = 32
    idle: int = 1

    def problem(self) -> str:
        """Why nothing could be offered by these; '' if they make sense."""
        if not 0.1 <= self.patience <= 60:
            return f"the patience with an offer is {self.patience:g} s: 0.1 to 60 s make sense"
        if not 1 <= self.first <= self.most:
            return (
                f"{self.first} open offers at first and {self.most} at most: there has to be one at"
                " least, and no more at first than at most"
            )
        return ""


LIMITS = OfferLimits()


@dataclass(frozen=True, slots=True)
class Exposure:
    """How a cluster stands with its offers.

    `open` are those without an answer, decided on or made; the oldest command without one has
    waited for `waited` seconds. `answers` came within the last `patience` seconds; `missed` is
    whether the last offer ended without any.
    """

    open: int = 0
    waited: float = 0.0
    answers: int = 0
    missed: bool = False

    def silence(self, limits: OfferLimits = LIMITS) -> str:
        """Why it gets no offers until it answers; '' if it does."""
        if self.waited < limits.patience:
            return ""
        return f"has not answered an offer for {self.waited:.0f} s: it gets no others until it does"

    def room(self, limits: OfferLimits = LIMITS) -> int:
        """How many more offers it may be made: as many may be open as it answered lately, and
        `first` more. One that let an offer pass is asked with one.
        """
        if self.waited >= limits.patience:
            return 0
        most = limits.first + self.answers if self.answers else limits.idle
        return max(0, min(limits.most, 1 if self.missed else most) - self.open)


def offered_to(state: JobState) -> str:
    """The cluster whose answer to an offer a job waits for, or is about to; '' if it does not."""
    if state.choice is not None:
        return state.choice.cluster
    record, bound = state.record, state.bound
    if record is None or bound is None or record.admitted or record.finished:
        return ""
    copy = state.remotes.get(bound.cluster)
    if copy is None:
        return bound.cluster
    waits = copy.attempt == bound.attempt and not (copy.terminating or answered(copy))
    return "" if copy.gone or not waits else bound.cluster


def answered(copy: RemoteJob) -> bool:
    """Whether its cluster has said something to an offer: yes, no, or that it is deciding."""
    said = copy.refused or copy.deciding_until or copy.held or copy.evicted is not None
    said = said or copy.granted
    return bool(said) or not copy.suspended or bool(copy.finished)


def replied(state: JobState, cluster: str) -> bool:
    """Whether an offer that is not open any more has got an answer from its cluster."""
    copy = state.remotes.get(cluster)
    return copy is not None and answered(copy) and not (copy.gone and not copy.refused)
