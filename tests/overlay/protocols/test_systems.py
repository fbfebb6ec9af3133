"""Which systems are served, and the base of the URLs that they hand out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from indexer.settings import Settings, SettingsError
from overlay.api.base_url import base_url
from overlay.api.identity_key import read_or_create
from overlay.api.problems import BadRequestError, ProblemError
from overlay.api.search_request import from_pairs
from overlay.api.services import AppServices
from overlay.api.systems import chosen, signing
from overlay.app.http_app import create_app, load_systems
from overlay.app.storage import open_identity
from overlay.installation import NAMES, SETTINGS, installed
from tests.overlay.conftest import Serve
from tests.overlay.fakes import API_SYSTEMS, changed


def names(**settings: str) -> tuple[str, ...]:
    return tuple(one.name for one in chosen(Settings.load(settings)))


def test_all_systems_are_served_unless_some_are_chosen() -> None:
    assert names() == names(systems="all") == NAMES
    assert names(systems="off") == ()
    assert names(systems="x402 rating x402") == ("rating", "x402")


def test_unknown_systems_are_refused_by_name() -> None:
    with pytest.raises(SettingsError, match="systems holds 'gopher'"):
        names(systems="rating gopher")


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_of_a_system_that_is_left_out_is_refused(setting: str) -> None:
    value = {
        "relay": "on", "gasp_peers": "https://peer.example", "delegation_roots": "A" * 43, "relay_address": "bsv:x",
        "arc_callback_token": "secret-of-sixteen-letters", "probe": "on",
    }.get(setting, "file")  # fmt: skip
    with pytest.raises(SettingsError, match=f"{setting} is set, and {SETTINGS[setting]} is left out of systems"):
        chosen(Settings.load({"public_url": "https://a.example", "systems": "mcp", setting: value}))
    assert names(public_url="https://a.example", systems=SETTINGS[setting], **{setting: value}) == (SETTINGS[setting],)


def test_a_sort_that_needs_a_system_is_refused_where_that_is_left_out() -> None:
    with pytest.raises(BadRequestError, match="sort: rating is left out of systems"):
        from_pairs([("sort", "-rating")], {}, systems=("mcp",))


@pytest.mark.parametrize("name", NAMES)
def test_each_system_can_be_served_alone(name: str) -> None:
    assert names(systems=name) == (name,)
    [api] = load_systems([name])
    assert api.routes


async def base_url_of(services: AppServices, **headers: str) -> str:
    app: web.Application = create_app(services)
    return base_url(make_mocked_request("GET", "/", headers=headers, app=app))


async def test_urls_begin_with_the_host_that_the_client_used(services: AppServices) -> None:
    assert await base_url_of(services, Host="a.example:8080") == "http://a.example:8080"
    assert await base_url_of(services, Host="[::1]:80") == "http://[::1]:80"


async def test_forwarded_hosts_count_only_from_trusted_proxies(services: AppServices) -> None:
    forwarded = {"Host": "inside", "X-Forwarded-Host": "evil.example, a.example", "X-Forwarded-Proto": "https"}
    assert await base_url_of(services, **forwarded) == "http://inside"


@pytest.mark.parametrize("host", ["", "a b", "a/../", "a@b", "a.example:99999999"])
async def test_hosts_that_are_none_are_not_repeated(host: str, services: AppServices) -> None:
    assert await base_url_of(services, Host=host) == "http://localhost"


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost", "[::1]:80", "169.254.1.1", "[fe80::1]", "a b"])
@pytest.mark.parametrize("name", ["X-Forwarded-For", "via", "Forwarded", "x-real-ip", "X-Forwarded-Host"])
async def test_a_host_of_this_machine_is_not_named_to_clients_behind_a_proxy(
    host: str, name: str, services: AppServices
) -> None:
    """A proxy on this machine sends it as Host unless it is configured to pass on the client's."""
    assert await base_url_of(services, Host=host, **{name: "203.0.113.7"}) == ""
    assert await base_url_of(services, Host="a.example", **{name: "203.0.113.7"}) == "http://a.example"


async def test_the_configured_url_counts_first(services: AppServices) -> None:
    configured = changed(services, public_url="https://registry.example/a2b")
    assert await base_url_of(configured, Host="evil.example") == "https://registry.example/a2b"


@pytest.mark.parametrize("name", NAMES)
async def test_other_methods_are_refused_in_the_shape_of_the_system(
    name: str, serve: Serve, services: AppServices
) -> None:
    client = await serve(changed(services, systems=(name,)))
    [api] = load_systems([name])
    for route in api.routes:
        if route.error_response is None:
            continue
        async with client.request("PROPFIND", re.sub(r"{\w+}", "x", route.path)) as answer:
            assert (answer.status, answer.content_type) == (405, route.error_media), route.path
            assert route.method in answer.headers["Allow"].split(", ")
            body = await answer.json(content_type=None)
        request = make_mocked_request("PROPFIND", "/", app=create_app(services))
        shape = route.error_response(request, ProblemError(405, "refused"), "x")
        assert body.keys() == json.loads(shape.body).keys(), route.path
        async with client.options(re.sub(r"{\w+}", "x", route.path)) as answer:
            assert answer.status == 204


def test_systems_that_sign_need_a_key_where_machines_share_a_database(tmp_path: Path) -> None:
    flags = {"data": str(tmp_path), "database": "postgresql+psycopg://a2b@/shared"}
    signers = signing(installed())
    assert {"a2a", "bsv_overlay", "motebit", "mrp", "webhooks"} == set(signers)
    for text in ("all", "mrp ard"):
        with pytest.raises(SettingsError, match=r"A2B_IDENTITY_KEY is not set.*mrp"):
            open_identity(Settings.load(flags | {"systems": text}))
    unsigned = " ".join(set(NAMES) - set(signers))
    for text in ("off", unsigned):
        assert open_identity(Settings.load(flags | {"systems": text})) is None
    assert list(tmp_path.iterdir()) == []
    shared = read_or_create(tmp_path / "shared.json")
    assert open_identity(Settings.load(flags | {"identity_key": str(tmp_path / "shared.json")})) == shared
    assert open_identity(Settings.load({"data": str(tmp_path)})) is not None


async def test_catalog_entries_note_that_no_public_url_is_configured(serve: Serve, services: AppServices) -> None:
    for public_url, is_noted in (("", True), ("https://registry.example", False)):
        client = await serve(changed(services, systems=(*API_SYSTEMS, "ard"), public_url=public_url))
        async with client.get("/.well-known/ai-catalog.json") as answer:
            [registry] = (await answer.json())["entries"]
        async with client.get("/agents") as answer:
            entries = (await answer.json())["items"]
        for entry in (registry, *entries):
            assert ("A2B_PUBLIC_URL" in entry.get("metadata", {}).get("note", "")) == is_noted
