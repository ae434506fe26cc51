"""Credentials from a plugin (client.authentication.k8s.io), as kubectl gets them.

The plugin is the operator's: the Configuration names it, never an object of the API. It gets the
cluster's address in KUBERNETES_EXEC_INFO if it wants to know, no terminal, and 60 seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
from datetime import datetime
from typing import Any

from federation.api.cluster_profile import Access, Credential
from federation.api.configuration_multikueue import ExecConfig

TIMEOUT_S = 60.0
MOST_BYTES = 1 << 20


class PluginError(Exception):
    """The plugin gave no credential; the message says what happened and what to do."""


async def run_plugin(config: ExecConfig, access: Access) -> Credential:
    """Ask for a credential. Raises PluginError."""
    spec: dict[str, Any] = {"interactive": False}
    if config.provide_cluster_info:
        spec["cluster"] = access.info()
    info = {"apiVersion": config.api_version, "kind": "ExecCredential", "spec": spec}
    environment = {
        **os.environ,
        **{variable.name: variable.value for variable in config.env},
        "KUBERNETES_EXEC_INFO": json.dumps(info),
    }
    return _credential(await _output(config, environment), config)


async def _output(config: ExecConfig, environment: dict[str, str]) -> bytes:
    name = config.command
    try:
        process = await asyncio.create_subprocess_exec(
            name, *config.args, env=environment, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
    except OSError as error:
        hint = config.install_hint or "install it in the manager's image, or correct its name"
        raise PluginError(f"the plugin {name} cannot be started ({error.strerror}): {hint}") from (
            error
        )
    try:
        async with asyncio.timeout(TIMEOUT_S):
            out, err = await process.communicate()
    except TimeoutError:
        raise PluginError(
            f"the plugin {name} did not end within {TIMEOUT_S:.0f} s: see what it waits for"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        said = err.decode(errors="replace").strip()[-500:]
        raise PluginError(f"the plugin {name} ended with code {process.returncode}: {said}")
    return out[:MOST_BYTES]


def _credential(out: bytes, config: ExecConfig) -> Credential:
    name = config.command
    try:
        body = json.loads(out)
        status = body.get("status") or {}
        kind, version = body.get("kind"), body.get("apiVersion")
        found = Credential(
            str(status.get("token") or ""),
            str(status.get("clientCertificateData") or ""),
            str(status.get("clientKeyData") or ""),
            _moment(status.get("expirationTimestamp")),
        )
    except (ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise PluginError(f"the plugin {name} printed no ExecCredential: {error}") from error
    if kind != "ExecCredential" or version != config.api_version:
        text = f"{version} {kind} instead of {config.api_version} ExecCredential"
        raise PluginError(f"the plugin {name} printed {text}: correct apiVersion in execConfig")
    if not found.token and not (found.client_cert_pem and found.client_key_pem):
        text = "neither a token nor a client certificate with its key"
        raise PluginError(f"the plugin {name} returned {text}: see its documentation")
    return found


def _moment(text: object) -> float | None:
    return datetime.fromisoformat(str(text)).timestamp() if text else None
