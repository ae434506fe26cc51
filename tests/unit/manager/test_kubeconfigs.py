"""Where kubeconfigs come from, and what is shown where there is none: whole managers."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from federation.api.configuration_multikueue import AccessProvider
from federation.api.names import FEDQ_NAMESPACE, ConditionType, Controller
from federation.api.record import find
from federation.edge.resources import (
    ADMISSION_CHECKS,
    CLUSTER_PROFILES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    SECRETS,
)
from manager.cluster_worker import ClusterWorker
from manager.kubeconfigs import Sources
from manager.local_runtime import TaskHandle
from manager.profiles import FIRST_RETRY_S
from tests.unit.manager.federation import FakeRuntime, Federation
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import custom

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statuses are written without a pause worth the name."""
    monkeypatch.setattr("manager.clusters.STATUS_S", 0.01)


def active(world: Federation, name: str, resource: Any = MULTIKUEUE_CLUSTERS) -> tuple[str, ...]:
    """Status, reason and message of the condition Active."""
    status = world.home.get(resource, name).get("status") or {}
    found = find(status, ConditionType.ACTIVE) or {}
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


def sourced(name: str, **source: Json) -> Json:
    return custom("MultiKueueCluster", name, {"clusterSource": source})


def by_path(location: str) -> Json:
    return {"kubeConfig": {"location": location, "locationType": "Path"}}


async def shown(world: Federation, name: str, reason: str, text: str = "") -> str:
    """The message, once the reason and this text are shown."""
    await until(lambda: active(world, name)[1] == reason and text in active(world, name)[2], text)
    return active(world, name)[2]


class Kept(Federation):
    """A federation whose runtime remembers the kubeconfigs that it was given."""

    @property
    def given(self) -> list[tuple[str, bytes]]:
        runtime: Any = self.manager.runtime
        found: list[tuple[str, bytes]] = getattr(runtime, "given", [])
        return found


@pytest.fixture(autouse=True)
def _remembering(monkeypatch: pytest.MonkeyPatch) -> None:
    start = FakeRuntime.start

    async def remember(self: Any, spec: Any) -> Any:
        self.given = [*getattr(self, "given", ()), (spec.name, spec.kubeconfig)]
        return await start(self, spec)

    monkeypatch.setattr(FakeRuntime, "start", remember)


# Files


async def test_a_file_comes_changes_and_goes(tmp_path: Path) -> None:
    """Each is taken up by itself; the same content again changes nothing."""
    world = Kept("a", sources=Sources(tmp_path))
    file = tmp_path / "team" / "a"
    world.home.merge(MULTIKUEUE_CLUSTERS, "a", {"spec": {"clusterSource": by_path(str(file))}})
    async with world.running():
        assert "No such file" in await shown(world, "a", "BadKubeConfig")
        file.parent.mkdir()
        file.write_text("one")
        await until(lambda: world.given, "its link")
        await until(lambda: active(world, "a")[1] != "BadKubeConfig")
        file.write_text("one")
        (tmp_path / "team" / "new").write_text("two")
        (tmp_path / "team" / "new").rename(file)
        await until(lambda: len(world.given) == 2, "the next one")
        assert world.given == [("a", b"one"), ("a", b"two")]
        file.unlink()
        await shown(world, "a", "BadKubeConfig")
        assert "a" not in world.manager.clusters.links


async def test_a_path_elsewhere(tmp_path: Path) -> None:
    """It is never read, and people are told what to do."""
    home = tmp_path / "kubeconfigs"
    home.mkdir()
    (tmp_path / "secret").write_text("secret")
    world = Kept("a", sources=Sources(home))
    for name, location in (("b", str(tmp_path / "secret")), ("c", f"{home}/../secret")):
        world.home.create(MULTIKUEUE_CLUSTERS, sourced(name, **by_path(location)))
    async with world.running():
        assert "mount the kubeconfig there" in await shown(world, "b", "BadKubeConfig")
        assert "'..'" in await shown(world, "c", "BadKubeConfig")
        assert {name for name, _ in world.given} == {"a"}


# Secrets


async def test_the_old_spelling_is_read() -> None:
    """v1beta1's spec.kubeConfig, as it may be stored."""
    world = Kept("a")
    old = custom("MultiKueueCluster", "a", {"kubeConfig": {"location": "a"}})
    world.home.delete(MULTIKUEUE_CLUSTERS, "a")
    world.home.create(MULTIKUEUE_CLUSTERS, {**old, "apiVersion": "kueue.x-k8s.io/v1beta1"})
    async with world.running():
        await until(lambda: world.given == [("a", b"x")], "its link")


async def test_a_secret_that_is_written_again() -> None:
    """Identical content leaves the link alone; another one replaces it, and the job stays."""
    world = Kept("a")
    async with world.running() as manager:
        world.submit("j")
        worker = await world.offered("j")
        world.start(worker, "j")
        await until(lambda: world.record("j").admitted, "admitted")
        link = manager.clusters.links["a"]
        world.home.merge(SECRETS, "a", {"metadata": {"labels": {"x": "y"}}}, FEDQ_NAMESPACE)
        world.home.create(
            SECRETS,
            {
                "metadata": {"name": "z", "namespace": FEDQ_NAMESPACE},
                "data": {"kubeconfig": "eA=="},
            },
        )
        await shown(world, "a", "Active")
        assert manager.clusters.links["a"] is link
        new = {"data": {"kubeconfig": base64.b64encode(b"y").decode()}}
        world.home.merge(SECRETS, "a", new, FEDQ_NAMESPACE)
        await until(lambda: manager.clusters.links.get("a") not in (None, link), "another link")
        await shown(world, "a", "Active")
        worker.end("j")
        await until(lambda: world.record("j").finished, "finished")
        assert world.record("j").attempt == 1


async def test_bad_credentials_and_good_ones_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Down, with the reason, and nothing is offered; then up, and the job is where it was."""
    start = FakeRuntime.start

    async def strict(self: Any, spec: Any) -> Any:
        if spec.kubeconfig != b"bad":
            return await start(self, spec)
        worker = ClusterWorker(spec)  # it reads the kubeconfig
        self.tasks.append(task := asyncio.create_task(worker.run()))
        return TaskHandle(worker, task)

    monkeypatch.setattr(FakeRuntime, "start", strict)
    world = Kept("a")
    async with world.running():
        world.submit("j")
        worker = await world.offered("j")
        world.start(worker, "j")
        await until(lambda: world.record("j").admitted, "admitted")
        for text, reason in ((b"bad", "BadKubeConfig"), (b"good", "Active")):
            data = {"data": {"kubeconfig": base64.b64encode(text).decode()}}
            world.home.merge(SECRETS, "a", data, FEDQ_NAMESPACE)
            await shown(world, "a", reason)
            if reason != "Active":
                world.submit("k")
                await until(lambda: world.record("k"), "it waits")
        await until(lambda: world.copy("k"), "offered once it is well")
        worker.end("j")
        await until(lambda: world.record("j").finished, "finished")
        assert world.record("j").attempt == 1


# ClusterProfiles

PROFILE: Json = {
    "apiVersion": "multicluster.x-k8s.io/v1alpha1",
    "kind": "ClusterProfile",
    "metadata": {"name": "p", "namespace": FEDQ_NAMESPACE},
    "spec": {"clusterManager": {"name": "m"}},
    "status": {
        "accessProviders": [
            {"name": "other", "cluster": {"server": "https://other"}},
            {"name": "plugin", "cluster": {"server": "https://p:6443"}},
        ]
    },
}


def plugin(tmp_path: Path, *lines: str) -> dict[str, AccessProvider]:
    """A provider whose plugin is a shell script of these lines."""
    script = tmp_path / "plugin"
    script.write_text("\n".join(("#!/bin/sh", *lines)))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    config = {
        "command": str(script),
        "provideClusterInfo": True,
        "env": [{"name": "A", "value": "B"}],
    }
    found = AccessProvider.model_validate({"name": "plugin", "execConfig": config})
    return {"plugin": found}


def credential(**status: str) -> str:
    kind = {"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1"}
    return f"echo '{json.dumps({**kind, 'status': status})}'"


def profiled(providers: dict[str, AccessProvider] | None, profile: Json | None = PROFILE) -> Kept:
    """Cluster `a` of ClusterProfile `p`."""
    world = Kept("a", sources=Sources(providers=providers))
    source = {"clusterSource": {"clusterProfileRef": {"name": "p"}}}
    world.home.delete(MULTIKUEUE_CLUSTERS, "a")
    world.home.create(MULTIKUEUE_CLUSTERS, custom("MultiKueueCluster", "a", source))
    world.home.resources.append(CLUSTER_PROFILES)
    if profile is not None:
        created = world.home.create(CLUSTER_PROFILES, profile)
        assert created["status"] == profile["status"]
    return world


async def test_a_profile_and_its_plugin(tmp_path: Path) -> None:
    """The plugin is told of the cluster; what it prints becomes part of the kubeconfig."""
    told = tmp_path / "told"
    lines = (f'echo "$A $KUBERNETES_EXEC_INFO" > {told}', credential(token="t0k"))
    world = profiled(plugin(tmp_path, *lines))
    async with world.running():
        await until(lambda: world.given, "its link")
        config = json.loads(world.given[0][1])
        assert config["clusters"][0]["cluster"] == {"server": "https://p:6443"}
        assert config["users"][0]["user"] == {"token": "t0k"}
        variable, _, info = told.read_text().partition(" ")
        assert variable == "B"
        assert json.loads(info)["spec"]["cluster"] == {"server": "https://p:6443"}


async def test_profiles_are_switched_off() -> None:
    """Kueue's reason, and how to switch them on."""
    world = profiled(None)
    async with world.running():
        text = await shown(world, "a", "MultiKueueClusterProfileFeatureDisabled")
        assert "feature gate MultiKueueClusterProfile" in text
        assert world.manager.clusters.links == {}


async def test_a_profile_that_is_not_there_yet(tmp_path: Path) -> None:
    """It is taken up when it comes."""
    world = profiled(plugin(tmp_path, credential(token="t0k")), None)
    async with world.running():
        await shown(world, "a", "BadClusterProfile", "does not exist: create it")
        world.home.create(CLUSTER_PROFILES, PROFILE)
        await until(lambda: world.given, "its link")


async def test_a_profile_of_an_unknown_provider(tmp_path: Path) -> None:
    """Both sides are named."""
    world = profiled({}, PROFILE)
    async with world.running():
        text = "offers the access providers other, plugin, and the Configuration knows none"
        await shown(world, "a", "BadClusterProfile", text)


async def test_the_crd_of_profiles_is_not_installed() -> None:
    """Told, and nothing else suffers."""
    world = profiled({}, None)
    world.home.resources.remove(CLUSTER_PROFILES)
    async with world.running():
        await shown(world, "a", "BadClusterProfile", "is not installed")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (("echo oh no >&2", "exit 3"), "ended with code 3: oh no"),
        (("echo hello",), "printed no ExecCredential"),
        (("printf '[%.0s' $(seq 100000)",), "printed no ExecCredential"),
        ((credential(),), "neither a token nor a client certificate"),
        (("echo '{}'",), "instead of client.authentication.k8s.io/v1 ExecCredential"),
    ],
)
async def test_a_plugin_that_fails(tmp_path: Path, lines: tuple[str, ...], why: str) -> None:
    """With what it said, how often it was tried, and when it is tried next."""
    assert FIRST_RETRY_S == 5.0
    world = profiled(plugin(tmp_path, *lines))
    async with world.running():
        text = await shown(world, "a", "BadRestConfig")
        assert why in text
        assert "attempts so far: 1, the next one at 20" in text


async def test_a_plugin_that_is_not_installed(tmp_path: Path) -> None:
    """With the hint of whoever configured it."""
    config = {"command": str(tmp_path / "none"), "installHint": "get it from the shop"}
    found = AccessProvider.model_validate({"name": "plugin", "execConfig": config})
    world = profiled({"plugin": found})
    async with world.running():
        text = await shown(world, "a", "BadRestConfig")
        assert "cannot be started (No such file or directory): get it from the shop" in text


async def test_what_a_profile_says_is_not_trusted(tmp_path: Path) -> None:
    """It is judged like any other kubeconfig."""
    bad = {"server": "https://p", "insecure-skip-tls-verify": True}
    entry = {"accessProviders": [{"name": "plugin", "cluster": bad}]}
    world = profiled(plugin(tmp_path, credential(token="t")), {**PROFILE, "status": entry})
    async with world.running():
        assert "insecure-skip-tls-verify" in await shown(world, "a", "BadRestConfig")


# AdmissionChecks


async def test_the_condition_of_the_admission_check() -> None:
    """It follows its config and its clusters."""
    world = Federation("a")
    named = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
    spec = {"controllerName": Controller.MULTIKUEUE.value, "parameters": named}
    world.home.create(ADMISSION_CHECKS, custom("AdmissionCheck", "m", spec))
    wrong = {**spec, "parameters": {**named, "kind": "ConfigMap"}}
    world.home.create(ADMISSION_CHECKS, custom("AdmissionCheck", "w", wrong))
    other = {"controllerName": "example.com/x"}
    world.home.create(ADMISSION_CHECKS, custom("AdmissionCheck", "x", other))

    def check(name: str = "m") -> tuple[str, ...]:
        return active(world, name, ADMISSION_CHECKS)

    async with world.running():
        await until(lambda: check()[:2] == ("False", "BadConfig"), "no config")
        await until(lambda: check("w")[1] == "BadConfig", "no such parameters")
        assert check("w")[2] == (
            "cannot load the AdmissionChecks parameters: spec.parameters name a kueue.x-k8s.io"
            " ConfigMap: name a MultiKueueConfig of kueue.x-k8s.io"
        )
        config = custom("MultiKueueConfig", "all", {"clusters": ["a", "gone"]})
        world.home.create(MULTIKUEUE_CONFIGS, config)
        await until(lambda: check()[:2] == ("True", "SomeActiveClusters"), "one of two")
        assert check()[2] == "Missing clusters: [gone]"
        world.home.merge(MULTIKUEUE_CONFIGS, "all", {"spec": {"clusters": ["a"]}})
        await until(lambda: check()[:2] == ("True", "Active"), "all")
        world.home.delete(SECRETS, "a", FEDQ_NAMESPACE)
        await until(lambda: check()[:2] == ("False", "NoUsableClusters"), "none")
        assert check()[2].startswith("Inactive clusters: [a]")
        assert check("x") == ("", "", "")
