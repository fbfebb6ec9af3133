"""Reasons why something is invalid, or valid with a warning: one table of codes and sentences.

A code is stable and for programs; the sentence is for publishers. `{}` in a sentence is filled with the reason's
detail. Sentences are lower-case, without a full stop: they can be part of another sentence.
"""

from __future__ import annotations

from typing import NamedTuple

UNPROVED = "unproved"

SENTENCES: dict[str, str] = {
    # what an output lacks to be a registration (laws 1, 2 and 7)
    "satoshis": "the output holds {}",
    "no-map": "no MAP record",
    "no-envelope": "no ord envelope",
    "map-type": "MAP type is not an A2B type",
    "map-app": "MAP type agent belongs to app bsv-mcp only",
    "map-command": "the MAP command is not SET",
    "map-elsewhere": "MAP is in another output",
    "envelope-in-push": "the envelope is only bytes inside a push",
    "body-truncated": "the body push runs past the script",
    "envelope-open": "the envelope is not closed",
    "envelope-no-body": "the envelope has no body",
    "envelope-opcode": "an opcode is where the envelope needs a push",
    "content-type": "content type is not JSON",
    "content-encoding": "the envelope declares the content encoding {}, which is not read: inscribe the card "
    "uncompressed",
    "script-truncated": "a push runs past the end of the tapscript, so nothing in it is read",
    "unbound": "bound to no satoshi: {}",
    "outpoint-taken": "this transaction makes as many registrations at the same outpoint as it may: {}",
    # what a re-inscription got wrong (law 4)
    "kind-changed": "{}",
    # how a registration ended (laws 3 and 5)
    "burned-merged": "into an output of more than one satoshi",
    "burned-fee": "to the fee",
    "burned-displaced": "into the change: another satoshi took output {}",
    "burned-unspendable": "into an output that cannot be spent",
    "values-unknown": "the value of an earlier input is not known yet, so where the satoshi went is undecided: {}",
    "origin-unknown": "whether its satoshi was registered before the first block that was read is not known: {}",
    "origin-untraced": "whether its satoshi was registered before the first block that was read is not traced: {}",
    "spent-elsewhere": "another transaction spent the registration's satoshi: {}",
    # pointers (law 8)
    "pointer-domain": "not a domain name",
    "pointer-hash": "the hash is neither 32 bytes nor 64 hex digits",
    "pointer-uri": "the uri is neither https nor ipfs",
    "pointer-path": "the path of the ipfs uri has a segment '.' or '..', which could lead out of its CID",
    "pointer-extra": "more follows than a domain and a hash",
    "pointer-mismatch": "the hash is not that of the card beside it",
    "pointer-encoding": "the pointer cannot be decoded: {}",
    "pointer-split": "the parts of the split pointer do not make one pointer: {}",
    # entries of ERC-8004 registries
    "entry-no-uri": "the registry entry names no registration file",
    "entry-burned": "the registry entry was burned",
    "data-uri": "the data URI cannot be read: {}",
    # accounts of Solana, which hold one thing at a time (law 8)
    "pointer-withdrawn": "the account no longer holds this pointer",
    "account-closed": "the account was closed",
    "account-points": "the account no longer holds a card, but a pointer",
    # why bytes are not a card, in order of importance (law 12; the counts of law 6)
    "card-size": "the card is larger than 1 MiB",
    "card-bom": "the card begins with a byte order mark, which JSON does not allow",
    "card-utf8": "the card is not UTF-8",
    "card-nesting": "the card is nested deeper than 64 levels",
    "card-json": "the card is not JSON",
    "card-number": "a number of the card has more than 100 digits or an exponent beyond 400",
    "card-constant": "the card holds {}, which is not a JSON number",
    "card-surrogate": "the card holds half of a surrogate pair",
    "card-object": "the card is not a JSON object",
    "card-name": "the card has no name",
    "card-skills": "the card has no skills",
    "card-url": "the card has neither a url nor an interface",
    "config-servers": "the config has no object mcpServers",
    "config-no-server": "mcpServers has no named entry",
    "config-server-count": "mcpServers has more than 64 entries",
    "config-server-key": "a name in mcpServers is longer than 256 bytes",
    # what a publisher could do better in a card (law 12); the card is listed all the same
    "duplicate-key": "a key is repeated, and only its last value counts: {}",
    "wrong-type": "a value of the wrong type is ignored: {}",
    "missing": "the card lacks {}",
    "not-indexed": "not all of the card is indexed: {}",
    "more-warnings": "there are {} more warnings",
    "tolerated": "read, but not as the specification writes it: {}",
    "ignored": "not read: {}",
    "skill-id": "a skill without an id is ignored",
    "skill-repeated": "two skills have the id {}",
    "tools-changed": "its endpoint lists other tools than those that were seen first: {}",
    "motebit-claim": "the Motebit identity that the card states is ignored: {}",
    "key-changed": "the host of the agent serves another Motebit key since {}, and the key that it published first did "
    "not sign it",
    "url-form": "not an absolute URL: {}",
    "url-host": "a URL with a host or port that nobody can reach: {}",
    "url-local": "a URL that leads to the caller's own machine or network: {}",
    "inactive": "the card says that it is not active",
    "entry-unnamed": "the registration file does not name the registry entry {}",
    "secret": "it holds what looks like a live secret, and what is inscribed is public for ever: {}",
    # what is dangerous to use: patterns that say where to look, and prove nothing
    "hidden-text": "a text holds what a reader does not see, and a model or a terminal does: {}",
    "instructs-model": "a text is addressed to the model that reads it, and not to a person: {}",
    "pipe-to-shell": "the command runs what it fetches, or what it hides",
    "privileged": "the command takes rights of the administrator, or those of a container over its host",
    "mounts-root": "the command gives a container the whole machine, or the socket that commands its containers",
    "lookalike-package": "the package is named like a well-known one, and is another one: {}",
    "unpinned": "the newest version of the package is run, whatever it will be: {}",
    "shell-characters": "a shell would take characters of the command otherwise than as written",
    "runs-commands": "a tool says that it runs commands on your machine: {}",
    "env-value": "values of env are read as descriptions, and this one looks like a value: {}",
    # what is wrong with a card that was fetched (law 10)
    "drifted": "where the card was fetched something else is served since {}; this is still the one that was verified",
    "card-differs": "the card that the host serves now differs from the inscribed one: {}",
    # what is wrong with the chain that a listing is on
    "card-signature": "the card's signature is not verified: {}",
    "headers-unproved": "merge-mined headers of its chain were taken without their proof of work (auxpow=unchecked)",
    UNPROVED: "it was submitted, and no block may ever hold it: the chain's source has not had it in its mempool",
    # what a listing has in common with another one that was there first
    "same-name": "another listing had this name before: {}",
    "same-url": "another listing had this URL before: {}",
    "same-address": "another listing had payments go to the same address before: {}",
    "same-text": "another listing with this text, but another URL, host, command or pay-to address, had its name "
    "before: {}",
    # what is wrong with a price (law 13)
    "offer-amount": "a price is left out, because its amount is not a number from 0 up: {}",
    "offer-currency": "a price is left out, because it names no currency",
    "offer-interval": "a price is left out, because its interval is not a text: {}",
    "interval-unknown": "the interval of a price is neither a duration such as P1M, nor day, week, month or year, nor "
    "per call, so that no filter but this text finds it: {}",
    "offer-skill": "a price names a skill that the card does not have: {}",
    "offer-fraction": "a share that is not a number from 0 to 1 is ignored: {}",
    "offer-repeated": "two prices have the id {}",
    "offer-conflict": "prices are in two members and differ: {}",
    "address-checksum": "the address has no valid checksum, so no payment can reach it: {}",
    "unpayable": "no payment in a currency that is accepted can reach the address: {}",
    "sats": "SATS is 0.00000001 of the coin of the chain that carries the card, and nothing on one without satoshis",
    # what recent revisions changed: a warning for some time, so that buyers look twice
    "price-changed": "{}",
    "address-changed": "{}",
}


HIGH, LOW, INFO = "high", "low", "info"

SEVERITIES: dict[str, str] = {
    **dict.fromkeys(
        ("secret", "hidden-text", "instructs-model", "pipe-to-shell", "privileged", "mounts-root", "lookalike-package",
         "key-changed"),
        HIGH,
    ),
    **dict.fromkeys(
        ("unpinned", "shell-characters", "runs-commands", "url-local", "drifted", "card-differs", "card-signature",
         "headers-unproved",
         UNPROVED, "same-name", "same-url", "same-address", "address-checksum", "unpayable", "price-changed",
         "address-changed", "motebit-claim", "tools-changed"),
        LOW,
    ),
}  # fmt: skip
"""How severe a warning is for those who use a listing; others are for information.

`high`: look at it before anything is run, signed or sent. `low`: a reason to read the card with care."""


def severity(code: str) -> str:
    """`high`, `low` or `info`."""
    return SEVERITIES.get(code, INFO)


class Reason(NamedTuple):
    """A reason code, its `detail`, and the JSON Pointer (RFC 6901) of the value in a card that it is about."""

    code: str
    detail: str = ""
    pointer: str = ""

    @property
    def sentence(self) -> str:
        """The sentence of the code, with the detail where it has a field for it."""
        return SENTENCES[self.code].replace("{}", self.detail)

    @property
    def explanation(self) -> str:
        """The sentence, followed by the detail where the sentence has no field for it."""
        has_place = "{}" in SENTENCES[self.code]
        return self.sentence if has_place or not self.detail else f"{self.sentence}: {self.detail}"
