"""Logs of an ERC-8004 identity registry as its contract writes them: an encoder of its own, for the tests' decoder."""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

from Cryptodome.Hash import keccak

NOBODY = "0x" + "0" * 40
MAINNET = "0x8004a169fb4a3325136eb29fa0ceb6d2e539a432"


class Log(NamedTuple):
    """A log of a contract: topics of 32 bytes, and data."""

    topics: tuple[bytes, ...]
    data: bytes


def keccak256(data: bytes) -> bytes:
    return keccak.new(digest_bits=256, data=data).digest()


def number(value: int) -> bytes:
    return value.to_bytes(32, "big")


def address(text: str) -> bytes:
    return bytes(12) + bytes.fromhex(text.removeprefix("0x"))


def _tail(value: bytes) -> bytes:
    return number(len(value)) + value + bytes(-len(value) % 32)


def strings(*values: bytes) -> bytes:
    """Dynamic arguments, each behind its offset, as Solidity encodes them."""
    head, tails = b"", b""
    for value in values:
        head += number(32 * len(values) + len(tails))
        tails += _tail(value)
    return head + tails


def registered(agent: int, uri: bytes | str, owner: str) -> Log:
    topic = keccak256(b"Registered(uint256,string,address)")
    return Log((topic, number(agent), address(owner)), strings(_bytes(uri)))


def uri_updated(agent: int, uri: bytes | str, by: str) -> Log:
    topic = keccak256(b"URIUpdated(uint256,string,address)")
    return Log((topic, number(agent), address(by)), strings(_bytes(uri)))


def metadata_set(agent: int, key: bytes | str, value: bytes) -> Log:
    topic = keccak256(b"MetadataSet(uint256,string,string,bytes)")
    return Log((topic, number(agent), keccak256(_bytes(key))), strings(_bytes(key), value))


def transfer(agent: int, sender: str, owner: str) -> Log:
    topic = keccak256(b"Transfer(address,address,uint256)")
    return Log((topic, address(sender), address(owner), number(agent)), b"")


def _bytes(text: bytes | str) -> bytes:
    return text.encode() if isinstance(text, str) else text


def file(name: str = "Weather Agent", **members: Any) -> dict[str, Any]:
    """A registration file with an A2A and an MCP service."""
    return {
        "type": "https://eips.ethereum.org/EIPS/eip-8004#registration-v1",
        "name": name,
        "description": f"{name} tells what the sky will do.",
        "image": "https://weather.example/logo.png",
        "services": [
            {"name": "A2A", "endpoint": "https://weather.example/.well-known/agent-card.json", "version": "0.3.0",
             "a2aSkills": ["forecast"]},
            {"name": "MCP", "endpoint": "https://weather.example/mcp", "version": "2025-06-18",
             "mcpTools": ["get_forecast"]},
        ],
        "active": True,
    } | members  # fmt: skip


def data_uri(content: dict[str, Any]) -> str:
    """A registration file in full, as a `data:` URI."""
    return "data:application/json;base64," + base64.b64encode(json.dumps(content).encode()).decode()
