"""Numbers, expectations and reports of drills, on histories made by hand."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from fedq.drill.cases.table import DRILLS, find
from fedq.drill.history import Submitted, check
from fedq.drill.judge import BESIDE_LATER, longest_late, reruns, stale, stopped
from fedq.drill.picture import page, svg
from fedq.drill.records import Kind, Record, Subject
from fedq.drill.report import as_json, as_text
from fedq.drill.result import Expectations, Metrics, Outcome, Result
from fedq.drill.runs import Run
from fedq.drill.timeline import Mark, Timeline, What

CUT = 100.0


def ran(
    job: str, attempt: int, cluster: str, since: float, until: float, code: int | None = None
) -> Run:
    """A run of one pod."""
    return Run(Subject(job, attempt, f"{job}-{attempt}", cluster), ((since, until),), code)


MOVED = [ran("a", 1, "west", 90, 131), ran("a", 2, "east", 191, 250, 0)]
FINISHED_THERE = [ran("b", 1, "west", 90, 120, 0)]
CONTROL = [ran("c", 1, "east", 90, 200, 0)]
HELD = [ran("d", 1, "west", 90, 131), ran("d", 1, "west", 150, 210, 0)]


def test_stopped_are_runs_of_the_victim_that_ended_without_success() -> None:
    """Not those that finished, ran elsewhere, or began only after the fault."""
    found = stopped([*MOVED, *FINISHED_THERE, *CONTROL, *HELD], ["west"], CUT)
    assert [(run.subject.job, run.end) for run in found] == [("a", 131), ("d", 131)]


def test_reruns_are_later_attempts_of_what_ran_on_the_victim() -> None:
    """What goes on with the same attempt is no re-run; only the first one of each job counts."""
    third = ran("a", 3, "east", 260, 270, 0)
    found = reruns([third, *MOVED, *FINISHED_THERE, *CONTROL, *HELD], ["west"], CUT)
    assert [(run.subject.job, run.start) for run in found] == [("a", 191)]


@pytest.mark.parametrize(
    ("found", "limit", "held"), [(5.0, 5.0, True), (5.01, 5.0, False), (None, 5.0, False)]
)
def test_a_number_that_was_never_seen_does_not_hold(
    found: float | None, limit: float, held: bool
) -> None:
    """Silence is no proof."""
    expect = Expectations()
    expect.at_most("stop", found, limit)
    assert [finding.held for finding in expect.findings] == [held]
    assert bool(expect.broken) is not held


def test_at_least_and_equal_say_both_numbers() -> None:
    """A person sees what was wanted and what was found."""
    expect = Expectations()
    expect.at_least("re-run", 89.0, 90)
    expect.equal("runs", 2, 1)
    expect.true("adopted", True)
    assert expect.broken == ["re-run: 89.00 s (wanted: at least 90 s)", "runs: 2 (wanted: 1)"]


def test_marks_are_found_by_what_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kind, cluster, detail and moment; the last one before a moment too."""
    clock = iter([1.0, 2.0, 3.0, 4.0])
    monkeypatch.setattr("fedq.drill.timeline.boottime", lambda: next(clock))
    timeline = Timeline()
    for cluster in ("west", "east", "west", "west"):
        timeline.mark(What.RENEWED, cluster)
    assert [m.at for m in timeline.find(What.RENEWED, cluster="west", after=2.0)] == [3.0, 4.0]
    assert timeline.last_before(What.RENEWED, "west", 3.5) == 3.0
    assert timeline.last_before(What.RENEWED, "north", 3.5) is None
    assert timeline.find(What.FENCED) == []


def result(**changes: Any) -> Result:
    """A result of a cut."""
    fields: dict[str, Any] = {
        "name": "worker-partition",
        "number": "1",
        "shows": "a <b>cut</b> & more",
        "outcome": Outcome.FAILED,
        "reasons": ['<script>alert("x")</script>'],
        "metrics": Metrics(12.3456, 31.0, None, 0.0, 1, 0, 41.0),
        "marks": [
            Mark(90.0, What.RENEWED, "west"),
            Mark(CUT, What.FAULT, "west", "", "cut"),
            Mark(112.3, What.PHASE, "west", "", "Suspect"),
            Mark(130.0, What.STOPPED, "west", "<i>a"),
            Mark(130.5, What.STOPPED, "west", "b"),
            Mark(250.0, What.HEALED, "west"),
        ],
        "runs": MOVED,
        "fault_at": CUT,
        "job_names": {"a": "<i>a"},
    }
    return Result(**{**fields, **changes})


def test_json_has_the_numbers_under_their_names_and_times_from_the_fault() -> None:
    """The keys that programs rely on; what was not seen is null."""
    found = json.loads(as_json([result()]))
    drill = found["drills"][0]
    keys = ("detect_s", "stop_s", "rerun_s", "overlap_s", "lost_jobs", "duplicate_starts")
    assert [drill[key] for key in (*keys, "wasted_gpu_s")] == [12.35, 31.0, None, 0.0, 1, 0, 41.0]
    assert drill["outcome"] == "failed"
    assert drill["timeline"][2] == {
        "at": 12.3,
        "what": "phase",
        "cluster": "west",
        "job": "",
        "detail": "Suspect",
    }
    assert drill["runs"][1]["spans"] == [[91.0, 150.0]]
    assert (found["passed"], found["total"]) == (0, 1)


def test_text_tells_the_moments_and_why_it_failed() -> None:
    """Equal moments that follow each other are told once; renewals are not told."""
    text = as_text([result(), result(name="keep", outcome=Outcome.SKIPPED, reasons=["no network"])])
    assert "+30.00 s  stop ordered west 2 jobs" in text
    assert "renewed" not in text
    assert 'because: <script>alert("x")</script>' in text
    assert text.splitlines()[-2:] == ["keep was skipped: no network", "1 failed, 1 skipped"]
    row = next(line for line in text.splitlines() if line.startswith("keep  "))
    assert row.split()[1:4] == ["skipped", "-", "-"]  # nothing was measured


def test_html_is_whole_and_escapes_what_it_is_told() -> None:
    """One file, nothing fetched, nothing that a name could break out of."""
    text = page([result()])
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "<b>cut" not in text
    assert "http" not in text.replace("http-equiv", "")
    picture = ElementTree.fromstring(svg(result()))
    words = [node.text for node in picture.iter("text")]
    assert "<i>a" in words
    assert "fault" in words
    assert len(list(picture.iter("rect"))) == 2 + 2  # two runs, two clusters in the legend


def test_a_picture_of_nothing_is_still_a_picture() -> None:
    """A drill that got stuck before anything ran."""
    ElementTree.fromstring(svg(result(runs=[], marks=[], fault_at=0.0)))


def test_the_sentences_about_runs_beside_later_ones_are_the_checkers() -> None:
    """A drill that allows for some of it finds it by these words."""
    both = [ran("a", 2, "east", 90, 250, 0), ran("a", 1, "west", 120, 131)]
    records = [
        record
        for run in both
        for record in (
            Record(Kind.START, run.subject, run.start),
            Record(Kind.STOP, run.subject, run.end, exit=0),
        )
    ]
    violations = check(records, [Submitted("a")], 300).violations
    assert {words for words in BESIDE_LATER for text in violations if words in text} == {
        *BESIDE_LATER
    }


def test_the_longest_run_that_began_late() -> None:
    """Beside a later attempt or after it; those that were there before it are none."""
    assert longest_late([ran("a", 1, "west", 90, 131), ran("a", 2, "east", 120, 250)]) == 0
    late = [ran("a", 2, "east", 90, 100), ran("a", 1, "west", 120, 123), ran("b", 1, "west", 0, 99)]
    assert longest_late(late) == 3


def test_drills_are_found_by_name_and_number() -> None:
    """Both are unique."""
    assert find("worker-partition") is find("1") is DRILLS[0]
    assert find("no-such-drill") is None
    assert len({drill.name for drill in DRILLS}) == len(DRILLS)
    numbers = [drill.number for drill in DRILLS if drill.number]
    assert len(set(numbers)) == len(numbers)


def test_a_commit_is_stale_only_if_it_began_after_a_later_attempt_had_claimed_the_token() -> None:
    """Of the same job; one that began before may end later, and the store decides it."""

    def record(kind: Kind, job: str, attempt: int, at: float) -> Record:
        return Record(kind, Subject(job, attempt, f"{job}-{attempt}", "west"), at)

    late = record(Kind.COMMITTED, "a", 1, 12)
    records = [
        record(Kind.CLAIMED, "a", 1, 1),
        record(Kind.COMMITTED, "a", 1, 9),
        record(Kind.CLAIMED, "a", 2, 10),
        record(Kind.COMMITTED, "a", 2, 11),
        record(Kind.COMMITTED, "b", 1, 12),
        late,
    ]
    assert stale(records, Kind.COMMITTED) == [late]


def test_what_has_to_be_known_beside_the_outcome_is_told_everywhere() -> None:
    """In text, JSON and HTML; it changes no outcome."""
    result = Result("d", "10", "shows", Outcome.PASSED, remarks=["a tick of the guard"])
    assert "passed (see note)" in as_text([result])
    assert "note: a tick of the guard" in as_text([result])
    found = json.loads(as_json([result]))["drills"][0]
    assert (found["outcome"], found["remarks"]) == ("passed", ["a tick of the guard"])
    assert "a tick of the guard" in page([result])
