"""Manifests that MRP providers publish, read leniently: the generators in use leave out `endpoints.negotiate`, which
the schema requires, add members that it forbids, and write endpoints relative to the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from parsers.claims.canonical_json import DocumentError, read
from parsers.local_hosts import is_local_url
from parsers.pointers.locator import is_web_url

MAX_BYTES = 65_536
MAX_TEXT, MAX_LONG, MAX_LIST = 256, 2_048, 64

_CODE = "bad-manifest"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderManifest:
    """A capability of a provider: URLs of its endpoints by name, and other members that are shown ("" or empty where
    they are missing). Names longer than `MAX_TEXT` and lists longer than `MAX_LIST` are refused."""

    capability: str
    capability_id: str
    version: str
    name: str
    description: str
    tags: tuple[str, ...]
    policies: tuple[str, ...]
    proofs_required: tuple[str, ...]
    endpoints: Mapping[str, str]


def read_manifest(body: bytes, url: str) -> ProviderManifest:
    """The manifest in a JSON text that `url` served. Raises DocumentError: bad-manifest, or the code of JSON that
    is refused."""
    content = read(body, max_bytes=MAX_BYTES)
    if not isinstance(content, dict):
        raise DocumentError(_CODE, "the manifest is not a JSON object")
    constraints, metadata = (content.get(name) for name in ("constraints", "metadata"))
    capability = _text(content, "capability")
    if not capability:
        raise DocumentError(_CODE, "the manifest has no capability")
    return ProviderManifest(
        capability=capability,
        capability_id=_text(content, "capability_id"),
        version=_text(content, "version"),
        name=_text(metadata, "name") or capability,
        description=_text(content, "description", MAX_LONG) or _text(metadata, "description", MAX_LONG),
        tags=_texts(content, "tags"),
        policies=_texts(constraints, "policy"),
        proofs_required=_texts(content, "proofs_required"),
        endpoints=_endpoints(content.get("endpoints"), url),
    )


def _text(members: Any, name: str, most: int = MAX_TEXT) -> str:
    value = members.get(name) if isinstance(members, dict) else None
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > most or (most == MAX_TEXT and not value.isprintable()):
        raise DocumentError(_CODE, f"{name} is not a text of at most {most:,} characters")
    return value.replace("\0", "\ufffd")


def _texts(members: Any, name: str) -> tuple[str, ...]:
    values = members.get(name) if isinstance(members, dict) else None
    if values is None:
        return ()
    if not isinstance(values, list) or len(values) > MAX_LIST:
        raise DocumentError(_CODE, f"{name} is not a list of at most {MAX_LIST} texts")
    return tuple(_text({name: value}, name) for value in values)


def _endpoints(endpoints: Any, url: str) -> dict[str, str]:
    """The URLs of a provider's endpoints. One of `discover` and `execute` must be there."""
    members = endpoints if isinstance(endpoints, dict) else {}
    written = {name: _text(members, name, MAX_LONG) for name in ("discover", "negotiate", "execute")}
    try:
        urls = {name: urljoin(url, text) for name, text in written.items() if text}
    except ValueError as error:
        raise DocumentError(_CODE, f"an endpoint is not a URL: {error}") from None
    for name, absolute in urls.items():
        if not is_web_url(absolute):
            raise DocumentError(_CODE, f"endpoints.{name} is not a URL")
        if is_local_url(absolute):
            raise DocumentError(_CODE, f"endpoints.{name} leads to the reader's own machine or link: {absolute!a}")
    if not {"discover", "execute"} & urls.keys():
        raise DocumentError(_CODE, "endpoints names neither discover nor execute")
    return urls
