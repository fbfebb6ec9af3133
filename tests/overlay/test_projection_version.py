"""The number `PROJECTION` says which content the documents of an index have: other content needs another number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path

from indexer.store import Migration, Store, connect
from overlay.projection.documents import DocumentReader
from overlay.projection.index_content import PROJECTION
from overlay.search import facts
from overlay.search.analysis import tokenize
from overlay.search.document import Document
from tests.journey.test_upgrade import extracted

CONTENT = {
    1: "2f7736931a2246834e31e22c8ca5f794ebae370c315a26539bd3a42fb53ec07f",
    2: "5feb398f9630c894c8fd58305b08d03d18a805704ee4142aba9df1fa136f3e1b",
}
"""By number: the SHA-256 of the content of the documents of one registry. A release has one number; the digest of a
number that was released never changes."""


def lines(document: Document) -> Iterator[str]:
    """All that an index holds of a document but members of its item that are new: those are compared by schema. The key
    of `source` is random."""
    document = replace(document, source=0)
    for member in fields(document):
        if member.name not in ("item", "analysed"):
            yield f"{member.name} {getattr(document, member.name)!r}"
    yield json.dumps(json.loads(document.item), sort_keys=True)
    yield from sorted(facts.facts(document))
    skills = (text for skill in document.skills for text in (skill.name, skill.description))
    for text in (document.name, document.description, *document.tags, *document.words, *skills):
        yield repr(tokenize(text))


def test_other_content_of_documents_has_another_number(tmp_path: Path) -> None:
    url = f"sqlite:///{extracted(tmp_path)}/data/a2b.db"
    store = Store(connect(url, migration=Migration.WITHOUT_COPY))
    ids = sorted({change.id for change in store.outbox.after(0, 1_000)})
    documents = sorted(DocumentReader(store).documents(ids), key=lambda document: (document.id, document.from_height))
    store.close()
    assert len(documents) > 8
    digest = sha256("\n".join(line for document in documents for line in lines(document)).encode()).hexdigest()
    assert digest == CONTENT[PROJECTION], (
        "the documents of an index have other content: increase PROJECTION (overlay/projection/index_content.py), so "
        f"that indexes are rebuilt, and name {digest} for it here; where {PROJECTION} was in no release, or items only "
        f"have other members, name it for {PROJECTION}"
    )
