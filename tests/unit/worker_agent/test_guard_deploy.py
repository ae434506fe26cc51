"""The DaemonSet of the guard fits the program, and has no more rights than it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from worker_agent.guard.settings import GuardSettings

FOLDER = Path(__file__).parents[3] / "deploy" / "kustomize" / "worker" / "guard"


def read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text())


def test_every_variable_is_a_setting_and_together_they_work() -> None:
    """A misspelt one would be passed over in silence."""
    pod = read("daemonset.yaml")["spec"]["template"]["spec"]
    given = dict(read("config.yaml")["data"])
    given |= {v["name"]: v["value"] for v in pod["containers"][0]["env"]}
    fields = {key.removeprefix("FEDQ_GUARD_").lower(): value for key, value in given.items()}

    assert fields.keys() <= GuardSettings.model_fields.keys()
    settings = GuardSettings(**fields)
    mounts = {Path(m["mountPath"]) for m in pod["containers"][0]["volumeMounts"]}
    assert settings.deadline_file is not None
    assert settings.cgroups is not None
    used = {settings.deadline_file.parent, settings.status_file.parent, settings.cgroups}
    assert used == mounts


def test_it_has_the_rights_to_kill_and_no_others() -> None:
    """It runs as root, for the processes are other people's."""
    pod = read("daemonset.yaml")["spec"]["template"]["spec"]
    security = pod["containers"][0]["securityContext"]

    assert pod["hostPID"] is True
    assert pod["automountServiceAccountToken"] is False
    assert security["capabilities"] == {"drop": ["ALL"], "add": ["KILL", "SYS_PTRACE"]}
    assert security["allowPrivilegeEscalation"] is False
    assert "privileged" not in security
    resources = pod["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"]
