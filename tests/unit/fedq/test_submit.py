"""`fedq submit`: what is refused before anything is sent, what is created, what is waited for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from federation.edge import resources as r
from tests.fakes.kube_api import FakeKube
from tests.unit.fedq.conftest import Fedq, ended, give_queue, job

DONE = ended("Complete")


def text(*objects: object) -> str:
    """A YAML stream."""
    return yaml.safe_dump_all(objects)


def test_creates_all_and_says_so(fedq: Fedq, kube: FakeKube) -> None:
    """One line an object, in a form that other commands take."""
    give_queue(kube)
    result = fedq("submit", "-", input=text(job("a"), job("b")))

    assert result.exit_code == 0
    assert result.stdout == "job default/a created\njob default/b created\n"
    assert result.stderr == ""
    assert kube.get(r.JOBS, "b", "default")["spec"]["parallelism"] == 2
    posts = [path for method, path in kube.log if method == "POST"]
    assert all(path.endswith("?fieldValidation=Strict") for path in posts)


def test_again_changes_nothing(fedq: Fedq, kube: FakeKube) -> None:
    """Idempotent, also when the server spells a quantity in another way and adds defaults."""
    give_queue(kube)
    fedq("submit", "-", input=text(job("a")))
    again = job("a")
    again["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1000m"
    again["spec"]["suspend"] = False
    result = fedq("submit", "-", input=text(again))

    assert result.exit_code == 0
    assert result.stdout == "job default/a unchanged\n"


def test_another_job_of_that_name(fedq: Fedq, kube: FakeKube) -> None:
    """It is not overwritten; the field and the way out are named, and other Jobs go on."""
    give_queue(kube)
    fedq("submit", "-", input=text(job("a")))
    result = fedq("submit", "-", input=text(job("a", parallelism=3), job("b")))

    assert result.exit_code == 2
    assert "spec.parallelism: is 2, the file says 3" in result.stderr
    assert "kubectl delete job a -n default" in result.stderr
    assert result.stdout == "job default/b created\n"


def test_yaml_error_has_line_and_column(fedq: Fedq, kube: FakeKube) -> None:
    """Nothing is sent."""
    result = fedq("submit", "-", input="a: 1\nb:\n\tc: 2\n")

    assert result.exit_code == 2
    assert "standard input:3:1: this is not YAML" in result.stderr
    assert kube.log == []


BAD = [
    ({"apiVersion": "batch/v2", "kind": "Job"}, "not served as batch/v2, but as batch/v1"),
    (
        {"apiVersion": "kueue.x-k8s.io/v1", "kind": "ClusterQueue", "metadata": {"name": "x"}},
        "as kueue.x-k8s.io/v1beta2 and kueue.x-k8s.io/v1beta1",
    ),
    ({"apiVersion": "v1", "kind": "Jbo", "metadata": {"name": "x"}}, "did you mean Job"),
    ({"kind": "Job"}, "apiVersion and kind are missing"),
    (["a"], "an object is a mapping"),
    ({**job("a"), "metadata": {}}, "metadata.name is missing"),
    ({**job("a"), "metadata": {"name": "A_b"}}, "cannot be a name"),
    ({**job("a"), "spec": {}}, "needs a pod template"),
    (
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ClusterQueue",
            "metadata": {"name": "x"},
            "spec": {"queueingStrategy": "LIFO"},
        },
        "spec.queueingStrategy",
    ),
]


@pytest.mark.parametrize(("bad", "said"), BAD)
def test_nothing_is_sent_when_one_object_is_bad(
    fedq: Fedq, kube: FakeKube, bad: object, said: str
) -> None:
    """The good Job before it is not sent either; the line is named."""
    result = fedq("submit", "-", input=text(job("good"), bad))

    assert result.exit_code == 2
    assert said in result.stderr
    assert "standard input:2" in result.stderr
    assert "Traceback" not in result.output
    assert kube.log == []


def test_a_bad_quantity_and_a_bad_policy_are_told_together(fedq: Fedq) -> None:
    """All problems at once."""
    bad = job("a")
    pod = bad["spec"]["template"]["spec"]
    pod["restartPolicy"] = "Always"
    pod["containers"][0]["resources"]["requests"]["cpu"] = "two"
    result = fedq("submit", "-", input=text(bad))

    assert "2 problems" in result.stderr
    assert "'two' is not a quantity" in result.stderr


def test_missing_queue_label_is_a_warning_with_the_fix(fedq: Fedq) -> None:
    """The Job is sent: people may want it."""
    result = fedq("submit", "-", input=text(job("a", queue="")))

    assert result.exit_code == 0
    assert "add the label kueue.x-k8s.io/queue-name" in result.stderr


def test_unknown_local_queue_is_a_warning(fedq: Fedq) -> None:
    """It can be created later."""
    result = fedq("submit", "-", input=text(job("a", queue="nowhere")))

    assert result.exit_code == 0
    assert "no LocalQueue default/nowhere" in result.stderr
    assert "(in default there is none)" in result.stderr


def test_misspelled_field_is_a_warning(fedq: Fedq) -> None:
    """A field that no model knows would be dropped by the API server."""
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "q"},
        "spec": {"clusterQueue": "cq", "stopPolicie": "Hold"},
    }
    result = fedq("submit", "-", input=text(queue))

    assert "spec.stopPolicie: there is no such field; did you mean stopPolicy?" in result.stderr


def test_old_version_is_accepted(fedq: Fedq, kube: FakeKube) -> None:
    """v1beta1 in its own spelling is stored in the new one."""
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ClusterQueue",
        "metadata": {"name": "old"},
        "spec": {"cohort": "co"},
    }
    result = fedq("submit", "-", input=text(queue))

    assert result.stdout == "clusterqueue old created\n"
    assert kube.get(r.CLUSTER_QUEUES, "old")["spec"]["cohortName"] == "co"


def test_namespace_option(fedq: Fedq, kube: FakeKube) -> None:
    """It fills in what the file leaves open, and must not contradict it."""
    free = job("a")
    del free["metadata"]["namespace"]
    good = fedq("submit", "-", "-n", "team", input=text(free))
    bad = fedq("submit", "-", "-n", "team", input=text(job("b")))

    assert good.stdout == "job team/a created\n"
    assert bad.exit_code == 2
    assert "it says namespace default, but -n says team" in bad.stderr


def test_file_and_list_and_duplicates(fedq: Fedq, tmp_path: Path) -> None:
    """A kubectl List is its items; two objects of one name are a mistake."""
    file = tmp_path / "jobs.json"
    listed = {"apiVersion": "v1", "kind": "List", "items": [job("a"), job("b")]}
    file.write_text(json.dumps(listed))
    good = fedq("submit", str(file))
    twice = fedq("submit", "-", input=text(job("c"), job("c")))
    nothing = fedq("submit", str(tmp_path / "missing.yaml"))

    assert good.stdout.count("created") == 2
    assert twice.exit_code == 2
    assert "is in standard input:" in twice.stderr
    assert nothing.exit_code == 2


def test_wait_ends_with_the_jobs(fedq: Fedq, kube: FakeKube) -> None:
    """0 when all are Complete, 1 when one failed; a line per change."""
    give_queue(kube)
    fedq("submit", "-", input=text(job("a"), job("b")))
    kube.merge(r.JOBS, "a", {"status": DONE}, "default", status=True)
    kube.merge(r.JOBS, "b", {"status": DONE}, "default", status=True)
    good = fedq("submit", "-", "--wait", input=text(job("a"), job("b")))
    fedq("submit", "-", input=text(job("c")))
    failed = ended("Failed", "too many retries")
    kube.merge(r.JOBS, "c", {"status": failed}, "default", status=True)
    bad = fedq("submit", "-", "--wait", input=text(job("a"), job("c")))

    assert good.exit_code == 0
    assert "2 of 2 Jobs Complete" in good.stdout
    assert bad.exit_code == 1
    assert "default/c Failed: too many retries" in bad.stdout


def test_wait_gives_up(fedq: Fedq, kube: FakeKube) -> None:
    """After --timeout, saying that the Job goes on and where to ask."""
    give_queue(kube)
    result = fedq("submit", "-", "--wait", "--timeout", "0.1", input=text(job("a")))

    assert result.exit_code == 1
    assert "fedq why a -n default" in result.stderr


def test_missing_namespace(fedq: Fedq, kube: FakeKube) -> None:
    """The API server's 404 becomes the command that helps."""
    kube.fail(lambda request: request.method == "POST", status=404)
    result = fedq("submit", "-", input=text(job("a")))

    assert result.exit_code == 1
    assert "Traceback" not in result.output
