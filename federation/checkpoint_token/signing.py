"""AWS Signature Version 4 of a request without query, for S3 and what speaks like it. Pure."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who asks. `session` is the token of temporary ones."""

    key: str
    secret: str
    region: str = "us-east-1"
    session: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """What is signed. `path` is not quoted; `payload` is the SHA-256 of the body, in hex."""

    method: str
    host: str
    path: str
    payload: str
    headers: Mapping[str, str]


def quoted(path: str) -> str:
    """A path as it is sent and signed."""
    return quote(path, safe="/-_.~")


def signed(request: Request, credentials: Credentials, moment: str) -> dict[str, str]:
    """The headers to send, `Authorization` among them. `moment` is such as 20130524T000000Z."""
    headers = {
        **{name.lower(): value.strip() for name, value in request.headers.items()},
        "host": request.host,
        "x-amz-content-sha256": request.payload,
        "x-amz-date": moment,
    }
    if credentials.session:
        headers["x-amz-security-token"] = credentials.session
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    canonical = "\n".join([request.method, quoted(request.path), "", lines, names, request.payload])
    scope = f"{moment[:8]}/{credentials.region}/s3/aws4_request"
    text = "\n".join([ALGORITHM, moment, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{credentials.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    authorization = (
        f"{ALGORITHM} Credential={credentials.key}/{scope},"
        f"SignedHeaders={names},Signature={signature}"
    )
    return {**headers, "authorization": authorization}
