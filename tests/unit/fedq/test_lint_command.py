"""`fedq lint` as people call it: files, folders, standard input, exit codes, formats, clusters."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from federation.edge import resources as r
from fedq.lint import engine
from fedq.lint.finding import Severity
from tests.fakes.kube_api import FakeKube
from tests.unit.fedq.conftest import Fedq
from tests.unit.fedq.lint_support import (
    WELL,
    Json,
    config,
    flavor,
    ids,
    job,
    kueue,
    lint,
    lint_json,
    lint_text,
    local,
    member,
    node,
    put,
    queue,
    workload,
)

ROOT = Path(__file__).parents[3]
SEEDS = ROOT.parent / "shared" / "seed-manifests"
DOC = ROOT / "docs" / "lint.md"


def text(*objects: object) -> str:
    """A YAML stream."""
    return yaml.safe_dump_all(objects, sort_keys=False, allow_unicode=True)


def write(path: Path, *objects: object) -> str:
    """A file of objects; its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text(*objects), encoding="utf-8")
    return str(path)


def last(output: str) -> str:
    """The summary."""
    return output.rstrip().splitlines()[-1]


def test_clean_files(fedq: Fedq, tmp_path: Path) -> None:
    """Exit code 0 and one line."""
    result = fedq("lint", "-f", write(tmp_path / "a.yaml", *WELL))
    assert result.exit_code == 0
    assert result.stdout == "4 objects in 1 file: 0 refused, 0 warnings, 0 infos\n"
    assert result.stderr == ""


def test_warnings_are_exit_code_1_and_say_where_and_what_to_do(fedq: Fedq, tmp_path: Path) -> None:
    """FILE:LINE Kind/name: severity: message — what to do [rule]."""
    file = write(tmp_path / "a.yaml", *WELL[:3], put(job(), "spec.suspend", False))
    result = fedq("lint", "-f", file)
    first, summary = result.stdout.splitlines()
    line = Path(file).read_text().splitlines().index("  suspend: false") + 1
    assert result.exit_code == 1
    assert first == (
        f"{file}:{line} Job/j: warning: spec.suspend is not true: without an admission policy or"
        " webhook it starts at once — set spec.suspend: true (Fedq's management cluster sets it on"
        " Jobs by policy) [not-suspended]"
    )
    assert summary == "4 objects in 1 file: 0 refused, 1 warning, 0 infos"


def test_refusals_are_exit_code_2(fedq: Fedq, tmp_path: Path) -> None:
    """They win over warnings; infos alone are no reason to stop."""
    both = write(tmp_path / "a.yaml", queue(cpu="-1"), put(job(), "spec.suspend", False))
    infos = write(tmp_path / "b.yaml", local())
    assert fedq("lint", "-f", both).exit_code == 2
    assert fedq("lint", "-f", infos).exit_code == 0
    assert "1 info" in fedq("lint", "-f", infos).stdout


def test_json(fedq: Fedq, tmp_path: Path) -> None:
    """The same for programs."""
    file = write(tmp_path / "a.yaml", job(to=""))
    result = fedq("lint", "-f", file, "-o", "json")
    assert result.exit_code == 1
    data = json.loads(result.stdout)
    (finding,) = data.pop("findings")
    assert data == {
        "objects": 1, "files": 1, "refused": 0, "warnings": 1, "infos": 0, "exitCode": 1,
    }  # fmt: skip
    assert finding["rule"] == "no-queue"
    assert (finding["file"], finding["line"], finding["object"]) == (file, 6, "Job/j")
    assert finding["severity"] == "warning"
    assert finding["field"] == "metadata.labels"
    assert "add the label kueue.x-k8s.io/queue-name" in finding["todo"]


def test_files_folders_and_standard_input_together(fedq: Fedq, tmp_path: Path) -> None:
    """What is in one place completes the others; a file named twice is read once."""
    folder = tmp_path / "queues"
    write(folder / "flavor.yaml", flavor())
    write(folder / "deep" / "queue.yml", queue())
    write(folder / ".hidden" / "bad.yaml", {"kind": "Nonsense"})
    write(folder / "kustomization.yaml", {"resources": ["flavor.yaml"]})
    (folder / "README.md").write_text("not: [yaml")
    (folder / "local.json").write_text(json.dumps(local()))
    args = ("lint", "-f", str(folder), "-f", str(folder / "flavor.yaml"), "-f", "-")
    result = fedq(*args, input=text(job()))
    assert result.stdout == "4 objects in 4 files: 0 refused, 0 warnings, 0 infos\n"
    missing = fedq(*args, input=text(job(to="lp")))
    assert missing.exit_code == 1
    assert missing.stdout.startswith("<stdin>:7 Job/j: warning: LocalQueue team/lp is not among")


def test_rules_can_be_silenced(fedq: Fedq, tmp_path: Path) -> None:
    """By the id that stands at the end of the line; a wrong id is told."""
    file = write(tmp_path / "a.yaml", job(to=""))
    assert fedq("lint", "-f", file, "--ignore", "no-queue").exit_code == 0
    result = fedq("lint", "-f", file, "--ignore", "no-queues")
    assert result.exit_code == 2
    assert "there is no rule no-queues; did you mean no-queue?" in result.stderr


def test_rules_of_reading_can_be_silenced_too(fedq: Fedq, tmp_path: Path) -> None:
    """A duplicate that is meant."""
    file = write(tmp_path / "a.yaml", flavor(), flavor())
    assert fedq("lint", "-f", file).exit_code == 2
    assert fedq("lint", "-f", file, "--ignore", "duplicate").exit_code == 0


@pytest.mark.parametrize(
    "args", [(), ("-f",), ("-f", "nowhere.yaml"), ("-f", "empty"), ("-f", "dangling.yaml")]
)
def test_what_cannot_be_read_is_exit_code_2(
    fedq: Fedq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]
) -> None:
    """No file, none of that name, a folder without one, a link to nothing."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "dangling.yaml").symlink_to("gone.yaml")
    result = fedq("lint", *args)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert result.stderr


BAD = {
    "broken": (b"a: [1,\nb: 2", 2, "unreadable", "column 5:"),
    "empty": (b"", 1, "no-object", "holds no object"),
    "comments": (b"# nothing\n---\n", 1, "no-object", "holds no object"),
    "a list": (b"- a\n- b", 1, "no-object", "this is a list"),
    "a word": (b"hello", 1, "no-object", "this is the value 'hello'"),
    "not UTF-8": (b"kind: Job\n\xff\xfe", 2, "unreadable", "not UTF-8"),
    "UTF-16": ("kind: Job".encode("utf-16"), 1, "unreadable", "not UTF-8"),
    "a key twice": (b"kind: Job\nspec: {}\nkind: Pod", 3, "unreadable", "'kind' is there twice"),
    "an alias of itself": (b"a: &a [*a]", 1, "unreadable", "stands for something that holds it"),
    "deep": (b"[" * 5000, 1, "unreadable", "nested too deeply"),
    "a huge number": (b"a: " + b"9" * 5000, 1, "unreadable", "does not fit 64 bits"),
    "infinite": (b"a: .inf", 1, "unreadable", "JSON has no such number"),
    "binary": (b"a: !!binary aGk=", 1, "unreadable", "binary"),
    "null bytes": (b"\0\0\0", 1, "unreadable", "unacceptable character"),
    "no kind": (b"metadata: {name: a}", 1, "unknown-kind", "apiVersion and kind are missing"),
    "kind is a list": (b"apiVersion: v1\nkind: [a]", 2, "unknown-kind", "missing"),
    "misspelt": (
        b"apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueu\nmetadata: {name: a}",
        2, "unknown-kind", "did you mean ClusterQueue?",
    ),
    "another version": (
        b"apiVersion: kueue.x-k8s.io/v1\nkind: ClusterQueue\nmetadata: {name: a}",
        2, "unknown-kind", "as kueue.x-k8s.io/v1beta2 and kueue.x-k8s.io/v1beta1",
    ),
    "batch": (b"apiVersion: batch/v1\nkind: Jbo", 2, "unknown-kind", "did you mean Job?"),
    "old batch": (b"apiVersion: batch/v1beta1\nkind: CronJob", 2, "unknown-kind", "as batch/v1"),
    "metadata is a list": (b"apiVersion: v1\nkind: Pod\nmetadata: [a]", 3, "bad-value", "mapping"),
    "labels are a list": (
        b"apiVersion: v1\nkind: Pod\nmetadata:\n  labels: [a]", 4, "bad-value", "mapping",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_line(fedq: Fedq, tmp_path: Path, name: str) -> None:
    """Never a traceback; the other files are still looked at."""
    data, line, rule, message = BAD[name]
    file = tmp_path / "bad.yaml"
    file.write_bytes(data)
    result = fedq("lint", "-f", str(file), "-f", write(tmp_path / "job.yaml", job(to="")))
    assert result.exit_code == 2
    first, second, _ = result.stdout.splitlines()
    assert first.startswith(f"{file}:{line} ")
    assert first.endswith(f"[{rule}]")
    assert message in first
    assert second.endswith("[no-queue]")
    assert result.stderr == ""


def test_aliases_of_aliases_are_refused_quickly() -> None:
    """Written out they would be four thousand million values."""
    levels = ["a0: &a0 [x, x]"]
    levels += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    (line,) = lint_text("\n".join(levels))
    assert "more than 1000000 values" in line.message


def test_the_same_object_twice(fedq: Fedq, tmp_path: Path) -> None:
    """Refused in one file; in two it may be meant for two clusters."""
    one = write(tmp_path / "one.yaml", flavor(), flavor(nodeLabels={"b": "c"}))
    two = write(tmp_path / "two.yaml", flavor())
    three = write(tmp_path / "three.yaml", flavor())
    result = fedq("lint", "-f", one)
    assert result.exit_code == 2
    assert f"{one}:9 ResourceFlavor/f: refused: it is also in {one}:1" in result.stdout
    assert fedq("lint", "-f", two, "-f", three).exit_code == 1


def test_kinds_of_others_are_let_be() -> None:
    """With a look at the queue label of anything that has pods."""
    others: tuple[Json, ...] = (
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"x": 1}},
        {"apiVersion": "example.com/v7", "kind": "Job", "metadata": {"name": "s"}},
        {"apiVersion": "kind.x-k8s.io/v1alpha4", "kind": "Cluster", "nodes": []},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
         "spec": {"template": job()["spec"]["template"]}},
    )  # fmt: skip
    assert lint(*others) == []
    labelled = put(others[3], "metadata", {"name": "d", "labels": job()["metadata"]["labels"]})
    assert ids(lint(labelled)) == {"queue-missing"}


def test_items_of_a_list_are_objects() -> None:
    """As `kubectl get -o yaml` writes them."""
    found = lint({"apiVersion": "v1", "kind": "List", "items": [flavor(), job(to="")]})
    (line,) = found
    assert (line.object, line.rule, line.line) == ("Job/j", "no-queue", 16)


def test_output_is_safe_for_a_terminal(fedq: Fedq) -> None:
    """Escapes and lone surrogates of a file are not obeyed, and not a traceback."""
    bad = 'apiVersion: v1\nkind: Pod\nmetadata: {name: "\\e[31m\\uD800"}\n'
    result = fedq("lint", "-f", "-", input=bad)
    assert result.exit_code == 2
    assert "\x1b" not in result.stdout


# A cluster


def give(kube: FakeKube, *objects: Json) -> None:
    """Objects of a cluster."""
    resources = {
        "ResourceFlavor": r.RESOURCE_FLAVORS,
        "ClusterQueue": r.CLUSTER_QUEUES,
        "LocalQueue": r.LOCAL_QUEUES,
        "Node": r.NODES,
    }
    for body in objects:
        kube.create(resources[body["kind"]], body)


def test_against_a_cluster(fedq: Fedq, kube: FakeKube, tmp_path: Path) -> None:
    """Queues, flavors and nodes are looked up there; nothing is written."""
    give(kube, flavor(nodeLabels={"a": "g"}), queue(), local(), node())
    kube.log.clear()
    good = fedq("lint", "-f", write(tmp_path / "a.yaml", job()), "--against", "prod")
    assert good.exit_code == 0
    file = write(tmp_path / "b.yaml", job(to="lx"), flavor(nodeLabels={"a": "h"}))
    bad = fedq("lint", "-f", file, "--against", "prod")
    assert bad.exit_code == 1
    assert "LocalQueue team/lx is not in the files or the cluster" in bad.stdout
    assert "no node has a=h" in bad.stdout
    assert {method for method, _ in kube.log} == {"GET"}


def test_kinds_that_may_not_be_read_are_told(fedq: Fedq, kube: FakeKube, tmp_path: Path) -> None:
    """Their names are as unknown as without a cluster."""
    give(kube, flavor(), local())
    kube.fail(lambda request: "clusterqueues" in request.url.path, how="status", status=403)
    file = write(tmp_path / "a.yaml", local("other"))
    result = fedq("lint", "-f", file, "--against", "prod")
    assert result.exit_code == 0
    assert "note: no ClusterQueue was looked up:" in result.stderr
    assert "1 info" in last(result.stdout)


def test_a_cluster_that_is_away_is_exit_code_2(fedq: Fedq, kube: FakeKube, tmp_path: Path) -> None:
    """Not 1, which would mean warnings."""
    kube.cut()
    result = fedq("lint", "-f", write(tmp_path / "a.yaml", job()), "--against", "prod")
    assert result.exit_code == 2
    assert "cannot be reached" in result.stderr


# The seed manifests, and what is written about the rules

EXPECTED = {
    "10-resourceflavor": 0,
    "11-clusterqueue": 0,
    "12-localqueue": 0,
    "13-job": 0,
    "20-chain": 1,
    "30-configuration-integrations": 1,
    "31-configuration-fairsharing": 1,
    "32-configuration-retention": 0,
    "33-configuration-waitforpodsready": 1,
    "40-multikueue": 1,
    "50-vgpu-flavors": 0,
    "51-ml-training-queue": 1,
    "52-cohort-with-sharing": 1,
    "53-vgpu-queues": 1,
    "54-priorities": 0,
    "55-pytorchjob": 1,
    "56-vgpu-pod": 0,
    "57-pod-group": 0,
    "58-workload-v1beta1": 0,
    "60-vgpu-node-groups": 0,
}


@pytest.mark.skipif(not SEEDS.is_dir(), reason="no seed manifests beside the checkout")
@pytest.mark.parametrize("name", EXPECTED)
def test_seed(fedq: Fedq, name: str) -> None:
    """Manifests of articles pass; a queue in a cohort without borrowingLimit is told."""
    result = fedq("lint", "-f", str(SEEDS / f"{name}.yaml"))
    assert result.exit_code == EXPECTED[name]
    unlimited = name in ("20-chain", "51-ml-training-queue", "53-vgpu-queues")
    assert ("[borrowing-unlimited]" in result.stdout) == unlimited
    deprecated = name == "33-configuration-waitforpodsready"
    assert ("deprecated spelling; Kueue writes Configuration" in result.stdout) == deprecated
    sharing = name == "52-cohort-with-sharing"
    assert ("use spec.fairSharing.weight" in result.stdout) == sharing


@pytest.mark.skipif(not SEEDS.is_dir(), reason="no seed manifests beside the checkout")
def test_all_seeds_are_expected_and_pass_together(fedq: Fedq) -> None:
    """None is forgotten here."""
    assert {path.stem for path in SEEDS.glob("*.yaml")} == set(EXPECTED)
    result = fedq("lint", "-f", str(SEEDS))
    assert result.exit_code == 1
    assert " 0 refused," in last(result.stdout)


def test_every_rule_is_explained() -> None:
    """docs/lint.md has a row for each, with its severity."""
    rows = re.findall(r"^\| `([a-z-]+)` \| (\w+) \|", DOC.read_text(encoding="utf-8"), re.MULTILINE)
    assert dict(rows) == {rule.id: rule.severity.value for rule in engine.RULES}
    assert len(rows) == len(engine.RULES)


def test_every_rule_has_a_case() -> None:
    """In one of the tables."""
    from tests.unit.fedq import test_lint_claims, test_lint_refused, test_lint_warned

    tables = (test_lint_claims.CASES, test_lint_refused.CASES, test_lint_warned.CASES)
    tried = {case[0] for table in tables for case in table}
    tried |= {rule for _, _, rule, _ in BAD.values()} | {"duplicate"}
    assert tried == {rule.id for rule in engine.RULES}


# No input is too bad

GOOD = (*WELL, member(), workload(), node(), config(), kueue("Cohort", "c", parentName="p"))
JUNK = st.sampled_from(
    [None, True, 0, -1, 1.5, 2**62, "", "x", "1e999", "é", [], [None], [[]], {}, {"a": None},
     [{"name": "a"}], {"key": [1]}]
)  # fmt: skip


def places(body: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every field and position in an object."""
    items = (
        body.items()
        if isinstance(body, dict)
        else enumerate(body)
        if isinstance(body, list)
        else ()
    )
    return [p for key, value in items for p in ((*path, key), *places(value, (*path, key)))]


@settings(max_examples=150, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(st.data())
def test_no_object_is_too_strange(data: st.DataObject) -> None:
    """Up to three fields of a good world are replaced by junk: findings, never an exception."""
    objects = json.loads(json.dumps(GOOD))
    for _ in range(data.draw(st.integers(1, 3))):
        *way, end = data.draw(st.sampled_from(places(objects)))
        holder: Any = objects
        for part in way:
            holder = holder[part]
        holder[end] = copy.deepcopy(data.draw(JUNK))
    for line in lint_json(*objects):
        assert isinstance(line.severity, Severity)
        assert line.message


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80))
def test_no_text_is_too_strange(text: str) -> None:
    """Also not what is no YAML."""
    assert all(line.rule for line in lint_text(text))


def test_every_object_of_a_long_file_has_its_line() -> None:
    """Two hundred Jobs."""
    jobs = [job(f"j{i}", to="") for i in range(200)]
    found = lint(*jobs)
    assert len(found) == 200
    assert len({line.line for line in found}) == 200
