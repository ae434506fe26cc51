"""The runner of recorded vGPU sequences: on one of our own, whatever number of it is damaged; and
on the recorded ones if they are here.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.conformance import __main__ as runner
from bench.conformance import vgpu

Json = dict[str, Any]
RECORDED = sorted((Path(__file__).parents[4] / "shared/conformance/vgpu").glob("*.jsonl"))
DEFECTS = Path(__file__).parents[4] / "shared/conformance/vgpu-defects.jsonl"
DAMAGED = 20
"""Recorded sequences of each file that are damaged in one place."""

NOT_COMPARED = {"seed", "retry_of_step", "deviceIndex", "after_step", "devices", "reasons"}
UNSEEN = {"effective", "pair_scores"}


def register(*cards: Json) -> str:
    base = {"count": 3, "devmem": 20000, "devcore": 100, "health": True, "mode": "hami-core"}
    return json.dumps([{**base, "type": "NVIDIA A10", **card} for card in cards])


def admit(name: str, limits: Json, result: Json, **pod: Any) -> Json:
    containers = [{"name": "c0", "requests": limits}]
    given = {"name": name, "annotations": {}, "containers": containers, **pod}
    return {"op": "admit", "pod": given, "result": {"decided_by": "filter", **result}}


def fits(node: str, annotation: str, charge: Json, **choice: Any) -> Json:
    return {
        "fits": True,
        "choice": {"node": node, "annotation": annotation, **choice},
        "charge": charge,
    }


def use(slots: int, memory: int, cores: int) -> Json:
    return {"slots": slots, "memMiB": memory, "cores": cores}


def sequence() -> Json:
    """Two shared cards and a MIG card; every kind of step."""
    gpu, memory, cores = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"
    places = [{"start": 0, "size": 1}, {"start": 1, "size": 1}]
    one = {"name": "1g.5gb", "memoryMB": 4864, "core": 50, "sliceCount": 1, "placements": places}
    mig = {"type": "NVIDIA A30", "mode": "mig", "count": 2, "devmem": 10000, "migProfiles": [one]}
    init = [{"name": "i0", "requests": {gpu: "1", memory: "20000"}}]
    refused = {"fits": False, "reasons": {"a": {"codes": {"CardInsufficientMemory": 2}}}}
    steps = [
        admit(
            "p0",
            {gpu: "1", memory: "15000", cores: "40"},
            fits("a", "G0,NVIDIA,20000,0:;G0,NVIDIA,15000,40:;", {"G0": use(1, 20000, 40)}),
            init=init,
        ),
        admit("p1", {gpu: "2", memory: "1"}, refused) | {"candidates": ["a"]},
        {
            "op": "init_done",
            "pod": {"name": "p0"},
            "result": {"charge": {"G0": use(1, 15000, 40)}},
        },
        admit(
            "p1",
            {gpu: "2", memory: "5000", cores: "60"},
            fits(
                "a",
                "G1,NVIDIA,5000,60:G0,NVIDIA,5000,60:;",
                {"G0": use(1, 5000, 60), "G1": use(1, 5000, 60)},
            ),
        ),
        admit("p2", {gpu: "1", memory: "1", cores: "41"}, refused) | {"candidates": ["a"]},
        admit(
            "p3",
            {gpu: "1", memory: "4000"},
            fits(
                "b",
                "M0,NVIDIA,4864,50:;",
                {"M0": use(1, 4864, 50)},
                mig=[
                    {
                        "container": "c0",
                        "deviceIndex": 0,
                        "uuid": "M0",
                        "profile": "1g.5gb",
                        "start": 1,
                        "size": 1,
                    }
                ],
            ),
        ),
        admit("p4", {gpu: "2", memory: "4000"}, refused) | {"candidates": ["b"]},
        admit(
            "mutex",
            {gpu: "1", memory: "100"},
            fits("c", "C0,NVIDIA,100,0:;", {"C0": use(1, 100, 0)}),
            annotations={"hami.io/gpu-scheduler-policy": "mutex"},
        ),
        admit(
            "joins",
            {gpu: "1", memory: "200"},
            fits("c", "C0,NVIDIA,200,0:;", {"C0": use(1, 200, 0)}) | {"notes": [vgpu.JOINS_MUTEX]},
        ),
        admit("miss", {gpu: "1", memory: "100"}, {"fits": False, "greedy_miss": True}),
        admit(
            "webhook",
            {gpu: "1", "nvidia.com/gpumem-percentage": "101"},
            {"fits": False, "decided_by": "webhook"},
        ),
        {"op": "finish", "pod": {"name": "p0"}, "phase": "Failed"},
        {"op": "node_update", "node": {"name": "a", "register": register({"id": "G0"})}},
        admit("p5", {gpu: "2"}, refused) | {"candidates": ["a"]},
        {"op": "delete", "pod": {"name": "p3"}},
    ]
    return {
        "id": "own",
        "seed": 1,
        "nodes": [
            {"name": "a", "register": register({"id": "G0"}, {"id": "G1", "index": 1})},
            {"name": "b", "register": register({"id": "M0", **mig})},
            {"name": "c", "register": register({"id": "C0"})},
        ],
        "steps": steps,
        "checkpoints": [
            {
                "after_step": 5,
                "usage": {
                    "G0": use(2, 20000, 100),
                    "G1": use(1, 5000, 60),
                    "M0": use(1, 4864, 50),
                },
            }
        ],
        "expected_final_usage": {
            "G0": use(1, 5000, 60),
            "G1": use(1, 5000, 60),
            "C0": use(2, 300, 0),
        },
    }


def damages(document: Json) -> Iterator[tuple[Any, ...]]:
    """Paths of numbers and verdicts that are facts."""
    for path in _numbers(document, ()):
        if any(key in NOT_COMPARED | UNSEEN for key in path):
            continue
        if path[0] == "steps":
            result = document["steps"][path[1]].get("result", {})
            if result.get("greedy_miss"):
                continue
            if vgpu.JOINS_MUTEX in result.get("notes", ()) and path[-1] == "fits":
                continue
        yield path


def _numbers(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _numbers(item, (*path, index))
    elif isinstance(value, int):
        yield path


def damaged(document: Json, path: tuple[Any, ...]) -> Json:
    """The document with one number larger, or one verdict the other way."""
    broken = copy.deepcopy(document)
    at: Any = broken
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = (not at[path[-1]]) if isinstance(at[path[-1]], bool) else at[path[-1]] + 1
    return broken


def written(tmp_path: Path, *documents: Json) -> Path:
    file = tmp_path / "sequences.jsonl"
    file.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return file


def test_a_right_sequence_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.main(["vgpu", str(written(tmp_path, sequence()))]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 0 failed"


@pytest.mark.parametrize(
    "path", list(damages(sequence())), ids=lambda path: ".".join(map(str, path))
)
def test_any_number_that_is_wrong_is_noticed(path: tuple[Any, ...]) -> None:
    assert vgpu.replay(damaged(sequence(), path)).mismatches


@pytest.mark.parametrize(
    ("step", "old", "new"),
    [
        (0, "G0,NVIDIA,15000,40", "G0,NVIDIA,15001,40"),
        (0, "G0,NVIDIA,15000,40", "G1,NVIDIA,15000,40"),
        (0, "NVIDIA,20000,0:;", "NVIDIA,20000,1:;"),
        (3, "G1,NVIDIA,5000,60:G0", "G0,NVIDIA,5000,60:G0"),
        (3, "G1,NVIDIA,5000,60:", ""),
        (5, "M0,NVIDIA,4864,50", "M0,NVIDIA,4000,0"),
    ],
)
def test_a_placement_that_breaks_a_rule_is_noticed(step: int, old: str, new: str) -> None:
    document = sequence()
    choice = document["steps"][step]["result"]["choice"]
    assert old in choice["annotation"]
    choice["annotation"] = choice["annotation"].replace(old, new)
    assert vgpu.replay(document).mismatches


def test_what_the_user_wrote_decides_and_not_what_became_of_it() -> None:
    document = sequence()
    for step in document["steps"]:
        if step["op"] == "admit":
            step["effective"] = {"init": [], "containers": [{"nvidia.com/gpu": "77"}]}
    assert vgpu.replay(document).mismatches == []
    document["steps"][0]["pod"]["containers"][0]["requests"]["nvidia.com/gpumem"] = "15001"
    assert vgpu.replay(document).mismatches


def test_failures_are_counted_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = damaged(sequence(), ("steps", 0, "result", "charge", "G0", "memMiB"))
    nonsense = {"id": "nonsense", "nodes": [{"name": "a", "register": "["}], "steps": []}
    assert runner.main(["vgpu", str(written(tmp_path, sequence(), broken, nonsense))]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "1 passed, 2 failed"
    assert "own step 0 admit p0: charge of G0 is (1, 20000, 40), recorded (1, 20001, 40)" in lines
    assert any(line.startswith("nonsense cannot be replayed: ") for line in lines)


def test_a_checkpoint_that_never_comes_is_noticed() -> None:
    document = sequence()
    document["checkpoints"][0]["after_step"] = 99
    assert "99" in vgpu.replay(document).mismatches[-1]


def test_an_unknown_step_is_noticed() -> None:
    document = sequence()
    document["steps"].append({"op": "explode"})
    assert "explode" in vgpu.replay(document).mismatches[-1]


def test_a_file_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.main(["vgpu", str(tmp_path / "absent")]) == 2
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.skipif(not DEFECTS.exists(), reason="the recorded defects are not here")
def test_what_hami_does_wrong_is_among_the_known_differences() -> None:
    known = json.loads((Path(runner.__file__).parent / "vgpu_differences.json").read_text())
    recorded = [json.loads(line) for line in DEFECTS.read_text().splitlines()]
    assert {case["id"] for case in recorded if case["kind"] == "defect"} <= known.keys()
    assert all(len(reason) > 5 for reason in known.values())


@pytest.mark.skipif(not RECORDED, reason="the recorded sequences are not here")
@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_the_recorded_sequences(file: Path) -> None:
    dice = random.Random(file.stem)
    documents = [json.loads(line) for line in file.read_text().splitlines()]
    for document in documents:
        assert vgpu.replay(document).mismatches == [], document["id"]
    for document in dice.sample(documents, min(DAMAGED, len(documents))):
        path = dice.choice(list(damages(document)))
        assert vgpu.replay(damaged(document, path)).mismatches, (document["id"], path)
