"""From what people write to a store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from federation.checkpoint_token.directory import DirectoryStore
from federation.checkpoint_token.errors import StoreError
from federation.checkpoint_token.objects import ObjectStore
from federation.checkpoint_token.signing import Credentials, quoted
from federation.checkpoint_token.token import Store


def open_store(where: str, job: str, attempt: int, env: Mapping[str, str] = os.environ) -> Store:
    """The store of a job: a folder, `s3://BUCKET/PREFIX`, or the http(s) address of a prefix.

    Of the environment the usual variables are used: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
    AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL. Without keys requests
    are not signed. Raises StoreError.
    """
    if not job or "/" in job or job.startswith("."):
        raise StoreError(f"{job!r} is no UID of a job")
    scheme = urlsplit(where).scheme
    if scheme in ("http", "https"):
        return ObjectStore(f"{where.rstrip('/')}/{job}", attempt, _credentials(env))
    if scheme == "s3":
        return ObjectStore(f"{_endpoint(where, env)}/{job}", attempt, _credentials(env))
    if "://" in where:
        raise StoreError(f"{where}: a store is a folder, or begins with s3://, http:// or https://")
    return DirectoryStore(Path(where) / job, attempt)


def _endpoint(where: str, env: Mapping[str, str]) -> str:
    parts = urlsplit(where)
    own = env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL")
    base = own or f"https://s3.{_region(env)}.amazonaws.com"
    return f"{base.rstrip('/')}/{parts.netloc}{quoted(parts.path)}".rstrip("/")


def _credentials(env: Mapping[str, str]) -> Credentials | None:
    key, secret = env.get("AWS_ACCESS_KEY_ID"), env.get("AWS_SECRET_ACCESS_KEY")
    if not key or not secret:
        return None
    return Credentials(key, secret, _region(env), env.get("AWS_SESSION_TOKEN", ""))


def _region(env: Mapping[str, str]) -> str:
    return env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or "us-east-1"
