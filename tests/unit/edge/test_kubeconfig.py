"""Kubeconfigs: those of the operator, and those that came in a Secret."""

from __future__ import annotations

import base64
import pickle
from pathlib import Path

import pytest
import yaml

from federation.edge.errors import ConfigError
from federation.edge.kubeconfig import Endpoint, load_endpoint, parse_untrusted, ssl_context
from federation.edge.resources import Json

PEM = "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n"
PEM64 = base64.b64encode(PEM.encode()).decode()


def good() -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [
            {
                "name": "k",
                "cluster": {"server": "https://k:6443/", "certificate-authority-data": PEM64},
            }
        ],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    }


def parse(config: object) -> Endpoint:
    return parse_untrusted(yaml.safe_dump(config).encode(), "worker-1")


def test_a_good_one_becomes_an_endpoint() -> None:
    """PEMs are decoded, the server loses its slash, secrets do not print."""
    endpoint = parse(good())

    assert endpoint == Endpoint(
        server="https://k:6443", ca_pem=PEM, token="secret", name="worker-1"
    )
    assert "secret" not in repr(endpoint)


@pytest.mark.parametrize(
    ("where", "key", "value"),
    [
        ("cluster", "insecure-skip-tls-verify", True),
        ("cluster", "certificate-authority", "/etc/ca.pem"),
        ("cluster", "proxy-url", "http://proxy"),
        ("cluster", "server", "http://k:6443"),
        ("user", "tokenFile", "/etc/passwd"),
        ("user", "client-certificate", "/etc/c.pem"),
        ("user", "client-key", "/etc/k.pem"),
        ("user", "username", "me"),
        ("user", "password", "x"),
        ("user", "exec", {"command": "rm"}),
        ("user", "auth-provider", {"name": "gcp"}),
        ("user", "as", "admin"),
    ],
)
def test_insecure_settings_are_refused(where: str, key: str, value: object) -> None:
    """With the name of the setting, of the cluster, and what to do."""
    config = good()
    config[f"{where}s"][0][where][key] = value

    with pytest.raises(ConfigError, match=r"The kubeconfig of worker-1 .*[;:] .*\.$") as caught:
        parse(config)
    assert caught.value.reason == "InsecureKubeConfig"
    assert caught.value.cluster == "worker-1"
    if key != "server":
        assert key in str(caught.value)


def test_entries_that_are_not_current_are_checked_too() -> None:
    """A switch of context must not bring in what would have been refused."""
    config = good()
    config["users"].append({"name": "other", "user": {"exec": {"command": "rm"}}})

    with pytest.raises(ConfigError) as caught:
        parse(config)
    assert caught.value.reason == "InsecureKubeConfig"


@pytest.mark.parametrize(
    "server",
    ["", None, "k:6443", "ftp://k", "https://", "https://k:x", "://", "https://a..b", "https://k/\x7f",
     "https://" + "a" * 70, "https://a b", "https://k#f", 6443],
)  # fmt: skip
def test_the_server_must_be_a_url(server: object) -> None:
    """Empty, without scheme, without host, with a port that is none, with a host that cannot be."""
    config = good()
    config["clusters"][0]["cluster"]["server"] = server

    with pytest.raises(ConfigError, match="server") as caught:
        parse(config)
    assert caught.value.reason == "BadKubeConfig"


@pytest.mark.parametrize(
    "server",
    ["https://u:hidden@k", "https://:hidden@k", "https://u:hidden@k:x", "ftp://k?t=hidden"],
)
def test_a_server_that_is_refused_shows_no_password(server: str) -> None:
    """The sentence stands in the status of the MultiKueueCluster, for more eyes than the Secret."""
    config = good()
    config["clusters"][0]["cluster"]["server"] = server

    with pytest.raises(ConfigError) as caught:
        parse(config)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    "token", ["hidden\n", "hid den", "hidd\u00e9n", "hid\0den", 12345, ["hidden"]]
)
def test_a_token_must_fit_a_header(token: object) -> None:
    """What would end the worker at its first request is told at once, without the token."""
    config = good()
    config["users"][0]["user"]["token"] = token

    with pytest.raises(ConfigError, match="has a token") as caught:
        parse(config)
    assert caught.value.reason == "BadKubeConfig"
    assert "hid" not in str(caught.value)
    assert "12345" not in str(caught.value)


@pytest.mark.parametrize("name", ["a..b", "a" * 70, "a b", 5])
def test_the_name_for_tls_must_be_one(name: object) -> None:
    """It goes into the handshake."""
    config = good()
    config["clusters"][0]["cluster"]["tls-server-name"] = name

    with pytest.raises(ConfigError, match="tls-server-name"):
        parse(config)


def test_a_message_is_no_longer_than_a_status_can_hold() -> None:
    """Whatever stands in the kubeconfig."""
    config = good()
    config["contexts"][0]["name"] = config["current-context"] = "c" * 100_000
    config["users"] = []

    with pytest.raises(ConfigError, match="is missing") as caught:
        parse(config)
    assert len(str(caught.value)) < 1000


BROKEN: dict[str, bytes] = {
    "empty": b"",
    "text": b"hello",
    "list": b"- a",
    "not YAML": b"a: [",
    "not text": b"\xff\xfe\x00",
    "object tag": b"!!python/object/apply:os.system ['true']",
    "a tag of a wrong text": b"a: !!bool x",
    "a tag of no text": b"a: !!int ''",
    "a tag of no time": b"a: !!timestamp x",
    "aliases": b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]",
    "context no text": yaml.safe_dump({**good(), "current-context": ["c"]}).encode(),
    "huge": b"#" * (1 << 20) + b"\n",
    "no context": yaml.safe_dump({**good(), "current-context": ""}).encode(),
    "unknown context": yaml.safe_dump({**good(), "current-context": "x"}).encode(),
    "context without cluster": yaml.safe_dump({**good(), "clusters": []}).encode(),
    "context without user": yaml.safe_dump({**good(), "users": None}).encode(),
    "clusters no list": yaml.safe_dump({**good(), "clusters": {"a": 1}}).encode(),
    "cluster no mapping": yaml.safe_dump({**good(), "clusters": [1]}).encode(),
    "name no text": yaml.safe_dump({**good(), "users": [{"name": 1, "user": {}}]}).encode(),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_broken_ones_are_refused(data: bytes) -> None:
    """As BadKubeConfig, with a sentence."""
    with pytest.raises(ConfigError, match=r"The kubeconfig of worker-1 .*\.$") as caught:
        parse_untrusted(data, "worker-1")
    assert caught.value.reason == "BadKubeConfig"


@pytest.mark.parametrize("data", ["no base64!", base64.b64encode(b"no pem").decode(), 5])
def test_pems_are_checked(data: object) -> None:
    """Base64 of a PEM text, nothing else."""
    config = good()
    config["clusters"][0]["cluster"]["certificate-authority-data"] = data

    with pytest.raises(ConfigError, match="certificate-authority-data"):
        parse(config)


def test_certificates_that_cannot_be_read_are_a_config_error() -> None:
    """Found when the client is made, not at the first request."""
    with pytest.raises(ConfigError, match="cannot be read"):
        ssl_context(Endpoint("https://k", ca_pem=PEM, name="worker-1"))


def test_an_endpoint_crosses_processes_without_its_loader() -> None:
    """What renews the token is a function of this process."""
    endpoint = Endpoint("https://k", token="t", refresh=lambda: "new")

    assert pickle.loads(pickle.dumps(endpoint)).refresh is None
    assert pickle.loads(pickle.dumps(endpoint)) == endpoint


def test_the_operators_own_file_is_trusted(tmp_path: Path) -> None:
    """Through the official loader: file paths, contexts and exec plugins work."""
    (tmp_path / "ca.pem").write_text(PEM)
    config = good()
    config["clusters"][0]["cluster"] = {
        "server": "https://k:6443",
        "certificate-authority": "ca.pem",
    }
    credential = (
        '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
        ' "status": {"token": "from-plugin"}}'
    )
    command = {"apiVersion": "client.authentication.k8s.io/v1", "command": "echo"}
    plugin = {"name": "p", "user": {"exec": {**command, "args": [credential]}}}
    config["users"].append(plugin)
    config["contexts"].append({"name": "d", "context": {"cluster": "k", "user": "p"}})
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(config))

    endpoint = load_endpoint(file)
    assert (endpoint.server, endpoint.ca_pem, endpoint.token) == ("https://k:6443", PEM, "secret")
    other = load_endpoint(file, "d")
    assert other.token == "from-plugin"
    assert other.refresh is not None
    assert other.refresh() == "from-plugin"


def test_problems_with_the_own_file_are_config_errors(tmp_path: Path) -> None:
    """Missing, malformed, without certificate checks."""
    with pytest.raises(ConfigError) as caught:
        load_endpoint(tmp_path / "none")
    assert caught.value.reason == "BadKubeConfig"
    config = good()
    config["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(config))
    with pytest.raises(ConfigError) as caught:
        load_endpoint(file)
    assert caught.value.reason == "InsecureKubeConfig"
