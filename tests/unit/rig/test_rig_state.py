"""The folder of a rig: ports, locks, refusal of strangers, removal."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from fedq.rig import ports
from fedq.rig.components import waves
from fedq.rig.errors import RigError
from fedq.rig.layout import PORTS, Layout
from fedq.rig.paths import rig_home
from fedq.rig.pki import Authority
from fedq.rig.rig import Rig
from fedq.rig.state import Home, State


def test_ports_are_different_free_and_avoid_what_is_taken(tmp_path: Path) -> None:
    """A listening port and a remembered one are both passed over."""
    first, second = ports.allocate(2, tmp_path)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", first))
        listener.listen()

        found = ports.allocate(3, tmp_path, taken=[second])

    assert len(set(found)) == 3
    assert not {first, second} & set(found)
    assert all(ports.FIRST <= port <= ports.LAST for port in found)


def test_exhausted_ports_are_an_error(tmp_path: Path) -> None:
    """The whole range is named."""
    with pytest.raises(OSError, match="0 of 1 ports"):
        ports.allocate(1, tmp_path, taken=range(ports.FIRST, ports.LAST + 1))


def test_home_is_chosen_by_variable_then_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    """FEDQ_RIG_HOME first; a relative XDG path is ignored, as its rules say."""
    monkeypatch.delenv("FEDQ_RIG_HOME", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert rig_home() == Path("/state/fedq/rig")
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    assert rig_home() == Path.home() / ".local/state/fedq/rig"
    monkeypatch.setenv("FEDQ_RIG_HOME", "/elsewhere")
    assert rig_home() == Path("/elsewhere")


def test_state_survives_a_round_trip_and_removal_leaves_nothing(tmp_path: Path) -> None:
    """What was written is read; `remove` takes the folder too."""
    home = Home(tmp_path / "rig")
    state = State("local", 4, {"management": {"etcd": 20001}}, {"etcd": "/bin/etcd"})
    with home.lock():
        home.write(state)

        assert home.read() == state
        home.remove()

    assert list(tmp_path.iterdir()) == []


def test_folder_with_other_files_is_refused_and_kept(tmp_path: Path) -> None:
    """FEDQ_RIG_HOME=$HOME by mistake costs nothing."""
    (tmp_path / "thesis.txt").write_text("dear")

    with pytest.raises(RigError, match=r"thesis\.txt"):
        Home(tmp_path).write(State())
    Rig.load(tmp_path).down()

    assert (tmp_path / "thesis.txt").exists()


def test_broken_state_says_what_to_do_and_down_cleans_it(tmp_path: Path) -> None:
    """A half written file does not keep the rig from going away."""
    home = tmp_path / "rig"
    home.mkdir()
    (home / "rig.json").write_text("{")

    with pytest.raises(RigError, match="rig down"):
        Rig.load(home).status()
    Rig.load(home).down()

    assert not home.exists()


def test_unknown_cluster_and_missing_rig_are_explained(tmp_path: Path) -> None:
    """Both errors tell what there is, or how to make it."""
    with pytest.raises(RigError, match="rig up"):
        Rig.load(tmp_path).kubeconfig("worker-1")
    Home(tmp_path).write(State(clusters={"management": {}}))
    with pytest.raises(RigError, match="there are management"):
        Rig.load(tmp_path).kubeconfig("worker-1")


def test_status_of_an_up_interrupted_before_ports(tmp_path: Path) -> None:
    """The clusters are known, nothing of them is; `down` still works."""
    home = tmp_path / "rig"
    Home(home).write(State(clusters={"management": {}, "worker-1": {}}))

    status = Rig.load(home).status()
    Rig.load(home).down()

    assert list(status.clusters) == ["management", "worker-1"]
    assert not home.exists()


def make_layout(tmp_path: Path, name: str, *, pods: bool = True) -> Layout:
    """A cluster's files, made."""
    numbers = dict(zip(PORTS, range(20_000, 20_000 + len(PORTS)), strict=True))
    folders = tmp_path / name, tmp_path / "s", tmp_path / "pki"
    layout = Layout(name, *folders, numbers, runs_pods=pods)
    layout.prepare(Authority(layout.authority))
    return layout


def test_kubeconfig_is_self_contained_and_private(tmp_path: Path) -> None:
    """Everything inline, readable by its owner only, unchanged by a second run."""
    layout = make_layout(tmp_path, "worker-1")
    file = layout.kubeconfig("admin")
    before = file.stat().st_mtime_ns
    layout.prepare(Authority(layout.authority))

    config = yaml.safe_load(file.read_text())
    assert (
        config["clusters"][0]["cluster"]["server"]
        == f"https://127.0.0.1:{layout.ports['kube-apiserver']}"
    )
    assert set(config["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.stat().st_mtime_ns == before


def test_each_component_is_only_itself(tmp_path: Path) -> None:
    """Only admin is in system:masters."""
    layout = make_layout(tmp_path, "worker-1")
    pem = layout.identity("kube-scheduler").read_bytes()

    subject = x509.load_pem_x509_certificate(pem).subject.rfc4514_string()
    assert subject == "CN=system:kube-scheduler"


def test_management_cluster_runs_no_pods(tmp_path: Path) -> None:
    """No scheduler and no kwok there, unless it is to have nodes; a worker has both."""
    names = [
        [spec.name.partition("/")[2] for wave in waves(layout, {}) for spec in wave]
        for layout in (
            make_layout(tmp_path, "management", pods=False),
            make_layout(tmp_path, "management"),
            make_layout(tmp_path, "worker-1"),
        )
    ]

    core = ["etcd", "kube-apiserver", "kube-controller-manager"]
    whole = [*core, "kube-scheduler", "kwok"]
    assert names == [core, whole, whole]
