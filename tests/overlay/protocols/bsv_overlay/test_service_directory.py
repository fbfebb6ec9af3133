"""The list, documentation and health routes, over the application and its fakes."""

from __future__ import annotations

import pytest
from aiohttp import ClientSession

from overlay.api.services import AppServices
from tests.overlay.conftest import Serve
from tests.overlay.fakes import changed


async def test_topics_and_lookup_services_are_listed_by_canonical_name(client: ClientSession) -> None:
    async with client.get("/listTopicManagers") as answer:
        topics = await answer.json()
    async with client.get("/listLookupServiceProviders") as answer:
        lookups = await answer.json()
    assert {name: topic["aliases"] for name, topic in topics.items()} == {"tm_agent_registry": ["tm_a2b"]}
    assert list(lookups) == ["ls_agent_registry", "ls_ship", "ls_slap"]
    assert all(service["name"] == name and service["shortDescription"] for name, service in lookups.items())


@pytest.mark.parametrize(
    ("path", "first_line"),
    [
        ("/getDocumentationForTopicManager?manager=tm_agent_registry", "# tm_agent_registry"),
        ("/getDocumentationForTopicManager?manager=tm_a2b", "# tm_agent_registry"),
        ("/getDocumentationForLookupServiceProvider?lookupService=ls_a2b", "# ls_agent_registry"),
        ("/getDocumentationForLookupServiceProvider?lookupService=ls_slap", "# ls_slap"),
    ],
)
async def test_documentation_is_markdown(path: str, first_line: str, client: ClientSession) -> None:
    async with client.get(path) as answer:
        assert answer.content_type == "text/markdown"
        assert (await answer.text()).splitlines()[0] == first_line


@pytest.mark.parametrize(
    "path",
    ["/listTopicManagers", "/listLookupServiceProviders", "/getDocumentationForTopicManager?manager=tm_a2b",
     "/getDocumentationForLookupServiceProvider?lookupService=ls_a2b"],
)  # fmt: skip
async def test_lists_and_documentation_have_entity_tags(path: str, client: ClientSession) -> None:
    async with client.get(path) as answer:
        tag = answer.headers["ETag"]
    async with client.get(path, headers={"If-None-Match": tag}) as answer:
        assert (answer.status, answer.headers["ETag"]) == (304, tag)


async def test_the_services_of_hosts_say_what_they_lack(serve: Serve, services: AppServices) -> None:
    configured = changed(services, public_url="https://registry.example")
    for served, missing in ((services, "A2B_PUBLIC_URL is not configured"), (configured, "no identity key")):
        client = await serve(served)
        async with client.get("/getDocumentationForLookupServiceProvider?lookupService=ls_ship") as answer:
            assert missing in (await answer.text()).splitlines()[-1]
        async with client.get("/listLookupServiceProviders") as answer:
            listed = await answer.json()
        assert missing in listed["ls_ship"]["note"]
        assert "note" not in listed["ls_agent_registry"]
        async with client.post("/lookup", json={"service": "ls_ship", "query": {}}) as answer:
            assert await answer.json() == {"type": "output-list", "outputs": []}


@pytest.mark.parametrize("query", ["", "?manager=tm_nobody", "?manager=ls_ship"])
async def test_documentation_of_no_topic_is_refused(query: str, client: ClientSession) -> None:
    async with client.get(f"/getDocumentationForTopicManager{query}") as answer:
        assert answer.status == 400
        body = await answer.json()
    assert body["status"] == "error"
    assert "tm_agent_registry" in body["message"]


async def test_health_counts_services_and_names_the_network(client: ClientSession) -> None:
    async with client.get("/health") as answer:
        assert answer.status == 200
        report = await answer.json()
    assert (report["status"], report["live"], report["ready"]) == ("ok", True, True)
    assert {"network": "regtest", "topicManagerCount": 1, "lookupServiceCount": 3}.items() <= report["service"].items()
    assert report["service"]["advertisableFQDN"] == "127.0.0.1"
    assert [(check["scope"], check["status"]) for check in report["checks"]] == [("live", "ok"), ("ready", "ok")]


async def test_health_names_what_is_missing(serve: Serve, services: AppServices) -> None:
    client = await serve(changed(services, ready=lambda: "bsv is 12 blocks behind"))
    for path in ("/health", "/health/ready"):
        async with client.get(path) as answer:
            assert answer.status == 503
            report = await answer.json()
        assert (report["status"], report["ready"]) == ("degraded", False)
        assert report["checks"][1]["message"] == "bsv is 12 blocks behind"
    async with client.get("/health/live") as answer:
        assert answer.status == 200
        assert (await answer.json())["live"]
