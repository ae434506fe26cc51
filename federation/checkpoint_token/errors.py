"""What can go wrong:

StoreError                  the store cannot be used, or does not answer
├── RefusedError            another attempt holds the token, or was first: stop, do not try again
└── ConditionsIgnoredError  the store takes conditional writes and does not mean it
"""

from __future__ import annotations


class StoreError(Exception):
    """Nothing was stored, as far as is known."""


class RefusedError(StoreError):
    """Nothing was stored, and nothing will be: `holder` is the attempt that counts."""

    def __init__(self, text: str, holder: int) -> None:
        super().__init__(text)
        self.holder = holder


class ConditionsIgnoredError(StoreError):
    """On such a store two attempts can overwrite each other's work."""
