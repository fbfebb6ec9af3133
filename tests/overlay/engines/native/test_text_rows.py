"""The rows of terms and words that are made of numbered compounds are those of the analysed texts."""

from __future__ import annotations

from itertools import chain, pairwise

from hypothesis import given
from hypothesis import strategies as st

from overlay.engines.native.builder import SegmentBuilder
from overlay.engines.native.derived import strings
from overlay.engines.native.schema import BREAK
from overlay.search.document import Document
from overlay.search.forward import GAP, Analysed
from parsers.cards import Skill
from tests.contracts.listed import listing

WORDS = (
    "file",
    "Files",
    "get_dex",
    "Docs2Prompt",
    "GPT 4",
    "C++",
    ".NET",
    "支付网关",
    "ภาษาไทย",
    "🔥",
    "...",
    "cafés",
    "a-b-c",
)
TEXTS = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
DOCUMENTS = st.builds(
    lambda name, description, tags, skill: listing(
        "1", name, description=description, tags=tuple(tags), skills=(Skill("s", skill, description),)
    ),
    TEXTS, TEXTS, st.lists(TEXTS, max_size=3), TEXTS,
)  # fmt: skip


def forward(analysed: Analysed) -> list[list[str]]:
    """The terms of each section of a document, slowly; "" at the positions of a gap."""
    positioned: list[list[str]] = []
    for texts in analysed.fields:
        section: list[str] = []
        for tokens in texts:
            section += [""] * (GAP if section else 0)
            section += tokens.terms
        positioned.append(section)
    return positioned + [[term for tokens in texts for term in tokens.extra] for texts in analysed.fields]


def first_words(document: Document) -> set[str]:
    """The words of name and description."""
    return Analysed.read(listing("1", document.name, description=document.description), ()).surfaces


@given(st.lists(DOCUMENTS, max_size=4))
def test_rows_of_terms_and_words_are_those_of_the_texts(documents: list[Document]) -> None:
    builder = SegmentBuilder()
    for document in documents:
        builder.add(document)
    arrays = builder.arrays()
    terms, words = list(strings(arrays, "terms")), list(strings(arrays, "surfaces"))
    spans = list(pairwise(arrays["forward_offsets"].tolist()))
    rows = list(pairwise(arrays["document_surfaces_offsets"].tolist()))
    for number, document in enumerate(documents):
        analysed, (start, end) = Analysed.of(document), spans[number]
        row = ["" if term == BREAK else terms[term] for term in arrays["forward"][start:end].tolist()]
        ends = [0, *arrays["section_ends"][6 * number : 6 * number + 6].tolist()]
        assert [row[begin:after] for begin, after in pairwise(ends)] == forward(analysed)
        assert ends[-1] == end - start
        first, after = rows[number]
        held = [words[word] for word in arrays["document_surfaces"][first:after].tolist()]
        assert sorted(held) == sorted(analysed.surfaces)
        assert set(held[: arrays["text_surfaces"][number]]) == first_words(document)
    assert words == sorted(set(chain.from_iterable(Analysed.of(one).surfaces for one in documents)), key=str.encode)
