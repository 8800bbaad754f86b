"""Verifies webhooks and pushed jobs (Standard Webhooks 1.0)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import WebhookError

TOLERANCE_SECONDS = 300
KEY_BYTES = range(24, 65)


def verify(
    headers: Mapping[str, str],
    body: bytes,
    secrets: str | Sequence[str],
    *,
    tolerance: float = TOLERANCE_SECONDS,
    now: float | None = None,
) -> Any:
    """Returns the body's JSON if it was signed with one of the secrets, and lately; raises `WebhookError` otherwise.

    `body` must be the bytes as they were received, not what a framework made of them. A webhook may come twice: drop
    those whose `webhook-id` has been seen within the last four days.
    """
    if not isinstance(body, (bytes, bytearray, memoryview)):
        raise TypeError("the body must be the bytes as they were received")
    check_signature(headers, bytes(body), secrets, tolerance=tolerance, now=now)
    try:
        return json.loads(bytes(body))
    except ValueError as error:
        raise WebhookError(f"the body is not JSON: {error}") from error


def check_signature(
    headers: Mapping[str, str],
    body: bytes,
    secrets: str | Sequence[str],
    *,
    tolerance: float = TOLERANCE_SECONDS,
    now: float | None = None,
) -> None:
    """As `verify`, for bodies that need not be JSON, such as pushed payloads."""
    given = {str(name).lower(): value for name, value in headers.items()}
    id, stamp = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    signatures = given.get("webhook-signature", "")
    if not id or not stamp or not signatures:
        raise WebhookError("the headers webhook-id, webhook-timestamp and webhook-signature are needed")
    if not stamp.isascii() or not stamp.isdigit() or len(stamp) > 12:
        raise WebhookError("webhook-timestamp is no time")
    if abs((time.time() if now is None else now) - int(stamp)) > tolerance:
        raise WebhookError("webhook-timestamp is too far from the present")
    signed = f"{id}.{stamp}.".encode() + body
    known = [secrets] if isinstance(secrets, str) else list(secrets)
    right = [base64.b64encode(hmac.digest(key(one), signed, hashlib.sha256)) for one in known]
    is_right = False
    for signature in signatures.split(" "):
        version, _, text = signature.partition(",")
        if version == "v1":
            # Every pair is compared, so that the time says nothing.
            is_right |= any([hmac.compare_digest(text.encode(), one) for one in right])
    if not is_right:
        raise WebhookError("no signature is right")


def key(secret: str) -> bytes:
    """Returns the key of a secret, with or without its `whsec_`."""
    try:
        data = base64.b64decode(secret.strip().removeprefix("whsec_"), validate=True)
    except binascii.Error:
        data = b""
    if len(data) not in KEY_BYTES:
        raise ValueError("a secret looks like `whsec_` and 24 to 64 bytes in base64")
    return data
