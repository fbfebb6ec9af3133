"""The client of a2a-sdk 0.3 from PyPI: reads the card at a URL, searches, and prints what it got as JSON.

Argument: the URL of the overlay.
"""

from __future__ import annotations

import asyncio
import json
import sys

import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientJSONRPCError
from a2a.types import DataPart, FilePart, FileWithUri, Message, Part, Role, TaskQueryParams, TextPart


async def ask(client: Client, part: TextPart | DataPart | FilePart) -> dict[str, object]:
    message = Message(message_id="m1", role=Role.user, parts=[Part(root=part)], context_id="c1")
    answers = [answer async for answer in client.send_message(message)]
    return answers[0].model_dump(mode="json", by_alias=True, exclude_none=True)


async def error(client: Client, part: DataPart | FilePart) -> str:
    try:
        await ask(client, part)
    except A2AClientJSONRPCError as refusal:
        return f"{refusal.error.code}: {refusal.error.message}"
    return "none"


async def main(url: str) -> None:
    async with httpx.AsyncClient(timeout=60) as http:
        resolver = A2ACardResolver(http, url)
        card = await resolver.get_agent_card()
        old = await resolver.get_agent_card("/.well-known/agent.json")
        client = ClientFactory(ClientConfig(httpx_client=http)).create(card)
        try:
            await client.get_task(TaskQueryParams(id="t1"))
            task = "none"
        except A2AClientJSONRPCError as refusal:
            task = str(refusal.error.code)
        result = {
            "name": card.name,
            "old": old.name,
            "skills": [skill.id for skill in card.skills],
            "question": await ask(client, TextPart(text="watchtower")),
            "nothing": await ask(client, TextPart(text="zzqxjkv")),
            "data": await ask(client, DataPart(data={"type": "tool", "limit": 1, "sort": "name"})),
            "unknown": await error(client, DataPart(data={"tipe": "tool"})),
            "file": await error(client, FilePart(file=FileWithUri(uri="https://a.example/file"))),
            "task": task,
        }
    print(json.dumps(result))


asyncio.run(main(sys.argv[1]))
