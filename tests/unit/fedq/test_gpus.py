"""`fedq gpus`: cards as bars, from what nodes, pods and Jobs say."""

from __future__ import annotations

import base64
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from federation.api.names import Mirror, Pin
from federation.core.devices.cards import Card, CardUse, Grant
from federation.core.devices.wire.plan_note import Seat, encode_plan
from federation.core.types import Admission, PodSetAssignment
from federation.edge import resources as r
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.jobs.admission_note import encode_admission
from fedq import connect
from fedq.gpubars import BAR, bar_of, draw
from fedq.gpuview import CardView, HolderView, InstanceView, NodeView, state_of
from fedq.rig.gpus import REGISTER, cards
from tests.fakes.kube_api import FakeKube
from tests.unit.fedq.conftest import Fedq, give_cluster, job

Json = dict[str, Any]


def give_node(kube: FakeKube, name: str, count: int = 2, **notes: str) -> None:
    """A node with registered cards of 40960 MiB."""
    annotations = {REGISTER: json.dumps(cards(name, count)), **notes}
    labels = {"kubernetes.io/hostname": name}
    kube.create(r.NODES, {"metadata": {"name": name, "annotations": annotations, "labels": labels}})
    amounts = {"cpu": "8", "pods": "99", "nvidia.com/gpu": str(10 * count)}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"allocatable": amounts, "capacity": amounts, "conditions": ready}
    kube.merge(r.NODES, name, {"status": status}, status=True)


def give_pod(
    kube: FakeKube, name: str, node: str, note: str, owner: str = "", **limits: str
) -> None:
    """A running pod with these annotations of its cards."""
    amounts = {f"nvidia.com/{key}": value for key, value in limits.items()}
    meta: Json = {
        "name": name,
        "namespace": "team",
        "annotations": {"hami.io/vgpu-node": node, "hami.io/vgpu-devices-allocated": note},
    }
    if owner:
        meta["ownerReferences"] = [{"kind": "Job", "uid": owner, "controller": True}]
    container = {"name": "m", "image": "x", "resources": {"limits": amounts}}
    kube.create(r.PODS, {"metadata": meta, "spec": {"nodeName": node, "containers": [container]}})
    kube.merge(r.PODS, name, {"status": {"phase": "Running"}}, "team", status=True)


def test_cards_and_who_holds_them(fedq: Fedq, kube: FakeKube) -> None:
    give_node(kube, "n1")
    give_node(kube, "n0", **{"hami.io/device-cordon": "GPU-n0-1"})
    made = kube.create(r.JOBS, job("train", ""))
    uid = made["metadata"]["uid"]
    give_pod(kube, "train-x", "n1", "GPU-n1-0,NVIDIA,20480,30:;", uid, gpu="1", gpumem="20480")
    give_pod(kube, "other", "n1", "GPU-n1-0,NVIDIA,10240,0:;", gpu="1", gpumem="10240")

    result = fedq("gpus")

    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[:3] == [
        "n0",
        "0 [........................] 0/40,960 MiB 0/100 cores 0/10 slots GPU-n0-0"
        " NVIDIA A100-SXM4-40GB",
        "1 [........................] 0/40,960 MiB 0/100 cores 0/10 slots cordoned: annotation"
        " hami.io/device-cordon of the node names it GPU-n0-1 NVIDIA A100-SXM4-40GB",
    ]
    assert lines[3] == "n1"
    assert lines[4].startswith("0 [AAAAAABBBBBBBBBBBB......] 30,720/40,960 MiB 30/100 cores 2/10")
    assert lines[5:7] == [
        "A team/other running: 10,240 MiB, 0 cores",
        "B team/train-x running: 20,480 MiB, 30 cores",
    ]

    (node,) = json.loads(fedq("gpus", "n1", "-o", "json").stdout)
    first = node["cards"][0]
    assert (first["usedMemoryMib"], first["usedCores"], first["usedSlots"]) == (30720, 30, 2)
    assert [(h["kind"], h["name"], h["job"]) for h in first["holders"]] == [
        ("Pod", "other", ""),
        ("Pod", "train-x", "train"),
    ]
    missing = fedq("gpus", "n7")
    assert (missing.exit_code, "no node n7 with cards" in missing.stderr) == (1, True)


def test_a_seat_whose_pod_has_yet_to_come_is_shown(fedq: Fedq, kube: FakeKube) -> None:
    give_node(kube, "n0", 1)
    body = job("train", "")
    body["spec"] |= {"parallelism": 2, "completions": 2, "suspend": False}
    resources = {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8192"}}
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = resources
    usage = PodSetAssignment("main", 2, {"nvidia.com/gpu": "f"}, {"nvidia.com/gpu": 2})
    grants = ((Grant("GPU-n0-0", "NVIDIA", 8192, 0),),)
    body["metadata"]["annotations"] = {
        Pin.DEVICES.value: encode_plan([Seat("n0", grants)] * 2, 2e9),
        Mirror.ADMISSION.value: encode_admission(Admission("cq", (usage,))),
    }
    kube.create(r.JOBS, body)

    text = fedq("gpus").stdout

    assert "default/train[0] (seat) reserved: 8,192 MiB, 0 cores" in text
    assert "16,384/40,960 MiB" in text


def test_whole_cards_that_the_kubelet_chose(fedq: Fedq, kube: FakeKube) -> None:
    """Used by somebody, and by whom; of registered cards nothing is known then."""
    ready = [{"type": "Ready", "status": "True"}]
    for name, count in (("n0", "2"), ("n1", "10")):
        amounts = {"cpu": "8", "pods": "99", "nvidia.com/gpu": count}
        notes = {REGISTER: json.dumps(cards(name, 1))} if name == "n1" else {}
        kube.create(r.NODES, {"metadata": {"name": name, "annotations": notes}})
        status = {"allocatable": amounts, "capacity": amounts, "conditions": ready}
        kube.merge(r.NODES, name, {"status": status}, status=True)
        limits = {"limits": {"nvidia.com/gpu": "1"}}
        spec = {"nodeName": name, "containers": [{"name": "m", "image": "x", "resources": limits}]}
        kube.create(r.PODS, {"metadata": {"name": f"p-{name}", "namespace": "team"}, "spec": spec})

    lines = fedq("gpus").stdout.splitlines()

    assert f"0 [{'?' * BAR}]" in lines[1]
    assert f"1 [{'.' * BAR}]" in lines[2]
    assert lines[3] == "     ? team/p-n0: a whole card, nobody noted which"
    assert lines[5] == "  takes nothing new: pod team/p-n1 has cards here, and nobody noted which"
    assert lines[7] == "     ? team/p-n1: a whole card, nobody noted which"
    (node,) = json.loads(fedq("gpus", "n0", "-o", "json").stdout)
    assert [(one["name"], one["cards"]) for one in node["nameless"]] == [("p-n0", 1)]


def test_all_workers_of_a_management_cluster(
    fedq: Fedq, kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the kubeconfigs in Secrets; one that cannot be read is told, and fails the command."""
    workers = {name: FakeKube(namespaces=("team",)) for name in ("east", "west")}
    for name, worker in workers.items():
        give_node(worker, f"{name}-0", 1)

    def client(target: connect.Target) -> KubeClient:
        return KubeClient(target.endpoint, transport=workers.get(target.endpoint.name, kube))

    monkeypatch.setattr(connect, "open_client", client)
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    for name in ("east", "west", "gone"):
        give_cluster(kube, name, status="True")
        spec = {"spec": {"clusterSource": {"kubeConfig": {"location": name}}}}
        kube.merge(r.MULTIKUEUE_CLUSTERS, name, spec)
        if name != "gone":
            meta = {"name": name, "namespace": "fedq-system"}
            text = base64.b64encode(kubeconfig(name)).decode()
            kube.create(r.SECRETS, {"metadata": meta, "data": {"kubeconfig": text}})

    result = fedq("gpus")

    assert result.exit_code == 1
    assert "cluster gone could not be read" in result.stderr
    assert "Secret fedq-system/gone does not exist" in result.stderr
    heads = [line for line in result.stdout.splitlines() if not line.startswith(" ")]
    assert heads == ["cluster east", "east-0", "cluster west", "west-0"]
    one = fedq("gpus", "--cluster", "west")
    assert (one.exit_code, "east" in one.stdout) == (0, False)
    assert "there is no cluster nix" in fedq("gpus", "--cluster", "nix").stderr


def test_who_has_a_context_of_the_clusters_name_asks_as_himself(
    fedq: Fedq, kube: FakeKube, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config").write_bytes(kubeconfig("east"))
    monkeypatch.setenv("KUBECONFIG", f"/nowhere:{tmp_path}/config")
    east = FakeKube(namespaces=("team",))
    give_node(east, "east-0", 1)
    give_cluster(kube, "east", status="True")  # its Secret is not there

    def client(target: connect.Target) -> KubeClient:
        return KubeClient(
            Endpoint("https://fake", name="e"),
            transport=east if "east" in target.endpoint.server else kube,
        )

    monkeypatch.setattr(connect, "open_client", client)
    result = fedq("gpus")
    assert (result.exit_code, "east-0" in result.stdout) == (0, True), result.output


def kubeconfig(name: str) -> bytes:
    ca = base64.b64encode(b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n").decode()
    cluster = {"server": f"https://{name}", "certificate-authority-data": ca}
    return json.dumps(
        {
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": "u"}}],
            "current-context": name,
        }
    ).encode()


def test_a_cluster_without_cards_says_so(fedq: Fedq) -> None:
    result = fedq("gpus")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no node registers cards" in result.stderr
    assert "no worker clusters" in fedq("gpus", "--cluster", "a").stderr


# Bars


def holder(name: str = "p", mib: int = 0, slots: int = 1, **rest: Any) -> HolderView:
    given = {"kind": "Pod", "namespace": "team", "job": "", "state": "running", "cores": 0, **rest}
    return HolderView(name=name, memory_mib=mib, slots=slots, **given)


def card(*holders: HolderView, **rest: Any) -> CardView:
    given: Json = {
        "uuid": "GPU-1",
        "vendor": "NVIDIA",
        "model": "A100",
        "index": 0,
        "numa": 0,
        "mode": "hami-core",
        "state": "open",
        "why": "",
        "memory_mib": 40960,
        "used_memory_mib": sum(h.memory_mib for h in holders),
        "cores": 100,
        "used_cores": sum(h.cores for h in holders),
        "slots": 10,
        "used_slots": sum(h.slots for h in holders),
        "slices": 0,
        **rest,
    }
    return CardView(holders=list(holders), **given)


@pytest.mark.parametrize(
    ("what", "bar"),
    [
        (card(), "............"),
        (card(holder(mib=20480)), "AAAAAA......"),
        (card(holder(mib=1)), "A..........."),
        (card(holder(mib=40960)), "AAAAAAAAAAAA"),
        (card(holder(mib=40959), holder(mib=1)), "AAAAAAAAAAAB"),
        (card(holder(mib=13653), holder(mib=13653), holder(mib=13653)), "AAAABBBBCCCC"),
        (card(holder(mib=99999)), "AAAAAAAAAAAA"),
        (card(holder(), holder(), memory_mib=0, slots=4), "AAABBB......"),
        (card(holder(slots=1), memory_mib=0, slots=0), "AAAAAAAAAAAA"),
        (
            card(
                holder(instances=[InstanceView("2g.10gb", 2, 2)]),
                holder(instances=[InstanceView("1g.5gb", 7, 9)]),
                slices=8,
            ),
            "..AA...B    ",
        ),
    ],
)
def test_a_bar(what: CardView, bar: str) -> None:
    assert bar_of(what, 12) == bar


@given(st.lists(st.integers(0, 50_000), max_size=70), st.sampled_from([12, BAR]))
def test_a_bar_is_as_wide_as_it_should_be_and_shows_everybody_there_is_room_for(
    parts: list[int], width: int
) -> None:
    found = bar_of(card(*(holder(mib=mib) for mib in parts)), width)
    assert len(found) == width
    assert len({*found} - {"."}) == min(len(parts), width)


HOSTILE = st.text(
    st.sampled_from("ab \n\r\t\x1b[31m\u202e\u200b\u0301漢字🙂\x07{}[]%"), min_size=1, max_size=40
)


@settings(max_examples=50)
@given(HOSTILE, st.integers(1, 200) | st.none())
def test_hostile_texts_stay_in_their_line(text: str, width: int | None) -> None:
    one = card(holder(text, 5), uuid=text, model=text, mode=text, state="fenced", why=text)
    node = NodeView(text, text, False, text, [text], [one, card()])

    lines = draw([node, replace(node, name="b")], width).split("\n")

    assert len(lines) == 13
    assert all(line.isprintable() for line in lines)
    assert width is None or all(cell_len(line) <= width for line in lines)


def test_figures_stand_below_each_other() -> None:
    rng = random.Random(5)
    made = [card(holder(mib=rng.randrange(40960)), index=n) for n in range(12)]
    text = draw([NodeView("", "n", True, "", [], made)], None)
    rows = [line for line in text.split("\n") if "[" in line]
    assert len({row.index(" MiB") for row in rows}) == 1
    assert len({row.index("GPU-1") for row in rows}) == 1


def test_slots_that_nobody_counts_have_no_limit() -> None:
    """Of cards that are published as devices."""
    text = draw([NodeView("", "n", True, "", [], [card(holder(), slots=2**31 - 1)])], None)
    assert " 1 slots  GPU-1" in text


def test_more_used_than_there_is_stands_out() -> None:
    text = draw([NodeView("", "n", True, "", [], [card(holder(mib=50_000))])], None)
    assert "!50,000/40,960 MiB" in text


@pytest.mark.parametrize(
    ("is_", "use", "state"),
    [
        ({}, CardUse(), "open"),
        ({"healthy": False, "cordoned": True}, CardUse(), "unhealthy"),
        ({"cordoned": True}, CardUse(), "cordoned"),
        ({}, CardUse(fence="odd"), "fenced"),
        ({}, CardUse(closed=True), "held alone"),
    ],
)
def test_the_state_of_a_card(is_: Json, use: CardUse, state: str) -> None:
    found, why = state_of(Card("u", "NVIDIA", "A10", 1, **is_), use)
    assert found == state
    assert bool(why) == (state != "open")
