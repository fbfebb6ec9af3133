"""Skeletons of names: no case, width, accents, spacing and punctuation, and look-alike letters and sequences of letters
folded. Pure.

The tables are the part of Unicode's confusables (UTS 39, version 15) that maps one letter or symbol to an ASCII letter
or digit: of scripts in wide use and rare Latin ones, and of all others. Compatibility folding maps fullwidth and
mathematical letters before, and the names that Unicode gives them map Latin letters with strokes, small capitals, and
letters in boxes or flags.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from overlay.search.analysis import fold

_TABLE = (
    "2ƧϨꙄꝚ 3ƷȜЗӠⳌꝪꞫ 4Ꮞ 5Ƽ 6бᏮⳒ 8Ȣȣ 9ⳊꝮ AΑАᎪꓮ BΒВᏴꓐꞴ CϹСᏟⲤꓚ DᎠꓓ EΕЕᎬꓰ FϜꓝꞘ GԌᏀᏳꓖ HΗНᎻⲎꓧ JͿЈᎫꓙꞲ KΚКᏦⲔꓗ LᏞⳐꓡ "
    "MΜϺМᎷⲘꓟ NΝⲚꓠ OΟОՕⲞꓳ PΡРᏢⲢꓑ RƦᎡᏒꓣ SЅՏᏕᏚꓢ TΤТᎢⲦꓔ UՍꓴ VѴᏙꓦ WԜᎳᏔꓪ XΧХⲬꓫꞳ YΥϒУҮᎩᎽⲨꓬ ZΖᏃꓜ aɑαа bƄЬᏏ cϲсᴄⲥꮯ dԁᏧꓒ "
    "eеҽꬲ fքẝꞙꬵ gƍɡցᶃ hһհᏂ iıɩɪιіӏᎥꙇꭵ jϳј lƖǀΙІӀⲒꓲ nոռ oοσоօᴏᴑⲟꬽ pρϱрⲣ qԛգզ rгᴦⲅꭇꭈꮁ sƽѕꜱꮪ uʋυսᴜꞟꭎꭒ vνѵᴠꮩ wɯѡԝաᴡꮃ xх "
    "yɣʏγуүᶌỿꭚ zᴢꮓ"
)
_RARE = (
    "2ᒿꛯ 3𑣊𖼻𝈆 4𑢯 5𑢻 6𑣕 7𐓒𑣆𝈒 8𐌚 9𑢬𑣌𑣖 Aᗅ𐊠𖽀 Bᗷ𐊂𐊡𐌁 C𐊢𐌂𐐕𐔜𑣲🝌 Dᗞᗪ E⋿ⴹ𐊆𑢦𑢮 Fᖴ𐊇𐊥𐔥𑢢𑣂𝈓 Hᕼ𐋏 Jᒍ Kᛕ𐔘 Lᒪ𐐛𐔦𑢣𑢲𖼖𝈪 Mᗰᛖ𐊰𐌑 "
    "N𐔓 Oଠዐⵔ〇𐊒𐊫𐐄𐓂𐔖𑢵 Pᑭ𐊕 Qⵕ Rᖇ𐒴𖼵𝈖 S𐊖𐐠𖼺 T⊤⟙𐊗𐊱𐌕𑢼𖼊🝨 Uሀᑌ∪⋃𐓎𑢸𖽂 Vᐯⴸꛟ𐔝𑢠𖼈𝈍 W𑣯 X᙭ᚷ╳ⵝ𐊐𐊴𐌗𐌢𐔧𑣬 Y𐊲𑢤𖽃 Z𐋵𑢩 a⍺ bᑲᖯ c𐐽 "
    "dᑯ e℮ i⍳𑣃 lᛁ∣⏽ⵏ𐊊𐌉𐌠𖼨 oഠဝჿ𐐬𐓪𑣈𑣗 p⍴ s𐑈𑣁 u𐓶𑣘 v∨⋁𑜆𑣀 w𑜊𑜎𑜏 x×ᕁᕽ᙮⤫⤬⨯ yყ𑣜 z𑣄"
)
_SMALL = {"κ": "k", "к": "k", "м": "m", "т": "t", "в": "b", "н": "h"}
"""Small letters that look like small capitals, which are missing in Unicode's table."""
_LETTERS = {other: group[0] for group in f"{_TABLE} {_RARE}".split() for other in group[1:]} | _SMALL
_NAMED = re.compile(
    r"(?:LATIN (?:SMALL|CAPITAL) LETTER (?:SMALL CAPITAL |DOTLESS |SCRIPT )?|LATIN LETTER SMALL CAPITAL "
    r"|REGIONAL INDICATOR SYMBOL LETTER |NEGATIVE (?:CIRCLED|SQUARED) LATIN CAPITAL LETTER )([A-Z])(?: WITH .+)?"
)
_MARKS = "™℠"
_SHAPES = str.maketrans({"I": "l", "1": "l", "0": "o", "|": "l"})
"""ASCII characters that look like another one."""
_SEQUENCES = (("rn", "m"), ("vv", "w"), ("cl", "d"))
"""Letters that together look like another one (UTS 39 has the first; the others are as close in usual fonts)."""


def skeletons(name: str) -> set[str]:
    """The skeletons of a name: equal names, and names that look alike, share one."""
    # the tables first: compatibility makes a sigma of the lunate one, which looks like a c
    latin = fold(name if name.isascii() else _latins(unicodedata.normalize("NFKC", _latins(name))))
    shapes = latin.translate(_SHAPES).casefold()
    joined = shapes
    for sequence, letter in _SEQUENCES:
        joined = joined.replace(sequence, letter)
    forms = set(map(_letters, {latin.casefold(), shapes, joined})) - {""}
    return forms or {" ".join(name.casefold().split())} - {""}


def _latins(text: str) -> str:
    return "".join(map(_latin, text))


@lru_cache(maxsize=8_192)
def _latin(letter: str) -> str:
    """The ASCII letter that one looks like, by the tables or by its name; "" for a trade mark sign; else itself."""
    if letter in _MARKS:  # compatibility makes letters of them
        return ""
    if letter.isascii() or letter in _LETTERS:
        return _LETTERS.get(letter, letter)
    match = _NAMED.fullmatch(unicodedata.name(letter, ""))
    return (match[1].lower() if letter.islower() else match[1]) if match else letter


def _letters(text: str) -> str:
    """The letters, vowel signs and digits of a text."""
    return "".join(filter(str.isalnum if text.isascii() else _is_letter, text))


@lru_cache(maxsize=8_192)
def _is_letter(letter: str) -> bool:
    return unicodedata.category(letter)[0] in "LMN"
