"""The command: exit codes, formats and errors, without any cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedq.rig.cli import app


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home for the rig."""
    monkeypatch.setenv("FEDQ_RIG_HOME", str(tmp_path / "rig"))
    return tmp_path / "rig"


def test_status_without_a_rig(home: Path) -> None:
    """Not an error: it says how to start one, and JSON stays JSON."""
    table = CliRunner().invoke(app, ["status"])
    data = CliRunner().invoke(app, ["status", "-o", "json"])

    assert (table.exit_code, data.exit_code) == (0, 0)
    assert "rig up --workers 2" in table.stdout
    assert json.loads(data.stdout)["clusters"] == {}


def test_down_without_a_rig_is_fine(home: Path) -> None:
    """Idempotent, and it leaves no folder behind."""
    assert CliRunner().invoke(app, ["down"]).exit_code == 0
    assert not home.exists()


def test_kubeconfig_without_a_rig_tells_what_to_do(home: Path) -> None:
    """Exit code 1, the message on standard error only."""
    result = CliRunner().invoke(app, ["kubeconfig", "worker-1"])

    assert result.exit_code == 1
    assert result.stdout == ""
    assert "rig up --workers 2" in result.stderr


@pytest.mark.parametrize("command", ["up", "status", "down", "kubeconfig"])
def test_help_has_an_example(command: str) -> None:
    """Every command shows how it is called."""
    result = CliRunner().invoke(app, [command, "--help"])

    assert result.exit_code == 0
    assert f"fedq rig {command}" in result.stdout
