"""Only the newest attempt stores, on a folder and on a store of objects alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from federation.checkpoint_token import RefusedError, State, StoreError, Token
from tests.unit.checkpoint_token.conftest import Attempt

File = Callable[[str], Path]


def stored(token: Token, tmp_path: Path, name: str = "model") -> str | None:
    target = tmp_path / "fetched"
    return None if token.get(name, target) is None else target.read_text()


def test_what_was_stored_is_there_for_the_next_attempt(
    attempt: Attempt, file: File, tmp_path: Path
) -> None:
    """The last of each name; what was replaced is removed."""
    first = attempt(1)
    assert first.claim() == State(1)
    assert stored(first, tmp_path) is None
    first.put("model", file("step 1"))
    first.put("model", file("step 2"))
    first.put("log", file("lines"))

    second = attempt(2)
    state = second.claim()
    assert (state.attempt, sorted(state.commits)) == (2, ["log", "model"])
    assert stored(second, tmp_path) == "step 2"
    assert stored(second, tmp_path, "log") == "lines"


def test_an_attempt_that_is_over_stores_nothing(
    attempt: Attempt, file: File, tmp_path: Path
) -> None:
    """It is told which one counts, and cannot claim the token back."""
    old, new = attempt(1), attempt(2)
    old.claim()
    old.put("model", file("old"))
    new.claim()
    for do in (
        lambda: old.put("model", file("zombie")),
        lambda: old.put("other", file("zombie")),
        lambda: old.commit("model", "somewhere"),
        old.claim,
    ):
        with pytest.raises(RefusedError, match="attempt 2 of this job holds the token") as refused:
            do()
        assert refused.value.holder == 2

    assert stored(new, tmp_path) == "old"
    assert "other" not in new.state().commits


def test_a_commit_that_read_before_a_claim_is_refused_after_it(
    attempt: Attempt, file: File
) -> None:
    """The moment between check and act: a process that stands still just there, and goes on."""
    old, new = attempt(1), attempt(2)
    old.claim()
    state, version = old._store.read()
    new.claim()

    assert not old._store.swap(State(1, state.commits), version)
    assert new.state() == State(2)


def test_a_claim_while_data_is_written_refuses_its_commit(
    attempt: Attempt, file: File, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing a checkpoint takes minutes. What was written is removed."""
    old, new = attempt(1), attempt(2)
    old.claim()
    put = old._store.put
    locations: list[str] = []

    def slow(name: str, source: Path) -> str:
        locations.append(put(name, source))
        new.claim()
        return locations[-1]

    monkeypatch.setattr(old._store, "put", slow)
    with pytest.raises(RefusedError):
        old.put("model", file("late"))

    assert stored(new, tmp_path) is None
    with pytest.raises(StoreError):
        new._store.get(locations[0], tmp_path / "x")


def test_an_attempt_may_claim_again(attempt: Attempt, file: File, tmp_path: Path) -> None:
    """As a pod does that was restarted, or a job that goes on after it was held."""
    attempt(1).claim()
    attempt(1).put("model", file("a"))
    attempt(1).claim()

    assert stored(attempt(1), tmp_path) == "a"


def test_a_commit_claims_too(attempt: Attempt, file: File) -> None:
    """Whoever forgot to claim fences at the first thing that counts."""
    attempt(2).put("model", file("b"))

    with pytest.raises(RefusedError):
        attempt(1).put("model", file("a"))


def test_of_jobs_that_may_run_twice_the_first_result_counts(
    attempt: Attempt, file: File, tmp_path: Path
) -> None:
    """Whichever attempt it is of; that one may correct itself."""
    for winner, loser in ((1, 2), (2, 1)):
        name = f"result-{winner}"
        attempt(winner).put(name, file(f"by {winner}"), first=True)
        with pytest.raises(RefusedError, match=f"attempt {winner} was the first") as refused:
            attempt(loser).put(name, file(f"by {loser}"), first=True)
        assert refused.value.holder == winner
        attempt(winner).put(name, file(f"again by {winner}"), first=True)

        assert stored(attempt(loser), tmp_path, name) == f"again by {winner}"


def test_what_was_stored_by_other_means_can_be_committed(
    attempt: Attempt, file: File, tmp_path: Path
) -> None:
    """Only its location is kept; it is never removed."""
    attempt(1).commit("model", "s3://elsewhere/attempt-1/model")
    with pytest.raises(StoreError, match="fetch it at s3://elsewhere/attempt-1/model"):
        attempt(1).get("model", tmp_path / "x")
    attempt(1).put("model", file("here"))

    assert stored(attempt(1), tmp_path) == "here"


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a" * 201, "a\n"])
def test_names_are_simple(attempt: Attempt, file: File, name: str) -> None:
    """They become parts of paths."""
    with pytest.raises(StoreError, match="is no name"):
        attempt(1).put(name, file("x"))
    with pytest.raises(StoreError, match="is no name"):
        attempt(1).commit(name, "x")


def test_a_token_that_cannot_be_read_is_told(attempt: Attempt) -> None:
    """Nothing is guessed."""
    with pytest.raises(StoreError, match="cannot be read"):
        State.read(b"{}")
    with pytest.raises(ValueError, match="from 1"):
        attempt(0)
