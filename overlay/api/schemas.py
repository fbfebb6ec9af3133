"""JSON Schemas (2020-12) of every response body, for the OpenAPI document; tests validate real answers by them."""

from __future__ import annotations

from typing import Any

from overlay.api.parameters import KINDS, STATUSES
from overlay.search import sorting
from overlay.search.query import FACETS
from parsers.claims.amount_due import STAGES

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
BOOL: Schema = {"type": "boolean"}
TXID: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
HEX: Schema = {"type": "string", "pattern": "^([0-9a-f]{2})+$"}
OUTPOINT: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}_[0-9]+$"}
DECIMAL: Schema = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?$", "description": "A decimal number."}
PER_DAY: Schema = {
    "anyOf": [DECIMAL, {"type": "null"}],
    "description": "What the amount comes to for one day, to 12 digits: a month has 30.436875 days, a year 365.2425. "
    "Null per call, and for what is no duration.",
}
TIME: Schema = {"type": "string", "format": "date-time"}


def ref(name: str) -> Schema:
    """A reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def maybe(schema: Schema) -> Schema:
    """The schema or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def array_of(schema: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": schema}


def record(required: dict[str, Schema], optional: dict[str, Schema] | None = None, **more: Any) -> Schema:
    """An object; members that are not named may be added later."""
    return {"type": "object", "properties": required | (optional or {}), "required": list(required), **more}


_CHAIN_FIELDS: dict[str, Schema] = {
    "id": {"type": "string", "description": "`<txid>_<vout>` (`#<key>` added for one of several), a domain or a URL."},
    "type": {"enum": ["agent", "tool"]},
    "status": {"enum": list(STATUSES)},
    "domain": maybe(
        record({"host": TEXT, "verified": BOOL, "checkedAt": maybe(TIME)}, {"by": {"enum": ["name", "dns", "hash"]}})
    ),
    "rating": maybe(
        record({"score": {"type": "number"}, "evidence": COUNT}, {"rung": {"enum": ["E1", "E2", "E3"]}, "asOf": TIME})
    ),
    "chain": {"type": "string", "description": "The configured name."},
    "caip2": {"type": "string", "description": "The chain's CAIP-2 id."},
    "outpoint": maybe(OUTPOINT) | {"description": "Where the satoshi is now; null once burned to the fee."},
    "origin": maybe(TEXT) | {"description": "The registration: the outpoint of its first record; null for a pointer."},
    "owner": maybe(TEXT),
    "txid": TXID | {"description": "The transaction of the winning revision."},
    "app": TEXT,
    "cardSha256": TXID,
    "integrity": {"enum": ["inscribed", "hash-verified", "unhashed", "drifted"]},
    "anchors": array_of(ref("Anchor")),
    "updatedHeight": maybe(COUNT),
    "createdHeight": maybe(COUNT),
    "timestamp": maybe(TIME) | {"description": "Of the winning revision's block; null while unconfirmed."},
}  # fmt: skip
_OPTIONAL_CHAIN_FIELDS: dict[str, Schema] = {
    "blockHeight": COUNT | {"description": "The winning revision's; absent while unconfirmed."},
    "signer": {"type": "string", "description": "The address of a verified SIGMA signature."},
    "signed": record(
        {"by": TEXT, "coversPricing": BOOL, "kid": TEXT, "form": TEXT},
        description="The card's own signature (JWS) is verified, by a key that this host publishes. `coversPricing`: "
        "its prices are among what was signed.",
    ),
    "ownerCheckedAt": TIME
    | {"description": "When the source last said that the outpoint is unspent, where moves are found by asking."},
    "pending": record({"outpoint": maybe(OUTPOINT), "summary": TEXT}),
    "duplicates": COUNT
    | {"description": "Listings of the same or nearly the same text that this one is shown for; see `duplicatesOf`."},
    "changedHeight": COUNT
    | {"description": "From where on another card is shown than the one that change warnings compare with."},
    "anchorCount": COUNT | {"description": "How many pointers there are to it; `anchors` shows the telling ones."},
    "fetchedFrom": maybe(TEXT) | {"description": "Where the card of a pointer was fetched."},
    "drift": record({"cardSha256": TXID, "since": maybe(TIME)}, description="What is served there instead by now."),
}
_SHOWN: dict[str, Schema] = {
    "name": TEXT,
    "description": TEXT,
    "summary": {"type": "string", "maxLength": 160},
    "logo": TEXT,
    "version": TEXT,
    "url": TEXT,
    "provider": maybe({"type": "object", "additionalProperties": TEXT}),
    "skills": array_of(ref("Skill")),
    "tags": array_of(TEXT),
    "offers": array_of(ref("Offer")),
    "warnings": array_of(ref("Warning")),
    "serverName": TEXT,
    "command": {"type": "string", "description": "A stranger's: never run it unread."},
    "args": array_of(TEXT),
    "env": {"type": "object", "additionalProperties": TEXT},
    "keywords": array_of(TEXT),
    "tools": array_of(TEXT),
    "prompts": array_of(TEXT),
    "resources": array_of(TEXT),
}
_MOTEBIT: dict[str, Schema] = {"id": TEXT, "publicKey": TEXT, "did": maybe(TEXT), "verified": BOOL, "endpoint": TEXT}
_HANDSHAKE: dict[str, Schema] = {
    "state": {"enum": ["verified", "refused"]}, "reason": maybe(TEXT), "checkedAt": TIME,
    "manifestSha256": maybe(TEXT),
}  # fmt: skip
_OF_KIND: dict[str, Schema] = {
    "transport": {"enum": ["stdio", "streamable-http", "sse"], "description": "As the config states it; else absent."},
    "headers": array_of(TEXT) | {"description": "The names of the headers that the url needs; absent without any."},
    "protocol": TEXT,
    "documentationUrl": TEXT,
    "motebit": record(
        _MOTEBIT | {"capabilities": array_of(TEXT)},
        {"handshake": record(_HANDSHAKE, dict.fromkeys(("added", "removed", "changed"), array_of(TEXT)))},
        description="The Motebit identity of an agent. `verified`: its host serves the identity file, signed by this "
        "key, and its MCP endpoint was not refused; else only its card claims it (`x-motebit`). `handshake`: what "
        "asking its MCP endpoint came to.",
    ),
}
_MATCHES = ("exact", "joined", "corrected", "split", "completed")
_ALTERNATIVE = {"term": maybe(TEXT), "match": maybe({"enum": list(_MATCHES)})}
_EDITS = {"edits": COUNT | {"description": "Typing errors corrected, where `match` is corrected."}}
_NUMBER: Schema = {"type": "number"}
_ON_DEMAND: dict[str, Schema] = {
    "lacks": array_of(TEXT) | {"description": "The words of `q`, stop words left out, that the listing does not have."},
    "byMeaning": {"const": True, "description": "The listing has no word of `q`: it was found by its meaning alone."},
    "highlights": array_of(
        record(
            {
                "pointer": {"type": "string", "description": "RFC 6901, into this item."},
                "ranges": array_of({"type": "array", "items": COUNT, "minItems": 2, "maxItems": 2}),
            }
        )
    )
    | {
        "description": "With `highlight`: where texts contain words of the query, half-open, in UTF-16 code units, "
        "as JavaScript counts. The first 100 in the first 16,384 characters."
    },
    "explain": record(
        {
            "score": _NUMBER,
            "stage": {"enum": ["rerank", "engine"], "description": "`engine` beyond the candidates of stage two."},
            "words": array_of(record({"word": TEXT, "score": _NUMBER} | _ALTERNATIVE, _EDITS)),
        },
        dict.fromkeys(("proximity", "exactName", "staticRank"), _NUMBER)
        | {
            "meaning": record(
                {"weight": _NUMBER, "score": _NUMBER},
                description="The weight of meaning in the score, and what it adds to that of the words, which counts "
                "for the rest of the weight; absent where only words count.",
            )
        },
        description="With `explain`: the factors of the score, (the sum of words + proximity) · exactName · "
        "staticRank; and the term that counts for each word of the question.",
    ),
}
_CHEAPEST = {"cheapest": maybe(ref("Cheapest"))}
_HOP: dict[str, Schema] = {
    "txid": TXID,
    "rawTx": HEX,
    "bump": HEX | {"description": "The merkle path, in the binary form of BRC-74."},
    "blockHash": TXID,
    "height": COUNT,
    "header": HEX | {"description": "The block's header of 80 bytes, longer where the chain's are."},
}
_HOP_WITNESS = {"witness": ref("Witness")}
_BEEF = HEX | {"description": "Transaction and path together (BRC-62, version 1), without any witness."}
_FACET = array_of(record({"value": TEXT, "count": COUNT}))

SCHEMAS: dict[str, Schema] = {
    "Item": record(
        _CHAIN_FIELDS | _SHOWN | _CHEAPEST | {"score": {"type": "number"}},
        _OPTIONAL_CHAIN_FIELDS | _OF_KIND | _ON_DEMAND,
    ),
    "Page": record(
        {
            "items": array_of(ref("Item")),
            "total": COUNT,
            "matched": COUNT | {"description": "How many of the results hold all words of `q` but stop words."},
            "totalRelation": {"enum": ["eq", "gte"]},
            "limit": COUNT,
            "offset": COUNT,
            "nextCursor": maybe(TEXT),
            "queryType": {"enum": list(KINDS)},
            "query": TEXT,
            "index": record({"seq": COUNT, "heights": {"type": "object", "additionalProperties": COUNT}}),
        },
        {
            "facets": {"type": "object", "propertyNames": {"enum": list(FACETS)}, "additionalProperties": _FACET},
            "facetTotals": {"type": "object", "additionalProperties": COUNT}
            | {"description": "How many values a facet has, up to 20,000; absent where not all were counted."},
            "unappliedFilters": array_of(TEXT),
            "priceComparison": {
                "enum": [sorting.AMOUNT, sorting.PER_DAY],
                "description": "Where prices are compared: as amounts, whatever their interval, or by what they come "
                "to for one day. `minPrice` and `maxPrice` bound amounts in either case.",
            },
            "rates": ref("Rates"),
            "corrected": array_of(record({"word": TEXT, "to": TEXT}))
            | {"description": "Words of `q` that no listing contains, and what was searched for instead."},
            "notes": array_of(ref("Fault")),
            "explain": {"type": "object"},
            "emptiedBy": array_of(
                record(
                    {"parameters": array_of(TEXT), "total": COUNT},
                    {"near": {"type": "object", "additionalProperties": _FACET}},
                )
            )
            | {
                "description": "Where nothing is found: filters without which there is something, and how much; `near` "
                "has skills and tags that are spelt nearly so, by parameter."
            },
            "didYouMean": array_of(record({"q": TEXT, "total": COUNT}))
            | {"description": "Where nothing is found: other texts that find something under the same filters."},
        },
    ),
    "Listing": record(
        _CHAIN_FIELDS | {"warnings": array_of(ref("Warning"))},
        _SHOWN | _CHEAPEST | {"servers": array_of(TEXT)} | _OPTIONAL_CHAIN_FIELDS | _OF_KIND,
        oneOf=[{"required": [*_SHOWN, *_CHEAPEST]}, {"required": ["servers"]}],
    ),
    "ListingOrIds": {"oneOf": [ref("Listing"), record({"ids": array_of(TEXT)})]},
    "Skill": record(
        {"id": TEXT, "name": TEXT, "description": TEXT, "tags": array_of(TEXT), "examples": array_of(TEXT)}
    ),
    "Offer": record(
        {
            "id": TEXT,
            "name": TEXT,
            "currency": TEXT,
            "amount": DECIMAL,
            "interval": maybe(TEXT) | {"description": "As written; null: per call."},
            "perDay": PER_DAY,
            "acceptedCurrencies": array_of(TEXT),
            "skillIds": array_of(TEXT) | {"description": "Empty: all skills."},
            "address": TEXT,
            "depositPct": maybe(DECIMAL),
            "priceFeedUrl": TEXT,
            "slippagePct": maybe(DECIMAL),
            "description": TEXT,
        }
    ),
    "Cheapest": record(
        {"offerId": TEXT, "amount": DECIMAL, "currency": TEXT, "interval": TEXT, "perDay": PER_DAY},
        {
            "converted": record(
                {"amount": DECIMAL, "currency": TEXT, "rate": DECIMAL, "perDay": PER_DAY},
                description="In priceCurrency: exactly the amount times the rate.",
            )
        },
        description="The lowest amount of the offers that meet the filters; where the page compares prices per day, "
        "the lowest price per day, if any of them has one.",
    ),
    "Rates": record(
        {"source": TEXT, "at": TIME, "age": COUNT, "base": TEXT},
        description="The exchange rates that an answer used, and their age in seconds.",
    ),
    "Quote": record(
        {
            "ok": BOOL,
            "id": TEXT,
            "status": {"enum": list(STATUSES)},
            "configId": TEXT,
            "stage": {"enum": list(STAGES)},
            "currency": TEXT,
            "interval": maybe(TEXT),
            "depositPct": maybe(DECIMAL),
            "address": {"type": "string", "description": "As the offer names it, for its own currency."},
        },
        {
            "code": {"type": "integer", "description": "Where ok is false: the JSON-RPC code of A2B §5.3."},
            "error": TEXT,
            "detail": TEXT,
            "anchor": record({"amount": DECIMAL, "currency": TEXT}, description="What is due in the offer's currency."),
            "amount": DECIMAL | {"description": "What is due, rounded up to the currency's smallest unit."},
            "least": DECIMAL | {"description": "The least that is enough, `slippagePct` below."},
            "rate": DECIMAL | {"description": "Units of `currency` for one of the offer's."},
            "slippagePct": DECIMAL | {"description": "A fraction: 0.01 is 1 %."},
            "neededSatoshis": COUNT,
            "leastSatoshis": COUNT,
            "rates": ref("Rates"),
            "validUntil": maybe(TIME) | {"description": "From when on the rates are too old; null without any."},
        },
    ),
    "PaymentClaim": record(
        {"claim": {"description": "The claim (A2B §4.2): `configId`, `stage`, `rawTx`, `currency`; null for none."}},
        {
            "id": maybe(TEXT) | {"description": "The listing with the price; else `config` is needed."},
            "config": {"type": ["object", "array", "null"], "description": "A price, a list of prices, or a card."},
            "skillId": maybe(TEXT),
            "state": maybe({"enum": ["pending", "needsFinal"]})
            | {"description": "Of the task; by itself, any stage is taken."},
        },
        additionalProperties=False,
    ),
    "PaymentCheck": record(
        {
            "ok": BOOL,
            "reasons": array_of(ref("Reason")),
            "unchecked": array_of(ref("Reason")),
            "neededSatoshis": maybe(COUNT) | {"description": "Null where no payment could be read."},
            "paidSatoshis": maybe(COUNT)
            | {"description": "What the outputs to the address hold together; null likewise."},
        },
        {
            "code": {"type": "integer", "description": "Where ok is false: the JSON-RPC code of A2B §5.3."},
            "error": TEXT,
            "detail": TEXT,
            "configId": TEXT,
            "stage": {"enum": list(STAGES)},
            "currency": TEXT,
            "address": TEXT,
            "txid": TXID,
            "rate": DECIMAL | {"description": "Units of `currency` for one of the offer's."},
            "slippagePct": DECIMAL,
            "leastSatoshis": COUNT | {"description": "The least that is enough, `slippagePct` below."},
        },
    ),
    "Revocation": record(
        {"revocation": record(dict.fromkeys(("revocationId", "revokedBy", "revokedAt", "signature"), TEXT)
                              | {"scope": {"enum": ["block", "chain"]}}, additionalProperties=False)},
        {"dct": TEXT | {"description": "A token that has the block; needed where many revocations are stored."}},
        additionalProperties=False,
    ),
    "Revoked": record({"revocationId": TEXT, "revokedBy": TEXT, "scope": {"enum": ["block", "chain"]}}),
    "Revocations": record({"revocations": array_of(record({"revocationId": TEXT})), "next": COUNT}),
    "Claim": record(
        {"document": {"description": "The claim: a JSON value, or a text (a token, an identity file, JSON as it is)."}},
        {
            "keys": {"type": ["object", "array", "null"], "description": "The keys that you trust, by identity."},
            "now": {"type": ["integer", "number", "string", "null"], "description": "Milliseconds since 1970, or RFC "
            "3339; default: the server's time."},
            "context": {"type": ["object", "null"], "description": "What a kind takes besides."},
        },
        additionalProperties=False,
    ),
    "EvidenceOfWork": record(
        {},
        {
            "kind": maybe({"enum": ["receipt", "attestation", "mrp-evidence"]}),
            "document": {"description": "A receipt of Motebit, `{attestation, contract}` of DelegateOS, or "
            "`{envelope, keys, request}` of MRP; without one only the key is bound."},
            "listing": maybe(TEXT) | {"description": "The agent whose card names the key that signed as the worker."},
            "bind": maybe(TEXT) | {"description": "That key's consent: a bearer token of Motebit for the audience "
            "`custom:a2b-bind` whose member `origin` is the id of the listing."},
            "payment": maybe(record(
                {"beef": HEX | {"description": "The payment with its merkle path."}},
                {"parent": maybe(HEX) | {"description": "What its first input spends, if that is not in the BEEF."}},
                additionalProperties=False,
            )) | {"description": "Of the task that is named `bsv:tx:<txid>`."},
        },
        additionalProperties=False,
    ),
    "AcceptedEvidence": record(
        {
            "document": maybe(TXID), "new": COUNT | {"description": "Records that are new, or have a new payment."},
            "listings": array_of(TEXT), "records": array_of({"type": "object"}),
            "bind": maybe(record({"key": TEXT, "listing": TEXT})),
        }
    ),
    "Evidence": record(
        {
            "id": TEXT, "rating": _CHAIN_FIELDS["rating"], "asOf": maybe(COUNT), "basisSha256": maybe(TXID),
            "completed": COUNT, "failed": COUNT,
            "facts": record(
                {
                    "keys": array_of(TEXT), "owner": TEXT, "ownerOf": {"type": "object"},
                    "ratedPayers": array_of(TEXT), "transfer": maybe({"type": "object"}),
                },
                description="What records are rated by besides: keys and addresses of the listing, owners of other "
                "keys, payers that are rated, and since when the owner has it.",
            ),
            "binds": array_of(record({"key": TEXT, "token": maybe(TXID), "receivedAt": COUNT})),
            "records": array_of(
                record(
                    {
                        "digest": TXID, "document": TXID, "worker": TEXT, "counterSigner": maybe(TEXT), "task": TEXT,
                        "outcome": {"enum": ["completed", "failed", "denied"]}, "completedAt": COUNT,
                        "receivedAt": COUNT, "beforeTransfer": BOOL, "payment": maybe({"type": "object"}),
                        "rung": {"enum": ["E0", "E1", "E2", "E3"]}, "weight": COUNT, "reason": maybe(TEXT),
                        "counterparty": maybe(TEXT),
                    }
                )
            ),
            "next": maybe(TEXT),
        }
    ),
    "ClaimDocument": {"description": "The bytes of the document, as they were hashed."},
    "Verdict": record(
        {
            "verified": BOOL,
            "axes": record(
                {
                    "integrity": {"enum": ["verified", "invalid"]},
                    "identityBinding": {"enum": ["sovereign", "pinned", "unverified", "invalid"]},
                    "authority": {"enum": ["valid", "expired", "not_yet_valid", "insufficient", "unknown"]},
                    "revocation": record({"status": {"enum": ["fresh", "revoked", "unchecked"]}}),
                }
            ),
        },
        {
            "error": TEXT | {"description": "A stable code."},
            "detail": TEXT,
            "delegations": {"type": "array", "description": "Verdicts on nested receipts.", "items": ref("Verdict")},
        },
    ),
    "Reason": record({"code": TEXT, "detail": TEXT}),
    "WalletFile": record(
        {
            "fee": COUNT | {"description": "Satoshis; without coins, those of one input with change."},
            "createAction": {"type": "object", "description": "The output, as arguments of a BRC-100 wallet."},
        },
        {
            "rawTx": HEX,
            "extended": HEX | {"description": "The unsigned transaction in extended format (BRC-30)."},
            "inputs": array_of(record({"outpoint": OUTPOINT, "satoshis": COUNT, "script": HEX})),
        },
        description="An unsigned registration; without coins, its output only.",
    ),
    "Anchor": record(
        {"chain": TEXT, "txid": TEXT, "height": maybe(COUNT), "hash": maybe(TEXT), "met": BOOL, "time": maybe(TIME)},
        {"outpoint": maybe(OUTPOINT)},
    ),
    "Warning": record({"code": TEXT, "pointer": TEXT, "detail": TEXT}),
    "Fault": record({"code": TEXT, "detail": TEXT}, {"parameter": TEXT, "pointer": TEXT}),
    "Problem": record(
        {
            "type": TEXT,
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "title": TEXT,
            "detail": TEXT,
            "errors": array_of(ref("Fault")),
            "requestId": TEXT,
            "error": TEXT,
        }
    ),
    "PaymentRequired": record(
        {"code": {"type": "integer"}, "error": TEXT},
        {
            "x402Version": {"type": "integer"},
            "accepts": array_of({"type": "object"}),
            "reason": TEXT,
            "detail": TEXT,
            "state": TEXT,
        },
        description="What the payment gate answers (A2B §5.3), also as x402 clients read it.",
    ),
    "Suggestions": record(
        {
            "items": array_of(
                record({"text": TEXT, "kind": TEXT}, {"id": TEXT | {"description": "Of a listing or skill."}})
            )
        }
    ),
    "History": record(
        {"id": TEXT, "revisions": array_of(ref("Revision"))},
        {
            "drifts": array_of(record({"cardSha256": TXID, "since": TIME}))
            | {"description": "What its address served instead of the card listed at that time, the newest first."}
        },
    ),
    "Revision": record(
        {
            "outpoint": maybe(OUTPOINT),
            "txid": TXID,
            "height": maybe(COUNT),
            "txIndex": maybe(COUNT),
            "kind": TEXT,
            "cardSha256": maybe(TXID),
            "valid": BOOL,
            "reason": TEXT,
            "reasons": array_of(record({"code": TEXT, "detail": TEXT})),
            "owner": maybe(TEXT),
            "signer": maybe(TEXT),
            "spent": maybe(OUTPOINT),
            "blockHash": maybe(TXID),
            "timestamp": maybe(TIME),
        }
    ),
    "Card": {"type": "object", "description": "The exact bytes that were published."},
    "Witness": record(
        {
            "coinbase": HEX | {"description": "The block's coinbase transaction, without its witness."},
            "coinbaseBump": HEX | {"description": "Its merkle path (BRC-74)."},
            "reserved": {
                "type": "string",
                "pattern": "^([0-9a-f]{64})?$",
                "description": "The 32 bytes in its witness, empty where it has none.",
            },
        },
        {"bump": HEX | {"description": "The merkle path of the wtxid, absent where the block commits to no witness."}},
        description="What proves that the transaction's witness was mined (BIP 141), on BTC and LTC, where envelopes "
        "are in witnesses. Absent for blocks that were read before this was stored.",
    ),
    "Hop": record(_HOP, _HOP_WITNESS, description="A transaction and the block that it was mined in."),
    "Current": record(
        {"outpoint": maybe(OUTPOINT) | {"description": "Null once the satoshi is burned."}, **_HOP, "beef": _BEEF},
        _HOP_WITNESS,
        description="Where the satoshi is now: absent while that is the winning revision's outpoint.",
    ),
    "Proof": record(
        {
            "id": TEXT,
            "chain": {"type": "string", "description": "The chain's CAIP-2 id."},
            "outpoint": OUTPOINT | {"description": "Where the winning revision is inscribed."},
            **_HOP,
            "beef": _BEEF,
        },
        {
            **_HOP_WITNESS,
            "current": ref("Current"),
            "before": array_of(ref("Hop"))
            | {"description": "The transactions from the registration to this revision."},
            "after": array_of(ref("Hop"))
            | {"description": "Those that moved the satoshi since, without a newer revision."},
            "parents": array_of(HEX)
            | {
                "description": "Kept transactions that those spend before the satoshi: their values say where it went. "
                "They need no merkle path, as what spends them commits to their ids."
            },
            "ownerCheckedAt": TIME,
            "from": COUNT,
            "headers": array_of({"type": "string", "pattern": "^[0-9a-f]{160}$"})
            | {"description": "Consecutive headers from height `from` on."},
        },
    ),
    "Headers": record(
        {
            "chain": {"type": "string", "description": "The chain's CAIP-2 id."},
            "from": COUNT,
            "headers": array_of({"type": "string", "pattern": "^[0-9a-f]{160}$"}),
        }
    ),
    "RawTransaction": record(
        {"rawTx": {"type": "string", "pattern": "^([0-9a-fA-F]{2})+$"}}, additionalProperties=False
    ),
    "WantedTransaction": record(
        {"txid": {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"}}, additionalProperties=False
    ),
    "Ingest": record(
        {
            "txid": TXID,
            "state": {"enum": ["waiting", "found", "indexed", "given-up"]},
            "askedAt": TIME,
            "tries": COUNT,
            "nextTryAt": maybe(TIME),
            "detail": TEXT,
        }
    ),
    "Recheck": record(
        {
            "id": TEXT,
            "checks": array_of(
                record(
                    {
                        "what": {"enum": ["pointer", "domain"]},
                        "name": TEXT,
                        "state": TEXT,
                        "code": maybe(TEXT),
                        "detail": TEXT,
                        "lastAt": maybe(TIME),
                        "nextAt": TIME,
                    }
                )
            ),
        }
    ),
    "PublishForm": record({"what": TEXT | {"description": "A txid, a raw transaction or a card."}}, {"fetch": TEXT}),
    "CardOrPrices": {"description": "An agent card, an MCP config or a price list; other values get errors."},
    "Check": record(
        {
            "ok": BOOL,
            "errors": array_of(ref("Warning")),
            "warnings": array_of(ref("Warning")),
            "preview": maybe(ref("Preview")) | {"description": "Of the result card, or of the prices."},
        }
    ),
    "Preview": record(
        {"type": {"enum": [*KINDS[:2], "prices"]}},
        _SHOWN | _CHEAPEST | {"servers": array_of(ref("Preview"))} | _OF_KIND,
        anyOf=[{"required": [*_SHOWN, *_CHEAPEST]}, {"required": ["servers"]}, {"required": ["offers", *_CHEAPEST]}],
    ),
    "Diagnosis": record(
        {
            "txid": TEXT,
            "found": BOOL,
            "where": {"enum": ["mempool", "block", "raw", "nowhere"]},
            "source": maybe(TEXT),
            "steps": array_of(record({"step": TEXT, "ok": BOOL, "detail": TEXT}, {"code": TEXT})),
            "records": array_of(ref("DiagnosedRecord")),
            "listed": array_of(TEXT),
        },
        {
            "height": COUNT,
            "blockHash": TXID,
            "confirmations": COUNT,
            "moreRecords": COUNT | {"description": "Records beyond those shown, or outputs that were not read."},
            "now": array_of(ref("RegistrationNow")),
        },
    ),
    "RegistrationNow": record(
        {
            "id": TEXT,
            "status": {"enum": ["live", "burned", "undecided"]},
            "outpoint": maybe(TEXT),
            "cardOutpoint": TEXT,
            "owner": maybe(TEXT),
        }
    )
    | {"description": "A registration that the transaction is about, as it is now."},
    "DiagnosedRecord": record(
        {
            "outpoint": maybe(TEXT),
            "kind": {"enum": ["registration", "update", "pointer", "near-miss"]},
            "outcome": TEXT,
            "valid": BOOL,
            "reasons": array_of(record({"code": TEXT, "detail": TEXT})),
        },
        {"id": TEXT},
    ),
    "Changes": record({"changes": array_of(ref("Change")), "epoch": TEXT, "nextSince": COUNT, "more": BOOL}),
    "Change": record(
        {
            "seq": COUNT,
            "epoch": TEXT,
            "op": {"enum": ["upsert", "remove", "revert", "reset"]},
            "id": maybe(TEXT),
            "height": maybe(COUNT),
            "reason": TEXT,
        }
    ),
    "Status": record(
        {"version": TEXT, "chains": array_of(ref("ChainStatus")), "listings": ref("Counts")},
        {
            "index": record(
                {"engine": TEXT, "seq": COUNT, "behind": COUNT, "meaning": {"type": "boolean"}},
                {
                    "renewal": record(
                        {"done": COUNT, "of": COUNT},
                        description="While some process rebuilds the index: registrations carried, of about how "
                        "many. Until it is done the one before answers.",
                    ),
                    "damage": {
                        "type": "string",
                        "description": "What is wrong with the files of the index, while it is rebuilt. Searches find "
                        "what the others hold.",
                    },
                    "compiling": {
                        "const": True,
                        "description": "While code that every search needs is compiled, once per installation. Until "
                        "it is done searches are answered with 503.",
                    },
                },
            ),
            "replica": record(
                {"source": TEXT, "lagSeconds": maybe({"type": "number"}), "behind": maybe(COUNT)},
                description="How far the replica that is read from is behind: in seconds and in changes.",
            ),
            "stateHash": {
                "type": "object",
                "additionalProperties": maybe(record({"height": COUNT, "hash": maybe(TEXT)})),
                "description": "Of each chain, computed once per tip; null where completeness cannot be known.",
            },
            "rates": maybe(ref("RatesStatus")),
            "integrity": record(
                {"state": {"enum": ["checking", "ok", "interrupted", "failed"]}, "checkedAt": TIME, "detail": TEXT},
                description="The last check of a SQLite database for damage, which follows a stop that was not clean, "
                "and an error; `interrupted`: no fault was found in 60 s. A damaged database answers 503 everywhere.",
            ),
            "pointers": {
                "type": "object",
                "additionalProperties": COUNT,
                "description": "How many of the places that pointers name are in which state of fetching.",
            },
        },
    ),
    "RatesStatus": record(
        {
            "source": maybe(TEXT),
            "at": maybe(TIME),
            "age": maybe(COUNT),
            "base": maybe(TEXT),
            "feeds": array_of(ref("Feed")),
        },
        description="The exchange rates in use, the preferred feed first; null members when none may be used.",
    ),
    "Feed": record(
        {"source": TEXT, "base": TEXT, "at": maybe(TIME), "age": maybe(COUNT), "usable": BOOL},
        {"code": TEXT, "error": TEXT, "leftOut": array_of(TEXT)},
    ),
    "ChainStatus": record(
        {"name": TEXT, "chain": TEXT, "state": TEXT, "height": maybe({"type": "integer"}), "hash": maybe(TEXT)},
        {
            "network": maybe(TEXT),
            "tip": maybe({"type": "integer"}),
            "lag": maybe({"type": "integer"}),
            "mempool": maybe({"type": "integer"}),
            "reorgs": maybe(COUNT),
            "source": maybe(TEXT),
            "error": maybe(TEXT),
            "checked": TEXT,
            "complete": BOOL,
            "caught": COUNT,
            "note": TEXT,
            "sources": array_of(ref("SourceStatus")),
            "warnings": array_of(TEXT),
        },
        description="Of a chain that is stored, tip, lag, mempool and reorgs are null: who follows it knows them.",
    ),
    "SourceStatus": record(
        {"source": TEXT, "state": {"enum": ["current", "ready", "starting", "unreachable", "stopped"]}},
        {"height": maybe(COUNT), "hash": maybe(TEXT), "error": TEXT},
    ),
    "Counts": {"type": "object", "additionalProperties": COUNT},
    "Health": record({"status": TEXT, "version": TEXT}),
    "OpenApi": {"type": "object"},
}  # fmt: skip
