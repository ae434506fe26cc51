"""How many pods a copy has, is asked to have, and how many more of a job wait."""

from __future__ import annotations

from typing import NamedTuple


class Size(NamedTuple):
    """The pods of a copy: as many as `asked` for, `runs` as its spec is now (fewer if its worker
    had no room for all), and `there`: those that exist or may yet be made.
    """

    asked: int
    runs: int
    there: int


class Asked(NamedTuple):
    """So many pods the manager asked the agent to let a copy have, 0 for none; `refused` is the
    agent's no, with its reason.
    """

    pods: int = 0
    refused: str = ""

    @property
    def open(self) -> bool:
        """Whether something of it stands on the copy."""
        return bool(self.pods or self.refused)


NOT_ASKED = Asked()


class Growing(NamedTuple):
    """So many more pods of a job that runs wait, with this priority."""

    pods: int
    priority: int
