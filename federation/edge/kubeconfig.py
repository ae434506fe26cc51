"""From a kubeconfig to an `Endpoint`: where an API server is and how to prove who we are.

Two doors. `load_endpoint` trusts the operator's own file and lets the official client's loader do
contexts, exec plugins and in-cluster tokens. `parse_untrusted` reads what somebody put into a
Secret: it opens no file, starts no program and accepts no connection that could be listened to,
so it is plain YAML parsing with a list of refusals (those of Kueue's MultiKueue).
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from federation.api.names import ActiveReason
from federation.edge.errors import ConfigError

MAX_BYTES = 1 << 20
"""What a Secret can hold."""


@dataclass(frozen=True)
class Endpoint:
    """An API server. PEM texts are inline, never paths, so that it can cross machines."""

    server: str
    ca_pem: str = ""
    client_cert_pem: str = ""
    client_key_pem: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    name: str = ""
    tls_server_name: str = ""
    refresh: Callable[[], str] | None = field(default=None, compare=False, repr=False)
    """Returns the token valid now (may block: it can read a file or start the exec plugin).

    Only set by `load_endpoint`; called when the server answers 401.
    """

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "refresh": None}  # a callable of this process stays here


def load_endpoint(path: Path | None = None, context: str | None = None) -> Endpoint:
    """Load a kubeconfig that its owner gave us: `path`, else $KUBECONFIG, else in-cluster.

    Raises ConfigError(BadKubeConfig) when there is none or it cannot be used, and
    ConfigError(InsecureKubeConfig) when it switches certificate checks off.
    """
    # A second of CPU and 45 MB: paid by those who come through this door only.
    from kubernetes import client, config

    loaded = client.Configuration()
    in_cluster = path is None and context is None and _in_cluster()
    file = str(path or os.environ.get("KUBECONFIG") or "~/.kube/config")
    source = "the service account of this pod" if in_cluster else file
    try:
        if in_cluster:
            config.load_incluster_config(  # type: ignore[no-untyped-call]  # it has no types
                client_configuration=loaded
            )
        else:
            config.load_kube_config(  # type: ignore[no-untyped-call]  # it has no types
                config_file=str(path) if path else None,
                context=context,
                client_configuration=loaded,
                persist_config=False,
            )
        return _from_official(loaded, context or (path.stem if path else "default"))
    except ConfigError:
        raise
    except Exception as error:  # ConfigException, TypeError, KeyError and what plugins raise
        raise _bad(source, f"cannot be loaded: {str(error).rstrip('.')}") from error


def parse_untrusted(data: bytes, name: str) -> Endpoint:
    """Read a kubeconfig from a Secret. `name` is the cluster's, for messages and the Endpoint.

    Every entry is checked, not only the current context's, so that a later switch of context
    cannot bring in what would have been refused. Raises ConfigError.
    """
    config = _parse(data, name)
    clusters, users, contexts = (
        _entries(config, plural, key, name)
        for plural, key in (("clusters", "cluster"), ("users", "user"), ("contexts", "context"))
    )
    for cluster in clusters.values():
        _refuse(cluster, _CLUSTER_REFUSALS, name)
    for user in users.values():
        _refuse(user, _USER_REFUSALS, name)
    chosen = _text(config, "current-context", name)
    if not chosen or chosen not in contexts:
        raise _bad(name, "has no usable current-context; set it to one of its contexts")
    context = contexts[chosen]
    try:
        cluster, user = clusters[context["cluster"]], users[context["user"]]
    except (KeyError, TypeError):
        raise _bad(
            name, f"context {chosen[:_SHOWN]!r} names a cluster or user that is missing; add it"
        ) from None
    return Endpoint(
        server=_server(_text(cluster, "server", name), name),
        ca_pem=_pem(cluster, "certificate-authority-data", name),
        client_cert_pem=_pem(user, "client-certificate-data", name),
        client_key_pem=_pem(user, "client-key-data", name),
        token=_token(user, name),
        tls_server_name=_tls_name(cluster, name),
        name=name,
    )


_SHOWN = 256
"""Characters of what stands there that a message repeats: it goes into a status."""

_CLUSTER_REFUSALS = {
    "insecure-skip-tls-verify": "put the CA into certificate-authority-data instead",
    "certificate-authority": "put the file's content into certificate-authority-data",
    "proxy-url": "give a server address that can be reached directly",
}
_USER_REFUSALS = {
    "tokenFile": "put the token itself into token",
    "client-certificate": "put the file's content into client-certificate-data",
    "client-key": "put the file's content into client-key-data",
    "username": "use a token or a client certificate",
    "password": "use a token or a client certificate",
    "exec": "use a service account token or a client certificate",
    "auth-provider": "use a service account token or a client certificate",
    "as": "give the user its own rights instead of impersonation",
}


def _refuse(entry: dict[str, Any], refusals: dict[str, str], name: str) -> None:
    for key, remedy in refusals.items():
        if entry.get(key):
            raise ConfigError(
                f"The kubeconfig of {name} uses {key}, which is not accepted; {remedy}.",
                reason=ActiveReason.INSECURE_KUBE_CONFIG.value,
                cluster=name,
            )


def _parse(data: bytes, name: str) -> dict[str, Any]:
    if len(data) > MAX_BYTES:
        raise _bad(name, "is larger than 1 MiB; keep only the cluster and user that are needed")
    try:
        config = yaml.load(data, _Loader)
    except Exception as error:  # a tag with the wrong text raises whatever its constructor does
        where = getattr(error, "problem_mark", None)
        line = f" at line {where.line + 1}" if where else ""
        raise _bad(name, f"is not valid YAML{line}; write it again with kubectl") from error
    if not isinstance(config, dict):
        raise _bad(name, "is empty or not a mapping; write it again with kubectl")
    return config


class _Loader(yaml.SafeLoader):
    """Without aliases: a few lines of them are a text of gigabytes when it is looked at."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "an alias", None)
        return super().compose_node(parent, index)


def _entries(config: dict[str, Any], plural: str, key: str, name: str) -> dict[str, dict[str, Any]]:
    """Turn the list of `{name, <key>: {...}}` into a mapping by name."""
    found: dict[str, dict[str, Any]] = {}
    listed = config.get(plural) or []
    for entry in listed if isinstance(listed, list) else [None]:
        entry_name = entry.get("name") if isinstance(entry, dict) else None
        value = (entry.get(key) or {}) if isinstance(entry, dict) else None
        if not isinstance(value, dict) or not isinstance(entry_name, str):
            raise _bad(name, f"has a malformed entry in {plural}; write it again with kubectl")
        found[entry_name] = value
    return found


def _text(entry: dict[str, Any], key: str, name: str) -> str:
    value = entry.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _bad(name, f"has a {key} that is no text; put it in quotes")
    return value


def _token(user: dict[str, Any], name: str) -> str:
    """As a header can carry it; what is wrong with it is said without a part of it."""
    token = _text(user, "token", name)
    if not all("!" <= character <= "~" for character in token):
        raise _bad(
            name, "has a token with a space, a line end or a character that is not ASCII in it;"
            " write it again without"
        )  # fmt: skip
    return token


def _tls_name(cluster: dict[str, Any], name: str) -> str:
    found = _text(cluster, "tls-server-name", name)
    if found and not _is_host(found):
        raise _bad(name, f"has no valid tls-server-name ({found[:_SHOWN]!r}); set it to a DNS name")
    return found


def _is_host(text: str) -> bool:
    """Whether a connection can be asked for to it, as far as its spelling goes."""
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return text.isprintable() and not any(character.isspace() for character in text)


def _server(text: str, name: str) -> str:
    try:
        url = urlsplit(text)
        port = url.port is None or url.port > 0
    except ValueError:
        raise _bad(name, "has a server that is no URL; set it to https://HOST:PORT") from None
    if "@" in url.netloc:  # not shown: what is before it may be a password
        raise _bad(name, "has credentials in its server; set it to https://HOST:PORT")
    plain = text.isascii() and text.isprintable() and not url.query and not url.fragment
    valid = port and plain and url.scheme in ("http", "https")
    if not (valid and url.hostname and _is_host(url.hostname)):
        shown = url._replace(query="", fragment="").geturl()[:_SHOWN]
        raise _bad(name, f"has no valid server ({shown!r}); set it to https://HOST:PORT")
    if url.scheme == "http":
        raise ConfigError(
            f"The kubeconfig of {name} sends credentials in the clear to {text[:_SHOWN]};"
            " use https.",
            reason=ActiveReason.INSECURE_KUBE_CONFIG.value,
            cluster=name,
        )
    return text.rstrip("/")


def _pem(entry: dict[str, Any], key: str, name: str) -> str:
    value = _text(entry, key, name)
    if not value:
        return ""
    try:
        text = base64.b64decode(value, validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        text = ""
    if "-----BEGIN " not in text:
        raise _bad(name, f"has a {key} that is not base64 of a PEM text; encode it again")
    return text


def _bad(source: str, problem: str) -> ConfigError:
    return ConfigError(
        f"The kubeconfig of {source} {problem}.",
        reason=ActiveReason.BAD_KUBE_CONFIG.value,
        cluster=source,
    )


def _in_cluster() -> bool:
    return "KUBECONFIG" not in os.environ and "KUBERNETES_SERVICE_HOST" in os.environ


def _from_official(loaded: Any, name: str) -> Endpoint:
    """Take over what the official loader found; it keeps PEMs in files and tokens with a prefix."""
    if not loaded.verify_ssl:
        raise ConfigError(
            f"The kubeconfig of {name} uses insecure-skip-tls-verify, which is not accepted; "
            "put the CA into certificate-authority-data instead.",
            reason=ActiveReason.INSECURE_KUBE_CONFIG.value,
            cluster=name,
        )

    def read(file: str | None) -> str:
        return Path(file).read_text(encoding="ascii") if file else ""

    def token() -> str:
        bearer = str(loaded.get_api_key_with_prefix("BearerToken", "authorization") or "")
        return bearer.partition(" ")[2].strip()

    current = token()
    return Endpoint(
        server=str(loaded.host).rstrip("/"),
        ca_pem=read(loaded.ssl_ca_cert),
        client_cert_pem=read(loaded.cert_file),
        client_key_pem=read(loaded.key_file),
        token=current,
        name=name,
        tls_server_name=str(loaded.tls_server_name or ""),
        refresh=token if current else None,
    )


def ssl_context(endpoint: Endpoint) -> ssl.SSLContext:
    """Trust the endpoint's CA only (the system's when it has none). Raises ConfigError."""
    try:
        context = ssl.create_default_context(cadata=endpoint.ca_pem or None)
        if endpoint.client_cert_pem:
            _load_client_cert(context, endpoint)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"The certificates of cluster {endpoint.name} cannot be read: {error}; "
            "write the kubeconfig again.",
            reason=ActiveReason.BAD_KUBE_CONFIG.value,
            cluster=endpoint.name,
        ) from error
    return context


def _load_client_cert(context: ssl.SSLContext, endpoint: Endpoint) -> None:
    """Load the client certificate; `ssl` takes files only, so one exists for a moment (0600)."""
    handle, path = tempfile.mkstemp(prefix="fedq-", suffix=".pem")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(f"{endpoint.client_cert_pem.strip()}\n{endpoint.client_key_pem.strip()}\n")
        context.load_cert_chain(path)
    finally:
        os.unlink(path)
