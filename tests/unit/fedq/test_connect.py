"""Which cluster a command talks to."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedq import connect
from fedq.cli import app
from fedq.rig.rig import Rig

CONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://here.example:6443"}}]
users: [{name: u, user: {token: t}}]
contexts:
- {name: one, context: {cluster: c, user: u, namespace: team}}
- {name: two, context: {cluster: c, user: u}}
current-context: one
"""


@pytest.fixture(autouse=True)
def no_rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No rig, no kubeconfig of the machine; the folder for this test."""
    monkeypatch.setenv("FEDQ_RIG_HOME", str(tmp_path / "rig"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return tmp_path


def test_kubeconfig_and_context(no_rig: Path) -> None:
    """The namespace is that of the context, as with kubectl."""
    file = no_rig / "config"
    file.write_text(CONFIG)

    first = connect.choose(file, None)
    assert (first.endpoint.server, first.namespace) == ("https://here.example:6443", "team")
    assert connect.choose(file, "two").namespace == "default"


def test_environment(no_rig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """$KUBECONFIG may be a list with files that do not exist."""
    file = no_rig / "config"
    file.write_text(CONFIG)
    monkeypatch.setenv("KUBECONFIG", f"{no_rig}/missing:{file}")

    assert connect._namespace(None, None) == "team"


def test_context_of_the_rig(no_rig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clusters are contexts by their names; a kubeconfig that has the name comes first."""
    ours, theirs = no_rig / "worker", no_rig / "config"
    ours.write_text(CONFIG.replace("here", "rig"))
    theirs.write_text(CONFIG)
    monkeypatch.setenv("KUBECONFIG", str(theirs))
    paths = {"management": ours, "worker-1": ours, "two": ours}

    def kubeconfig(self: Rig, cluster: str, user: str = "admin") -> Path:
        return paths.get(cluster, no_rig / "none")

    monkeypatch.setattr(Rig, "kubeconfig", kubeconfig)
    assert connect.choose(None, "worker-1").endpoint.server == "https://rig.example:6443"
    assert connect._of_rig("two", [str(theirs)]) is None
    assert connect._of_rig("nosuch", [str(theirs)]) is None


@pytest.mark.parametrize("text", ["", "a: [", "clusters: []\n"])
def test_a_kubeconfig_that_is_none(no_rig: Path, text: str) -> None:
    """What happened, why, what to do."""
    file = no_rig / "config"
    file.write_text(text)
    result = CliRunner().invoke(app, ["get", "jobs", "--kubeconfig", str(file)])

    assert result.exit_code == 1
    assert "the kubeconfig cannot be used" in result.stderr
    assert "Traceback" not in result.output


def test_missing_kubeconfig(no_rig: Path) -> None:
    """Named before anything else is tried."""
    result = CliRunner().invoke(app, ["why", "x", "--kubeconfig", str(no_rig / "nope")])

    assert result.exit_code == 1
    assert "there is no kubeconfig" in result.stderr


def test_neither_rig_nor_kubeconfig(no_rig: Path) -> None:
    """What was looked for is named, and both ways out."""
    result = CliRunner().invoke(app, ["get", "jobs"])

    assert result.exit_code == 1
    assert f"no local rig is up, and there is no kubeconfig {no_rig}/.kube/config" in result.stderr
    assert "fedq rig up" in result.stderr


def test_a_folder_that_cannot_be_used(no_rig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path, the cause, and how to choose another one; no traceback."""
    (no_rig / "file").write_text("")
    monkeypatch.setenv("FEDQ_RIG_HOME", str(no_rig / "file" / "rig"))
    for command in (["rig", "up"], ["demo"]):
        result = CliRunner().invoke(app, command)

        assert result.exit_code == 1
        assert f"error: {no_rig}/file" in result.stderr
        assert "FEDQ_RIG_HOME" in result.stderr
        assert "Traceback" not in result.output


def test_one_of_two_demos_gets_the_rig(no_rig: Path) -> None:
    """The other must not take down what it did not start."""
    assert Rig.load().claim()
    assert not Rig.load().claim()

    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 1
    assert "a rig is up already" in result.stderr
    Rig.load().down()
    assert not (no_rig / "rig").exists()


def test_completion_is_silent_without_a_cluster(no_rig: Path) -> None:
    """No names, no noise."""
    env = {"_FEDQ_COMPLETE": "complete_bash", "COMP_WORDS": "fedq why ", "COMP_CWORD": "2"}
    result = CliRunner().invoke(app, [], env=env, prog_name="fedq")

    assert result.exit_code == 0
    assert result.output.strip() == ""
