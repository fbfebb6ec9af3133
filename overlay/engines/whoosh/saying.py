"""Phrases in Whoosh: the terms of every text in their order, as one string in which a phrase is looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlay.engines.whoosh.view import View
from overlay.query import Query
from overlay.search.ranking import texts
from overlay.search.text import sequences

if TYPE_CHECKING:
    from overlay.document import Document

Points = dict[int, int]


def said(document: Document) -> str:
    """What a document says: sequences of terms, each between spaces, on lines of their own."""
    return "".join(f" {sequence} \n" for _, text in texts(document) for sequence in sequences(text))


def narrowed(view: View, query: Query, points: Points) -> Points:
    """Of these documents those that say the phrases of a query, and nothing that it excludes."""
    if query.operators is None:
        return points
    banned = {document for each in query.operators.excluded for document in _saying(view, each, points)}
    left = {document: made for document, made in points.items() if document not in banned}
    for each in query.operators.phrases:
        left = {document: left[document] for document in _saying(view, each, left)}
    return left


def _saying(view: View, sequence: str, among: Points) -> list[int]:
    """The documents that say terms one after the other. Only of those that hold them all the texts are looked at."""
    lists = sorted((view.levels(term) for term in set(sequence.split(" "))), key=len)
    holding = [document for document in lists[0] if document in among and all(document in each for each in lists)]
    return [document for document in holding if f" {sequence} " in view.stored(document)["said"]]
