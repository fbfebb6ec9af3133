"""How names compare: without case, width, accents, spacing, punctuation, and with look-alike letters folded. Pure.

The table is the part of Unicode's confusables (UTS 39, version 15) that leads from one letter of another script, or a
rare Latin one, to an ASCII letter or digit; compatibility folding does the rest (fullwidth and mathematical letters).
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
"""Small letters that look like small capitals, which Unicode does not name."""
_LETTERS = str.maketrans({other: group[0] for group in _TABLE.split() for other in group[1:]} | _SMALL)
_SHAPES = str.maketrans({"I": "l", "1": "l", "0": "o", "|": "l"})
"""ASCII characters that look like another one, in sight of case."""


def skeletons(name: str) -> set[str]:
    """What a name is compared by: equal names, and such as look the same, have one in common."""
    latin = fold(name.translate(_LETTERS))
    found = {_letters(latin), _letters(latin.translate(_SHAPES))} - {""}
    return found or {" ".join(name.casefold().split())} - {""}


def _letters(text: str) -> str:
    """The letters, vowel signs and digits of a text, case-folded."""
    return "".join(letter for letter in text.casefold() if unicodedata.category(letter)[0] in "LMN")
