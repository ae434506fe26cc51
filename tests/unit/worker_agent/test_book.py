"""What the agent knows of Jobs, told by the watch."""

from __future__ import annotations

import pytest

from federation.api.names import Mirror
from federation.edge.resources import JOBS, PODS
from federation.jobs.containers import NO_DEFAULTS
from federation.jobs.kinds.pod_groups import bundle
from federation.jobs.kinds.registry import KINDS
from tests.fakes.kube_api import FakeKube
from tests.unit.worker_agent.support import job, mirrored
from tests.unit.worker_agent.test_latecomers import pod
from worker_agent.book import Book, RestoredError


def test_versions_that_go_back_end_the_agent() -> None:
    """The store was restored from a backup: Jobs that are there again would be taken for gone."""
    book = Book(lambda uid: None, lambda namespace: NO_DEFAULTS)
    book.on_list([], "100")
    book.on_list([], "100")
    with pytest.raises(RestoredError, match="restored from a backup"):
        book.on_list([job("j")], "90")


def test_a_local_job_with_the_marks_of_a_copy_supersedes_none() -> None:
    """Where no policy keeps tenants from writing them, they keep nobody's copy from starting."""
    fake = FakeKube(namespaces=("team",))
    copy = fake.create(JOBS, mirrored("j", attempt=1))
    marks = {Mirror.LOCAL_UID.value: "uid-j", Mirror.ATTEMPT.value: "99"}
    forged = fake.create(JOBS, job("k", **marks))
    book = Book(lambda uid: None, lambda namespace: NO_DEFAULTS)
    book.on_list([copy, forged], forged["metadata"]["resourceVersion"])
    assert not book.superseded(book.jobs[copy["metadata"]["uid"]])


def test_which_pods_a_group_is_the_watch_tells() -> None:
    """The answer to a write has the same version, and names the pods that were written: one that
    has failed meanwhile, and not the one in its place. After that it says nothing new.
    """
    book = Book(lambda uid: None, lambda namespace: NO_DEFAULTS)
    pods = KINDS["Pod.v1"].name
    fake = FakeKube(namespaces=("team",))
    a, b, c = (fake.create(PODS, pod(name, copied=False)) for name in "abc")
    answer, news = bundle([a, b], head=a), bundle([a, c], head=a)
    news["metadata"]["resourceVersion"] = answer["metadata"]["resourceVersion"]
    book.see(answer)
    book.changed("MODIFIED", news, pods)
    book.see(answer)
    assert book.bodies[a["metadata"]["uid"]] == news
