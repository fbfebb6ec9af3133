"""`a2b dct`: capability tokens of DelegateOS, made and checked on this machine. Keys come from a file or the
environment, never from the command line, and are never shown."""

from __future__ import annotations

import json
import secrets
import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlay.commands.options import UsageError, add_json, command
from overlay.commands.signing_keys import add_key, add_members, members_of, signing_key
from overlay.text.safe_text import on_one_line
from overlay.text.terminal import say, say_json
from overlay.text.timestamps import timestamp

if TYPE_CHECKING:
    from overlay.commands.options import Commands

MAX_FILE, MAX_LIST = 64 << 10, 4 << 20
"""Bytes of a file, and of a list of revocations, which has up to a thousand."""

HOUR = 3_600
_NANOSECONDS = 10**9


def add(commands: Commands) -> None:
    """Add `a2b dct` and its subcommands."""
    nested = command(
        commands, "dct", lambda _: 2, "Make and check capability tokens of DelegateOS."
    ).add_subparsers(metavar="ACTION", required=True)  # fmt: skip
    key = "The key is 64 hex digits, the private one of Ed25519."
    parser = command(nested, "principal", principal, "Print the principal (public key) of a key.", more=key)
    add_key(parser)
    parser = command(nested, "issue", issue, "Print a root token, signed by a key.", more=key)
    _add_scope(parser, budget=1_000, depth=3)
    parser = command(nested, "attenuate", attenuate, "Print a token narrowed by its delegatee.", more=key)
    _add_token(parser)
    _add_scope(parser, budget=None, depth=None)
    parser = command(nested, "inspect", inspect, "Show what a token says, unverified.")
    _add_token(parser)
    add_json(parser)
    parser = command(nested, "verify", verify, "Verify a token. Exit code 1 when it is denied.")
    _add_token(parser)
    parser.add_argument("--root", metavar="PRINCIPAL", action="append", required=True, help="a trusted issuer")
    parser.add_argument("--grants", metavar="ACTION[:RESOURCE]", help="what registry:… it has to grant [anything]")
    parser.add_argument(
        "--revocations", metavar="FILE", type=Path, help="what GET /v1/delegations/revocations answered"
    )
    add_json(parser)
    parser = command(nested, "revoke", revoke, "Print a signed revocation of a block of a token.", more=key)
    _add_token(parser)
    parser.add_argument("--block", metavar="N", type=int, help="0 is the root [the last one]")
    parser.add_argument("--chain", action="store_true", help="as the signer of a block above it")
    add_key(parser)
    parser = command(nested, "contract", contract, "Print a task contract, signed by its issuer.",
                     more="id, version, createdAt and issuer are added.")  # fmt: skip
    add_members(parser)
    add_key(parser)
    parser = command(nested, "attest", attest, "Print an attestation of work under a contract, which it meets.",
                     more="Its ids, version, type, createdAt and principal are added.")  # fmt: skip
    parser.add_argument("contract", metavar="TASK", type=Path, help="the signed contract")
    add_members(parser)
    add_key(parser)
    parser = command(nested, "prove", prove, "Print the value of the header X-DCT-Proof for one request.", more=key)
    parser.add_argument("method", metavar="METHOD", help="such as POST")
    parser.add_argument("path", metavar="PATH", help="with its query, such as /v1/ingest")
    parser.add_argument("body", metavar="FILE", type=Path, nargs="?", help="the body [none]")
    add_key(parser)


def _add_token(parser: ArgumentParser) -> None:
    parser.add_argument("token", metavar="FILE", help="the token's file, - for standard input")


def _add_scope(parser: ArgumentParser, budget: int | None, depth: int | None) -> None:
    parent = "" if budget is None else f" [{budget}]"
    parser.add_argument("--to", metavar="PRINCIPAL", required=True, help="who gets the token")
    parser.add_argument(
        "--allow", metavar="ACTION[:RESOURCE]", action="append", required=budget is not None,
        help="search, submit or rate, of a tool (tool:NAME) or an origin [of everything]; repeatable",
    )  # fmt: skip
    parser.add_argument("--budget", metavar="REQUESTS", type=int, default=budget, help=f"requests in all{parent}")
    parser.add_argument("--seconds", metavar="N", type=int, default=HOUR, help=f"how long it is valid [{HOUR}]")
    parser.add_argument("--depth", metavar="N", type=int, default=depth, help="how often it may be delegated on"
                        + ("" if depth is None else f" [{depth}]"))  # fmt: skip
    parser.add_argument("--contract", metavar="ID", default="ct_000000000000", help="its contract [ct_000000000000]")
    add_key(parser)


def principal(args: Namespace) -> int:
    """Print the principal of a key."""
    from parsers.claims.delegateos.signed_objects import principal_of

    say(principal_of(signing_key(args)))
    return 0


def issue(args: Namespace) -> int:
    """Print a root token."""
    from parsers.claims.delegateos.token_issue import create_dct

    now = time.time()
    authority = {
        "delegatee": args.to, "contractId": args.contract, "delegationId": f"del_{secrets.token_hex(6)}",
        "capabilities": list(map(_capability, args.allow)), "maxChainDepth": args.depth,
        "maxBudgetMicrocents": args.budget, "expiresAt": _time(now + args.seconds), "issuedAt": _time(now),
    }  # fmt: skip
    say(create_dct(signing_key(args), authority)["token"])
    return 0


def attenuate(args: Namespace) -> int:
    """Print a narrower token."""
    from parsers.claims.delegateos.token_issue import attenuate_dct, inspect_dct

    token = _token(args)
    expires = min(_time(time.time() + args.seconds), inspect_dct(token)["expiresAt"], key=_nanoseconds)
    attenuation = {
        "delegatee": args.to, "contractId": args.contract, "delegationId": f"del_{secrets.token_hex(6)}",
        "expiresAt": expires,
        **({"allowedCapabilities": list(map(_capability, args.allow))} if args.allow else {}),
        **({"maxBudgetMicrocents": args.budget} if args.budget is not None else {}),
        **({"maxChainDepth": args.depth} if args.depth is not None else {}),
    }  # fmt: skip
    say(attenuate_dct(token, signing_key(args), attenuation)["token"])
    return 0


def inspect(args: Namespace) -> int:
    """Show a token."""
    from parsers.claims.delegateos.capability_token import capability_text
    from parsers.claims.delegateos.token_issue import inspect_dct

    shown = inspect_dct(_token(args))
    if args.json:
        say_json(shown)
        return 0
    shown["capabilities"] = list(map(capability_text, shown["capabilities"]))
    for name, value in shown.items():
        text = ", ".join(value) if isinstance(value, list) else str(value)
        say(f"{name:20}{on_one_line(text)}")
    return 0


def verify(args: Namespace) -> int:
    """Print the verdict on a token."""
    from parsers.claims.delegateos.capability_token import TokenContext, verify_dct

    revocations = _revocations(args.revocations) if args.revocations else []
    context = TokenContext(roots=frozenset(args.root), now=time.time_ns(), revocations=revocations)
    if args.grants:
        capability = _capability(args.grants)
        context = TokenContext(
            roots=context.roots, now=context.now, revocations=revocations, operation=capability["action"],
            namespace=capability["namespace"], resource=capability["resource"],
        )  # fmt: skip
    verdict = verify_dct(_token(args), context)
    if args.json:
        say_json(verdict.as_json())
    else:
        say("verified" if not verdict.error else f"{verdict.error}: {on_one_line(verdict.detail)}")
    return 1 if verdict.error else 0


def _revocations(file: Path) -> list[Any]:
    try:
        entries = json.loads(_read(file, MAX_LIST))["revocations"]
    except (ValueError, KeyError, TypeError):
        entries = None
    if not isinstance(entries, list):
        raise UsageError(f"{file} is not what GET /v1/delegations/revocations answers")
    return entries


def revoke(args: Namespace) -> int:
    """Print a signed revocation."""
    from parsers.claims.delegateos.signed_objects import principal_of
    from parsers.claims.delegateos.token_issue import block_signers, inspect_dct, revoke_block

    token, seed = _token(args), signing_key(args)
    ids, signers = inspect_dct(token)["revocationIds"], block_signers(token)
    block = len(ids) - 1 if args.block is None else args.block
    if not 0 <= block < len(ids):
        raise UsageError(f"the token has the blocks 0 to {len(ids) - 1}")
    if principal_of(seed) not in (signers[:block] if args.chain else signers[block : block + 1]):
        signed = [str(number) for number, signer in enumerate(signers) if signer == principal_of(seed)]
        raise UsageError(
            f"this key did not sign {f'a block above block {block}' if args.chain else f'block {block}'}, so its "
            f"revocation would never count; it signed {', '.join(signed) or 'no block'} of the blocks 0 to "
            f"{len(ids) - 1}{'' if args.chain or not signed else ' (--chain revokes a block below these)'}"
        )
    say_json(revoke_block(seed, ids[block], _time(time.time()), "chain" if args.chain else "block"))
    return 0


def contract(args: Namespace) -> int:
    """Print a signed contract."""
    from parsers.claims.delegateos.contracts import sign_contract

    defaults = {"id": f"ct_{secrets.token_hex(6)}", "version": "0.1", "createdAt": _time(time.time())}
    say_json(sign_contract(signing_key(args), {**defaults, **_object(members_of(args))}))
    return 0


def attest(args: Namespace) -> int:
    """Print a signed attestation."""
    from parsers.claims.canonical_json import read
    from parsers.claims.delegateos.contracts import sign_attestation
    from parsers.claims.delegateos.token_issue import ROOT_PARENT

    contract = _object(read(args.contract.read_bytes()))
    defaults: dict[str, Any] = {
        "id": f"att_{secrets.token_hex(6)}", "version": "0.1", "contractId": contract.get("id"),
        "delegationId": ROOT_PARENT, "createdAt": _time(time.time()), "type": "completion", "childAttestations": [],
    }  # fmt: skip
    say_json(sign_attestation(signing_key(args), {**defaults, **_object(members_of(args))}, contract))
    return 0


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError("contracts and attestations are JSON objects")
    return value


def prove(args: Namespace) -> int:
    """Print a holder proof."""
    from parsers.claims.delegateos.holder_proof import sign_proof

    body = args.body.read_bytes() if args.body else b""
    moment, nonce = _time(time.time()), secrets.token_urlsafe(16)
    say(sign_proof(signing_key(args), method=args.method.upper(), path=args.path, body=body, time=moment, nonce=nonce))
    return 0


def _capability(text: str) -> dict[str, str]:
    action, _, resource = text.partition(":")
    if action not in ("search", "submit", "rate"):
        raise UsageError(f"{on_one_line(text)} is not search, submit or rate, with or without :RESOURCE")
    return {"namespace": "registry", "action": action, "resource": resource or "**"}


def _time(seconds: float) -> str:
    return timestamp(int(seconds))


def _nanoseconds(text: str) -> int:
    from parsers.claims.rfc3339 import instant

    return instant(text) or 0


def _read(file: Path, most: int = MAX_FILE) -> str:
    with file.open("rb") as opened:
        return opened.read(most).decode(errors="replace").strip()


def _token(args: Namespace) -> str:
    return sys.stdin.read(MAX_FILE).strip() if args.token == "-" else _read(Path(args.token))  # noqa: S105 - a file's name
