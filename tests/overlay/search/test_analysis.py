"""The analyser: the same words from a listing and from a question, in every script."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from overlay.search.analysis import (
    _ABBREVIATIONS,
    MAX_PARTS,
    MAX_WORD,
    allowed_edits,
    fold,
    query_words,
    stem,
    tokenize,
    words,
)


def parts_of(text: str) -> list[str]:
    return [part for compound in query_words(text) for part in compound.parts]


@pytest.mark.parametrize(
    ("text", "results"),
    [
        ("Search the Web", ["search", "the", "web"]),
        ("web_search", ["web", "search", "websearch"]),
        ("getDexChart", ["get", "dex", "chart", "getdexchart"]),
        ("支付DexChart", ["支", "付", "支付", "dex", "chart", "dexchart"]),
        ("HTTPServer", ["http", "server", "httpserver"]),
        ("node.js", ["node", "js", "nodejs"]),
        ("getERC20TokenBalance", ["get", "erc20", "token", "balance", "geterc20tokenbalance"]),
        ("iPhone15Pro iPhone", ["iphone15", "pro", "iphone15pro", "iphone"]),
        (
            "deleteTransactionsTransactionIdRelationshipsTags",
            [
                "delete",
                "transactions",
                "transaction",
                "id",
                "relationships",
                "tags",
                "deletetransactionstransactionidrelationshipstags",
            ],
        ),
        ("B08538C9F5B2A6581F", ["b08538c9f5b2a6581f"]),
        ("QmPcMnDrjL36ZLZ6x7xETyR95kQJkvuj433whmAoGLxayJ", ["qmpcmndrjl36zlz6x7xetyr95kqjkvuj433whmaoglxayj"]),
        ("L'Oréal l’avion qu'il", ["oreal", "loreal", "avion", "lavion", "il", "quil"]),
        ("dell'arte d'aujourd’hui", ["arte", "dellarte", "aujourdhui", "daujourdhui"]),
        ("rock'n'roll O'Brien c'mon CI/l'eau", ["rocknroll", "o", "brien", "obrien", "cmon", "ci", "leau"]),
        ("real-time", ["real", "time", "realtime"]),
        ("APIs, PDFs", ["apis", "pdfs"]),
        ("don't user's", ["dont", "users"]),
        ("GPT-4.1", ["gpt", "4", "1", "gpt41"]),
        ("GPT 4, GPT  4, RFC 123456", ["gpt", "4", "gpt4", "gpt", "4", "rfc", "123456"]),
        ("Web 3.0", ["web", "3", "0", "web30"]),
        ("has 1,000,000", ["has", "1", "000", "000", "1000000"]),
        ("over 10 000", ["over", "10", "000", "10000"]),
        ("10 000; 80, 443; 1,2345", ["10", "000", "10000", "80", "443", "1", "2345"]),
        ("C++, C++20 c# F#", ["c++", "c++", "20", "c#", "f#"]),
        ("Notepad++ Disney+ dev-c++", ["notepad++", "notepad", "disney+", "disney", "dev", "c++", "devc++"]),
        ("1+1 a+b issue#12 18+", ["1", "1", "a", "b", "issue", "12", "18"]),
        (".NET ASP.NET end. Net", [".net", "net", "asp", "net", "aspnet", "end", "net"]),
        ("CI/CD. Q&A", ["ci", "cd", "cicd", "q", "a", "qa"]),
        ("x.com/a/b and/other", ["x", "com", "xcom", "a", "b", "and", "other"]),
        ("A2A K8S B2B GPT4o", ["a2a", "k8s", "b2b", "gpt4o"]),
        ("WIDGET™Maker CARE℠", ["widget", "maker", "care"]),
        ("🔥Desk👍🏽 ❤️ 🇯🇵🇫🇷 👩‍💻", ["🔥", "desk", "👍", "❤", "🇯🇵", "🇫🇷", "👩", "💻"]),
        ("ไทย", ["ไท", "ย", "ไทย"]),
        ("ខ្មែរ", ["ខ្មែ", "រ", "ខ្មែរ"]),
        ("မြန်မာ", ["မြ", "န်", "မာ", "မြန်", "န်မာ"]),
        ("圖書館 图书馆", ["图", "书", "馆", "图书", "书馆"] * 2),
        ("a.b, c", ["a", "b", "ab", "c"]),
        ("ＵＳＤＣ Ｐａｙ", ["usdc", "pay"]),
        ("Übersetzung Straße Łódź", ["ubersetzung", "strasse", "lodz"]),
        ("Ёлка й", ["елка", "и"]),
        ("مُدَفُوعَات مـــدفوعات", ["مدفوعات", "مدفوعات"]),
        ("٣٤ ３４", ["34", "34"]),
        ("हिन्दी", ["हिन्दी"]),
        ("zero\u200bwidth soft\u00adhyphen", ["zerowidth", "softhyphen"]),
        ("支付网", ["支", "付", "网", "支付", "付网"]),
        ("MCP支付", ["支", "付", "支付", "mcp"]),
        ("が", ["が"]),
        ("\x00\x01 !!! ... -_-", []),
        ("AND (title:* ~2) .* [a-z]+", ["and", "title", "2", "a", "z", "az"]),
    ],
)
def test_a_text_gives_these_words(text: str, results: list[str]) -> None:
    assert list(words(text)) == results


def test_an_address_and_a_hash_stay_whole() -> None:
    address = "1BoatSLRHtKNngkdXEeobR76b53LETtpyT"
    assert list(words(address)) == [address.lower()]
    assert parts_of("ab" * 32) == ["ab" * 32]


def test_voiced_and_unvoiced_kana_are_distinguished() -> None:
    assert set(words("か")).isdisjoint(words("が"))


def test_long_words_are_cut_alike_on_both_sides() -> None:
    assert list(words("x" * 500)) == parts_of("x" * 500) == ["x" * MAX_WORD]


def test_compounds_of_many_parts_have_no_whole() -> None:
    many = "_".join("abcdefghijk")
    assert len(list(words(many))) == 11 > MAX_PARTS
    assert [compound.whole for compound in query_words(many)] == [None] * 11


def test_the_table_of_traditional_characters_leads_to_simplified_ones() -> None:
    pairs = {letter: fold(letter) for letter in map(chr, range(0x3400, 0xA000)) if fold(letter) != letter}
    assert len(pairs) > 2_700
    assert {"書": "书", "網": "网", "裡": "里", "後": "后", "乾": "干"}.items() <= pairs.items()
    assert not pairs.keys() & set(pairs.values()), "folding twice changes nothing"


PIECES = st.sampled_from(
    [
        "C++",
        "c#",
        ".NET",
        "GPT",
        "gpt4",
        "4",
        "000",
        "1,000",
        "Web",
        "q",
        "™",
        "🔥",
        "🇯🇵",
        "👍🏽",
        "ไทย",
        "เ",
        "ា",
        "圖",
        "支",
        "ال",
        "وثائق",
        "l'",
        "eau",
        "dell’",
        "getERC20",
    ]
)
WRITTEN = st.lists(PIECES | st.sampled_from([" ", ",", "/", "&", "+", "#", ".", "-", "\ufe0f", "\u200d"])).map("".join)


@given(WRITTEN)
@example(".net-.net")
def test_every_word_of_a_question_is_a_word_of_the_same_text(text: str) -> None:
    held = set(words(text))
    for compound in query_words(text):
        assert held.issuperset(compound.parts)
        assert compound.whole is None or compound.whole in held


@given(WRITTEN)
def test_only_the_parts_of_a_text_have_positions(text: str) -> None:
    tokens = tokenize(text)
    assert sorted((*tokens.terms, *tokens.extra)) == sorted(map(stem, words(text)))
    assert all(sequence and "" not in sequence.split(" ") for sequence in tokens.sequences())


@pytest.mark.parametrize(
    ("joined", "others"),
    [
        ("gpt4", ("GPT 4", "gpt-4", "Gpt_4", "gpt.4")),
        ("web3", ("Web 3", "WEB-3", "web3")),
        ("1000000", ("1,000,000", "1 000 000", "1_000_000", "1'000'000", "1.000.000", "1\u202f000\u202f000")),
        (".net", (".NET", ".Net")),
        ("loreal", ("L'Oréal", "l’oreal", "LOREAL")),
        ("cicd", ("CI/CD", "ci-cd", "CiCd")),
    ],
)
def test_spellings_of_one_name_share_a_word(joined: str, others: tuple[str, ...]) -> None:
    assert all(joined in words(other) for other in others)


@pytest.mark.parametrize("word", ["الوثائق", "والوثائق", "بالوثائق", "للوثائق", "وثائق"])
def test_an_article_makes_no_other_word(word: str) -> None:
    assert stem(fold(word)) == fold("وثائق")


@pytest.mark.parametrize("word", ["الله", "الان", "علم", "c#"])
def test_what_only_looks_like_an_article_stays(word: str) -> None:
    assert stem(word) == word


@given(st.text())
def test_every_word_of_any_question_is_a_word_of_the_same_text(text: str) -> None:
    held = set(words(text))
    for compound in query_words(text):
        assert held.issuperset(compound.parts)
        assert compound.whole is None or compound.whole in held


@given(st.text())
def test_words_are_bounded_folded_and_without_spaces(text: str) -> None:
    for word in words(text):
        assert 0 < len(word) <= MAX_WORD
        assert not any(letter.isspace() or letter == "\0" for letter in word)


@given(st.text(alphabet=st.characters(max_codepoint=0x24F)))
def test_case_does_not_matter_to_words_without_humps(text: str) -> None:
    lower = fold(text).casefold()
    assert list(words(lower)) == list(words(lower.upper().casefold()))


@given(st.text())
def test_a_question_names_each_word_once(text: str) -> None:
    compounds = [compound.parts for compound in query_words(f"{text} {text}")]
    assert len(compounds) == len(set(compounds))


@pytest.mark.parametrize(
    ("plural", "singular"),
    [
        ("payments", "payment"),
        ("queries", "query"),
        ("searches", "search"),
        ("databases", "database"),
        ("services", "service"),
        ("classes", "class"),
        ("indexes", "index"),
        ("caches", "cache"),
        ("apis", "api"),
        ("movies", "movies"),
    ],
)
def test_a_plural_meets_its_singular(plural: str, singular: str) -> None:
    assert stem(plural) == stem(singular)


@pytest.mark.parametrize(("word", "other"), [("directions", "direct"), ("listings", "list"), ("listing", "lists")])
def test_a_word_is_not_taken_for_one_of_another_meaning(word: str, other: str) -> None:
    assert stem(word) != stem(other)
    assert stem(word) == stem(word.removesuffix("s"))


@pytest.mark.parametrize("word", ["news", "status", "business", "bus", "aws", "dns", "gas", "tls1", "новости"])
def test_a_word_that_only_looks_like_a_plural_is_not_changed(word: str) -> None:
    assert stem(word) == word


@given(st.from_regex(r"[a-z]{1,12}(s|es|ies|ss|us)?", fullmatch=True))
@example("db")
def test_a_stem_is_no_longer_than_its_word_unless_that_is_short_for_another(word: str) -> None:
    assert 0 < len(stem(word)) <= len(_ABBREVIATIONS.get(word, word))


@pytest.mark.parametrize(
    ("written", "forgiven"),
    [
        ("pay", 0),
        ("tool", 0),
        ("agent", 1),
        ("payments", 1),
        ("translate", 2),
        ("платеж", 1),
        ("مدفوعات", 1),
        ("USDT", 0),
        ("MATIC", 0),
        ("WSTETH", 0),
        ("PAYMENT", 1),
        ("gpt4turbo", 1),
        ("deadbeef", 0),
        ("支付网关", 0),
        ("x" * 25, 0),
        ("b08538c9f5b2", 0),
    ],
)
def test_so_many_errors_are_forgiven(written: str, forgiven: int) -> None:
    (compound,) = query_words(written)
    assert allowed_edits(compound.written, compound.parts[0]) == forgiven
