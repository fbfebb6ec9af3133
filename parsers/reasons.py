"""Why something was not accepted, or is accepted with a warning: one table of codes and sentences.

A code is stable and fit for programs; the sentence is for the publisher who asks why. `{}` in a sentence is filled
with the reason's detail. Sentences are lower-case, without a full stop, so that they can stand inside another.
"""

from __future__ import annotations

from typing import NamedTuple

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
    "content-type": "content type is not JSON",
    "outpoint-taken": "another registration of this transaction has the same outpoint",
    # what a re-inscription got wrong (law 4)
    "kind-changed": "{}",
    # how a registration ended (laws 3 and 5)
    "burned-merged": "into an output of more than one satoshi",
    "burned-fee": "to the fee",
    "burned-displaced": "into the change: another satoshi took output {}",
    "burned-unspendable": "into an output that cannot be spent",
    "values-unknown": "the value of an earlier input is not known yet, so where the satoshi went cannot be told: {}",
    # pointers (law 8)
    "pointer-domain": "not a domain name",
    "pointer-hash": "the hash is neither 32 bytes nor 64 hex digits",
    "pointer-uri": "the uri is neither https nor ipfs",
    "pointer-split": "the parts of the split pointer do not make one pointer: {}",
}


class Reason(NamedTuple):
    """A reason code, what it is about (`detail`), and where in a card it stands (`pointer`, RFC 6901)."""

    code: str
    detail: str = ""
    pointer: str = ""

    @property
    def sentence(self) -> str:
        """The sentence for people, from the table."""
        return SENTENCES[self.code].replace("{}", self.detail)
