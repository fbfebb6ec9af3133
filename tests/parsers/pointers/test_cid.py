"""CIDs and blocks of IPFS, against what the JavaScript implementation (multiformats, ipfs-unixfs, @ipld/dag-pb) makes.

The CIDs of the empty file and the empty directory are the ones that every IPFS node knows.
"""

from __future__ import annotations

import base64
from hashlib import sha256
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.errors import ParseError, ProofError
from parsers.pointers import cid
from parsers.pointers.cid import DAG_PB, RAW, BlockContent, Cid
from parsers.pointers.locator import Locator, locate


class Vector(NamedTuple):
    """A block in hex, and its CID: version 0, and version 1 in base32, base58btc, base36 and hex."""

    block: str
    v0: str
    base32: str
    base58: str
    base36: str
    base16: str


CARD = b'{"name":"Tower-Guard","url":"https://watchtower.example"}'

# fmt: off
VECTORS = {
    "raw": Vector(
        "7b226e616d65223a22546f7765722d4775617264222c2275726c223a2268747470733a2f2f7761746368746f7765722e6578616d706c65227d",
        "",
        "bafkreigu5y36ihgd6olkimkf2rhk4zoencb4dituksoszynu3mv3hvthq4",
        "zb2rhkyUJjtfskwTAWBNNUVmGV9YWcXUvoRKjbMRhPpjkBqee",
        "k2cwuedygiakktkuio9we43crm0hpirkrezu0x2kq9eyw9oc3xx6ug7b",
        "f01551220d4ee37e41cc3f396a43145d44eae65c46883c1a274549d2ce1b4db2bb3d66787",
    ),
    "file": Vector(
        "0a3f080212397b226e616d65223a22546f7765722d4775617264222c2275726c223a2268747470733a2f2f7761746368746f7765722e6578616d706c65227d1839",
        "QmZaoYuWWy3ShmKFBCG9uoypCXefUtXxgiNGuvWgaCC9nt",
        "bafybeifhccxtvbgvgbrteath6cre5jhwf5jkblkeevewtxai6dmdmg3bzu",
        "zdj7Wgg3vLaNSX3aUdAuwDmnBpNpjr7CRx6Z2moaiuMPdm3xp",
        "k2jmtxvj0f3ec9rh0pyw7yl75vblj6u2x2qw7nwchop4kla8re7md971",
        "f01701220a710af3a84d53063320267f0a24ea4f62f52a0ad44254969dc08f0d8361b61cd",
    ),
    "rawnode": Vector(
        "0a3f080012397b226e616d65223a22546f7765722d4775617264222c2275726c223a2268747470733a2f2f7761746368746f7765722e6578616d706c65227d1839",
        "QmSjvCvaHLjTXJnDJLkgTXcPjfajaCfuDwrMEVoXx16bF1",
        "bafybeicbmsqpa6abx3xwisgwntj6gcsmthz7a5y4xthu2d2i4v57k6lotq",
        "zdj7WZqAaMe8pD4Q26935iJKuSxMsnBHk636GFsuJCCmSfVQw",
        "k2jmtxszs9ncpnrkt7t7iotoi0p834f5avrk03dydfykoz7f6spcud98",
        "f017012204164a0f07801beef6448d66cd3e30a4c99f3f0771cbccf4d0f48e57bf5796e9c",
    ),
    "empty": Vector(
        "0a0408021800",
        "QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH",
        "bafybeif7ztnhq65lumvvtr4ekcwd2ifwgm3awq4zfr3srh462rwyinlb4y",
        "zdj7WiLc855B1KPRgV7Fh8ivjuAhePE1tuJafmxH5HmmSjqaD",
        "k2jmtxw57e8q3wevq1yz5usxqabvtnck9ehnqx5hk29iz6otpovk09uu",
        "f01701220bfccda787baba32b59c78450ac3d20b633360b43992c77289f9ed46d843561e6",
    ),
    "dir": Vector(
        "12340a2401701220a710af3a84d53063320267f0a24ea4f62f52a0ad44254969dc08f0d8361b61cd120a6167656e742e6a736f6e1841122f0a221220a710af3a84d53063320267f0a24ea4f62f52a0ad44254969dc08f0d8361b61cd120776302e6a736f6e18410a020801",
        "QmZ81M9jU7yYsifpLxkKBy7uFypBJZSK97ZJkU96A3KdZq",
        "bafybeifagnlyrbr6g5dwi7ofkcqhpgy4egiq4rpuuzzp2rmynjhhiteeka",
        "zdj7WgDFiaoKbT9kRyk5hhw4LxTtC1d26rT1RxqRGXkyUtXjm",
        "k2jmtxvcuokgf8iarb2jgaucsn1q6cocbfsanf4rguv6qm5c2xhucx1s",
        "f01701220a0335788863e3747647dc550a0779b1c21910e45f4a672fd45986a4e744c8450",
    ),
    "emptydir": Vector(
        "0a020801",
        "QmUNLLsPACCz1vLxQVkXqqLX5R1X345qqfHbsf67hvA3Nn",
        "bafybeiczsscdsbs7ffqz55asqdf3smv6klcw3gofszvwlyarci47bgf354",
        "zdj7WbTaiJT1fgatdet9Ei9iDB5hdCxkbVyhyh8YTUnXMiwYi",
        "k2jmtxtlhjl3fhmgndf92e48by79ryjuvqp3y2qgehpao6v3lurvnmcv",
        "f0170122059948439065f29619ef41280cbb932be52c56d99c5966b65e0111239f098bbef",
    ),
    "many": Vector(
        "122a0a2401701220a710af3a84d53063320267f0a24ea4f62f52a0ad44254969dc08f0d8361b61cd12001841122a0a2401701220a710af3a84d53063320267f0a24ea4f62f52a0ad44254969dc08f0d8361b61cd120018410a080802187220392039",
        "Qmf7kpwyqhYVnfPEHVuf7NdUrCd6GoYfVWVkU7jpNqKjq4",
        "bafybeihzjefxu7g7ugkgucec7d5aju64ixnxhg7uxyf62gzrfxjxnf4bpm",
        "zdj7WnD1CP3hB26fNhA2EsGykU3UQpXzLxoMpuH8v8VCGtdzz",
        "k2jmtxxks8uhpbfgh2nw1kc7b9lf7qw265cn6nooioeyhra9ebs6ucmz",
        "f01701220f9490b7a7cdfa1946a0882f8fa04d3dc45db739bf4be0bed1b312dd37697817b",
    ),
    "sharded": Vector(
        "0a0b0805120201022822308002",
        "QmS4RyNUajDiunaPaj9AvJub6hunN13tSGKdfzESXueTNB",
        "bafybeibxi4gz37ntddbcd67fw4x5jlxd4joegma4cgvm44ej4muo5il37q",
        "zdj7WZ9gLoYSChKnVtKKU6nngk9iv7E5YU2JajALnd7MMDMY7",
        "k2jmtxsqpist9b58arwfqqpf00ekbgzj3m7uiw6f6213jgu9hnzd337g",
        "f0170122037470d9dfdb318c221fbe5b72fd4aee3e25c43301c11aace7089e328eea17bfc",
    ),
    "symlink": Vector(
        "0a0e0804120a6167656e742e6a736f6e",
        "QmRUfcCjtf5X33VARASMapWQ3KMXmoSVP4uNZv4hxcJcEP",
        "bafybeibouc4q33k7una4kon2cxvshmpzhsam473uany2vzpvk44nppbmvq",
        "zdj7WYZuydok8Z7uko69uPyTCLxfXYyVLrdFPJuEiTNn3sWQK",
        "k2jmtxsiy4gk16jtg57l4ws56761lmq05yvitaflbku5occj0n6qsur0",
        "f017012202ea0b90ded5fa341c539ba15eb23b1f93c80ce7f740371aae5f55738d7bc2cac",
    ),
}
# fmt: on


def of(data: bytes, codec: int = DAG_PB) -> Cid:
    return Cid(1, codec, sha256(data).digest())


@pytest.mark.parametrize("name", VECTORS)
def test_a_cid_is_the_same_in_every_base(name: str) -> None:
    vector = VECTORS[name]
    parsed = cid.read(vector.base32)
    assert parsed == cid.read(vector.base58) == cid.read(vector.base36) == cid.read(vector.base16)
    assert parsed == (1, RAW if name == "raw" else DAG_PB, sha256(bytes.fromhex(vector.block)).digest())
    assert parsed.base32 == vector.base32
    if vector.v0:
        assert cid.read(vector.v0) == (0, DAG_PB, parsed.digest)
        assert cid.read(vector.v0).base32 == vector.base32


@pytest.mark.parametrize("name", VECTORS)
def test_what_can_be_read_can_be_pointed_at(name: str) -> None:
    for text in VECTORS[name][1:]:
        assert not text or isinstance(locate(f"ipfs://{text}"), Locator)


@pytest.mark.parametrize(
    ("name", "shape", "body"),
    [
        ("raw", BlockContent.FILE, CARD),
        ("file", BlockContent.FILE, CARD),
        ("rawnode", BlockContent.FILE, CARD),
        ("empty", BlockContent.FILE, b""),
        ("dir", BlockContent.DIRECTORY, b""),
        ("emptydir", BlockContent.DIRECTORY, b""),
        ("many", BlockContent.MANY, b""),
        ("sharded", BlockContent.SHARDED, b""),
        ("symlink", BlockContent.OTHER, b""),
    ],
)
def test_a_block_tells_what_it_holds(name: str, shape: BlockContent, body: bytes) -> None:
    vector = VECTORS[name]
    result = cid.block(cid.read(vector.base32), bytes.fromhex(vector.block))
    assert (result.content, result.body) == (shape, body)


def test_a_directory_leads_to_its_files() -> None:
    block = cid.block(cid.read(VECTORS["dir"].v0), bytes.fromhex(VECTORS["dir"].block))
    assert cid.of_bytes(block.link("agent.json") or b"") == cid.read(VECTORS["file"].base32)
    assert cid.of_bytes(block.link("v0.json") or b"") == cid.read(VECTORS["file"].v0)
    assert block.link("agent") is None


@pytest.mark.parametrize("name", VECTORS)
def test_a_block_with_one_bit_turned_is_never_accepted(name: str) -> None:
    vector = VECTORS[name]
    data = bytes.fromhex(vector.block)
    for index in range(len(data) * 8):
        turned = bytearray(data)
        turned[index // 8] ^= 1 << index % 8
        with pytest.raises(ProofError):
            cid.block(cid.read(vector.base32), bytes(turned))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "base"),
        ("bafkreigu5y36", "middle of a byte"),
        ("Bafkreigu5y36ihgd6olkimkf2rhk4zoencb4dituksoszynu3mv3hvthq4", "base"),
        ("bAfkreigu5y36ihgd6olkimkf2rhk4zoencb4dituksoszynu3mv3hvthq4", "digit"),
        ("QmZaoYuWWy3ShmKFBCG9uoypCXefUtXxgiNGuvWgaCC9n0", "digit"),
        ("QmZaoYuWWy3ShmKFBCG9uoypCXefUtXxgiNGuvWgaCC9n", "base"),
        ("f0155", "past the end"),
        ("f01F5", "lower case"),
        ("f015", "no hex"),
        ("f02551220" + "00" * 32, "version 2"),
        ("f01711220" + "00" * 32, "codec 0x71"),
        ("f01551114" + "00" * 20, "hash function 0x11"),
        ("f01551220" + "00" * 33, "follow"),
        ("f" + "ff" * 12, "63 bits"),
        ("f" + "0" * 128, "129 characters"),
        ("bafkreigu5y36ihgd6olkimkf2rhk4zoencb4dituksoszynu3mv3hvthq7", "middle of a byte"),
    ],
)
def test_what_is_no_supported_cid_is_named(text: str, why: str) -> None:
    with pytest.raises(ParseError, match=why):
        cid.read(text)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("", "without UnixFS"),
        ("12020a00", "without UnixFS"),
        ("0a0208020a020802", "field 1"),
        ("1a00", "field 3"),
        ("0802", "field 1"),
        ("0b", "wire type 3"),
        ("0a05", "past the end"),
        ("0affffffffffffffffff7f", "63 bits"),
        ("0a06080212017b1802", "past the end|claims"),
        ("0a070802120 17b1802".replace(" ", ""), "claims to have 2"),
    ],
)
def test_a_malformed_node_is_named(data: str, why: str) -> None:
    raw = bytes.fromhex(data)
    with pytest.raises(ParseError, match=why):
        cid.block(of(raw), raw)


def test_large_blocks_and_nodes_of_many_links_are_refused() -> None:
    with pytest.raises(ParseError, match="at most"):
        cid.block(of(b"", RAW), bytes(cid.MAX_BLOCK + 1))
    links = b"\x12\x00" * (cid.MAX_LINKS + 1)
    with pytest.raises(ParseError, match="10,000 links"):
        cid.block(of(links), links)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_block_or_refused(data: bytes) -> None:
    try:
        result = cid.block(of(data), data)
    except ParseError:
        return
    assert len(result.body) <= len(data)


@given(st.text(max_size=150) | st.from_regex(r"\A[bzkfQ][0-9a-zA-Z]{0,120}\Z"))
def test_any_text_is_a_cid_or_refused(text: str) -> None:
    try:
        parsed = cid.read(text)
    except ParseError:
        return
    assert len(parsed.digest) == 32


@given(st.binary(min_size=32, max_size=32), st.sampled_from((RAW, DAG_PB)))
def test_base32_is_what_the_standard_library_writes(digest: bytes, codec: int) -> None:
    raw = bytes((1, codec, 0x12, 32)) + digest
    text = "b" + base64.b32encode(raw).decode().lower().rstrip("=")
    assert cid.read(text) == Cid(1, codec, digest)
    assert Cid(0, codec, digest).base32 == text


def uvarint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes((number & 127 | 128,))
        number >>= 7
    return out + bytes((number,))


def piece(number: int, data: bytes) -> bytes:
    return uvarint(number << 3 | 2) + uvarint(len(data)) + data


@given(st.binary(max_size=300), st.booleans())
def test_a_file_in_one_block_gives_its_bytes(body: bytes, sized: bool) -> None:
    inner = b"\x08\x02" + (piece(2, body) if body else b"") + (b"\x18" + uvarint(len(body)) if sized else b"")
    node = piece(1, inner)
    assert cid.block(of(node), node).body == body
