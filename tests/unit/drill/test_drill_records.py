"""Reading what processes wrote, also what they could not finish."""

from __future__ import annotations

import json
from pathlib import Path

from fedq.drill.records import Kind, parse, read_history

START = {
    "t": "start", "job": "j", "attempt": 2, "epoch": 3, "pod": "p", "name": "ns/p", "cluster": "w",
    "policy": "keep", "gpus": 2, "devices": {"GPU-1": [50, 2048]}, "b": 10.0, "w": 1.0, "pid": 1,
}  # fmt: skip


def lines(*records: dict[str, object]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def test_every_record_knows_its_run() -> None:
    """The start record describes the run, the others follow it."""
    content = lines(START, {"t": "alive", "b": 10.5}, {"t": "paused", "from": 10.5, "b": 13.0},
                    {"t": "stop", "exit": 7, "reason": "term", "b": 14.0})  # fmt: skip
    start, alive, paused, stop = parse(content, "w/p")

    assert start.subject.job == "j"
    assert (start.subject.attempt, start.subject.epoch, start.subject.policy) == (2, 3, "keep")
    assert start.subject.devices == (("GPU-1", 50.0, 2048.0),)
    assert alive.subject is paused.subject is stop.subject is start.subject
    assert (paused.since, paused.at) == (10.5, 13.0)
    assert (stop.exit, stop.reason) == (7, "term")


def test_a_last_line_that_was_cut_off_is_left_out() -> None:
    """A process that is killed while it writes leaves half a line."""
    whole = lines(START, {"t": "alive", "b": 10.5})

    for cut in range(len(lines(START)) + 1, len(whole) - 1):
        assert [record.kind for record in parse(whole[:cut], "w/p")] == [Kind.START]


def test_a_line_within_that_cannot_be_read_is_told() -> None:
    """Nothing a process does makes such a line, so a verdict must not pass over it."""
    content = lines(START) + b'{"t": "al\n' + lines({"t": "alive", "b": 11.0})
    _, damaged, alive = parse(content, "w/p.jsonl")

    assert damaged.kind is Kind.DAMAGED
    assert damaged.reason.startswith("w/p.jsonl:2: ")
    assert alive.kind is Kind.ALIVE


def test_records_without_a_start_are_damaged() -> None:
    """Who they are about is not known."""
    assert [r.kind for r in parse(lines({"t": "alive", "b": 1.0}), "w/p")] == [Kind.DAMAGED]


def test_a_history_is_read_from_the_files_of_all_clusters(tmp_path: Path) -> None:
    """Other files in the folder are none of it."""
    for cluster, pod in (("a", "1"), ("b", "2")):
        (tmp_path / cluster).mkdir()
        record = {**START, "cluster": cluster, "pod": pod}
        (tmp_path / cluster / f"{pod}.jsonl").write_bytes(lines(record))
    (tmp_path / "a" / "notes.txt").write_text("x")

    found = [(record.subject.cluster, record.subject.pod) for record in read_history(tmp_path)]
    assert found == [("a", "1"), ("b", "2")]
