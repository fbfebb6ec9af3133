"""Skeletons of names: no case, width, accents, spacing and punctuation, and look-alike letters folded. Pure.

The table is the part of Unicode's confusables (UTS 39, version 15) that maps one letter of another script, or a rare
Latin one, to an ASCII letter or digit; compatibility folding maps the rest (fullwidth and mathematical letters).
"""

from __future__ import annotations

import unicodedata

from overlay.search.analysis import fold

_TABLE = (
    "2ƧϨꙄꝚ 3ƷȜЗӠⳌꝪꞫ 4Ꮞ 5Ƽ 6бᏮⳒ 8Ȣȣ 9ⳊꝮ AΑАᎪꓮ BΒВᏴꓐꞴ CϹСᏟⲤꓚ DᎠꓓ EΕЕᎬꓰ FϜꓝꞘ GԌᏀᏳꓖ HΗНᎻⲎꓧ JͿЈᎫꓙꞲ KΚКᏦⲔꓗ LᏞⳐꓡ "
    "MΜϺМᎷⲘꓟ NΝⲚꓠ OΟОՕⲞꓳ PΡРᏢⲢꓑ RƦᎡᏒꓣ SЅՏᏕᏚꓢ TΤТᎢⲦꓔ UՍꓴ VѴᏙꓦ WԜᎳᏔꓪ XΧХⲬꓫꞳ YΥϒУҮᎩᎽⲨꓬ ZΖᏃꓜ aɑαа bƄЬᏏ cϲсᴄⲥꮯ dԁᏧꓒ "
    "eеҽꬲ fքẝꞙꬵ gƍɡցᶃ hһհᏂ iıɩɪιіӏᎥꙇꭵ jϳј lƖǀΙІӀⲒꓲ nոռ oοσоօᴏᴑⲟꬽ pρϱрⲣ qԛգզ rгᴦⲅꭇꭈꮁ sƽѕꜱꮪ uʋυսᴜꞟꭎꭒ vνѵᴠꮩ wɯѡԝաᴡꮃ xх "
    "yɣʏγуүᶌỿꭚ zᴢꮓ"
)
_SMALL = {"κ": "k", "к": "k", "м": "m", "т": "t", "в": "b", "н": "h"}
"""Small letters that look like small capitals, which are missing in Unicode's table."""
_LETTERS = str.maketrans({other: group[0] for group in _TABLE.split() for other in group[1:]} | _SMALL)
_SHAPES = str.maketrans({"I": "l", "1": "l", "0": "o", "|": "l"})
"""ASCII characters that look like another one."""


def skeletons(name: str) -> set[str]:
    """The skeletons of a name: equal names, and names that look alike, share one."""
    latin = fold(name.translate(_LETTERS))
    forms = {_letters(latin), _letters(latin.translate(_SHAPES))} - {""}
    return forms or {" ".join(name.casefold().split())} - {""}


def _letters(text: str) -> str:
    """The letters, vowel signs and digits of a text, case-folded."""
    return "".join(letter for letter in text.casefold() if unicodedata.category(letter)[0] in "LMN")
