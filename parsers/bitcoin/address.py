"""Addresses of locking scripts, for every supported chain and network.

P2PKH on every chain, P2SH where the chain has it (not BSV), segwit on BTC and LTC, cashaddr on BCH. Any other script,
including P2PK, has no address and therefore no owner.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from parsers.bitcoin import base58
from parsers.bitcoin.script import (
    OP_CODESEPARATOR,
    OP_ENDIF,
    OP_FALSE,
    OP_IF,
    OP_NOTIF,
    OP_RETURN,
    is_p2pkh,
    ops,
    p2pkh,
)

_LONGEST_LOCK = 42

_WITNESS = {22: (b"\x00\x14",), 34: (b"\x00\x20", b"\x51\x20")}
"""How the scripts of witness programs begin that have an address here, by their sizes: P2WPKH, P2WSH, P2TR."""


class Prefixes(NamedTuple):
    """Address prefixes of a network: base58 version bytes of P2PKH and P2SH (None: no P2SH), and the human-readable
    prefixes of bech32 and cashaddr ("": none)."""

    p2pkh: int
    p2sh: int | None = None
    bech32: str = ""
    cashaddr: str = ""


PREFIXES: dict[str, dict[str, Prefixes]] = {
    "bsv": {"mainnet": Prefixes(0x00), "testnet": Prefixes(0x6F), "regtest": Prefixes(0x6F)},
    "btc": {
        "mainnet": Prefixes(0x00, 0x05, "bc"),
        "testnet": Prefixes(0x6F, 0xC4, "tb"),
        "regtest": Prefixes(0x6F, 0xC4, "bcrt"),
    },
    "bch": {
        "mainnet": Prefixes(0x00, 0x05, cashaddr="bitcoincash"),
        "testnet": Prefixes(0x6F, 0xC4, cashaddr="bchtest"),
        "regtest": Prefixes(0x6F, 0xC4, cashaddr="bchreg"),
    },
    "ltc": {
        "mainnet": Prefixes(0x30, 0x32, "ltc"),
        "testnet": Prefixes(0x6F, 0x3A, "tltc"),
        "regtest": Prefixes(0x6F, 0x3A, "rltc"),
    },
    "doge": {
        "mainnet": Prefixes(0x1E, 0x16),
        "testnet": Prefixes(0x71, 0xC4),
        "regtest": Prefixes(0x6F, 0xC4),
    },
}


def owner(script: bytes, coin: str = "bsv", network: str = "mainnet") -> str | None:
    """The address that an output script pays to, None without one. On BSV, parts that do not execute are removed first
    (see `lock`).

    Raises ValueError for a coin or network that is not in `PREFIXES`.
    """
    try:
        prefixes = PREFIXES[coin][network]
    except KeyError:
        raise ValueError(f"no address format is known for {coin!r} on {network!r}") from None
    return address(lock(script) if coin == "bsv" else script, prefixes)


def lock(script: bytes) -> bytes:
    """The part of a BSV output script that decides who can spend it, cut soon after the length of the longest form.

    Removed are blocks `OP_FALSE OP_IF … OP_ENDIF` (envelopes, also unclosed ones), OP_CODESEPARATOR, and everything
    from the first OP_RETURN outside of them.
    """
    locking = bytearray()
    depth, after_false = 0, False
    for op in ops(script):
        if depth:
            depth += (op.opcode in (OP_IF, OP_NOTIF)) - (op.opcode == OP_ENDIF)
        elif op.opcode == OP_IF and after_false:
            depth = 1
            del locking[-1:]
        elif op.opcode == OP_RETURN:
            break
        elif op.opcode != OP_CODESEPARATOR:
            locking += script[op.start : op.end][: _LONGEST_LOCK + 1]
            if len(locking) > _LONGEST_LOCK:
                break
        after_false = op.opcode == OP_FALSE
    return bytes(locking)


def address(script: bytes, prefixes: Prefixes) -> str | None:
    """The address of a locking script without data parts; None for a script of another form."""
    size = len(script)
    if is_p2pkh(script):
        return _hashed(script[3:23], prefixes.p2pkh, 0, prefixes)
    if prefixes.p2sh is not None and size == 23 and script[:2] == b"\xa9\x14" and script[22] == 0x87:
        return _hashed(script[2:22], prefixes.p2sh, 1, prefixes)
    if prefixes.cashaddr and size == 35 and script[:2] == b"\xaa\x20" and script[34] == 0x87:
        return cashaddr(prefixes.cashaddr, 1, script[2:34])  # P2SH32, on BCH since 2023
    if prefixes.bech32 and script[:2] in _WITNESS.get(size, ()):
        import wallycore

        return str(wallycore.addr_segwit_from_bytes(script, prefixes.bech32, 0))
    return None


def key_hash(address: str) -> bytes | None:
    """The HASH160 (20 bytes) in a P2PKH address of any BSV network; None for any other text."""
    return _hash_of(address, tuple(prefixes.p2pkh for prefixes in PREFIXES["bsv"].values()))


def p2pkh_hash(address: str, prefixes: Prefixes) -> bytes | None:
    """The HASH160 (20 bytes) in a P2PKH address: base58, and on BCH a cashaddr with or without its prefix; None for any
    other text."""
    return (_cashaddr_hash(address, prefixes.cashaddr) if prefixes.cashaddr else None) or _hash_of(
        address, (prefixes.p2pkh,)
    )


def script_of(text: str, prefixes: Prefixes) -> bytes | None:
    """The locking script of an address of a network; None for any other text."""
    if (digest := p2pkh_hash(text, prefixes)) is not None:
        return p2pkh(digest)
    if prefixes.p2sh is not None and (digest := _hash_of(text, (prefixes.p2sh,))) is not None:
        return b"\xa9\x14" + digest + b"\x87"
    return _witness_script(text, prefixes.bech32) if prefixes.bech32 else None


def _witness_script(text: str, prefix: str) -> bytes | None:
    """The script of an address of a witness program (BIP 173, BIP 350) of a form that `address` has, all in one
    case."""
    import wallycore

    if not text.isascii():
        return None
    try:
        script = bytes(wallycore.addr_segwit_n_to_bytes(text, len(text), prefix, len(prefix), 0))
    except ValueError:
        return None
    return script if address(script, Prefixes(0, bech32=prefix)) is not None else None


def _cashaddr_hash(text: str, prefix: str) -> bytes | None:
    """The digest in a cashaddr of type P2PKH (cashaddr specification), all in one case."""
    lower = text.lower() if text.isupper() else text
    symbols = [_CHARSET.find(char) for char in lower.removeprefix(f"{prefix}:")]
    if len(symbols) != 42 or -1 in symbols:
        return None
    number = 0
    for symbol in symbols[:34]:
        number = number << 5 | symbol
    digest = (number >> 2).to_bytes(21, "big")[1:]  # after the version byte; 34 symbols are 170 bits
    full = lower if ":" in lower else f"{prefix}:{lower}"
    return digest if cashaddr(prefix, 0, digest) == full else None


def _hash_of(address: str, versions: tuple[int, ...]) -> bytes | None:
    raw = base58.decode(address, checksum=True)
    return raw[1:] if raw is not None and len(raw) == 21 and raw[0] in versions else None


@lru_cache(maxsize=256)  # the offers of a card are mostly paid to one address
def looks_valid(address: str) -> bool:
    """Whether a text can be an address of BSV or BTC: base58 with a valid checksum over 21 bytes.

    Bech32 addresses and paymails (`name@host`) are accepted without a check.
    """
    if address.lower().startswith(("bc1", "tb1")) or "@" in address:
        return True
    raw = base58.decode(address, checksum=True)
    return raw is not None and len(raw) == 21


@lru_cache(maxsize=4096)
def _hashed(hash160: bytes, version: int, kind: int, prefixes: Prefixes) -> str:
    if prefixes.cashaddr:
        return cashaddr(prefixes.cashaddr, kind, hash160)
    return base58.encode(bytes((version,)) + hash160, checksum=True)


_CHARSET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATORS = (0x98F2BC8E61, 0x79B76D99E2, 0xF33E5FB3C4, 0xAE2EABE2A8, 0x1E4F43E470)


def _polymod(symbols: Iterable[int]) -> int:
    """The remainder (40 bits) of 5-bit symbols under cashaddr's BCH code."""
    remainder = 1
    for symbol in symbols:
        head = remainder >> 35
        remainder = (remainder & (1 << 35) - 1) << 5 ^ symbol
        for bit, generator in enumerate(_GENERATORS):
            if head >> bit & 1:
                remainder ^= generator
    return remainder


def cashaddr(prefix: str, kind: int, digest: bytes) -> str:
    """A BCH address (cashaddr specification): `kind` 0 is P2PKH, 1 is P2SH; `digest` has 20 or 32 bytes."""
    version = kind << 3 | {20: 0, 32: 3}[len(digest)]
    data = bytes((version,)) + digest
    count = -(-len(data) * 8 // 5)  # of symbols of five bits, the last one padded with zero bits
    number = int.from_bytes(data, "big") << count * 5 - len(data) * 8
    payload = [number >> 5 * (count - 1 - position) & 31 for position in range(count)]
    expanded = [ord(char) & 31 for char in prefix] + [0]
    check = _polymod(expanded + payload + [0] * 8) ^ 1
    symbols = payload + [check >> 5 * (7 - position) & 31 for position in range(8)]
    return f"{prefix}:{''.join(_CHARSET[symbol] for symbol in symbols)}"
