"""Logs of ERC-8004's identity registry, the names of its entries, and the targets of their agentURI (EIP-8004)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from parsers.cards import data_uri
from parsers.errors import ParseError
from parsers.pointers import abi
from parsers.pointers.locator import Locator, locate
from parsers.reasons import Reason

FORM = "erc8004"
"""The form of anchors in a registry."""

MAX_KEY = 1024
MAX_VALUE = 1 << 20
_ZERO = f"0x{'0' * 40}"
_BARE_CID = re.compile(r"(?:Qm[1-9A-HJ-NP-Za-km-z]{44}|baf[a-z2-7]{50,110})(?:/.*)?\Z", re.ASCII)


class Registered(NamedTuple):
    """A new entry. `uri` is its agentURI in exact bytes, empty without one; addresses are lower-case."""

    agent: int
    uri: bytes
    owner: str


class UriUpdated(NamedTuple):
    """An entry's new agentURI, in exact bytes, and the address that set it: the owner or an operator."""

    agent: int
    uri: bytes
    by: str


class MetadataSet(NamedTuple):
    """A key of an entry's metadata and its value, in exact bytes; `key_hash` is keccak256 of the key (32 bytes)."""

    agent: int
    key_hash: bytes
    key: bytes
    value: bytes


class Transfer(NamedTuple):
    """A transfer of an entry (ERC-721): `sender` is None when it is minted, `owner` is None when it is burned."""

    agent: int
    sender: str | None
    owner: str | None


Record = Registered | UriUpdated | MetadataSet | Transfer

REGISTERED = bytes.fromhex("ca52e62c367d81bb2e328eb795f7c7ba24afb478408a26c0e201d155c449bc4a")
"""keccak256("Registered(uint256,string,address)")."""
URI_UPDATED = bytes.fromhex("3a2c7fffc2cba7582c690e3b82c453ea02a308326a98a3ad7576c606336409fb")
"""keccak256("URIUpdated(uint256,string,address)")."""
METADATA_SET = bytes.fromhex("2c149ed548c6d2993cd73efe187df6eccabe4538091b33adbd25fafdb8a1468b")
"""keccak256("MetadataSet(uint256,string,string,bytes)")."""
TRANSFER = bytes.fromhex("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef")
"""keccak256("Transfer(address,address,uint256)")."""

TOPICS = (REGISTERED, URI_UPDATED, METADATA_SET, TRANSFER)
"""Topic 0 of every supported event."""


def read_log(topics: Sequence[bytes], data: bytes) -> Record | None:
    """Parse a log of the registry; None for an unsupported event.

    Raises ParseError for a log that does not match the event of its first topic.
    """
    if not topics or topics[0] not in TOPICS:
        return None
    expected = 4 if topics[0] == TRANSFER else 3
    if len(topics) != expected or any(len(topic) != abi.WORD for topic in topics):
        raise ParseError(f"{len(topics)} topics where {expected} of 32 bytes are expected")
    if topics[0] == TRANSFER:
        return Transfer(_number(topics[3]), _holder(topics[1]), _holder(topics[2]))
    if topics[0] == METADATA_SET:
        key, value = abi.dynamic(data, 0, MAX_KEY), abi.dynamic(data, 1, MAX_VALUE)
        return MetadataSet(_number(topics[1]), topics[2], key, value)
    uri, account = abi.dynamic(data, 0, data_uri.MAX_URI), abi.address(topics[2])
    return (Registered if topics[0] == REGISTERED else UriUpdated)(_number(topics[1]), uri, account)


def _number(topic: bytes) -> int:
    return int.from_bytes(topic, "big")


def _holder(topic: bytes) -> str | None:
    address = abi.address(topic)
    return None if address == _ZERO else address


def entry_id(caip2: str, registry: str, agent: int) -> str:
    """The id of an entry (law 10): `eip155:<chain>:<registry>/<agentId>`, the address in lower case."""
    return f"{caip2}:{registry.lower()}/{agent}"


class InlineFile(NamedTuple):
    """A registration file that is stored on chain, in exact bytes."""

    body: bytes


def read_uri(uri: bytes) -> InlineFile | Locator | Reason:
    """Parse an agentURI: the file itself, the locator to fetch it from, or the reason why it is invalid.

    The file may be in a `data:` URI, or replace the URI (EIP-8004 advises against it, publishers do it). A CID without
    `ipfs://` is accepted.
    """
    stripped = uri.strip(b" \t\r\n")
    if not stripped:
        return Reason("entry-no-uri")
    if data_uri.is_data_uri(stripped):
        body = data_uri.read(stripped)
        return body if isinstance(body, Reason) else InlineFile(body)
    if stripped.startswith(b"{"):
        return InlineFile(uri)
    try:
        text = stripped.decode("utf-8")
    except UnicodeDecodeError:
        return Reason("pointer-uri")
    return locate(f"ipfs://{text}" if _BARE_CID.match(text) else text)
