"""Manifests that MRP providers publish, read leniently: the generators in use leave out `endpoints.negotiate`, which
the schema requires, add members that it forbids, and write endpoints relative to the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urljoin

from parsers.claims.canonical_json import DocumentError, read
from parsers.json_records import JsonObject, RecordError, convert, sized
from parsers.local_hosts import is_local_url
from parsers.pointers.locator import is_web_url

MAX_BYTES = 65_536
MAX_TEXT, MAX_LONG, MAX_LIST = 256, 2_048, 64

_CODE = "bad-manifest"
_Text = Annotated[str, sized(MAX_TEXT)]
_Long = Annotated[str, sized(MAX_LONG)]
_Texts = Annotated[tuple[_Text, ...], sized(MAX_LIST)]


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


class _MetadataJson(JsonObject, rename=None):
    name: _Text | None = None
    description: _Long | None = None


class _ConstraintsJson(JsonObject, rename=None):
    policy: _Texts | None = None


class _EndpointsJson(JsonObject, rename=None):
    discover: _Long | None = None
    negotiate: _Long | None = None
    execute: _Long | None = None


class _ManifestJson(JsonObject, rename=None):
    capability: Annotated[str, sized(MAX_TEXT, 1)]
    endpoints: _EndpointsJson
    capability_id: _Text | None = None
    version: _Text | None = None
    description: _Long | None = None
    tags: _Texts | None = None
    proofs_required: _Texts | None = None
    constraints: _ConstraintsJson | None = None
    metadata: _MetadataJson | None = None


def read_manifest(body: bytes, url: str) -> ProviderManifest:
    """The manifest in a JSON text that `url` served. Raises DocumentError: bad-manifest, or the code of JSON that
    is refused."""
    content = read(body, max_bytes=MAX_BYTES)
    try:
        members = convert(content, _ManifestJson, "the manifest")
    except RecordError as error:
        raise DocumentError(_CODE, str(error)) from None
    metadata, constraints = members.metadata or _MetadataJson(), members.constraints or _ConstraintsJson()
    manifest = ProviderManifest(
        capability=members.capability,
        capability_id=members.capability_id or "",
        version=members.version or "",
        name=metadata.name or members.capability,
        description=(members.description or metadata.description or "").replace("\0", "\ufffd"),
        tags=members.tags or (),
        policies=constraints.policy or (),
        proofs_required=members.proofs_required or (),
        endpoints=_urls(members.endpoints, url),
    )
    names = (manifest.capability, manifest.capability_id, manifest.version, manifest.name)
    for text in (*names, *manifest.tags, *manifest.policies, *manifest.proofs_required):
        if not text.isprintable():
            raise DocumentError(_CODE, f"{text[:100]!a} is not a text of printable characters")
    return manifest


def _urls(endpoints: _EndpointsJson, url: str) -> dict[str, str]:
    """The URLs of a provider's endpoints. One of `discover` and `execute` must be there."""
    written = {"discover": endpoints.discover, "negotiate": endpoints.negotiate, "execute": endpoints.execute}
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
