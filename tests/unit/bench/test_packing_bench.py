"""The packing bench reads what is there, counts for itself and says what it measured."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from bench.packing import report, trace
from bench.packing.__main__ import main
from bench.packing.checker import Checker, OverCommitted
from bench.packing.policies import LIST, ONLINE
from bench.packing.run import POINTS, Result, one_fleet, run
from bench.packing.split import Clusters
from bench.packing.trace import Node, Pod
from federation.core.devices.fleet.strategies.named import STRATEGIES

OPENB = Path(__file__).parents[4] / "shared/data/openb"

NODE = Node("n", 10_000, 100, 2, "T4")
POD = Pod(1000, 10, 1, 400, ())


def checker() -> Checker:
    return Checker([("n", NODE)])


class TestChecker:
    """It refuses whatever is over, by its own arithmetic."""

    @pytest.mark.parametrize(
        ("pod", "grants", "what"),
        [
            (Pod(10_001, 10, 1, 400, ()), [(0, 400)], "CPU"),
            (Pod(1000, 101, 1, 400, ()), [(0, 400)], "memory"),
            (Pod(1000, 10, 1, 400, ("A10", "P100")), [(0, 400)], "model T4"),
            (Pod(1000, 10, 2, 400, ()), [(0, 400), (0, 400)], "cards"),
            (Pod(1000, 10, 1, 400, ()), [], "cards"),
            (Pod(1000, 10, 1, 400, ()), [(0, 399)], "the share of a card"),
        ],
    )
    def test_one_placement(self, pod: Pod, grants: list[tuple[int, int]], what: str) -> None:
        with pytest.raises(OverCommitted, match=what):
            checker().place(pod, "n", grants)

    def test_shares_of_one_card_add_up(self) -> None:
        counts = checker()
        counts.place(POD, "n", [(0, 400)])
        counts.place(POD, "n", [(0, 400)])
        assert counts.allocated == 800
        with pytest.raises(OverCommitted, match="card 0"):
            counts.place(POD, "n", [(0, 400)])

    def test_a_card_of_its_own_is_not_shared(self) -> None:
        counts = checker()
        counts.place(POD, "n", [(0, 400)])
        with pytest.raises(OverCommitted, match="card 0 was to be its own"):
            counts.place(Pod(1, 1, 2, 1000, ()), "n", [(1, 1000), (0, 1000)])


def write(folder: Path, name: str, columns: str, rows: list[str], arrivals: list[int]) -> None:
    (folder / f"openb_pod_list_{name}.csv").write_text("\n".join([columns, *rows]) + "\n")
    lines = [f"A 7 {' '.join(map(str, arrivals))}", "N 7 3 1 2", "A 8 0 1", "N 8 1 2 3"]
    with gzip.open(folder / f"order_{name}.txt.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three nodes with eight cards, a full list, and one with as few columns as there may be."""
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(
        "sn,cpu_milli,memory_mib,gpu,model\nc,64000,200000,2,T4\na,64000,200000,4,G2\n"
        "b,32000,100000,2,V100M16\n"
    )
    chance = random.Random(3)
    shares = [chance.choice((100, 250, 400, 500, 810, 1000)) for _ in range(60)]
    few = [f"p{n:02d},{chance.choice((0, 1000, 4000))},1000,1,{m}" for n, m in enumerate(shares)]
    few[5] = "p05,8000,1000,0,0"
    few[6] = "p06,8000,1000,2,1000"
    arrivals, total = [], 0
    while total < 10_600:
        arrivals.append(chance.randrange(60))
        total += int(few[arrivals[-1]].split(",")[3]) * int(few[arrivals[-1]].split(",")[4])
    columns = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"
    write(tmp_path, "few", columns, few, arrivals)
    full = [f"{row},{'T4|V100M16' if n % 4 == 1 else ''},LS" for n, row in enumerate(few)]
    write(tmp_path, "full", f"{columns},gpu_spec,qos", list(reversed(full)), arrivals)
    (tmp_path / "openb_pod_list_unordered.csv").write_text(columns + "\n")
    return tmp_path


def test_a_trace_is_read_with_pods_and_nodes_in_order_of_name(folder: Path) -> None:
    assert trace.lists(folder) == ["few", "full"]
    full, few = trace.load(folder, "full"), trace.load(folder, "few")
    assert [node.name for node in full.nodes] == ["a", "b", "c"]
    assert full.milli == 8000
    assert full.pods[1].models == ("T4", "V100M16")
    assert not any(pod.models for pod in few.pods)
    assert [pod.milli for pod in few.pods] == [pod.milli for pod in full.pods]
    assert full.orders[7].numbers == (3, 1, 2)


def test_orders_of_other_pods_or_nodes_are_refused(folder: Path) -> None:
    with gzip.open(folder / "order_few.txt.gz", "wt") as file:
        file.write("A 7 0 1 60\nN 7 3 1 2\n")
    with pytest.raises(ValueError, match="seed 7 does not belong"):
        trace.load(folder, "few")


@pytest.mark.parametrize("policy", STRATEGIES)
@pytest.mark.parametrize("make", [one_fleet, Clusters])
def test_every_policy_places_what_the_checker_lets_pass(
    folder: Path, policy: str, make: type[Clusters]
) -> None:
    result = run(trace.load(folder, "full"), policy, 7, ONLINE, make)
    assert result.decisions == len(trace.load(folder, "full").orders[7].arrivals)
    assert all(70 < result.allocated[point] <= 100 for point in (125, 130))
    assert 0 < result.dropped < result.decisions


def test_clusters_compared_by_score_decide_as_one(folder: Path) -> None:
    full = trace.load(folder, "full")
    one, split = (run(full, "default", 7, LIST, make) for make in (one_fleet, Clusters))
    assert one.allocated == split.allocated


class TestReport:
    """Means, gains paired by seed, and the worst list."""

    @staticmethod
    def result(name: str, policy: str, seed: int, allocated: float) -> Result:
        return Result(name, policy, seed, dict.fromkeys(POINTS, allocated), 1, 10, 2.0)

    def test_gains_are_against_what_is_published(self) -> None:
        published = {
            "x": {"FGD": {str(seed): dict.fromkeys(("100", "130"), 90.0) for seed in (1, 2)}}
        }
        results = [self.result("x", "default", 1, 91), self.result("x", "default", 2, 93)]
        results += [self.result("x", "fgd", 1, 90.5), self.result("x", "fgd", 2, 90)]
        found = report.summaries(results, published, 10)

        assert found[0].gain == {100: 2, 130: 2}
        assert (found[0].worst_seed_gain, found[0].gain_vs_our_fgd) == (1, 1.75)
        assert found[0].idle_cards == pytest.approx(0.8)
        assert report.worst_gain(found) == 2
        assert report.fgd_error(results, published) == 0.5

    def test_and_else_against_our_fgd(self) -> None:
        results = [self.result(name, "default", 1, of) for name, of in (("x", 91), ("y", 90))]
        results += [self.result(name, "fgd", 1, 90.5) for name in "xy"]
        found = report.summaries(results, {}, 10)
        assert report.worst_gain(found) == -0.5
        assert report.fgd_error(results, {}) is None

    def test_without_either_there_is_no_gain(self) -> None:
        found = report.summaries([self.result("x", "default", 1, 91)], {}, 10)
        assert found[0].gain is None
        assert report.worst_gain(found) is None
        assert "91.00" in report.table(found)


def test_the_command_prints_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(
        ["--trace", str(folder), "--seeds", "7", "--split", "family", "--jobs", "1", "--json"]
    )
    found = json.loads(capsys.readouterr().out)
    assert code == 0
    assert {(one["list"], one["policy"]) for one in found["lists"]} == {
        (name, policy)
        for name in ("few", "full")
        for policy in ("fgd", "default", "default/family")
    }
    assert found["worst_gain_vs_fgd"] is not None
    assert len(found["runs"]) == 6


def test_the_command_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--trace", str(tmp_path)]) == 2
    assert "no trace" in capsys.readouterr().err


@pytest.mark.skipif(not OPENB.exists(), reason="the openb trace is not here")
@pytest.mark.timeout(120)
@pytest.mark.slow
def test_fgd_is_as_published_and_the_default_is_above() -> None:
    name = "multigpu50"
    loaded, published = trace.load(OPENB, name), trace.published(OPENB)
    fgd, ours = (run(loaded, policy, 42, LIST, one_fleet) for policy in ("fgd", "default"))
    for point in POINTS:
        assert fgd.allocated[point] == pytest.approx(
            published[name]["FGD"]["42"][str(point)], abs=0.02
        )
    assert ours.allocated[100] > fgd.allocated[100] + 0.3
