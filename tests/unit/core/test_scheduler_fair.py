"""The order of heads under fair sharing (§7.4, items 49 to 53)."""

from __future__ import annotations

from typing import Any

import pytest

from federation.core.types import Cohort, Pending
from tests.unit.core.build import ANY, LOWER, STRICT, co, cq, evicts, group, holds, job, one, quota
from tests.unit.core.stage import FAIR, Stage, Thing, decide, state


def case(name: str, *things: Thing, heads: list[Pending], answers: dict[str, str]) -> Any:
    """A row of a table: what is decided on the heads, in the order in which it is."""
    return pytest.param(things, heads, answers, id=name)


YES, NO_MORE = "admitted", "FailedAfterNomination"


def three(**weights: float) -> list[Thing]:
    """Queues a, b, c with 3 gpus each; a uses 3, b uses 4."""
    queues = [one(name, 3, "c", fair_weight=weights.get(name, 1.0)) for name in "abc"]
    return [*queues, holds("a3", "a", 3), holds("b4", "b", 4)]


ONE_EACH = [job(name, name, 1) for name in "abc"]

TABLE = [
    case(
        "example, 49 and 52: c borrows nothing, then a 111, then b 222",
        *three(),
        heads=ONE_EACH,
        answers={"c": YES, "a": YES, "b": NO_MORE},
    ),
    case(
        "example, 51: b with a weight of 4 is at 56",
        *three(b=4.0),
        heads=ONE_EACH,
        answers={"c": YES, "b": YES, "a": NO_MORE},
    ),
    case(
        "51: without weight last",
        *three(a=0.0),
        heads=ONE_EACH,
        answers={"c": YES, "b": YES, "a": NO_MORE},
    ),
    case(
        "49: the share counts before priority",
        *three(),
        heads=[job("a", "a", 1, 0), job("b", "b", 1, 9)],
        answers={"a": YES, "b": YES},
    ),
    case(
        "49: of equal shares the higher priority",
        *(one("a", 3, "c"), one("b", 3, "c"), co("c", 3)),
        heads=[job("a", "a", 4, 0), job("b", "b", 4, 9)],
        answers={"b": YES, "a": YES},
    ),
    case(
        "49: then the older",
        *(one("a", 3, "c"), one("b", 3, "c"), co("c", 3)),
        heads=[job("a", "a", 4, at=2.0), job("b", "b", 4, at=1.0)],
        answers={"b": YES, "a": YES},
    ),
    case(
        "49: the entry itself counts",
        *(one("a", 3, "c"), one("b", 3, "c"), co("c", 3)),
        heads=[job("large", "a", 6, 9), job("small", "b", 4)],
        answers={"small": YES, "large": NO_MORE},
    ),
    case(
        "52: who does not borrow what it asks for goes first, however it borrows elsewhere",
        cq("a", group("cpu gpu", f=(quota(1), quota(3))), cohort="c"),
        *(one("b", 3, "c"), cq("l", group("cpu gpu", f=(quota(9), quota(3))), cohort="c")),
        holds("a9", "a", {"f/cpu": 9}),
        heads=[job("a", "a", 3), job("b", "b", 4)],
        answers={"a": YES, "b": YES},
    ),
    case(
        "50: what was admitted before in the cycle counts for its side",
        *(co("root", 20), co("left", 0, "root"), co("right", 0, "root")),
        *(one("a", 0, "left"), one("b", 0, "left"), one("c", 0, "right")),
        heads=[job("a", "a", 4), job("b", "b", 4, 9), job("c", "c", 6)],
        answers={"b": YES, "c": YES, "a": YES},
    ),
    case(
        "53: a side sends its best, and the best of the sides goes first",
        *(co("root", 9), co("left", 0, "root"), co("right", 0, "root")),
        *(one("a", 0, "left"), one("b", 0, "left"), one("c", 0, "right"), one("d", 0, "right")),
        *(holds("a1", "a", 1), holds("d4", "d", 4)),
        heads=[job("a", "a", 1), job("b", "b", 1), job("c", "c", 1), job("d", "d", 1)],
        answers={"b": YES, "a": YES, "c": YES, "d": YES},
    ),
    case(
        "53: a fair queue of a greedy side waits for the other side",
        *(co("root", 7), co("left", 0, "root"), co("right", 0, "root")),
        *(one("a", 0, "left"), one("b", 0, "left"), one("c", 0, "right")),
        *(holds("a4", "a", 4), holds("c2", "c", 2)),
        heads=[job("b", "b", 1, 9), job("c", "c", 1)],
        answers={"c": YES, "b": NO_MORE},
    ),
    case(
        "queues without a cohort are not compared",
        *(one("a", 1), one("b", 1)),
        heads=[job("a", "a", 1), job("b", "b", 1)],
        answers={"a": YES, "b": YES},
    ),
    case(
        "a queue and a cohort without children of the same name",
        *(co("root", 2), Cohort("q", "root"), one("q", 0, "root"), one("p", 0, "root")),
        heads=[job("q", "q", 1), job("p", "p", 1)],
        answers={"p": YES, "q": YES},
    ),
]


@pytest.mark.parametrize(("things", "heads", "answers"), TABLE)
def test_order(things: tuple[Thing, ...], heads: list[Pending], answers: dict[str, str]) -> None:
    """A tournament from the queues up: not borrowing, share with the entry, priority, time."""
    found = decide(state(*things, rules=FAIR), *heads)
    assert list(found.items()) == list(answers.items())


async def test_shares_get_equal() -> None:
    """Items 49 and 50 over cycles: two queues of the same weight share what neither owns."""
    stage = Stage(co("c", 12), one("a", 0, "c"), one("b", 0, "c"), rules=FAIR)
    await stage.submit(*(job(f"a{n:02}", "a", at=float(n)) for n in range(12)))
    await stage.submit(*(job(f"b{n:02}", "b", at=100.0 + n) for n in range(12)))
    await stage.rest()

    assert [uid[0] for uid in stage.running].count("a") == 6
    assert [uid[0] for uid in stage.running].count("b") == 6


async def test_shares_follow_weights() -> None:
    """Item 51: where one is left for two, the larger weight gets it."""
    queues = [one("a", 0, "c", fair_weight=1.0), one("b", 0, "c", fair_weight=2.0)]
    stage = Stage(co("c", 13), *queues, rules=FAIR)
    await stage.submit(*(job(f"a{n:02}", "a") for n in range(12)))
    await stage.submit(*(job(f"b{n:02}", "b") for n in range(12)))
    await stage.rest()

    assert [uid[0] for uid in stage.running].count("a") == 6
    assert [uid[0] for uid in stage.running].count("b") == 7


async def test_a_latecomer_gets_its_share_by_preemption() -> None:
    """§6.3 and §7.4 together: until the shares are equal, and then there is rest."""
    queues = [one(name, 0, "c", preemption=evicts(LOWER, ANY)) for name in "ab"]
    stage = Stage(co("c", 6), *queues, rules=FAIR)
    await stage.submit(*(job(f"a{n}", "a", at=float(n)) for n in range(6)))
    await stage.rest()
    await stage.submit(*(job(f"b{n}", "b", at=100.0 + n) for n in range(6)))
    for _ in range(12):
        await stage.rest()
        evicted = [uid for uid in stage.known if (h := stage.scheduler.holder(uid)) and h.evicted]
        await stage.stopped(*evicted)
        await stage.later()

    assert [uid[0] for uid in stage.running].count("a") == 3
    assert [uid[0] for uid in stage.running].count("b") == 3
    assert stage.log.count("evict a0 InCohortFairSharing") <= 1
    assert not stage.scheduler.ready
    assert stage.scheduler.due() is None


async def test_strict_queues_share_too() -> None:
    """The strategy is about one queue; shares are between queues."""
    queues = [one(name, 0, "c", strategy=STRICT) for name in "ab"]
    stage = Stage(co("c", 4), *queues, rules=FAIR)
    await stage.submit(job("a0", "a", 3), job("a1", "a", 1), job("b0", "b", 2), job("b1", "b", 2))
    await stage.rest()

    assert stage.running == ["b0", "b1"], "b0 has the smaller share, and then a0 does not fit"
