"""Delegations of DelegateOS (§8): each block of a token is one, and they form a chain from the root.

Codes: broken_chain, chain_depth_exceeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from parsers.claims.canonical_json import DocumentError
from parsers.claims.delegateos.capability_token import Token, blocks
from parsers.claims.delegateos.token_issue import ROOT_PARENT


class Delegation(NamedTuple):
    """A delegation (§8.1): its id and its parent's, the delegating and the receiving principal, its contract, its
    depth, and the token that ends with its block."""

    id: str
    parent_id: str
    delegator: str
    delegatee: str
    contract_id: str
    depth: int
    token: Token


def delegations_of(token: Token) -> list[Delegation]:
    """The chain that a token states, from the root, each with the part of the token that its delegatee got."""
    authority = token["authority"]
    chain: list[Delegation] = []
    for number, block in enumerate(blocks(token)):
        part = {
            **token,
            "attenuations": token["attenuations"][:number],
            "signatures": token["signatures"][: number + 1],
        }
        chain.append(
            Delegation(
                block["delegationId"],
                chain[-1].id if chain else authority["parentDelegationId"],
                block.get("attenuator", authority["issuer"]),
                block["delegatee"],
                block["contractId"],
                int(authority["chainDepth"]) + number,
                part,
            )
        )
    return chain


def check_chain(chain: Sequence[Delegation]) -> None:
    """Check the five invariants (§8.2) of a chain from its root. Raises DocumentError."""
    if not chain:
        raise DocumentError("broken_chain", "the chain is empty")
    root = chain[0]
    if root.parent_id != ROOT_PARENT or root.depth != 0:
        raise DocumentError("broken_chain", f"the root has not the parent {ROOT_PARENT} and depth 0")
    max_depth = root.token["authority"]["maxChainDepth"]
    for parent, child in pairwise(chain):
        if child.parent_id != parent.id or child.delegator != parent.delegatee:
            raise DocumentError("broken_chain", f"{child.id[:100]!a} is not delegated by who got its parent")
        if child.depth != parent.depth + 1:
            raise DocumentError("broken_chain", f"{child.id[:100]!a} is not one deeper than its parent")
        if not _is_attenuation(child.token, parent.token):
            raise DocumentError(
                "broken_chain", f"the token of {child.id[:100]!a} is not an attenuation of its parent's"
            )
    if chain[-1].depth > max_depth:
        detail = f"depth {chain[-1].depth} is more than the root's maxChainDepth, {max_depth}"
        raise DocumentError("chain_depth_exceeded", detail)


def _is_attenuation(child: Token, parent: Token) -> bool:
    """Whether a token is another one with one attenuation more."""
    shared: list[Any] = [child["attenuations"][:-1], child["signatures"][:-1]]
    return (
        child["authority"] == parent["authority"]
        and len(child["attenuations"]) == len(parent["attenuations"]) + 1
        and shared == [parent["attenuations"], parent["signatures"]]
    )
