"""The real thing: control planes on this machine, and kind's own reading of our files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedq.rig.binaries import find_or_build
from fedq.rig.errors import RigError
from fedq.rig.kind import CHECKOUT
from fedq.rig.process import marked
from fedq.rig.rig import Rig
from fedq.rig.tools import LOCAL_TOOLS
from fedq.rig.waiting import wait_until

BUILD_TIMEOUT = 1200
"""Seconds for a test that is the first on a machine: it may have to build the control planes."""

pytestmark = [pytest.mark.rig, pytest.mark.timeout(BUILD_TIMEOUT)]


def gpu_job(name: str, pods: int, **annotations: str) -> str:
    """A Job of `pods` pods with two cards each; annotations steer the rig's stages."""
    keys = {f"fedq.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    pod = {"restartPolicy": "Never", "containers": [container]}
    spec = {
        "completions": pods,
        "parallelism": pods,
        "backoffLimit": 0,
        "template": {"metadata": {"annotations": keys}, "spec": pod},
    }
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    return json.dumps(job)


def submit(rig: Rig, job: str, until: str, timeout: str = "15s") -> None:
    """Create a Job on worker-1 and wait for a condition of it."""
    rig.kubectl("worker-1", "create", "-f", "-", input=job)
    name = f"job/{json.loads(job)['metadata']['name']}"
    rig.kubectl("worker-1", "wait", f"--for={until}", name, f"--timeout={timeout}")


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """One management and one worker cluster; nothing of them may remain."""
    home = tmp_path_factory.mktemp("home") / "rig"
    rig = Rig.load(home)
    find_or_build(LOCAL_TOOLS, print)
    started = time.monotonic()
    try:
        rig.up(1, nodes=2, progress=print)
        # Figures for whoever looks with -rP; a busy machine must not fail a test.
        memory = rig.status().memory_mb
        print(f"up in {time.monotonic() - started:.1f} s, {memory:.0f} MiB")  # noqa: T201
        yield rig
    finally:
        rig.down()
    assert not home.exists()
    assert list(marked(home)) == []


def test_job_of_four_pods_completes_on_the_worker(rig: Rig) -> None:
    """Scheduler, kwok's stages and the job controller work together."""
    assert rig.clusters == [rig.management, *rig.workers] == ["management", "worker-1"]
    submit(rig, gpu_job("four", 4, run_seconds="0.2"), "condition=complete")

    succeeded = rig.kubectl("worker-1", "get", "job/four", "-o", "jsonpath={.status.succeeded}")
    assert succeeded == "4"


def test_job_fails_with_the_exit_code_of_its_annotation(rig: Rig) -> None:
    """The code stands in the container status, for pod failure policies."""
    submit(rig, gpu_job("fails", 1, run_seconds="0.1", exit_code="42"), "condition=failed")

    path = "jsonpath={.items[0].status.containerStatuses[0].state.terminated.exitCode}"
    code = rig.kubectl("worker-1", "get", "pods", "-l", "job-name=fails", "-o", path)
    assert code == "42"


def test_suspending_a_job_removes_its_running_pods(rig: Rig) -> None:
    """What every move between clusters rests on."""
    submit(rig, gpu_job("moves", 2, run_seconds="600"), "jsonpath={.status.ready}=2")
    rig.kubectl("worker-1", "patch", "job/moves", "-p", '{"spec":{"suspend":true}}')
    rig.kubectl("worker-1", "wait", "--for=delete", "pod", "-l", "job-name=moves", "--timeout=15s")

    assert "Suspended" in rig.kubectl("worker-1", "get", "job/moves")


def test_rbac_is_on_and_service_account_tokens_work(rig: Rig) -> None:
    """A token is good for what its role allows and for nothing else."""
    rig.kubectl("worker-1", "create", "job", "seen", "--image=none")
    rig.kubectl("worker-1", "create", "serviceaccount", "reader")
    rig.kubectl("worker-1", "create", "clusterrole", "jobs", "--verb=list", "--resource=jobs")
    binding = ("create", "clusterrolebinding", "jobs", "--clusterrole=jobs")
    rig.kubectl("worker-1", *binding, "--serviceaccount=default:reader")
    token = rig.kubectl("worker-1", "create", "token", "reader").strip()
    config = rig.kubectl("worker-1", "config", "view", "--raw", "--minify", "-o", "json")
    path = rig.data_dir("reader") / "kubeconfig"
    user = {"name": "admin", "user": {"token": token}}
    path.write_text(json.dumps(json.loads(config) | {"users": [user]}))

    assert "seen" in rig.kubectl("worker-1", f"--kubeconfig={path}", "get", "jobs")
    with pytest.raises(RigError, match="Forbidden"):
        rig.kubectl("worker-1", f"--kubeconfig={path}", "get", "secrets")


def test_mutating_admission_policies_work(rig: Rig) -> None:
    """Queue-labelled Jobs are suspended by such a policy on the management cluster."""
    api = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "suspend"}}
    rule = {
        "apiGroups": ["batch"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["jobs"],
    }
    expression = "Object{spec: Object.spec{suspend: true}}"
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    policy = {
        **api,
        "kind": "MutatingAdmissionPolicy",
        "spec": {
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": {"resourceRules": [rule]},
            "mutations": [mutation],
        },
    }
    binding = {**api, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": "suspend"}}
    for item in (policy, binding):
        rig.kubectl("management", "create", "-f", "-", input=json.dumps(item))

    def suspended() -> bool:
        """A policy takes a moment to be in force, so dry runs are tried until it is."""
        options = ("create", "--dry-run=server", "-o", "json", "-f", "-")
        made = rig.kubectl("management", *options, input=gpu_job("queued", 1))
        return json.loads(made)["spec"].get("suspend") is True

    assert wait_until(suspended, 10)


def test_up_repairs_what_died_and_touches_nothing_else(rig: Rig) -> None:
    """An up without need changes nothing; after a kill it restarts exactly that component."""
    before = pids(rig)
    rig.up(1)
    assert pids(rig) == before

    process = rig.process("worker-1/kube-scheduler")
    assert process is not None
    process.kill(signal.SIGKILL)
    assert wait_until(lambda: not process.running, 5)
    assert not rig.status().clusters["worker-1"].running
    started = time.monotonic()
    rig.up(1)
    print(f"repaired in {time.monotonic() - started:.1f} s")  # noqa: T201

    changed = {name for name, pid in pids(rig).items() if before[name] != pid}
    assert changed == {"worker-1/kube-scheduler"}
    submit(rig, gpu_job("after", 1, run_seconds="0.1"), "condition=complete")


def test_other_processes_are_listed_restarted_and_stopped(rig: Rig) -> None:
    """What tests and the demo run beside the clusters."""
    argv = ["sh", "-c", 'echo "$WHO" > "$FILE"; exec sleep 60']
    file = rig.data_dir("manager") / "who"
    env = {"WHO": "me", "FILE": str(file)}
    first = rig.start_process("manager", argv, env, ready=file.exists)
    again = rig.restart("manager")

    assert rig.status().processes["manager"].pid == again.pid != first.pid
    assert file.read_text() == "me\n"
    rig.stop_process("manager")
    assert rig.process("manager") is None
    assert not again.running


def pids(rig: Rig) -> dict[str, int | None]:
    """Component → pid."""
    clusters = rig.status().clusters.items()
    return {
        f"{name}/{part}": state.pid
        for name, cluster in clusters
        for part, state in cluster.components.items()
    }


FAKE_DOCKER = """#!/bin/sh
case "$1" in
info) echo '{"SecurityOptions":[],"MemTotal":1}' ;;
run) echo "$@" >> "$FAKE_DOCKER_LOG"; exit 3 ;;
esac
"""


@pytest.mark.parametrize("name", ["management", "worker-1", "worker-2"])
def test_kind_itself_accepts_the_files(name: str, tmp_path: Path) -> None:
    """kind decodes strictly, validates, and asks a fake Docker for our ports and mounts."""
    kind = find_or_build(["kind"], print)["kind"]
    docker, log = tmp_path / "docker", tmp_path / "log"
    docker.write_text(FAKE_DOCKER)
    docker.chmod(stat.S_IRWXU)
    # sh and what kind needs of the system, but no other engine's command line.
    tools = {tool: shutil.which(tool) for tool in ("sh", "echo")}
    for tool, path in tools.items():
        assert path is not None
        (tmp_path / tool).symlink_to(path)
    done = subprocess.run(
        [kind, "create", "cluster", "--config", f"kind-configs/{name}.yaml"],
        cwd=CHECKOUT,
        env={"PATH": str(tmp_path), "FAKE_DOCKER_LOG": str(log), "HOME": os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )

    assert log.exists(), done.stderr
    asked = log.read_text().split()
    number = {"management": 0, "worker-1": 1, "worker-2": 2}[name]
    assert f"--publish=127.0.0.1:{26440 + number}:6443/TCP" in asked
    assert any(word.startswith(f"--publish=127.0.0.1:{30900 + number}:") for word in asked)
    assert f"--volume={CHECKOUT / 'deploy'}:/fedq/deploy:ro" in asked
    assert f"fedq-{name}-control-plane" in asked
