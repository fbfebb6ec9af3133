"""Labels: names, skills and tags as strings of a table, with the words by which they complete a text.

A label has five lines: the `joined_words` of its text, and of its id if these differ; its kind; the number of
characters of its text; and its text and id, concatenated, which may contain more lines.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from overlay.search.memo import LONGEST, cached_if
from overlay.search.query import Suggestion
from overlay.search.suggesting import joined_words, labels_of

if TYPE_CHECKING:
    from overlay.search.document import Document

_CACHED = 8_192  # tags and names of skills repeat across listings


def labels_of_document(document: Document) -> dict[str, None]:
    """The labels of a document, each once. That of its name has no id."""
    labels = chain((Suggestion(document.name, "listing"),), labels_of(document.tags, document.skills))
    return dict.fromkeys(map(packed, dict.fromkeys(labels)))


@cached_if(lambda label: len(label.text) + len(label.id or "") <= 2 * LONGEST, _CACHED)
def packed(label: Suggestion) -> str:
    """A label as a string."""
    id_ = label.id or ""
    by_text = joined_words(label.text)
    by_id = joined_words(id_) if id_ else ""
    return f"{by_text}\n{'' if by_id == by_text else by_id}\n{label.kind}\n{len(label.text)}\n{label.text}{id_}"


@cached_if(lambda data: len(data) <= 8 * LONGEST, _CACHED)
def unpacked(data: bytes) -> Suggestion:
    """The label of a string of the table. Raises ValueError for one that is damaged."""
    _, _, kind, size, text = data.decode("utf-8", "surrogatepass").split("\n", 4)
    return Suggestion(text[: int(size)], kind, text[int(size) :] if kind == "skill" else None)
