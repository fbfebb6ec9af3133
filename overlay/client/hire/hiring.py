"""Hire an agent or tool: choose, verify, consent, pay, call, wait, check. Each step is written to the journal before it
is done, and a hire that was interrupted goes on where it was."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from indexer.headers.networks import by_caip2
from indexer.retries import Backoff
from overlay.client import calls, newest
from overlay.client.errors import ClientError, NewerRevisionError, NotThereError, NotVerifiedError
from overlay.client.hire import agent_call, hire_candidates
from overlay.client.hire.agent_link import AgentLink, UnreachableError
from overlay.client.hire.answer_files import store_answer
from overlay.client.hire.call_price import (
    CallPrice,
    Cap,
    OverlayQuotes,
    RateOf,
    call_prices,
    most_satoshis,
    no_rate,
    price_json,
    stored_offer,
    usual_fee,
)
from overlay.client.hire.hire_candidates import SHOWN, TRIED, HireCandidate
from overlay.client.hire.journal import ENDS, Hire, HireState
from overlay.client.hire.outcome import receipt_fault
from overlay.client.hire.overlay_access import OverlayAccess
from overlay.client.hire.policy import Expense, Policy
from overlay.client.hire.replies import Answered, Busy, Declined, FinalDue, Reply, WorkFailed, Working
from overlay.client.hire.wallet import Wallet
from overlay.client.listing_source import ClientSource, verified
from overlay.client.payment_claims import PAYABLE, SignedPayment, build_claim, stage_of
from overlay.publish.coins import Coin, opened, replace_spent
from overlay.verify.trusted_source import TrustedSource
from parsers.bitcoin.address import PREFIXES, p2pkh_hash
from parsers.cards.offers import Offer
from parsers.claims.amount_due import due, satoshis

ATTEMPTS = 5
"""Calls that may break off before a hire waits for `--resume`."""

_BACKOFF = Backoff(1.0, 30.0)
POLL_SECONDS = 2.0


class HireError(Exception):
    """A hire that does not come about, or failed; the message says why."""


class NobodyFitsError(HireError):
    """No listing may be hired for it; the message names the first ones and why not."""


class NoConsentError(HireError):
    """The person did not agree, or the policy does not allow it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HireRequest:
    """A request: a need in words or an id, the input (with its file name), and the cap. `offer`, `skill` and
    `tool` name one of several; `over_http` calls by plain HTTP. `within_policy`: without a question. `by_model`: it is
    a model that asks for it."""

    need: str
    content: bytes
    is_text: bool = True
    name: str = ""
    cap: Cap = field(default_factory=Cap)
    offer: str = ""
    skill: str = ""
    tool: str = ""
    over_http: bool = False
    within_policy: bool = False
    by_model: bool = False
    out: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HireTerms:
    """The terms of a hire, as a person consents to them: the listing and its revision, the host and the address, the
    satoshis of this payment and of the whole, the cap, and the size of what is sent. `is_final`: the rest of a price
    whose deposit is paid. `objection` is why the policy asks, "" where it does not."""

    candidate: HireCandidate | None
    hire: Hire
    address: str
    satoshis: int
    total: int
    objection: str
    is_final: bool = False


Consent = Callable[[HireTerms], Awaitable[bool]]
Choice = Callable[[Sequence[HireCandidate]], Awaitable[HireCandidate | None]]


class HireOptions(TypedDict, total=False):
    """Options of `Hiring` that `AsyncOverlayClient.hire` passes on."""

    trusted: TrustedSource | None
    against: Sequence[str]
    newest_unchecked: bool
    expected: str | None
    allow_local: bool
    pick: Choice
    rate_of: RateOf
    tell: Callable[[str], None]


async def pick_first(fitting: Sequence[HireCandidate]) -> HireCandidate | None:
    """The first candidate."""
    return fitting[0]


async def agree_by_policy(terms: HireTerms) -> bool:
    """Whether the policy agrees."""
    return not terms.objection


class Hiring:
    """Hires through an overlay with a wallet; `policy` replaces that of the wallet. `trusted`, `against` and
    `newest_unchecked` show that a revision is the newest, as in `AsyncOverlayClient.pay`; `expected` is the required
    chain. `pick` and `agree` ask a person; without them the policy decides. `rate_of` gives exchange rates that the
    client trusts."""

    def __init__(
        self,
        client: OverlayAccess,
        wallet: Wallet,
        *,
        policy: Policy | None = None,
        trusted: TrustedSource | None = None,
        against: Sequence[str] = (),
        newest_unchecked: bool = False,
        expected: str | None = None,
        allow_local: bool = False,
        pick: Choice = pick_first,
        agree: Consent = agree_by_policy,
        rate_of: RateOf = no_rate,
        tell: Callable[[str], None] = lambda _sentence: None,
    ) -> None:
        self.client, self.wallet, self.journal = client, wallet, wallet.journal
        self.policy = wallet.policy if policy is None else policy
        self._trusted, self._against, self._any_revision = trusted, against, newest_unchecked
        self._expected, self._allow_local = expected, allow_local
        self._pick, self._agree, self._tell = pick, agree, tell
        self._rate_of = rate_of

    async def hire(self, request: HireRequest) -> Hire:
        """The hire for a request, from the choice to its end. Raises HireError, UnreachableError where it can be
        resumed, ClientError, PrivateKeyError, CoinsError, JournalError, PolicyError, PaymentRefusedError."""
        candidate = await self._pick(await self.choose(request))
        if candidate is None:
            raise NoConsentError("nobody was picked")
        return await self.proceed(await self.consent(request, candidate))

    # -- choose

    async def choose(self, request: HireRequest) -> list[HireCandidate]:
        """The first three listings that may be hired for it, proved here. Raises NobodyFitsError."""
        refused, fitting = [], list[HireCandidate]()
        status = await self.client.ask(calls.status(), is_checked=False)
        for item in hire_candidates.in_order(await self._items(request.need)):
            try:
                fitting.append(await self._candidate(item, request, status))
            except (HireError, ClientError) as error:
                refused.append(f"{str(item.get('name'))[:60]} ({item.get('id')}): {error}")
            if len(fitting) == SHOWN:
                break
        if not fitting:
            raise NobodyFitsError("; ".join([f"nobody fits {request.need[:200]!a}", *refused[:5]]))
        return fitting

    async def _items(self, need: str) -> list[dict[str, Any]]:
        """The listing with an id, else the results of a search."""
        if _may_be_id(need):
            with suppress(NotThereError):
                item = await self.client.ask(calls.get(need), is_checked=False)
                if not isinstance(item, dict) or "url" not in item:
                    raise NobodyFitsError(f"{need} holds several listings: name one of them by its id")
                return [item]
        page = await self.client.ask(calls.search_by([("q", need), ("limit", str(TRIED))]))
        return list(page["items"])

    async def _candidate(
        self, item: Mapping[str, Any], request: HireRequest, status: Mapping[str, Any]
    ) -> HireCandidate:
        """A listing as a candidate: verified, with the price of its proved card, at an overlay of this status. Raises
        HireError, ClientError."""
        if objection := hire_candidates.objection(item, allow_local=self._allow_local):
            raise HireError(objection)
        report, source = await verified(
            partial(self.client.ask, is_checked=False), str(item["id"]), self._trusted, None, self._expected
        )
        if report.missing:
            detail = next(step.detail for step in report.steps if step.step == report.missing[0])
            raise NotVerifiedError(f"it is not proved: {', '.join(report.missing)} ({detail})", report)
        if objection := hire_candidates.objection(source.item, allow_local=self._allow_local):
            raise HireError(objection)
        entry = source.entry()
        called = hire_candidates.endpoint_of(entry, over_http=request.over_http)
        if called is None:
            raise HireError("its card has no endpoint that can be called")
        try:
            await newest.confirm(report, source, self.client.base, self._against, self.client.ask_at)
            why_not = ""
        except NewerRevisionError:
            raise
        except NotVerifiedError as error:
            why_not = str(error)
        price = await self._price(source, request)
        outdated = hire_candidates.outdated(status, str(source.item["caip2"]))
        why = tuple(hire_candidates.reasons(source.item, price, not why_not, outdated))
        return HireCandidate(
            item=source.item, report=report, agent_key=hire_candidates.key_of(entry), protocol=called[0],
            endpoint=called[1], price=price, is_newest=not why_not, why_not_newest=why_not, outdated=outdated,
            reasons=why,
        )  # fmt: skip

    def _reaches(self, offer: Offer, network: str) -> bool:
        """Whether a payment in a coin of the wallet can reach the address of an offer."""
        return any(
            p2pkh_hash(offer.address.strip(), PREFIXES[currency.lower()][network]) is not None
            for currency in self._currencies()
            if currency in PAYABLE and currency in offer.accepted
        )

    async def _price(self, source: ClientSource, request: HireRequest) -> CallPrice | None:
        """The price of the call; None where there is nothing to pay. Raises HireError."""
        id_, offers, network = str(source.item["id"]), source.offers(), self._network(source.item)
        skill = request.skill or request.tool
        usable = [
            offer
            for offer in offers
            if request.offer in ("", offer.id) and (not skill or offer.skill_ids is None or skill in offer.skill_ids)
        ]
        if not usable and offers:
            raise HireError("it has no such price")
        if not usable or any(not offer.amount for offer in usable):
            return None
        quotes = OverlayQuotes([self.client.base, *self._against], self.client.ask_at)
        least = 1 if request.cap.satoshis is not None else 2

        async def rate_of(offer: Offer, currency: str) -> Decimal | None:
            rate = await self._rate_of(offer.currency, currency)
            return await quotes.rate(id_, offer, currency, least) if rate is None else rate

        payable = [offer for offer in usable if self._reaches(offer, network)]
        prices = await call_prices(payable, self._currencies(), rate_of)
        if not prices:
            why = (
                "no exchange rate for it is trusted here"
                if payable
                else "no address in its card can be paid in a coin of this wallet"
            )
            raise HireError(f"no price can be paid: {why}")
        price = prices[0]
        most = await self._most(request.cap, price)
        if request.cap != Cap() and most is None:
            raise HireError("the cap cannot be converted by rates that are trusted here: name it with --max-satoshis")
        if most is not None and price.total + usual_fee(price) > most:
            costs = f"it costs {price.total:,} satoshis of {price.currency} and some {usual_fee(price):,} of fee"
            raise HireError(f"{costs}, and at most {most:,} may be paid")
        return price

    async def _most(self, cap: Cap, price: CallPrice) -> int | None:
        """The cap in satoshis of the coin that is paid; None without one, or without a trusted rate."""
        rate = await self._rate_of(cap.currency, price.currency) if cap.amount is not None else None
        if rate is None and cap.currency == price.offer.currency:
            rate = price.rate
        return most_satoshis(cap, price.currency, rate)

    def _currencies(self) -> tuple[str, ...]:
        return self.policy.currencies or PAYABLE

    # -- consent

    async def terms(self, request: HireRequest, candidate: HireCandidate) -> HireTerms:
        """The terms of a hire that nobody agreed to yet. Raises HireError, ArgumentsError."""
        hire, price = await self._draft(request, candidate), candidate.price
        return HireTerms(
            candidate=candidate, hire=hire, address=price.offer.address if price else "",
            satoshis=price.first if price else 0, total=price.total if price else 0,
            objection=self._objection(hire, candidate, price.total + usual_fee(price) if price else 0),
        )  # fmt: skip

    async def consent(self, request: HireRequest, candidate: HireCandidate) -> Hire:
        """The agreed hire, in the journal. Raises NoConsentError, HireError."""
        terms = await self.terms(request, candidate)
        if request.within_policy and terms.objection:
            raise NoConsentError(f"the policy does not allow it: {terms.objection}")
        if terms.total and not (candidate.is_newest or self._any_revision or request.within_policy):
            raise NoConsentError(candidate.why_not_newest)
        if not await self._agree(terms):
            raise NoConsentError(terms.objection or "it was not agreed to")
        return self.journal.save(terms.hire)

    async def _draft(self, request: HireRequest, candidate: HireCandidate) -> Hire:
        if candidate.protocol == agent_call.MCP:
            agent_call.check_arguments(request.content)
        price, item = candidate.price, candidate.item
        most = await self._most(request.cap, price) if price else None
        skills = price.offer.skill_ids or () if price else ()
        tool = request.tool or (skills[0] if len(skills) == 1 else "")
        if candidate.protocol == agent_call.MCP and not tool:
            raise HireError("the name of the tool is missing: name it with --tool NAME")
        return Hire(
            id=secrets.token_hex(8), need=request.need[:2_000], url=self.client.base, listing=str(item["id"]),
            agent=str(item["name"])[:200], card_sha256=str(item["cardSha256"]), protocol=candidate.protocol,
            agent_key=candidate.agent_key, endpoint=candidate.endpoint, price=price_json(price.offer) if price else {},
            skill=request.skill or (skills[0] if len(skills) == 1 else ""), tool=tool,
            currency=price.currency if price else "", network=self._network(item),
            rate="" if price is None or price.rate is None else str(price.rate),
            most_satoshis=price.total + 2 * usual_fee(price) if price and most is None else most or 0,
            content=request.content.decode("utf-8", "surrogatepass") if request.is_text else request.content.hex(),
            is_text=request.is_text, name=request.name, task=f"hire-{secrets.token_hex(16)}", out=request.out,
            by_policy=request.within_policy, by_model=request.by_model, created_at=self.journal.now(),
            heard_at=self.journal.now(),
        )  # fmt: skip

    def _network(self, item: Any) -> str:
        """The network whose addresses are paid: that of the listing's chain, which the key has to be for."""
        network = by_caip2(str(item.get("caip2")))
        kind = network.kind if network else "mainnet"
        if (kind == "mainnet") != (self.wallet.key.network == "mainnet"):
            raise HireError(f"the listing is on {kind}, and the wallet's key is for {self.wallet.key.network}")
        return kind

    def _objection(self, hire: Hire, candidate: HireCandidate, satoshis: int) -> str:
        if candidate.outdated and satoshis:
            return candidate.outdated
        expense = Expense(
            hire.listing, hire_candidates.host_of(candidate.endpoint), candidate.is_named, hire.currency, satoshis,
            candidate.is_newest, candidate.concerns,
        )  # fmt: skip
        spent = self.journal.spent(hire.currency, hire.listing)
        return self.policy.objection(expense, spent, by_model=hire.by_model)

    # -- pay, call, wait

    async def proceed(self, hire: Hire) -> Hire:
        """The hire at its end, from wherever it is. Raises HireError where it failed, UnreachableError where the agent
        cannot be reached now."""
        seconds = 60.0 * self.policy.minutes
        async with AgentLink(hire.endpoint, allow_local=self._allow_local, seconds=seconds) as link:
            try:
                async with asyncio.timeout(seconds):
                    while hire.state not in ENDS:
                        hire = await self._step(hire, link)
            except TimeoutError:
                raise UnreachableError(f"{hire.agent} has not answered within {self.policy.minutes} minutes") from None
        if hire.state is not HireState.DONE:
            raise HireError(hire.detail)
        return hire

    async def _step(self, hire: Hire, link: AgentLink) -> Hire:
        match hire.state:
            case HireState.AGREED if hire.price:
                return self._sign(hire, stage_of(stored_offer(hire.price), None), HireState.SIGNED)
            case HireState.AGREED | HireState.SIGNED | HireState.CALLED:
                hire = self.journal.save(hire, state=HireState.CALLED)
                return await self._taken(hire, await self._call(hire, link))
            case HireState.WORKING:
                await asyncio.sleep(POLL_SECONDS)
                return await self._taken(hire, await self._call(hire, link, polls=bool(hire.agent_task)))
            case HireState.NEEDS_FINAL:
                return await self._final(hire)
            case HireState.FINAL_SIGNED | HireState.FINAL_CALLED:
                hire = self.journal.save(hire, state=HireState.FINAL_CALLED)
                return await self._taken(hire, await self._call(hire, link))
            case _:
                return self.journal.save(hire, state=HireState.DONE)

    def _sign(self, hire: Hire, stage: str, state: HireState) -> Hire:
        """Sign a claim, with coins that no other hire uses: in the journal before anything else, then out of the
        coins."""
        with opened(self.wallet.coins_path(hire.currency)) as listed:
            reserved = self.journal.reserved()
            usable = [coin for coin in listed if coin.outpoint not in reserved]
            signed = build_claim(
                stored_offer(hire.price), self.wallet.key, usable, stage=stage, currency=hire.currency,
                most_satoshis=hire.most_satoshis - hire.satoshis - hire.fee, network=hire.network,
                rate=Decimal(hire.rate) if hire.rate else None,
                refund_address=self.wallet.address(hire.currency.lower(), hire.network),
            )  # fmt: skip
            paid = signed.payment.paid + signed.fee
            self._check_caps(hire, paid)
            hire = self.journal.save(
                hire, state=state, claims=(*hire.claims, signed.value), spends=(*hire.spends, _values(signed, usable)),
                satoshis=hire.satoshis + signed.payment.paid, fee=hire.fee + signed.fee,
            )  # fmt: skip
            replace_spent(listed, {tx_input.prevout for tx_input in signed.payment.tx.inputs}, ())
        return hire

    def _check_caps(self, hire: Hire, paid: int) -> None:
        """Raise HireError where a claim is above the cap with its fee, or another hire has used up the policy."""
        total = hire.satoshis + hire.fee + paid
        if total > hire.most_satoshis:
            raise HireError(
                f"{total:,} satoshis would be paid, fee included, and at most {hire.most_satoshis:,} may be"
            )
        spent = self.journal.spent(hire.currency, hire.listing)
        above = self.policy.above_cap(paid, spent, by_model=hire.by_model) if hire.by_policy else ""
        if above:
            raise NoConsentError(f"the policy does not allow it: {above}")

    async def _call(self, hire: Hire, link: AgentLink, *, polls: bool = False) -> Reply:
        """The reply of the agent, called again where the connection breaks."""
        claim = hire.claims[-1] if hire.claims else None
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await (agent_call.poll(link, hire) if polls else agent_call.call(link, hire, claim))
            except UnreachableError as error:
                if attempt == ATTEMPTS:
                    raise
                self._tell(f"{error}; calling again")
                await asyncio.sleep(_BACKOFF.pause(attempt))
        raise AssertionError

    async def _taken(self, hire: Hire, reply: Reply) -> Hire:
        """The hire after a reply."""
        sign_of_life = {"heard_at": self.journal.now()}
        match reply:
            case Answered():
                return self._answered(hire, reply)
            case Working(agent_task):
                self._tell(f"{hire.agent} works on it")
                members = _receipted(hire, reply) | {"agent_task": agent_task or hire.agent_task, **sign_of_life}
                return self.journal.save(hire, state=HireState.WORKING, **members)
            case FinalDue():
                if hire.state is HireState.FINAL_CALLED or not hire.claims:
                    return self.journal.save(hire, state=HireState.FAILED, detail="it asks for a final payment again")
                self.wallet.credit(hire.currency, hire.transactions)
                return self.journal.save(hire, state=HireState.NEEDS_FINAL, **sign_of_life)
            case Declined(reason, detail):
                return self.journal.save(
                    hire,
                    state=HireState.REFUSED,
                    detail=f"{hire.agent} refuses the payment ({reason}): {detail}",
                    **sign_of_life,
                )
            case WorkFailed(detail):
                return self.journal.save(hire, state=HireState.FAILED, detail=f"{hire.agent}: {detail}", **sign_of_life)
            case Busy(seconds, detail):
                self._tell(f"{hire.agent} is busy ({detail}); calling again in {seconds:g} s")
                await asyncio.sleep(seconds)
                return hire

    async def _final(self, hire: Hire) -> Hire:
        """Sign the rest of the price, once it is agreed to."""
        offer = stored_offer(hire.price)
        rate = Decimal(hire.rate) if hire.rate else None
        rest = satoshis(due(offer, "final", hire.currency, rate).amount)
        terms = HireTerms(
            candidate=None, hire=hire, address=offer.address, satoshis=rest, total=hire.satoshis + rest,
            objection="", is_final=True,
        )  # fmt: skip
        if not await self._agree(terms):
            raise NoConsentError(f"the rest was not agreed to: go on with `a2b hire --resume {hire.id}`")
        return self._sign(hire, "final", HireState.FINAL_SIGNED)

    def _answered(self, hire: Hire, reply: Answered) -> Hire:
        """Store the answer, and count the change of the claims, which the agent sent, among the coins."""
        folder = Path(hire.out) if hire.out else self.wallet.folder / "answers" / hire.id
        stored = store_answer(reply.parts, folder)
        if hire.claims:
            self.wallet.credit(hire.currency, hire.transactions)
        return self.journal.save(
            hire, state=HireState.ANSWERED, files=tuple(map(str, stored)), **_receipted(hire, reply),
            agent_task=reply.agent_task or hire.agent_task, heard_at=self.journal.now(),
        )  # fmt: skip


def _receipted(hire: Hire, reply: Answered | Working) -> dict[str, Any]:
    """The members of a hire with the receipt of a reply; none without one."""
    if not isinstance(reply.receipt, dict):
        return {}
    return {"receipt": reply.receipt, "receipt_fault": receipt_fault(hire, reply.receipt, reply.body)}


def _values(signed: SignedPayment, coins: Sequence[Coin]) -> dict[str, int]:
    """The satoshis of each coin that a claim spends, by its outpoint."""
    spent = {tx_input.prevout for tx_input in signed.payment.tx.inputs}
    return {str(coin.outpoint): coin.satoshis for coin in coins if coin.outpoint in spent}


def _may_be_id(need: str) -> bool:
    """Return whether a need may be the id of a listing, and not words: ids have no spaces, but one of `_.:/`."""
    text = need.strip()
    return bool(text) and not any(map(str.isspace, text)) and bool(set(text) & set("_.:/"))
