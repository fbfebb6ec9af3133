"""The route that checks payment claims: a dry run, which reserves nothing and sends nothing."""

from __future__ import annotations

from asyncio import to_thread
from functools import partial
from typing import Any

from aiohttp import web

from overlay.api.answers import SERVICES, body, json_answer
from overlay.api.problems import BadRequestError, Fault
from overlay.api.publisher_api import run
from overlay.api.values import shown
from overlay.listings.lookup import single_listing
from overlay.payments.checking import PaymentSources, check_claim, offers_in, utxo_chains
from parsers.cards import strict_json
from parsers.claims.payment import STAGES_IN
from parsers.errors import CardError

MEMBERS = ("claim", "id", "config", "skillId", "state")


async def check_payment(request: web.Request) -> web.Response:
    """Whether a payment claim would be taken for a price of a listing, or for a price in `config`: 200 also where it
    would not. Nothing is reserved and nothing is sent; `unchecked` says what cannot be known here."""
    services = request.app[SERVICES]
    wanted = await run(request, _read, await body(request, strict_json.MAX_BYTES))
    if "config" in wanted:
        offers = offers_in(wanted["config"])
    else:
        offers = (await to_thread(single_listing, services.store, wanted["id"])).card.offers
    sources = PaymentSources(
        chains=utxo_chains(services.chains()), nodes=services.payment_nodes, exchange=services.exchange
    )
    answer = await check_claim(
        wanted["claim"], offers, sources,
        skill=wanted.get("skillId"), state=wanted.get("state"), run=partial(run, request),
    )  # fmt: skip
    return json_answer(answer)


def _read(document: bytes) -> dict[str, Any]:
    """The members of a body. Raises BadRequestError."""
    try:
        value, _ = strict_json.loads(document)
    except CardError as error:
        raise _bad("not-json", f"the body: {error}", "") from None
    if not isinstance(value, dict):
        raise _bad("not-an-object", f"the body is a JSON object with {', '.join(MEMBERS)}", "")
    faults = [
        Fault("unknown-member", f"{shown(name)} is none of {', '.join(MEMBERS)}", pointer=f"/{name[:100]}")
        for name in value
        if name not in MEMBERS
    ]
    wanted = {name: member for name, member in value.items() if name == "claim" or member is not None}
    faults += [
        Fault("wrong-type", f"{name} is a text", pointer=f"/{name}")
        for name in ("id", "skillId", "state")
        if not isinstance(wanted.get(name, ""), str)
    ]
    if not isinstance(wanted.get("config", {}), dict | list):
        faults.append(Fault("wrong-type", "config is a price, a list of prices or a card", pointer="/config"))
    if "claim" not in wanted:
        faults.append(Fault("missing", "claim is needed: the payment claim, or null for none", pointer="/claim"))
    if ("id" in wanted) == ("config" in wanted):
        detail = "either id is needed, the listing whose prices are paid, or config, a price or a list of prices"
        faults.append(Fault("missing", detail, pointer="/id"))
    if isinstance(wanted.get("state"), str) and wanted["state"] not in STAGES_IN:
        detail = f"{shown(wanted['state'])} is none of {', '.join(STAGES_IN)}"
        faults.append(Fault("not-one-of", detail, pointer="/state"))
    if faults:
        raise BadRequestError(faults)
    return wanted


def _bad(code: str, detail: str, pointer: str) -> BadRequestError:
    return BadRequestError((Fault(code, detail, pointer=pointer),))
