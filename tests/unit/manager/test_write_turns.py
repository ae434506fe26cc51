"""Whose write goes first."""

from __future__ import annotations

import asyncio

from manager.write_turns import BURST, CALM_S, SHARE, Rank, WriteTurns


class Writes:
    """Writes that end when they are told to; `begun` is their order."""

    def __init__(self, slots: int) -> None:
        self.turns = WriteTurns(slots)
        self.begun: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}

    async def ask(self, *names: str, rank: Rank = Rank.ORDINARY) -> None:
        for name in names:
            self._ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._write(name, rank))
        await settled()

    async def _write(self, name: str, rank: Rank) -> None:
        async with self.turns.turn(rank):
            self.begun.append(name)
            await self._ends[name].wait()

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
            await settled()

    async def end_all(self) -> None:
        """Let each of them have its turn and end."""
        for end in self._ends.values():
            end.set()
        await asyncio.gather(*self.tasks.values())


async def settled() -> None:
    """All that can go on has gone on."""
    for _ in range(5):
        await asyncio.sleep(0)  # a round of the loop


async def test_no_more_than_there_are_slots() -> None:
    """Those that follow wait for one that ends, in their order."""
    writes = Writes(2)
    await writes.ask("a", "b", "c", "d")
    assert writes.begun == ["a", "b"]
    await writes.end("b")
    assert writes.begun == ["a", "b", "c"]
    await writes.end_all()
    assert writes.begun == ["a", "b", "c", "d"]


async def test_urgent_ones_go_first() -> None:
    """Each line in its order, and an ordinary one now and then."""
    writes = Writes(1)
    await writes.ask("a")
    await writes.ask("o1", "o2", "o3")
    await writes.ask(*(f"u{n}" for n in range(2 * SHARE)), rank=Rank.LEAVES)
    await writes.end_all()
    firsts = [f"u{n}" for n in range(SHARE - 1)]
    nexts = [f"u{n}" for n in range(SHARE - 1, 2 * SHARE - 2)]
    rest = [f"u{n}" for n in range(2 * SHARE - 2, 2 * SHARE)]
    assert writes.begun == ["a", *firsts, "o1", *nexts, "o2", *rest, "o3"]


async def test_who_has_a_place_goes_before_those_that_leave_theirs() -> None:
    """However long these have waited."""
    writes = Writes(1)
    await writes.ask("a")
    await writes.ask("leaves", rank=Rank.LEAVES)
    await writes.ask("starts", rank=Rank.STARTS)
    await writes.end_all()
    assert writes.begun == ["a", "starts", "leaves"]


async def test_one_that_is_given_up_holds_nobody_up() -> None:
    """Neither while it waits, nor when its turn came at that moment, nor when it was under way."""
    writes = Writes(1)
    await writes.ask("a", "b", "c", "d", "e")
    writes.tasks["b"].cancel()
    await writes.end("a")
    assert writes.begun == ["a", "c"]
    writes._ends["c"].set()
    await asyncio.sleep(0)  # a round of the loop
    writes.tasks["d"].cancel()
    await settled()
    assert writes.begun == ["a", "c", "e"]
    writes.tasks["e"].cancel()
    await settled()
    await writes.ask("f")
    assert writes.begun == ["a", "c", "e", "f"]
    await writes.end("f")


async def test_after_a_burst_of_urgent_ones_the_others_wait_although_there_is_room() -> None:
    """But for their share, and until no more have come for a while."""
    writes = Writes(1000)
    await writes.ask(*(f"u{n}" for n in range(BURST)), rank=Rank.STARTS)
    await writes.ask("o1", "o2", "o3")
    assert writes.begun[BURST:] == ["o1"]
    await writes.ask("u", "v", "w", rank=Rank.LEAVES)
    assert writes.begun[BURST:] == ["o1", "u", "v", "w", "o2"]
    begun = asyncio.get_running_loop().time()
    await writes.end_all()
    assert writes.begun[-1] == "o3"
    assert asyncio.get_running_loop().time() - begun > CALM_S / 2


async def test_a_few_urgent_ones_hold_nobody_up() -> None:
    """Of a single job, say."""
    writes = Writes(1000)
    await writes.ask(*(f"u{n}" for n in range(BURST - 1)), rank=Rank.STARTS)
    await writes.ask("o1", "o2", "o3")
    assert writes.begun[BURST - 1 :] == ["o1", "o2", "o3"]
    await writes.end_all()
