"""The kind backend: which commands it runs, told by fakes that record them."""

from __future__ import annotations

from pathlib import Path

import pytest

from federation.core.devices.inventory.inventory import read_host
from fedq.rig.errors import RigError
from fedq.rig.kind import KindBackend, kind_config
from fedq.rig.objects import gpu_node
from fedq.rig.rig import Rig
from fedq.rig.state import Home
from worker_agent.device_nodes import facts_of

FAKE = """#!/bin/sh
case "$1" in --version|version) echo "v{version}"; exit 0 ;; esac
echo "{name} $*" >> {log}
case "$1 $2" in
"get clusters") cat {state} 2>/dev/null ;;
"create cluster") [ -z "$FAKE_KIND_FAILS" ] || {{ echo "no Docker" >&2; exit 1; }}
  echo "$4" >> {state}; echo config > "$6" ;;
"delete cluster") : > {state} ;;
esac
[ "{name}" != kwok ] || exec sleep 60
"""


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Fakes of kind, kubectl and kwok on PATH; the file holds what they were asked."""
    log, programs = tmp_path / "ran", tmp_path / "bin"
    programs.mkdir()
    for name, version in (("kind", "0.33.0"), ("kubectl", "1.36.3"), ("kwok", "0.8.0")):
        script = FAKE.format(name=name, version=version, log=log, state=tmp_path / "clusters")
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr("fedq.rig.kind.plain_ready", lambda port, path: bool(commands(log, "kwok")))
    return log


def commands(log: Path, program: str) -> list[str]:
    """What one of the fakes was asked, in order; the log is emptied by nobody."""
    return [line for line in log.read_text().splitlines() if line.startswith(program)]


def test_up_creates_taints_and_adds_nodes_and_down_deletes(tmp_path: Path, ran: Path) -> None:
    """One cluster each with its own kubeconfig; kwok plays the GPU nodes from this machine."""
    home = tmp_path / "rig"
    rig = Rig.load(home, backend="kind")
    rig.up(1, nodes=2)
    status = rig.status()
    rig.down()

    kind = commands(ran, "kind")
    for name in ("management", "worker-1"):
        folder = home / "kind"
        options = f"--name fedq-{name} --kubeconfig {folder / name}.kubeconfig"
        wanted = f"kind create cluster {options} --config {folder / name}.yaml --wait 180s"
        assert wanted in kind
        assert f"kind delete cluster --name fedq-{name}" in kind
    kubectl = commands(ran, f"kubectl --kubeconfig={home}/kind/worker-1.kubeconfig")
    assert [line.split()[2] for line in kubectl] == ["get", "taint", "apply"]
    assert kubectl[1].endswith("node-role.kubernetes.io/control-plane=:NoSchedule --overwrite")
    assert "--manage-nodes-with-label-selector=type=kwok" in commands(ran, "kwok")[0]
    assert status.backend == "kind"
    assert status.clusters["worker-1"].api_url == "https://127.0.0.1:26441"
    assert status.clusters["worker-1"].components["kwok"].running
    assert not home.exists()


def test_second_up_creates_nothing(tmp_path: Path, ran: Path) -> None:
    """Clusters that kind lists are kept; a lost kubeconfig is exported again."""
    rig = Rig.load(tmp_path / "rig", backend="kind")
    rig.up(1)
    rig.kubeconfig("worker-1").unlink()
    rig.up(1)
    rig.down()

    kind = commands(ran, "kind")
    assert len([line for line in kind if "create cluster" in line]) == 2
    assert len([line for line in kind if "export kubeconfig --name fedq-worker-1" in line]) == 1


def test_failure_of_kind_is_shown(
    tmp_path: Path, ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What kind wrote, and the usual reason."""
    monkeypatch.setenv("FAKE_KIND_FAILS", "1")
    rig = Rig.load(tmp_path / "rig", backend="kind")

    with pytest.raises(RigError, match="no Docker") as caught:
        rig.up(0)
    assert caught.value.todo == "Is Docker running?"
    rig.down()


def test_down_leaves_clusters_of_others(
    tmp_path: Path, ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What kind never got to make is not deleted: Docker may not even be there."""
    monkeypatch.setattr("fedq.rig.kind.KindBackend._create", fail)
    rig = Rig.load(tmp_path / "rig", backend="kind")
    with pytest.raises(RigError, match="no Docker"):
        rig.up(0)
    rig.down()

    assert not rig.home.exists()
    assert not ran.exists()


def fail(*_: object) -> None:
    """Stand-in for a step that finds no Docker."""
    raise RigError("no Docker")


def test_backend_cannot_change_while_up(tmp_path: Path, ran: Path) -> None:
    """Half a rig of each kind is nobody's wish."""
    Rig.load(tmp_path / "rig", backend="kind").up(0)

    with pytest.raises(RigError, match="up with --backend kind"):
        Rig.load(tmp_path / "rig", backend="local").up(0)
    with pytest.raises(RigError, match="only with --backend local"):
        Rig.load(tmp_path / "rig").up(0, management_nodes=1)
    Rig.load(tmp_path / "rig").down()


def test_cards_become_shared_with_a_new_rig_only(tmp_path: Path, ran: Path) -> None:
    """Nodes that exist are not changed; what was asked for once is remembered."""
    whole, shared = (Rig.load(tmp_path / name, backend="kind") for name in ("whole", "shared"))
    whole.up(1)
    with pytest.raises(RigError, match="cards that cannot be shared") as caught:
        whole.up(1, shared=True)
    whole.down()
    shared.up(1, shared=True)
    shared.up(1)
    state = Home(shared.home).read()
    shared.down()

    assert caught.value.todo == "Run `fedq rig down` first."
    assert state is not None
    assert state.shared


def test_shared_cards_are_registered_as_by_a_device_plugin() -> None:
    """The node counts slots, and the cards are read back from its annotation."""
    whole, shared = gpu_node("w", 0), gpu_node("w", 0, shared=True)
    reading = read_host(facts_of(shared))

    assert whole["status"]["capacity"]["nvidia.com/gpu"] == "8"
    assert shared["status"]["capacity"]["nvidia.com/gpu"] == "80"
    assert [(card.memory_mib, card.slots, card.mode) for card in reading.host.cards] == [
        (40960, 10, "hami-core")
    ] * 8
    assert (reading.fence, reading.problems) == ("", ())


def test_kind_has_an_admin_only() -> None:
    """Certificates of other users would need the key inside the node."""
    with pytest.raises(RigError, match="there is admin"):
        KindBackend.kubeconfig(KindBackend.__new__(KindBackend), "worker-1", "kwok", None)  # type: ignore[arg-type]


def test_ports_of_all_clusters_differ() -> None:
    """Workers beyond the files get host ports of their own, and absolute mounts."""
    configs = [kind_config(name) for name in ("management", "worker-1", "worker-2", "worker-5")]

    published = [
        port
        for config in configs
        for port in (
            config["networking"]["apiServerPort"],
            *(entry["hostPort"] for entry in config["nodes"][0]["extraPortMappings"]),
        )
    ]
    assert len(set(published)) == 8
    assert configs[3]["name"] == "fedq-worker-5"
    assert Path(configs[3]["nodes"][0]["extraMounts"][0]["hostPath"]).is_dir()
