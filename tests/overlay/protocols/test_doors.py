"""Which doors are open, and the base of the URLs that they hand out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from indexer.settings import SettingsError
from overlay import protocols
from overlay.api.base_url import base_url
from overlay.api.services import AppServices
from overlay.app.http_app import create_app


def test_all_doors_are_open_unless_some_are_chosen() -> None:
    assert list(protocols.chosen("all")) == protocols.names()
    assert protocols.chosen("off") == ()


def test_unknown_doors_are_refused_by_name() -> None:
    with pytest.raises(SettingsError, match="doors holds 'gopher'"):
        protocols.chosen("gopher")


@pytest.mark.parametrize("name", protocols.names())
def test_each_door_opens_alone(name: str) -> None:
    assert protocols.chosen(f"{name} {name}") == (name,)
    [door] = protocols.doors([name])
    assert door.routes


async def asked(services: AppServices, **headers: str) -> str:
    app: web.Application = create_app(services)
    return base_url(make_mocked_request("GET", "/", headers=headers, app=app))


async def test_urls_begin_with_the_host_that_the_client_used(services: AppServices) -> None:
    assert await asked(services, Host="a.example:8080") == "http://a.example:8080"
    assert await asked(services, Host="[::1]:80") == "http://[::1]:80"


async def test_forwarded_hosts_count_only_from_trusted_proxies(services: AppServices) -> None:
    forwarded = {"Host": "inside", "X-Forwarded-Host": "evil.example, a.example", "X-Forwarded-Proto": "https"}
    assert await asked(services, **forwarded) == "http://inside"


@pytest.mark.parametrize("host", ["", "a b", "a/../", "a@b", "a.example:99999999"])
async def test_hosts_that_are_none_are_not_repeated(host: str, services: AppServices) -> None:
    assert await asked(services, Host=host) == "http://localhost"


async def test_the_configured_url_counts_first(services: AppServices) -> None:
    configured = replace(services, public_url="https://registry.example/a2b")
    assert await asked(configured, Host="evil.example") == "https://registry.example/a2b"
