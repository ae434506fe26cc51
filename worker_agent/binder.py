"""Who binds pods that have cards."""

from __future__ import annotations

from enum import StrEnum


class Binder(StrEnum):
    """Who binds pods that have cards: HAMi's scheduler, held to the agent's choice by the pods'
    own annotations; or kube-scheduler, and the agent writes what HAMi's device plugin reads.
    """

    HAMI = "hami"
    AGENT = "agent"
    OFF = "off"
    """Cards are not counted here."""
