"""How often a cluster that does not answer is asked, and what is told of it."""

from __future__ import annotations

import asyncio

from bench.dst.clock import VirtualLoop
from manager.attempts import FIRST_PAUSE_S, LONGEST_PAUSE_S, LONGEST_PROMISE_S, Attempts
from manager.protocol import Health
from tests.unit.manager.virtual import virtually

AWAY = Health(False, "ClientConnectionFailed", "no answer")
WELL = Health(True, "Active", "Connected")


async def _failing(attempts: Attempts, seconds: float) -> tuple[list[float], list[str]]:
    """The pauses between attempts over a time, and what was told, each text once."""
    loop, pauses, texts = asyncio.get_running_loop(), list[float](), dict[str, None]()
    end = loop.time() + seconds
    while loop.time() < end:
        found = attempts.told(AWAY)
        assert (found.ok, found.reason) == (False, "ClientConnectionFailed")
        texts[found.message] = None
        pauses.append(attempts.pause)
        await asyncio.sleep(attempts.pause)  # virtual time
    return pauses, list(texts)


def test_pauses() -> None:
    """Short at first, for most outages are; then doubling up to a limit. Success begins anew."""

    async def main(loop: VirtualLoop) -> None:
        attempts = Attempts()
        pauses, _ = await _failing(attempts, 300)
        assert pauses[:5] == [FIRST_PAUSE_S] * 4 + [2 * FIRST_PAUSE_S]
        assert pauses == sorted(pauses)
        assert pauses[-1] == LONGEST_PAUSE_S
        assert attempts.told(WELL) is WELL
        assert (attempts.failures, attempts.pause) == (0, FIRST_PAUSE_S)

    virtually(main)


def test_what_is_told() -> None:
    """The number of attempts, and by when the next one is made: often at first, then rarely."""

    async def main(loop: VirtualLoop) -> None:
        attempts = Attempts()
        _, texts = await _failing(attempts, 2)
        assert texts[0].startswith("no answer (attempts so far: 1, the next one by 2")
        assert texts[-1].endswith("Z)")
        assert len(texts) >= 3
        await _failing(attempts, 3600)
        _, texts = await _failing(attempts, 3600)
        assert 3600 / LONGEST_PROMISE_S <= len(texts) <= 3600 / LONGEST_PROMISE_S + 2

    virtually(main)


def test_another_failure_is_told_at_once() -> None:
    """With its own words; being connected to anew is no failure."""

    async def main(loop: VirtualLoop) -> None:
        attempts = Attempts()
        await _failing(attempts, 1000)
        other = Health(False, "BadKubeConfig", "the token has expired")
        assert attempts.told(other).message.startswith("the token has expired (attempts so far: ")
        connecting = Health(False, "Connecting", "reading jobs")
        assert attempts.told(connecting) is connecting
        assert attempts.told(AWAY).message.startswith("no answer (attempts so far: 1, ")

    virtually(main)
