"""Whether a card is one that a pod may have at all, whatever is used of it."""

from __future__ import annotations

from functools import lru_cache

from federation.core.devices.cards import Card, CardUse
from federation.core.devices.host.misfit import Code
from federation.core.devices.wants import Wishes

EXACT = "="
"""A model word that begins so is the whole text of the model."""


def barred(card: Card, use: CardUse, wishes: Wishes) -> str:
    """Why nothing new of such a pod may go to the card, as a code of `Code`; '' if it may."""
    if not card.healthy:
        return Code.UNHEALTHY
    if card.cordoned:
        return Code.CORDONED
    if use.fence:
        return Code.FENCED
    if wishes.use_models and not _any_model(wishes.use_models, card.model):
        return Code.MODEL
    if wishes.avoid_models and _any_model(wishes.avoid_models, card.model):
        return Code.MODEL
    if wishes.modes and card.mode not in wishes.modes:
        return Code.MODE
    if wishes.use_uuids is not None and card.uuid not in wishes.use_uuids:
        return Code.UUID
    if card.uuid in wishes.avoid_uuids:
        return Code.UUID
    return Code.EXCLUSIVE if use.closed else ""


@lru_cache(maxsize=4096)
def names_model(word: str, model: str) -> bool:
    """Whether a word of a pod's annotation names the model of a card, without regard to case.

    It does if the model's text contains it and it is not cut out of a longer number or word: A10
    is no A100, L40 no L40S and H20 no H200, though A100, SXM and 4090 name what they are in
    (decision 23). `=NVIDIA A10` is the whole text.
    """
    word, model = word.strip().lower(), model.lower()
    if word.startswith(EXACT):
        return word[len(EXACT) :].strip() == model
    at = model.find(word) if word else -1
    while at >= 0:
        if _apart(model, at) and _apart(model, at + len(word)):
            return True
        at = model.find(word, at + 1)
    return False


def _apart(text: str, at: int) -> bool:
    """Whether a word may begin or end here: everywhere but inside a number or a word, and between
    a number and the letters that go on from it.
    """
    if at in (0, len(text)):
        return True
    before, after = text[at - 1], text[at]
    return not (before.isalnum() and after.isalnum()) or (before.isalpha() and after.isdigit())


def _any_model(words: tuple[str, ...], model: str) -> bool:
    return any(names_model(word, model) for word in words)
