"""Which of the renewals that were seen its agent knows of.

An answer may be lost, or its agent die before it comes: whoever watches the Lease has seen a
renewal then that extended nothing. The deadline of an agent, and of the guards of its nodes, is
that of the last renewal of which it has the answer, and each renewal tells which one that is.
Fences count from the last one that was *seen*: the agent may know of it. What may have been
stopped counts from the last one that it is *known* to have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

MOST = 64
"""So many unanswered ones in a row are remembered."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """`mark` is the text of its renewTime, `at` when it was seen, `lease` what it holds for, in
    seconds. `came` is whether it was seen to come: else it may be of any age.
    """

    mark: str
    at: float
    lease: float
    came: bool


@dataclass(frozen=True, slots=True)
class Renewals:
    """`known` is the last one of which the agent has the answer, as far as it told (None: it does
    not tell), `later` are those that were seen after that.
    """

    known: Renewal | None = None
    later: tuple[Renewal, ...] = ()

    def seen(self, here: Renewal, known: str | None) -> Renewals:
        """One more was seen, `here`; at that time its agent knew of the one with the mark `known`
        ('': of none that had not ended; None: it does not tell).

        Of one that knows of none nothing goes on that was started before, so it is the first one
        that counts: what is started after it tells that its answer came. One that was missed is
        older than this one, but nobody knows by how much.
        """
        if known is None:
            return Renewals()
        if not known:
            return Renewals(here)
        candidates = (*((self.known,) if self.known else ()), *self.later)
        for position, candidate in enumerate(candidates):
            if candidate.mark == known:
                return Renewals(candidate, (*candidates[position + 1 :], here)[-MOST:])
        return Renewals(replace(here, mark=known, came=False), (here,))
