"""Roles of the programs for kinds of jobs: what they do, and nothing beside it."""

from __future__ import annotations

import pytest

from federation.api.policies.kinds import roles

READ = {"get", "list", "watch"}
OBJECTS = {
    "fedq-manager": {*READ, "patch", "delete"},
    "fedq-mirror": {*READ, "create", "patch", "delete"},
    "fedq-agent": {*READ, "patch", "delete"},
}


@pytest.mark.parametrize("account", OBJECTS)
def test_an_account_has_what_its_program_asks_for(account: str) -> None:
    """Objects of kinds and their status are patched, never replaced; the mirror leaves it alone."""
    role, binding = roles(account)
    for rule in role["rules"]:
        (part,) = {resource.partition("/")[2] for resource in rule["resources"]}
        wanted = {"": OBJECTS[account], "status": {"patch"}, "finalizers": {"update"}}[part]
        assert set(rule["verbs"]) == wanted
        assert account != "fedq-mirror" or not part
        assert "*" not in [*rule["apiGroups"], *rule["resources"]]
    assert [subject["name"] for subject in binding["subjects"]] == [account]
