"""A folder of block files: a tree of its headers, and reads of block bytes. Blocking code."""

from __future__ import annotations

import hashlib
import logging
import mmap
import threading
from collections.abc import Sequence
from pathlib import Path

from indexer.chains import BlockedBranch
from indexer.chains.files.block_file import HEADER, BlockFile, Frame, Garbage
from indexer.errors import SourceError, SourceUnavailableError
from indexer.headers import proof_of_work
from indexer.headers.networks import NETWORKS, SCRYPT, Network, by_magic
from indexer.headers.proof_of_work import is_met, target, work
from indexer.headers.required_bits import RuleError, UncheckedHeader
from indexer.headers.rules import HeaderRules
from indexer.headers.tree import BlockLocation, LocatedTree
from indexer.model import BlockRef
from parsers.bitcoin import block
from parsers.bitcoin.tx import sha256d
from parsers.errors import BlockError, ParseError

log = logging.getLogger(__name__)

MAX_NOTED = 10_000
"""Unusable byte ranges that are logged, each once; further ones are only counted."""

BATCH_BLOCKS, BATCH_BYTES = 256, 8 << 20
"""Limits of a batch of blocks, which has at least one block."""

MAPPED_BYTES = 64 << 20
"""Larger blocks are memory-mapped. Reading smaller ones is as fast, and a disk error raises instead of killing the
process."""

_KEY_FILE = "xor.dat"


class _Orphan:
    """A block with a missing parent."""

    __slots__ = ("digest", "location", "work")

    def __init__(self, digest: bytes, work_of: int, location: BlockLocation) -> None:
        self.digest, self.work, self.location = digest, work_of, location


class BlockFolder:
    """The blocks of one network in a folder. `refused` counts unusable byte ranges, which are logged.

    One thread may run `refresh` while others call the other methods. These are quick, except reads of block bytes.
    """

    def __init__(self, name: str, folder: Path, network: Network) -> None:
        self.name, self.folder, self.network = name, folder, network
        self.tree = LocatedTree()
        self._rules = HeaderRules(network)
        self.refused = 0
        self._noted: set[tuple[int, int]] = set()
        self._doubtful: set[tuple[int, int]] = set()
        self._files: list[BlockFile] = []
        self._by_name: dict[str, BlockFile] = {}
        self._orphans: dict[bytes, list[_Orphan]] = {}
        self._copies: dict[bytes, list[BlockLocation]] = {}
        self._reasons: dict[int, str] = {}
        self._strange: tuple[str, bytes] | None = None
        self._folder_time = -1
        self._reading, self._lock = threading.Lock(), threading.Lock()

    @property
    def waiting(self) -> int:
        """The number of blocks with a missing parent."""
        return sum(map(len, self._orphans.values()))

    # -- reading appended blocks

    def refresh(self, stop: threading.Event) -> None:
        """Read the bytes that were appended to the files. Ends early when `stop` is set. Raises SourceError."""
        with self._reading:
            try:
                self._folder_time = self.folder.stat().st_mtime_ns
                paths = sorted(self.folder.glob("blk*.dat"), key=lambda path: (len(path.name), path.name))
                for path in paths:
                    file = self._by_name.get(path.name) or self._open(path)
                    if file.changed():
                        self._read(file, stop, is_newest=path == paths[-1])
            except OSError as error:
                raise SourceUnavailableError(f"{self.name}: {self.folder} cannot be read now: {error}") from error
            if not stop.is_set():
                self._check_network()

    def changed(self) -> bool:
        """Whether the folder or one of its three newest files may have changed."""
        try:
            return self.folder.stat().st_mtime_ns != self._folder_time or any(
                file.changed() for file in self._files[-3:] if file.path.exists()
            )
        except OSError:
            return True

    def _open(self, path: Path) -> BlockFile:
        key_file = self.folder / _KEY_FILE
        key = key_file.read_bytes() if key_file.exists() else b""
        if len(key) not in (0, 8):
            raise SourceError(f"{self.name}: {key_file} holds {len(key)} bytes where a key of 8 is expected")
        file = BlockFile(path, len(self._files), self.network.magic, key, self._is_real)
        self._files.append(file)
        self._by_name[path.name] = file
        return file

    def _is_real(self, header: bytes, strict: bool) -> bool:
        """Whether a header has its proof of work. Scrypt takes half a millisecond, and is computed only if `strict`."""
        bits = int.from_bytes(header[72:76], "little")
        if self.network.coin not in SCRYPT:
            return is_met(sha256d(header), bits)
        if not strict or self._has_auxpow(header):
            return len(header) == HEADER and target(bits) > 0
        return is_met(hashlib.scrypt(header, salt=header, n=1024, r=1, p=1, dklen=32), bits)

    def _has_auxpow(self, header: bytes) -> bool:
        return self.network.coin == "doge" and proof_of_work.is_merge_mined(header)

    def _read(self, file: BlockFile, stop: threading.Event, *, is_newest: bool) -> None:
        done = False
        try:
            for item in file.read_on():
                if stop.is_set():
                    return
                if isinstance(item, Garbage):
                    self._note_garbage(file, item)
                else:
                    self._take(file, item, is_newest=is_newest)
            done = True
        finally:
            if not done:
                file.rewind()

    def _take(self, file: BlockFile, frame: Frame, *, is_newest: bool) -> None:
        """Add a block. Its transactions are checked first if it may be incomplete or was located by a search."""
        digest = sha256d(frame.header)
        location = BlockLocation(file.number, frame.offset, frame.size)
        number = self.tree.find(digest)
        if number is not None:
            self._take_copy(number, digest, location)
            return
        may_be_unfinished = frame.last and (is_newest or frame.end < file.size)
        is_doubtful = may_be_unfinished or not frame.follows or (file.number, frame.offset) in self._doubtful
        if is_doubtful and (reason := self._fault(location, frame.header)):
            if frame.last:
                self._doubtful.add((file.number, frame.offset))
                file.unread(frame)
            else:
                self._note(file, frame.offset, reason)
            return
        self._link(digest, frame.header, location)

    def _take_copy(self, number: int, digest: bytes, location: BlockLocation) -> None:
        """Keep another copy of a block for the case that the one in use is damaged; use it at once where that is, or
        has moved within its file."""
        current = self.tree.location(number)
        if location == current and not self.tree.is_bad(number):
            return
        if self.tree.is_bad(number) or (location.file == current.file and not self._is_there(digest, current)):
            with self._lock:
                self.tree.move(number, location)
                self._reasons.pop(number, None)
        elif location not in (copies := self._copies.setdefault(digest, [])):
            copies.append(location)

    def _is_there(self, digest: bytes, location: BlockLocation) -> bool:
        """Whether a file still holds the header of this hash there."""
        header = bytearray(HEADER)
        try:
            self._files[location.file].load(location.offset, memoryview(header))
        except OSError:
            return False
        return sha256d(bytes(header)) == digest

    def _fault(self, location: BlockLocation, header: bytes) -> str | None:
        """Why a block's transactions do not match its header, or None."""
        try:
            data = self._bare(self._bytes(location))
            root = block.merkle_root(data, segwit=self.network.rules.segwit)
        except ParseError as error:
            return str(error)
        return None if root == header[36:68] else "its transactions do not match its merkle root"

    def _link(self, digest: bytes, header: bytes, location: BlockLocation) -> None:
        """Add a block and the orphans that descend from it to the tree, or make it an orphan."""
        prev = header[4:36]
        is_genesis = not any(prev)
        if is_genesis and self.network.kind != "regtest" and digest[::-1].hex() != self.network.genesis:
            self._note(self._files[location.file], location.offset, f"{digest[::-1].hex()} is not the genesis block")
            return
        orphan = _Orphan(digest, work(int.from_bytes(header[72:76], "little")), location)
        parent = None if is_genesis else self.tree.find(prev)
        if parent is None and not is_genesis:
            waiting = self._orphans.setdefault(prev, [])
            if all(other.digest != digest for other in waiting):
                waiting.append(orphan)
            else:
                self._copies.setdefault(digest, []).append(location)
            return
        ready = [(parent, orphan)]
        with self._lock:
            while ready:
                parent, orphan = ready.pop()
                number = self.tree.put(orphan.digest, parent, orphan.work, orphan.location)
                ready += [(number, child) for child in reversed(self._orphans.pop(orphan.digest, []))]

    def _note_garbage(self, file: BlockFile, garbage: Garbage) -> None:
        size = garbage.end - garbage.start
        if garbage.first == self.network.magic:
            self._note(file, garbage.start, "a block with a wrong size or proof of work")
            return
        if garbage.start == 0 and self._strange is None:
            self._strange = file.path.name, garbage.first
        self._note(file, garbage.start, f"{size:,} bytes that are not a block of {self.network}")

    def _note(self, file: BlockFile, offset: int, reason: str) -> None:
        if (file.number, offset) in self._noted:
            return
        self.refused += 1
        if len(self._noted) < MAX_NOTED:
            self._noted.add((file.number, offset))
            log.warning("%s: %s is not usable at byte %s: %s", self.name, file.path.name, f"{offset:,}", reason)

    def _check_network(self) -> None:
        """Raise SourceError if the folder does not hold blocks of the configured network."""
        if not len(self.tree) and not self._orphans and self._strange:
            raise SourceError(self._strange_magic(*self._strange))
        if not len(self.tree) and self._orphans:
            raise SourceUnavailableError(
                f"{self.name}: none of the {self.waiting:,} blocks in {self.folder} leads back to the genesis block of "
                f"{self.network}; files are missing, or the node prunes them: use the node itself as the source"
            )
        for height, expected in self.network.split_blocks:
            number = self.tree.number_at(height)
            if number is not None and (digest := self.tree.hash(number)[::-1].hex()) != expected:
                coins = [str(other) for other in NETWORKS if (height, digest) in other.split_blocks]
                raise SourceError(
                    f"{self.name}: {self.folder} is not {self.network}: its block {height:,} is {digest} "
                    f"(of {' or '.join(coins) or 'no known network'})"
                )

    def _strange_magic(self, file: str, magic: bytes) -> str:
        others = ", ".join(map(str, by_magic(magic)))
        supported = ", ".join(f"{network.magic.hex()} ({network})" for network in NETWORKS)
        hint = (
            f"that is {others}"
            if others
            else f"supported are {supported}; obfuscated files need their key file {_KEY_FILE}"
        )
        return (
            f"{self.name}: {self.folder / file} begins with the magic {magic.hex()}, where {self.network} has "
            f"{self.network.magic.hex()}: {hint}"
        )

    # -- reading blocks

    def branch(self, first: int, last: int) -> list[int]:
        """The numbers of the best chain's blocks from height `first` on that form one batch."""
        numbers: list[int] = []
        size = 0
        with self._lock:
            for height in range(first, min(last + 1, first + BATCH_BLOCKS)):
                number = self.tree.number_at(height)
                if number is None or (numbers and size + self.tree.location(number).size > BATCH_BYTES):
                    break
                numbers.append(number)
                size += self.tree.location(number).size
        return numbers

    def ref(self, height: int | None = None) -> BlockRef | None:
        """The best chain's block at a height, by default its tip. Raises SourceUnavailableError."""
        while (number := self._number_at(height)) is not None:
            header = bytearray(HEADER)
            self._load(number, memoryview(header))
            try:
                return self._ref(number, self._check_header(number, bytes(header)))
            except BlockError as error:
                self._refuse(number, str(error))
        return None

    def number_of(self, digest: bytes) -> int | None:
        """The number of the block with this hash, None for an unknown one."""
        with self._lock:  # the table of hashes may be growing
            return self.tree.find(digest)

    def _number_at(self, height: int | None) -> int | None:
        with self._lock:
            return self.tree.number_at(self.tree.height if height is None else height)

    def _check_header(self, number: int, header: bytes) -> bytes:
        """Check that a header is still the block's. If not, raises BlockError, and the file is read again later."""
        if sha256d(header) != self.tree.hash(number):
            file = self._files[self.tree.location(number).file]
            file.rewind()
            raise BlockError(
                f"{file.path.name} holds other bytes at the offset of this block", self.tree.location(number).offset
            )
        return header

    def _ref(self, number: int, header: bytes) -> BlockRef:
        height, digest = self.tree.height_of(number), self.tree.hash(number)
        return BlockRef(self.name, height, digest, header[4:36], int.from_bytes(header[68:72], "little"), header)

    def read(self, numbers: Sequence[int], buffer: bytearray) -> list[tuple[BlockRef, memoryview]]:
        """Blocks with their bytes, in `buffer` if it is large enough. Raises SourceUnavailableError.

        Stops before the first block with changed bytes, and refuses it.
        """
        read_blocks: list[tuple[BlockRef, memoryview]] = []
        room = memoryview(buffer)
        for number in numbers:
            size = self.tree.location(number).size
            try:
                whole = self._checked(number, room)
                self._check_work(whole)
                data = self._bare(whole)
                self._check_copy(number, data)
            except (ParseError, RuleError) as error:
                self._refuse(number, str(error))
                break
            room = room[size:] if len(room) >= size else room
            read_blocks.append((self._ref(number, bytes(data[:HEADER])), data))
        return read_blocks

    def data(self, number: int, room: memoryview) -> memoryview:
        """A block's bytes without AuxPoW, in `room` if they fit. Raises ParseError or SourceUnavailableError."""
        return self._bare(self._checked(number, room))

    def _checked(self, number: int, room: memoryview) -> memoryview:
        """A block's bytes, with the expected header. Raises BlockError or SourceUnavailableError."""
        location = self.tree.location(number)
        if location.size <= len(room):
            whole = room[: location.size]
            self._load(number, whole)
        else:
            try:
                whole = self._bytes(location)
            except OSError as error:
                raise self._unreadable(number, error) from error
        self._check_header(number, bytes(whole[:HEADER]))
        return whole

    def _check_work(self, data: memoryview) -> None:
        """Check the scrypt proof of work of one block. It takes 0.4 ms, too long to check all headers of the folder.
        Raises ParseError or RuleError."""
        if self.network.coin in SCRYPT:
            header = bytes(data[:HEADER])
            aux = bytes(data[HEADER : proof_of_work.header_end(bytes(data))]) if self._has_auxpow(header) else None
            self._rules.check_work(UncheckedHeader(header, sha256d(header), aux))

    def _check_copy(self, number: int, data: memoryview) -> None:
        """Check the merkle root of a block that has other copies: the follower checks it only where it finds something
        in the block, and damage may hide that. Raises ParseError."""
        if self.tree.hash(number) in self._copies:
            root = block.merkle_root(data, segwit=self.network.rules.segwit)
            if root != data[36:68]:
                raise BlockError("its transactions do not match its merkle root", self.tree.location(number).offset)

    def _bytes(self, location: BlockLocation) -> memoryview:
        """A block's bytes: read, or memory-mapped if the block is large and not obfuscated. Raises OSError."""
        file = self._files[location.file]
        if location.size > MAPPED_BYTES and not file.is_obfuscated:
            with file.path.open("rb") as opened:
                start = location.offset - location.offset % mmap.ALLOCATIONGRANULARITY
                length = location.offset + location.size - start
                mapped = mmap.mmap(opened.fileno(), length, access=mmap.ACCESS_READ, offset=start)
            return memoryview(mapped)[location.offset - start :]
        data = memoryview(bytearray(location.size))
        file.load(location.offset, data)
        return data

    def _load(self, number: int, target: memoryview) -> None:
        location = self.tree.location(number)
        try:
            self._files[location.file].load(location.offset, target)
        except OSError as error:
            raise self._unreadable(number, error) from error

    def _unreadable(self, number: int, error: OSError) -> SourceUnavailableError:
        height = self.tree.height_of(number)
        return SourceUnavailableError(f"{self.name}: block {height:,} cannot be read from {self.folder}: {error}")

    def _bare(self, data: memoryview) -> memoryview:
        """A block without the AuxPoW that Dogecoin has between header and transactions."""
        return proof_of_work.strip_auxpow(data) if self.network.coin == "doge" else data

    def blocked(self) -> BlockedBranch | None:
        """The branch that ends the best chain too early: all copies of its first block are damaged."""
        with self._lock:
            best = self.tree.best_refused() if self._reasons else None
            if best is None:
                return None
            number = next(number for number in self.tree.ancestors(best) if number in self._reasons)
        path = self._files[self.tree.location(number).file].path
        return BlockedBranch(
            self.tree.height_of(best),
            f"{self.name}: block {self.tree.height_of(number):,} is damaged in {path} ({self._reasons[number]}), and "
            "there is no other copy of it: restore that file, or have the node write the block again",
        )

    def refuse(self, ref: BlockRef, reason: str) -> None:
        """Use another copy of a block; without one, exclude it and its descendants until one is written."""
        number = self.number_of(ref.hash)
        if number is not None:
            self._refuse(number, reason)

    def _refuse(self, number: int, reason: str) -> None:
        location, copies = self.tree.location(number), self._copies.get(self.tree.hash(number))
        with self._lock:
            if copies:
                self.tree.move(number, copies.pop(0))
            else:
                self.tree.refuse(number)
                self._reasons[number] = reason
        self._note(self._files[location.file], location.offset, f"block {self.tree.height_of(number):,}: {reason}")
