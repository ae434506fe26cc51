"""Jobs of lost clusters run elsewhere at a bounded rate."""

from __future__ import annotations

import asyncio

import pytest

from bench.dst.clock import VirtualLoop
from manager.reruns import Bucket, Reruns
from tests.unit.manager.virtual import virtually


def test_a_bucket() -> None:
    """So many at once, then so many in a second; what is saved up is bounded."""
    bucket = Bucket(rate=10.0, burst=2)
    assert [bucket.take(100.0) for _ in range(3)] == [0.0, 0.0, pytest.approx(0.1)]
    assert bucket.take(100.05) == pytest.approx(0.05)
    assert bucket.take(100.1) == 0.0
    assert [bucket.take(1000.0) for _ in range(3)] == [0.0, 0.0, pytest.approx(0.1)]


def test_the_most_important_first() -> None:
    """By priority, then by age; each once, however often it is put in."""

    async def main(loop: VirtualLoop) -> None:
        gone: list[tuple[float, str]] = []
        began = asyncio.get_running_loop().time()
        reruns = Reruns(
            lambda uid, cluster: gone.append((loop.time() - began, uid)), Bucket(10.0, 1)
        )
        for uid, priority, created in (("c", 0, 2.0), ("b", 0, 1.0), ("a", 5, 9.0), ("b", 0, 1.0)):
            reruns.put(uid, "x", priority, created)
        await asyncio.sleep(1)

        assert [uid for _, uid in gone] == ["a", "b", "c"]
        assert gone[-1][0] == pytest.approx(0.2, abs=0.02)
        assert len(reruns) == 0

    virtually(main)


def test_a_thousand_within_half_a_minute() -> None:
    """As they are set."""

    async def main(loop: VirtualLoop) -> None:
        gone: list[str] = []
        reruns = Reruns(lambda uid, cluster: gone.append(uid))
        for number in range(1000):
            reruns.put(f"u{number:04}", "x", 0, float(number))
        await asyncio.sleep(19.5)
        assert gone == [f"u{number:04}" for number in range(1000)]

    virtually(main)


def test_closed() -> None:
    """Nobody is called any more."""

    async def main(loop: VirtualLoop) -> None:
        gone: list[str] = []
        reruns = Reruns(lambda uid, cluster: gone.append(uid))
        reruns.put("u", "x", 0, 0.0)
        reruns.close()
        await asyncio.sleep(1)
        assert gone == []

    virtually(main)
