"""The checker finds what went wrong, and nothing else; small histories against a plain count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.drill.history import Submitted, Verdict, check
from fedq.drill.records import Kind, Record, Subject


def run(
    attempt: int,
    start: float,
    stop: float | None,
    *,
    cluster: str = "",
    exit: int = 0,
    **more: object,
) -> list[Record]:
    """Records of one process; None: it runs on."""
    pod = str(more.pop("pod", f"{attempt}-{start}"))
    of = Subject(str(more.pop("job", "j")), attempt, pod, cluster or f"w{attempt}", **more)
    ending = [] if stop is None else [Record(Kind.STOP, of, stop, exit=exit)]
    beat = [Record(Kind.ALIVE, of, 99.9)] if stop is None else []
    return [Record(Kind.START, of, start), *beat, *ending]


def judge(*histories: list[Record], job: Submitted | None = None) -> Verdict:
    return check([r for history in histories for r in history], [job or Submitted("j")], now=100)


def test_a_job_that_moves_without_overlap_is_fine() -> None:
    """The interrupted run was in vain, which is the price of moving."""
    verdict = judge(run(1, 0, 10, exit=143, gpus=2), run(2, 10, 40, gpus=2))

    assert verdict == Verdict(wasted_gpu_s=20)


def test_two_attempts_at_once_are_told_with_their_time() -> None:
    """From the start of the second to the end of the first."""
    verdict = judge(run(1, 0, 10, exit=143), run(2, 7, 40))

    assert verdict.overlap_s == 3
    assert verdict.duplicate_starts == 1
    assert verdict.violations == [
        "job j: attempt 2 on w2 (2-7) started while attempt 1 on w1 (1-0) ran",
        "job j: attempts ran together for 3.00 s, first at 7.00",
    ]


def test_duplicate_ok_tolerates_two_attempts_and_counts_the_waste() -> None:
    """The one that finished first counts."""
    both = {"policy": "duplicate-ok", "gpus": 1}
    verdict = judge(run(1, 0, 30, **both), run(2, 20, 50, **both))

    assert verdict == Verdict(tolerated_overlap_s=10, wasted_gpu_s=30)


def test_a_held_job_goes_on_with_the_same_attempt() -> None:
    """One pod after the other is what a Job does."""
    assert judge(run(1, 0, 10, exit=143), run(1, 30, 50)).violations == []


@pytest.mark.parametrize(
    ("histories", "said"),
    [
        ([run(1, 0, 10), run(1, 5, 20, pod="b")], "started beside 1 of the same attempt"),
        ([run(1, 0, 10), run(1, 20, 30, pod="b")], "started though that attempt had succeeded"),
        (
            [run(1, 0, 10, exit=1), run(1, 20, 30, cluster="other")],
            "started though that attempt had run on w1",
        ),
        ([run(2, 0, 10), run(1, 20, 30)], "started after attempt 2 on w2 (2-0) had"),
    ],
)
def test_starts_that_must_not_be(histories: list[list[Record]], said: str) -> None:
    """Each one counts once."""
    verdict = judge(*histories)

    assert verdict.duplicate_starts == 1
    assert said in verdict.violations[0]


def test_a_job_of_several_pods_may_run_them_at_once() -> None:
    """As many as it has, one more for each that failed."""
    history = [run(1, 0, 10, pod="a"), run(1, 0, 4, pod="b", exit=1), run(1, 4, 14, pod="c")]
    verdict = judge(*history, job=Submitted("j", pods=2, completions=2))

    assert (verdict.duplicate_starts, verdict.lost_jobs, verdict.violations) == (0, 0, [])


@pytest.mark.parametrize(
    ("histories", "lost"),
    [
        ([], 1),
        ([run(1, 0, 10, exit=143)], 1),
        ([run(1, 90, None)], 1),
        ([run(1, 0, 10)], 1),
        ([run(1, 0, 10), run(2, 20, 30)], 1),
        ([run(1, 0, 10), run(1, 0, 30, pod="b")], 0),
    ],
)
def test_a_job_is_lost_unless_one_attempt_has_all_its_completions(
    histories: list[list[Record]], lost: int
) -> None:
    """Pods of different attempts do not add up: a job that moves repeats all of them."""
    assert judge(*histories, job=Submitted("j", pods=2, completions=2)).lost_jobs == lost


def test_a_run_that_still_goes_is_not_wasted_yet() -> None:
    """Unless another attempt has finished."""
    assert judge(run(1, 90, None, gpus=1)).wasted_gpu_s == 0
    late = judge(run(1, 90, None, gpus=1), run(2, 95, 98, gpus=1))
    assert late.wasted_gpu_s == pytest.approx(10)


def test_a_pause_is_no_overlap_but_what_runs_after_it_is() -> None:
    """A process that was stopped and goes on after another has started runs beside it."""
    old = Subject("j", 1, "p", "w1")
    paused = Record(Kind.PAUSED, old, 60, since=9.5)
    history = [Record(Kind.START, old, 0), paused, Record(Kind.STOP, old, 61, exit=137)]
    verdict = judge(history, run(2, 50, 80))

    assert verdict.overlap_s == pytest.approx(1)
    assert verdict.duplicate_starts == 0


def test_a_card_is_not_used_beyond_what_it_has() -> None:
    """By cores always, by memory where it is known; what ends makes room."""
    half = {"devices": (("GPU-1", 60.0, 30.0),), "cluster": "w"}
    records = [*run(1, 0, 10, job="a", **half), *run(1, 10, 20, job="b", **half),
               *run(1, 15, 30, job="c", **half)]  # fmt: skip
    verdict = check(records, [], now=100, memory={"GPU-1": 50.0})

    assert verdict.violations == [
        "card GPU-1 on w: 120 % of its cores in use at 15.00, there are 100",
        "card GPU-1 on w: 60 MiB in use at 15.00, there are 50",
    ]


def test_damage_is_a_violation() -> None:
    """A verdict about a history with holes would be worth nothing."""
    damaged = Record(Kind.DAMAGED, Subject("", 0, "", ""), 0, reason="w/p:3: ValueError")
    verdict = judge(run(1, 0, 10), [damaged])

    assert verdict.violations == ["damaged history: w/p:3: ValueError"]


# Against a count of seconds

TIME = st.integers(0, 12)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, int, int, int]]:
    """(attempt, start, stop, exit) of some runs of one job."""
    return [
        (
            draw(st.integers(1, 3)),
            start,
            start + draw(st.integers(1, 6)),
            draw(st.sampled_from([0, 1])),
        )
        for start in draw(st.lists(TIME, max_size=6))
    ]


@given(histories())
def test_overlap_waste_and_loss_are_as_counted_second_by_second(
    drawn: list[tuple[int, int, int, int]],
) -> None:
    """Every second is looked at on its own."""
    records = [
        record
        for index, (attempt, start, stop, exit) in enumerate(drawn)
        for record in run(attempt, start, stop, exit=exit, pod=str(index), gpus=1)
    ]
    verdict = check(records, [Submitted("j", pods=9)], now=100)
    seconds = [
        [attempt for attempt, start, stop, _ in drawn if start <= second < stop]
        for second in range(30)
    ]
    overlap = sum(1 for attempts in seconds if len(set(attempts)) > 1)
    ends = sorted((stop, start, attempt) for attempt, start, stop, exit in drawn if exit == 0)
    first = {end[0] for end in ends[:1]}
    winners = {attempt for stop, _, attempt in ends if stop in first}
    used = {
        winner: sum(s - b for a, b, s, e in drawn if a == winner and e == 0) for winner in winners
    }

    assert verdict.overlap_s == overlap
    assert verdict.lost_jobs == int(not ends)
    everything = sum(len(attempts) for attempts in seconds)
    assert everything - verdict.wasted_gpu_s in (used.values() or {0})
    assert (verdict.duplicate_starts == 0) or verdict.violations


@given(histories(), st.integers(0, 30), st.integers(1, 30))
def test_pauses_only_take_away(drawn: list[tuple[int, int, int, int]], at: int, long: int) -> None:
    """A pause of any run never makes more overlap or waste."""
    records: list[Record] = []
    for index, (attempt, start, stop, exit) in enumerate(drawn):
        records += run(attempt, start, stop, exit=exit, pod=str(index), gpus=1)
    paused = [
        Record(Kind.PAUSED, record.subject, at + long, since=at)
        for record in records[:1]
        if record.at < at and at + long <= records[1].at
    ]
    plain = check(records, [Submitted("j", pods=9)], now=100)
    less = check([*records[:1], *paused, *records[1:]], [Submitted("j", pods=9)], now=100)

    assert less.overlap_s <= plain.overlap_s
    assert less.wasted_gpu_s <= plain.wasted_gpu_s
    assert less.lost_jobs == plain.lost_jobs
