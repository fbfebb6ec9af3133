"""Realistic listings to search in: offers by the hundred thousand, texts in the words of real registries.

When the shared data are present, sentences of real MCP servers and agents are mixed anew; otherwise sentences are made
from the words below. Either way rare names are coined, so that the vocabulary grows with the registry, as real ones do.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from decimal import Decimal
from itertools import islice
from pathlib import Path

import base58

from overlay.search.document import Document
from parsers.cards import Skill
from parsers.cards.offers import Offer


def _listed(text: str) -> list[str]:
    return text.split()


_NOUNS = _listed(
    "agent assistant search payment invoice wallet token contract chart database document image video audio speech "
    "translation summary report weather calendar email message customer support code repository issue pipeline deploy "
    "cloud server storage file folder spreadsheet table query schema browser page form scraper crawler news article "
    "research paper citation patent legal clause tax budget expense portfolio market price exchange swap liquidity "
    "loan insurance claim health patient symptom medicine recipe menu hotel flight travel map route vehicle sensor "
    "device firmware robot game player score music playlist podcast lesson course quiz student teacher job resume "
    "candidate interview team project task ticket sprint design logo font color layout component test bug security "
    "vulnerability password identity credential certificate proof signature block transaction ledger oracle feed "
    "dataset model embedding vector prompt memory knowledge graph ontology workflow trigger webhook event stream log "
    "metric alert dashboard forecast anomaly cluster segment campaign keyword advert product catalog order shipment "
    "warehouse supplier factory energy solar carbon climate soil crop animal genome protein molecule star satellite"
)
_VERBS = _listed(
    "search create analyze translate summarize convert extract monitor schedule verify sign send fetch update delete "
    "compare classify detect generate transcribe index crawl query plan book pay quote swap trade audit test deploy "
    "review explain draft edit share export import validate enrich route rank recommend track notify archive"
)
_ADJECTIVES = _listed(
    "fast secure open private real-time autonomous multilingual local-first decentralized verified lightweight smart "
    "intelligent scalable reliable simple modern unified custom interactive trusted global instant accurate minimal"
)
_ELSEWHERE = (
    "支付网关与发票翻译服务",
    "実時間の翻訳エージェント",
    "Перевод документов и платежи",
    "ترجمة الوثائق والمدفوعات",
    "실시간 번역 에이전트",
    "Übersetzung und Prüfung von Verträgen",
)
_CURRENCIES = ("USD", "BSV", "EUR", "MNEE", "USDC", "SAT", "GBP", "JPY")
_WEIGHTS = (40, 25, 10, 8, 8, 4, 3, 2)
_INTERVALS = (("none", None), ("P1M", "P1M"), ("P1D", "P1D"), ("P1Y", "P1Y"), ("PT1H", "PT1H"))
_SYLLABLES = _listed(
    "ba be bi bo ca co da de di do fa fi ga go ka ki la le li lo ma me mi mo na ne "
    "no pa pe ra re ri ro sa se si so ta te ti to va ve vi xa zo zen qui tra plo gri sta flu"
)


def offers_of(documents: Iterator[Document], count: int) -> list[Document]:
    """The first documents that together hold `count` offers."""
    taken, held = [], 0
    while held < count:
        taken.append(next(documents))
        held += len(taken[-1].offers)
    return taken


def listings(seed: int = 1, data: Path | None = None) -> Iterator[Document]:
    """Endless listings, the same for the same seed; one to four offers each, and some without a price."""
    chance = random.Random(seed)
    sentences = _real(data) if data else []
    number = 0
    while True:
        yield _listing(chance, number, sentences)
        number += 1


def _real(data: Path) -> list[str]:
    """Sentences of real listings."""
    results: list[str] = []
    for name, path in (
        ("metorial-index", ("server", "server")),
        ("tensorblock-profiles", ()),
        ("toolsdk-packages", ()),
    ):
        with (data / f"{name}.jsonl").open() as lines:
            for line in islice(lines, 20_000):
                record = json.loads(line)
                for step in path:
                    record = record.get(step) or {}
                text = record.get("description") or ""
                results += [part.strip() for part in str(text).split(". ") if len(part) > 20]
    return results


def _coined(chance: random.Random) -> str:
    """A name nobody else has, or few do: the long tail of a vocabulary."""
    return "".join(chance.choices(_SYLLABLES, k=chance.choice((2, 2, 3)))).capitalize()


def _sentence(chance: random.Random, sentences: list[str]) -> str:
    if sentences and chance.random() < 0.9:
        return chance.choice(sentences)[:300]
    words = [chance.choice(_VERBS), chance.choice(_ADJECTIVES), chance.choice(_NOUNS), "for", chance.choice(_NOUNS)]
    return " ".join([*words, "and", chance.choice(_NOUNS), "with", _coined(chance)]).capitalize()


def _skill(chance: random.Random, sentences: list[str]) -> Skill:
    verb, noun, more = chance.choice(_VERBS), chance.choice(_NOUNS), chance.choice(_NOUNS)
    style = chance.randrange(3)
    key = (f"{verb}-{noun}", f"{verb}_{noun}_{more}", verb + noun.title() + more.title())[style]
    return Skill(
        id=key,
        name=key if style == 2 else f"{verb} {noun}".title(),
        description=_sentence(chance, sentences)[:160],
        tags=tuple(dict.fromkeys((noun, more))),
        examples=(f"{verb} the {noun} of {_coined(chance)}",) if chance.random() < 0.4 else (),
    )


def _offer(chance: random.Random, number: int, skills: tuple[Skill, ...], address: str) -> Offer:
    currency = chance.choices(_CURRENCIES, _WEIGHTS)[0]
    accepted = tuple(dict.fromkeys((currency, *chance.choices(_CURRENCIES, _WEIGHTS, k=chance.randrange(3)))))
    key, written = chance.choice(_INTERVALS)
    named = tuple(skill.id for skill in chance.sample(skills, chance.randint(1, len(skills))))
    return Offer(
        number=number,
        id=f"price-{number}",
        name=chance.choice(("basic", "pro", "per call", "enterprise")),
        currency=currency,
        amount=Decimal(chance.choice((1, 2, 5, 9, 10, 25, 49, 99, 250, 999))) / chance.choice((1, 1, 10, 100, 1000)),
        interval=written,
        interval_key=key,
        accepted=accepted,
        skill_ids=None if chance.random() < 0.5 else named,
        address=address,
        deposit_pct=None,
        price_feed_url="",
        slippage_pct=None,
        description="",
    )


def _listing(chance: random.Random, number: int, sentences: list[str]) -> Document:
    txid = hashlib.sha256(number.to_bytes(8, "big")).hexdigest()
    skills = tuple(
        {skill.id: skill for skill in (_skill(chance, sentences) for _ in range(chance.randint(1, 6)))}.values()
    )
    address = base58.b58encode_check(b"\0" + bytes.fromhex(txid)[:20]).decode()  # each has its own, as it should
    offers = tuple(
        _offer(chance, index, skills, address)
        for index in range(chance.choices((0, 1, 2, 3, 4, 8), (8, 30, 30, 20, 10, 2))[0])
    )
    name = " ".join((chance.choice(_ADJECTIVES).title(), _coined(chance), chance.choice(_NOUNS).title()))
    texts = [_sentence(chance, sentences) for _ in range(chance.randint(1, 4))]
    if chance.random() < 0.05:
        texts.append(chance.choice(_ELSEWHERE))
    height = 800_000 + chance.randrange(100_000)
    shared = {
        "id": f"{txid}_0", "name": name, "description": ". ".join(texts), "chain": "bsv",
        "owner": "1" + txid[:33], "status": "live", "tags": sorted({tag for skill in skills for tag in skill.tags})[:6],
    }  # fmt: skip
    item = shared | {
        "type": "tool" if chance.random() < 0.4 else "agent",
        "skills": [{"id": skill.id, "name": skill.name, "description": skill.description} for skill in skills],
        "offers": [{"id": offer.id, "currency": offer.currency, "amount": str(offer.amount)} for offer in offers],
        "updatedHeight": height, "txid": txid, "outpoint": f"{txid}_0", "warnings": [], "anchors": [],
    }  # fmt: skip
    return Document(
        id=item["id"], registration=item["id"], kind=item["type"], status="live", chain="bsv", caip2="bsv:mainnet",
        owner=item["owner"], domain=f"{txid[:8]}.example" if chance.random() < 0.5 else "",
        verified=chance.random() < 0.2,
        from_height=height, until_height=None, updated_height=height, updated_time=1_231_006_505 + height * 600,
        created_height=height - 1000, created_time=1_231_006_505 + (height - 1000) * 600,
        name=name, description=item["description"], tags=tuple(item["tags"]), skills=skills, offers=offers,
        item=json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode(),
    )  # fmt: skip
