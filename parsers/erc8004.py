"""Logs of ERC-8004's identity registry, the names of its entries, and what their agentURI leads to (EIP-8004)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from parsers import abi, data_uri
from parsers.errors import ParseError
from parsers.locator import Locator, locate
from parsers.reasons import Reason

FORM = "erc8004"
"""The form of anchors that stand in a registry."""

MAX_KEY = 1024
MAX_VALUE = 1 << 20
_ZERO = f"0x{'0' * 40}"
_ENTRY = re.compile(r"eip155:[1-9][0-9]{0,19}:0x[0-9a-f]{40}/(?:0|[1-9][0-9]{0,77})\Z", re.ASCII)
_BARE_CID = re.compile(r"(?:Qm[1-9A-HJ-NP-Za-km-z]{44}|baf[a-z2-7]{50,110})(?:/.*)?\Z", re.ASCII)


class Registered(NamedTuple):
    """A new entry. `uri` is its agentURI in exact bytes, empty when it has none yet; addresses are lower-case."""

    agent: int
    uri: bytes
    owner: str


class UriUpdated(NamedTuple):
    """An entry's new agentURI, in exact bytes, and who set it: its owner or an operator."""

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
    """An entry changes hands (ERC-721): from nobody (None) when it is made, to nobody when it is burned."""

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
"""Topic 0 of each event that is read."""


def read_log(topics: Sequence[bytes], data: bytes) -> Record | None:
    """What a log of the registry says; None for an event that is not read.

    Raises ParseError when the log is not what its first topic claims.
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
    uri, who = abi.dynamic(data, 0, data_uri.MAX_URI), abi.address(topics[2])
    return (Registered if topics[0] == REGISTERED else UriUpdated)(_number(topics[1]), uri, who)


def _number(topic: bytes) -> int:
    return int.from_bytes(topic, "big")


def _holder(topic: bytes) -> str | None:
    found = abi.address(topic)
    return None if found == _ZERO else found


def entry_id(caip2: str, registry: str, agent: int) -> str:
    """The name of an entry (law 10): `eip155:<chain>:<registry>/<agentId>`, the address in lower case."""
    return f"{caip2}:{registry.lower()}/{agent}"


def is_entry(id_: str) -> bool:
    """Whether an id is that of an entry in a registry."""
    return _ENTRY.match(id_) is not None


class Carried(NamedTuple):
    """A registration file that stands on chain, exact bytes."""

    body: bytes


def read_uri(uri: bytes) -> Carried | Locator | Reason:
    """What an agentURI leads to: the file itself, the name under which it is fetched, or the reason why neither.

    The file may stand in a `data:` URI, or bare in place of the URI (EIP-8004 advises against it, the field does it).
    A CID without `ipfs://` is read as one with it.
    """
    stripped = uri.strip(b" \t\r\n")
    if not stripped:
        return Reason("entry-no-uri")
    if data_uri.is_one(stripped):
        body = data_uri.read(stripped)
        return body if isinstance(body, Reason) else Carried(body)
    if stripped.startswith(b"{"):
        return Carried(uri)
    try:
        text = stripped.decode("utf-8")
    except UnicodeDecodeError:
        return Reason("pointer-uri")
    return locate(f"ipfs://{text}" if _BARE_CID.match(text) else text)
