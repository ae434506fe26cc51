"""A folder as the store: many processes at once, and what NFS may do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from federation.checkpoint_token import State, StoreError, Token, open_store
from federation.checkpoint_token.directory import DirectoryStore

WORKER = """
import json, sys, time
from federation.checkpoint_token import RefusedError, Token, open_store

where, attempt, rounds, name = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
token = Token(open_store(where, "job", attempt, {}), attempt)
sys.stdin.readline()  # all begin at once

def do(what, call):
    began = time.monotonic()
    try:
        call()
    except RefusedError as error:
        what = f"refused {error.holder}"
    print(json.dumps([what, attempt, began, time.monotonic()]), flush=True)

do("claim", token.claim)
for number in range(rounds):
    do("commit", lambda: token.commit(f"{name}-{number}", "x"))
"""


def race(where: str, attempts: list[int], rounds: int) -> list[tuple[str, int, float, float]]:
    """(what, attempt, began, ended) of all that processes of these attempts did at once."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, where, str(attempt), str(rounds), f"w{index}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for index, attempt in enumerate(attempts)
    ]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.close()
    found = []
    for worker in workers:
        assert worker.stdout is not None
        found += [tuple(json.loads(line)) for line in worker.stdout]
        worker.stdout.close()
        assert worker.wait() == 0
    return found


def test_processes_at_once_never_lose_a_commit_and_never_pass_a_fence(tmp_path: Path) -> None:
    """Whatever was stored is in the last state; what began after a later claim was refused."""
    where = str(tmp_path)
    done = race(where, [1, 1, 2, 3], 40)
    state = Token(open_store(where, "job", 9, {}), 9).state()
    commits = [entry for entry in done if entry[0] == "commit"]

    assert state.attempt == 3
    assert len(state.commits) == len(commits)
    assert sum(1 for _, attempt, *_ in commits if attempt == 3) == 40
    for what, attempt, _, claimed in done:
        if what == "claim":
            late = [c for c in commits if c[1] < attempt and c[2] > claimed]
            assert late == []
    assert not any(name.startswith(".") for name in os.listdir(tmp_path / "job"))


def test_a_number_that_was_taken_stays_taken(tmp_path: Path) -> None:
    """Also for somebody who has read long ago."""
    store = DirectoryStore(tmp_path / "job", 1)
    _, old = store.read()
    for attempt in range(1, 5):
        assert store.swap(State(attempt), store.read()[1])

    assert not store.swap(State(9), old)
    assert store.read() == (State(4), 4)


def test_a_link_that_was_made_by_a_request_sent_twice_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS sends a request again whose answer it misses; the second answer says that it exists."""
    link = os.link

    def twice(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", twice)
    store = DirectoryStore(tmp_path / "job", 1)

    assert store.swap(State(1), 0)
    assert not store.swap(State(2), 0)
    assert store.read() == (State(1), 1)


def test_a_listing_that_is_old_is_made_up_for_by_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel may show a folder as it was some seconds ago."""
    store = DirectoryStore(tmp_path / "job", 1)
    store.swap(State(1), 0)
    listed = os.listdir(tmp_path / "job")
    store.swap(State(2), 1)
    monkeypatch.setattr(os, "listdir", lambda folder: listed)

    assert store.read() == (State(2), 2)


def test_a_folder_that_cannot_be_written_is_an_error_that_says_so(tmp_path: Path) -> None:
    """The path stands in it."""
    (tmp_path / "job").write_text("a file")

    with pytest.raises(StoreError, match="job"):
        Token(open_store(str(tmp_path), "job", 1, {}), 1).claim()


def test_what_was_changed_behind_its_back_is_not_handed_out(tmp_path: Path) -> None:
    """A broken checkpoint is worse than none."""
    source = tmp_path / "model"
    source.write_text("weights")
    token = Token(open_store(str(tmp_path / "store"), "job", 1, {}), 1)
    made = token.put("model", source)
    (tmp_path / "store" / "job" / made.location).write_text("rubbish")

    with pytest.raises(StoreError, match="is not what was stored"):
        token.get("model", tmp_path / "fetched")
    assert not (tmp_path / "fetched").exists()
