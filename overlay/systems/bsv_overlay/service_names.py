"""The topic and the lookup services of this overlay: canonical names (BRC-87), aliases, descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parsers.bitcoin import basm_answers

TOPIC, LOOKUP, SHIP, SLAP = basm_answers.TOPIC, "ls_agent_registry", "ls_ship", "ls_slap"


CHAIN_PREFIX = "bsv:"
"""The beginning of the CAIP-2 ids of the chains that the topic covers."""


@dataclass(frozen=True, slots=True)
class OverlayService:
    """A topic manager or lookup service. `documentation` is Markdown. Aliases are names that clients use although
    BRC-87 does not allow them."""

    name: str
    summary: str
    documentation: str
    aliases: tuple[str, ...] = ()

    def as_json(self, version: str) -> dict[str, Any]:
        """The metadata that the list routes return."""
        members = {"name": self.name, "shortDescription": self.summary, "version": version}
        return members | ({"aliases": list(self.aliases)} if self.aliases else {})


_TOPIC_DOCUMENTATION = """\
# tm_agent_registry

Alias: `tm_a2b`. Admits the outputs that register or update an A2B agent or tool: outputs of exactly one satoshi with an
ord envelope of `application/json` and MAP `type` `a2b-agent`, `a2b` or `a2b-mcp`, whose card is valid. An update spends
the satoshi of its registration, which is followed first in, first out; the newest valid card wins.

The predicate is deterministic and depends on the chain only: this is a strict overlay (BRC-183). `GET
/v1/diagnose/{txid}` explains every refusal.

Anchors (BRC-136) begin at the first block that can hold A2B data (783,968 on the main network, 1 on test networks). A
block's admitted list holds the transactions that registered, updated, transferred or burned a registration, whether or
not the card is valid, and those with a valid pointer.
"""

_LOOKUP_DOCUMENTATION = """\
# ls_agent_registry

Alias: `ls_a2b`. The query is an object:

- the search parameters of `GET /v1/search`, such as `{"q": "weather", "type": "agent", "limit": 50, "offset": 0}`;
  lists are "any of"; `{}` is every listing, newest first, 20 a page;
- `{"id": "<txid>_<vout>"}`: one listing;
- `{"outpoint": "<txid>.<vout>"}`: the listing whose satoshi is or was at this outpoint;
- `{"owner": "<address>"}`: the listings that this address holds, and any other search parameter.

The answer is an output list: for each registration the output where its satoshi is now, as BEEF of the transaction
with its merkle path. `context` is the JSON `{"id"}` of the listing in UTF-8, for `GET /v1/listings/{id}`. An outpoint
comes once, also where its card lists several tools. Listings of other chains and burned ones have no output. An output
that was submitted and is in no block yet has `"pending": true` in its context, and comes with its unproven ancestors.
With the header `X-Aggregation: yes` the answer is binary: one BEEF (BRC-96) for all outputs.
"""

_HOSTS_DOCUMENTATION = """\
# {name}

Names the hosts of {what}: this server only. The query is `{{}}`, a string or an object with any of `{member}`,
`domain` and `identityKey`. The output is a PushDrop token (BRC-48, BRC-88), signed with a key derived from this
server's identity key for `anyone` (BRC-42, BRC-43), in a transaction that is **not broadcast**: it leads clients to
this server and is not an advertisement on chain. The list is empty where the operator configured no public URL or no
identity key.
"""

TOPICS = (OverlayService(TOPIC, "A2B registrations of agents and tools", _TOPIC_DOCUMENTATION, ("tm_a2b",)),)
LOOKUPS = (
    OverlayService(LOOKUP, "Search and look up A2B registrations", _LOOKUP_DOCUMENTATION, ("ls_a2b",)),
    OverlayService(SHIP, "Hosts of topics", _HOSTS_DOCUMENTATION.format(name=SHIP, what="topics", member="topics")),
    OverlayService(
        SLAP, "Hosts of lookup services", _HOSTS_DOCUMENTATION.format(name=SLAP, what="services", member="service")
    ),
)


def names(services: tuple[OverlayService, ...]) -> list[str]:
    """The names and aliases of services."""
    return [name for service in services for name in (service.name, *service.aliases)]


def by_name(services: tuple[OverlayService, ...], name: str) -> OverlayService | None:
    """The service with this name or alias."""
    return next((service for service in services if name == service.name or name in service.aliases), None)
