"""Real controllers of other kinds: what is taken of their installations, and how it is changed."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from fedq.cli import app
from fedq.rig import controllers, modules, tools
from fedq.rig.build import GOTOOLS
from fedq.rig.controllers import is_built, reached
from fedq.rig.errors import RigError
from fedq.rig.operators import CONTROLLERS, JOBSET, KUEUES, Controller, Seat

SEAT = Seat("127.0.0.1", 8081, 9443, Path("/nowhere"))
BY_ADDRESS = controllers._by_address(SEAT, b"PEM")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no program of these on PATH."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path / "cache" / "fedq" / "bin"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module as Go keeps it: nothing in it can be written."""
    source = tmp_path / "module"
    (source / "config" / "default").mkdir(parents=True)
    (source / "manifests").mkdir()
    (source / "config" / "default" / "kustomization.yaml").write_text("resources: []\n")
    for path in (*source.rglob("*"), source):
        path.chmod(path.stat().st_mode & 0o555)
    monkeypatch.setattr(modules, "_source", lambda group, name: source)
    return source


def built(cache: Path, controller: Controller = JOBSET) -> Path:
    program = cache / controller.group.folder / controller.name
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


def test_a_webhook_is_reached_by_address() -> None:
    """Which objects it is asked about stays as its installation has it."""
    service = {"name": "jobset-webhook-service", "namespace": "jobset-system", "path": "/mutate"}
    rules = [{"operations": ["CREATE"], "resources": ["pods"]}]
    hook = {"name": "mpod.kb.io", "rules": rules, "clientConfig": {"service": service}}
    given = {"kind": "MutatingWebhookConfiguration", "webhooks": [hook]}

    (found,) = reached(given, BY_ADDRESS)["webhooks"]

    trusted = base64.b64encode(b"PEM").decode()
    assert found["clientConfig"] == {"url": "https://127.0.0.1:9443/mutate", "caBundle": trusted}
    assert found["rules"] == rules
    assert hook["clientConfig"] == {"service": service}


def test_a_conversion_is_reached_by_address() -> None:
    """What it converts stays as its installation has it; a CRD without one is left alone."""
    service = {"name": "kueue-webhook-service", "namespace": "kueue-system", "path": "/convert"}
    webhook = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}
    spec = {"group": "kueue.x-k8s.io", "conversion": {"strategy": "Webhook", "webhook": webhook}}
    given = {"kind": "CustomResourceDefinition", "spec": spec}
    plain = {"kind": "CustomResourceDefinition", "spec": {"group": "kueue.x-k8s.io"}}

    found = reached(given, BY_ADDRESS)["spec"]

    trusted = base64.b64encode(b"PEM").decode()
    client = {"url": "https://127.0.0.1:9443/convert", "caBundle": trusted}
    assert found["conversion"]["webhook"] == {
        "clientConfig": client,
        "conversionReviewVersions": ["v1"],
    }
    assert found["group"] == "kueue.x-k8s.io"
    assert reached(plain, BY_ADDRESS) == plain


def test_a_webhook_with_a_certificate_of_its_own_is_reached_by_its_service() -> None:
    """That leads to this machine, at the port that the program has."""
    service = {"name": "kueue-webhook-service", "namespace": "kueue-system"}
    hook = {"name": "vjob.kb.io", "clientConfig": {"service": {**service, "path": "/v"}}}
    given = {"kind": "ValidatingWebhookConfiguration", "webhooks": [hook]}

    (found,) = reached(given, controllers._by_service(SEAT))["webhooks"]
    leads = controllers._leading_here({"metadata": {**service, "labels": {"a": "b"}}})

    assert found["clientConfig"] == {"service": {**service, "path": "/v", "port": 9443}}
    assert (leads["metadata"], leads["spec"]["externalName"]) == (service, "localhost")


def test_it_acts_with_the_rights_of_its_account(tmp_path: Path) -> None:
    """Not with those of the admin whose certificate it has."""
    admin = tmp_path / "admin"
    admin.write_text(yaml.safe_dump({"users": [{"name": "admin", "user": {"token": "t"}}]}))

    (user,) = yaml.safe_load(controllers._as(JOBSET.user, admin))["users"]

    assert user["user"]["as"] == "system:serviceaccount:jobset-system:jobset-controller-manager"


def test_program_and_manifests_make_it_whole(cache: Path, module: Path) -> None:
    """A program without its manifests is not enough to run it."""
    assert not is_built(JOBSET)
    program = built(cache)
    assert not is_built(JOBSET)

    assert controllers.program(JOBSET) == program

    assert is_built(JOBSET)
    kept = program.parent / "config" / "default" / "kustomization.yaml"
    assert kept.read_text() == "resources: []\n"
    kept.write_text("")  # what Go keeps read-only can be removed from here
    assert controllers.program(JOBSET) == program
    assert kept.read_text() == ""


@pytest.mark.parametrize(("option", "wanted"), [("controllers", CONTROLLERS), ("kueue", KUEUES)])
def test_the_command_prints_where_they_are(
    cache: Path, module: Path, option: str, wanted: tuple[Controller, ...]
) -> None:
    """Only them: the control planes are another matter."""
    programs = {one.name: str(built(cache, one)) for one in wanted}

    found = CliRunner().invoke(app, ["rig", "binaries", f"--{option}"])

    assert found.exit_code == 0, found.output
    assert dict(line.split() for line in found.stdout.splitlines()) == programs


def test_a_module_that_cannot_be_had_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what Go says."""
    go = tmp_path / "go"
    go.write_text(
        '#!/bin/sh\n[ "$1" = env ] && echo go1.26.6 && exit\necho no such module >&2\nexit 1\n'
    )
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    with pytest.raises(RigError, match="the manifests of jobset cannot be had") as caught:
        modules.keep(JOBSET.group, JOBSET.module, "config", "config")

    assert caught.value.why == "no such module"


@pytest.mark.parametrize("controller", [*CONTROLLERS, *KUEUES], ids=lambda one: one.name)
def test_its_module_is_pinned_to_the_version(controller: Controller) -> None:
    """What is built is what the manifests are of, and the program is the tool of the module."""
    (package,) = controller.group.packages.values()
    folder = GOTOOLS / controller.group.gotool
    text = (folder / "go.mod").read_text()

    if package.startswith("fedq.io/"):  # an entry point of our own
        source = (folder / package.rpartition("/")[2] / "main.go").read_text()
        assert f'"{controller.module}/' in source
    else:
        assert f"tool {package}\n" in text
    assert re.search(rf"\t{re.escape(controller.module)} v{controller.group.version}\s", text)
    assert controller.group in tools.GROUPS


@pytest.mark.parametrize("controller", [*CONTROLLERS, *KUEUES], ids=lambda one: one.name)
def test_nothing_of_it_listens_beyond_its_address(controller: Controller, tmp_path: Path) -> None:
    """What has a webhook or a page for probes is told where; what has neither listens nowhere."""
    started = controller.start(Seat("127.9.8.7", 18081, 19443, tmp_path))

    files = [one for one in tmp_path.iterdir() if one.suffix == ".yaml"]
    told = " ".join([*started.arguments, *(one.read_text() for one in files)])
    assert controller.health == ("127.9.8.7" in told)
    assert controller.health == ("18081" in told)
