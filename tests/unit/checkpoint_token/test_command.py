"""The command, as a script of a job uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from federation.checkpoint_token.__main__ import FAILED, NOTHING, REFUSED, main


@pytest.fixture(autouse=True)
def _pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FEDQ_JOB_UID", "uid")
    monkeypatch.setenv("FEDQ_ATTEMPT", "1")
    monkeypatch.setenv("FEDQ_CHECKPOINTS", str(tmp_path / "store"))


def test_the_life_of_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit codes tell a script what to do; a refusal names the attempt that counts."""
    source, target = tmp_path / "model", tmp_path / "fetched"
    source.write_text("weights")
    assert main(["claim"]) == 0
    assert main(["get", "model", str(target)]) == NOTHING
    assert main(["put", "model", str(source)]) == 0

    monkeypatch.setenv("FEDQ_ATTEMPT", "2")
    assert main(["claim"]) == 0
    assert main(["get", "model", str(target)]) == 0
    assert target.read_text() == "weights"

    monkeypatch.setenv("FEDQ_ATTEMPT", "1")
    capsys.readouterr()
    assert main(["put", "model", str(source)]) == REFUSED
    assert "attempt 2 of this job holds the token" in capsys.readouterr().err
    assert main(["commit", "model", "elsewhere"]) == REFUSED
    assert main(["put", "--first", "result", str(source)]) == 0
    assert main(["show"]) == 0
    assert '"attempt": 2' in capsys.readouterr().out


def test_a_store_that_cannot_be_used_is_another_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script may try again then."""
    (tmp_path / "store").write_text("a file")

    assert main(["claim"]) == FAILED
    assert "store" in capsys.readouterr().err
    assert main(["--store", str(tmp_path), "put", "model", str(tmp_path / "missing")]) == FAILED


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("FEDQ_JOB_UID", "", "this is no pod of a job"),
        ("FEDQ_ATTEMPT", "", "this is no pod of a job"),
        ("FEDQ_ATTEMPT", "one", "invalid literal"),
        ("FEDQ_ATTEMPT", "0", "numbered from 1"),
        ("FEDQ_JOB_UID", "../other", "is no UID"),
        ("FEDQ_CHECKPOINTS", "", "--store is needed"),
        ("FEDQ_CHECKPOINTS", "gs://bucket", "a store is a folder"),
    ],
)
def test_wrong_use_is_told(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variable: str,
    value: str,
    said: str,
) -> None:
    """With exit code 2."""
    monkeypatch.setenv(variable, value)

    with pytest.raises(SystemExit, match="2"):
        main(["claim"])
    assert said in capsys.readouterr().err
