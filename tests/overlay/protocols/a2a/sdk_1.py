"""The client of a2a-sdk 1.x: reads the card at a URL, verifies its signature, searches, and prints what it got
as JSON.

Arguments: the URL of the overlay, and the version to speak (1.0, or 0.3 by the client's compatibility layer).
"""

from __future__ import annotations

import asyncio
import json
import sys

import httpx
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.client import Client, ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.types import a2a_pb2 as types
from a2a.utils.errors import A2AError
from a2a.utils.signing import create_signature_verifier
from google.protobuf.json_format import MessageToDict, ParseDict
from jwt import PyJWKSet


async def ask(client: Client, *parts: types.Part) -> dict[str, object]:
    message = types.Message(message_id="m1", role=types.ROLE_USER, parts=parts, context_id="c1")
    answers = [answer async for answer in client.send_message(types.SendMessageRequest(message=message))]
    return MessageToDict(answers[0].message)


async def error(client: Client, *parts: types.Part) -> str:
    try:
        await ask(client, *parts)
    except A2AError as refusal:
        return f"{type(refusal).__name__}: {refusal}"
    return "none"


async def main(url: str, version: str) -> None:
    async with httpx.AsyncClient(timeout=60) as http:
        resolver = A2ACardResolver(http, url)
        keys = PyJWKSet.from_dict((await http.get(f"{url}/.well-known/jwks.json")).json())
        verifier = create_signature_verifier(lambda kid, _: keys[kid or ""], ["EdDSA"])
        card = await resolver.get_agent_card(signature_verifier=verifier)
        old = await resolver.get_agent_card("/.well-known/agent.json")
        if version == "0.3":
            del card.supported_interfaces[0]
        client = ClientFactory(ClientConfig(httpx_client=http)).create(card)
        data = types.Part()
        ParseDict({"data": {"type": "tool", "limit": 1, "sort": "name"}}, data)
        unknown = types.Part()
        ParseDict({"data": {"tipe": "tool"}}, unknown)
        try:
            await client.get_task(types.GetTaskRequest(id="t1"))
            task = "none"
        except A2AError as refusal:
            task = type(refusal).__name__
        result = {
            "name": card.name,
            "old": old.name,
            "skills": [skill.id for skill in card.skills],
            "question": await ask(client, types.Part(text="watchtower")),
            "nothing": await ask(client, types.Part(text="zzqxjkv")),
            "data": await ask(client, data),
            "unknown": await error(client, unknown),
            "file": await error(client, types.Part(url="https://a.example/file")),
            "task": task,
        }
    print(json.dumps(result))


asyncio.run(main(*sys.argv[1:]))
