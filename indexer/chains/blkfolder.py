"""A folder of block files: its blocks as a tree of headers, and their bytes when asked for. Plain, blocking code."""

from __future__ import annotations

import hashlib
import mmap
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from indexer.chains import SourceError, SourceUnavailableError, auxpow
from indexer.chains.blkfile import HEADER, BlkFile, Frame, Garbage
from indexer.chainwork import is_met, target, work
from indexer.facts import BlockRef
from indexer.header_rules import Arrived, RuleError, Rules
from indexer.headertree import Place, PlacedTree
from indexer.networks import NETWORKS, SCRYPT, Network, by_magic
from parsers import block, tx
from parsers.errors import BlockError, ParseError
from parsers.tx import Outpoint, sha256d

BAD_KEPT = 100
BATCH_BLOCKS, BATCH_BYTES = 256, 8 << 20
"""Blocks read in one go: as many as fit, at least one."""

MAPPED_BYTES = 64 << 20
"""Blocks beyond this are mapped, smaller ones read: that is as fast, and a failing disk raises instead of killing."""

_KEY_FILE = "xor.dat"


FollowAt = Callable[[int, Mapping[bytes, bytes]], set[bytes]]
"""As `Follow`, given the height of the block that holds the transactions too."""


@dataclass(frozen=True, slots=True)
class BadBlock:
    """Bytes of a block file that are not used, and why."""

    file: str
    offset: int
    reason: str


class _Orphan:
    """A block whose parent has not been seen."""

    __slots__ = ("digest", "place", "work")

    def __init__(self, digest: bytes, work_of: int, place: Place) -> None:
        self.digest, self.work, self.place = digest, work_of, place


class BlkFolder:
    """The blocks of one network in a folder. `bad` holds the newest of the `refused` bytes that are not used.

    `refresh` may run in one thread while others ask; asking is quick, but for blocks' bytes.
    """

    def __init__(self, name: str, folder: Path, network: Network) -> None:
        self.name, self.folder, self.network = name, folder, network
        self.tree = PlacedTree()
        self._rules = Rules(network)
        self.bad: deque[BadBlock] = deque(maxlen=BAD_KEPT)
        self.refused = 0
        self._seen_bad: set[tuple[int, int]] = set()
        self._doubtful: set[tuple[int, int]] = set()
        self._files: list[BlkFile] = []
        self._by_name: dict[str, BlkFile] = {}
        self._orphans: dict[bytes, list[_Orphan]] = {}
        self._strange: tuple[str, bytes] | None = None
        self._folder_time = -1
        self._reading, self._lock = threading.Lock(), threading.Lock()

    @property
    def waiting(self) -> int:
        """Blocks whose parent has not been seen."""
        return sum(map(len, self._orphans.values()))

    # -- reading what is new

    def refresh(self, stop: threading.Event) -> None:
        """Take in what the files hold that was not there before. Raises SourceError; ends early when `stop` is set."""
        with self._reading:
            try:
                paths = self._listing()
                for path in paths:
                    file = self._by_name.get(path.name) or self._open(path)
                    if file.changed():
                        self._read(file, stop, is_newest=path == paths[-1])
            except OSError as error:
                raise SourceUnavailableError(f"{self.name}: {self.folder} cannot be read now: {error}") from error
            if not stop.is_set():
                self._judge()

    def changed(self) -> bool:
        """Whether there may be something new: a glance at the folder and the files written last."""
        try:
            return self.folder.stat().st_mtime_ns != self._folder_time or any(
                file.changed() for file in self._files[-3:] if file.path.exists()
            )
        except OSError:
            return True

    def _listing(self) -> list[Path]:
        self._folder_time = self.folder.stat().st_mtime_ns
        return sorted(self.folder.glob("blk*.dat"), key=lambda path: (len(path.name), path.name))

    def _open(self, path: Path) -> BlkFile:
        key_file = self.folder / _KEY_FILE
        key = key_file.read_bytes() if key_file.exists() else b""
        if len(key) not in (0, 8):
            raise SourceError(f"{self.name}: {key_file} holds {len(key)} bytes where a key of 8 is expected")
        file = BlkFile(path, len(self._files), self.network.magic, key, self._is_real)
        self._files.append(file)
        self._by_name[path.name] = file
        return file

    def _is_real(self, header: bytes, strict: bool) -> bool:
        """Whether a header has its proof of work; scrypt, half a millisecond each, is asked only of what was found."""
        bits = int.from_bytes(header[72:76], "little")
        if self.network.coin not in SCRYPT:
            return is_met(sha256d(header), bits)
        if not strict or self._has_auxpow(header):
            return len(header) == HEADER and target(bits) > 0
        return is_met(hashlib.scrypt(header, salt=header, n=1024, r=1, p=1, dklen=32), bits)

    def _has_auxpow(self, header: bytes) -> bool:
        return self.network.coin == "doge" and auxpow.has_work_of_another(header)

    def _read(self, file: BlkFile, stop: threading.Event, *, is_newest: bool) -> None:
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

    def _take(self, file: BlkFile, frame: Frame, *, is_newest: bool) -> None:
        """Take in a block: look into it first where it may be unfinished, or was only found by its magic."""
        digest = sha256d(frame.header)
        place = Place(file.number, frame.offset, frame.size)
        known = self.tree.find(digest)
        if known is not None:
            with self._lock:
                if self.tree.is_bad(known) or self.tree.place(known).file == file.number:
                    self.tree.move(known, place)
            return
        may_be_unfinished = frame.last and (is_newest or frame.end < file.size)
        is_doubtful = may_be_unfinished or not frame.follows or (file.number, frame.offset) in self._doubtful
        if is_doubtful and (reason := self._fault(place, frame.header)):
            if frame.last:
                self._doubtful.add((file.number, frame.offset))
                file.unread(frame)
            else:
                self._note(file, frame.offset, reason)
            return
        self._link(digest, frame.header, place)

    def _fault(self, place: Place, header: bytes) -> str | None:
        """What is wrong with a block's transactions, None when they are those of its header."""
        try:
            data = self._bare(self._bytes(place))
            root = block.merkle_root(data, segwit=self.network.rules.segwit)
        except ParseError as error:
            return str(error)
        return None if root == header[36:68] else "its transactions do not match its merkle root"

    def _link(self, digest: bytes, header: bytes, place: Place) -> None:
        """Put a block on its parent, and those on it that were waiting; or let it wait."""
        prev = header[4:36]
        is_genesis = not any(prev)
        if is_genesis and self.network.kind != "regtest" and digest[::-1].hex() != self.network.genesis:
            self._note(self._files[place.file], place.offset, f"{digest[::-1].hex()} is not the genesis block")
            return
        orphan = _Orphan(digest, work(int.from_bytes(header[72:76], "little")), place)
        parent = None if is_genesis else self.tree.find(prev)
        if parent is None and not is_genesis:
            waiting = self._orphans.setdefault(prev, [])
            if all(other.digest != digest for other in waiting):
                waiting.append(orphan)
            return
        ready = [(parent, orphan)]
        with self._lock:
            while ready:
                parent, orphan = ready.pop()
                number = self.tree.put(orphan.digest, parent, orphan.work, orphan.place)
                ready += [(number, child) for child in reversed(self._orphans.pop(orphan.digest, []))]

    def _note_garbage(self, file: BlkFile, garbage: Garbage) -> None:
        size = garbage.end - garbage.start
        if garbage.first == self.network.magic:
            self._note(file, garbage.start, "a block whose size or proof of work is wrong")
            return
        if garbage.start == 0 and self._strange is None:
            self._strange = file.path.name, garbage.first
        self._note(file, garbage.start, f"{size:,} bytes that are no block of {self.network}")

    def _note(self, file: BlkFile, offset: int, reason: str) -> None:
        if (file.number, offset) in self._seen_bad:
            return
        if len(self._seen_bad) < 100 * BAD_KEPT:
            self._seen_bad.add((file.number, offset))
        self.refused += 1
        self.bad.append(BadBlock(file.path.name, offset, reason))

    def _judge(self) -> None:
        """Say so when the folder cannot be what it was configured as."""
        if not len(self.tree) and not self._orphans and self._strange:
            raise SourceError(self._strange_magic(*self._strange))
        if not len(self.tree) and self._orphans:
            raise SourceUnavailableError(
                f"{self.name}: none of the {self.waiting:,} blocks in {self.folder} leads back to the genesis block of "
                f"{self.network}; files are missing, or the node prunes them and must be asked instead"
            )
        for height, expected in self.network.milestones:
            number = self.tree.at(height)
            if number is not None and (found := self.tree.hash(number)[::-1].hex()) != expected:
                coins = [str(other) for other in NETWORKS if (height, found) in other.milestones]
                raise SourceError(
                    f"{self.name}: {self.folder} is not {self.network}: its block {height:,} is {found} "
                    f"(of {' or '.join(coins) or 'no known network'})"
                )

    def _strange_magic(self, file: str, magic: bytes) -> str:
        others = ", ".join(map(str, by_magic(magic)))
        known = ", ".join(f"{known.magic.hex()} ({known})" for known in NETWORKS)
        hint = f"that is {others}" if others else f"known are {known}; files hidden by a key need their {_KEY_FILE}"
        return (
            f"{self.name}: {self.folder / file} begins with the magic {magic.hex()}, where {self.network} has "
            f"{self.network.magic.hex()}: {hint}"
        )

    # -- answering

    def branch(self, first: int, last: int) -> list[int]:
        """Numbers of the best chain's blocks from a height on, as many as are read in one go."""
        found: list[int] = []
        size = 0
        with self._lock:
            for height in range(first, min(last + 1, first + BATCH_BLOCKS)):
                number = self.tree.at(height)
                if number is None or (found and size + self.tree.place(number).size > BATCH_BYTES):
                    break
                found.append(number)
                size += self.tree.place(number).size
        return found

    def ref(self, height: int | None = None) -> BlockRef | None:
        """The best chain's block at a height, by default its tip. Raises SourceUnavailableError."""
        while (number := self._at(height)) is not None:
            header = bytearray(HEADER)
            self._load(number, memoryview(header))
            try:
                return self._ref(number, self._own(number, bytes(header)))
            except BlockError as error:
                self._refuse(number, str(error))
        return None

    def _at(self, height: int | None) -> int | None:
        with self._lock:
            return self.tree.at(self.tree.height if height is None else height)

    def _own(self, number: int, header: bytes) -> bytes:
        """The header, if it is still that of the block. Raises BlockError, and has the file read again, when not."""
        if sha256d(header) != self.tree.hash(number):
            file = self._files[self.tree.place(number).file]
            file.rewind()
            raise BlockError(
                f"{file.path.name} holds something else where this block was", self.tree.place(number).offset
            )
        return header

    def _ref(self, number: int, header: bytes) -> BlockRef:
        height, digest = self.tree.height_of(number), self.tree.hash(number)
        return BlockRef(self.name, height, digest, header[4:36], int.from_bytes(header[68:72], "little"), header)

    def read(self, numbers: Sequence[int], buffer: bytearray) -> list[tuple[BlockRef, memoryview]]:
        """Blocks with their bytes, which lie in `buffer` when it is large enough. Raises SourceUnavailableError.

        Ends before a block whose bytes are not its own any more: that one is refused.
        """
        found: list[tuple[BlockRef, memoryview]] = []
        room = memoryview(buffer)
        for number in numbers:
            place = self.tree.place(number)
            try:
                whole = self._checked(number, room[: place.size] if len(room) >= place.size else None)
                self._check_work(whole)
                data = self._bare(whole)
            except (ParseError, RuleError) as error:
                self._refuse(number, str(error))
                break
            room = room[place.size :] if len(room) >= place.size else room
            found.append((self._ref(number, bytes(data[:HEADER])), data))
        return found

    def _checked(self, number: int, target: memoryview | None) -> memoryview:
        """A block's bytes, whose header is the one known. Raises BlockError or SourceUnavailableError."""
        if target is None:
            try:
                target = self._bytes(self.tree.place(number))
            except OSError as error:
                raise self._unreadable(number, error) from error
        else:
            self._load(number, target)
        self._own(number, bytes(target[:HEADER]))
        return target

    def _check_work(self, data: memoryview) -> None:
        """Check the proof of work over scrypt of a block that is read, 0.4 ms each; the folder's headers are too many.
        Raises ParseError or RuleError."""
        if self.network.coin in SCRYPT:
            header = bytes(data[:HEADER])
            aux = bytes(data[HEADER : auxpow.end(bytes(data))]) if self._has_auxpow(header) else None
            self._rules.check_work(Arrived(header, sha256d(header), aux))

    def _bytes(self, place: Place) -> memoryview:
        """A block's bytes: read, or mapped when there are many and they are not hidden. Raises OSError."""
        file = self._files[place.file]
        if place.size > MAPPED_BYTES and not file.is_hidden:
            with file.path.open("rb") as opened:
                start = place.offset - place.offset % mmap.ALLOCATIONGRANULARITY
                length = place.offset + place.size - start
                mapped = mmap.mmap(opened.fileno(), length, access=mmap.ACCESS_READ, offset=start)
            return memoryview(mapped)[place.offset - start :]
        data = memoryview(bytearray(place.size))
        file.load(place.offset, data)
        return data

    def _load(self, number: int, target: memoryview) -> None:
        place = self.tree.place(number)
        try:
            self._files[place.file].load(place.offset, target)
        except OSError as error:
            raise self._unreadable(number, error) from error

    def _unreadable(self, number: int, error: OSError) -> SourceUnavailableError:
        height = self.tree.height_of(number)
        return SourceUnavailableError(f"{self.name}: block {height:,} cannot be read from {self.folder}: {error}")

    def _bare(self, data: memoryview) -> memoryview:
        """A block without the proof of work of another chain that Dogecoin puts between header and transactions."""
        return auxpow.bare(data) if self.network.coin == "doge" else data

    def refuse(self, ref: BlockRef, reason: str) -> None:
        """Leave out a block, and all on top of it, until another copy of it is found."""
        number = self.tree.find(ref.hash)
        if number is not None:
            self._refuse(number, reason)

    def _refuse(self, number: int, reason: str) -> None:
        place = self.tree.place(number)
        with self._lock:
            self.tree.refuse(number)
        self._note(self._files[place.file], place.offset, f"block {self.tree.height_of(number):,}: {reason}")

    # -- ancestors

    def values(
        self, outpoints: Iterable[Outpoint], before: BlockRef, lookback: int, stop: threading.Event
    ) -> dict[Outpoint, int]:
        """Satoshis of outputs made in `before` or in blocks before it, as far back as `lookback` bytes of blocks."""
        wanted: dict[bytes, list[Outpoint]] = {}
        for outpoint in outpoints:
            wanted.setdefault(outpoint.txid, []).append(outpoint)
        found: dict[Outpoint, int] = {}

        def take(_height: int, raws: Mapping[bytes, bytes]) -> set[bytes]:
            for txid, raw in raws.items():
                made = tx.read(raw, segwit=self.network.rules.segwit).outputs
                found.update({each: made[each.vout].satoshis for each in wanted.pop(txid) if each.vout < len(made)})
            return set(wanted)

        self.ancestors(before, lookback, take, stop)
        return found

    def ancestors(self, before: BlockRef, lookback: int, follow: FollowAt, stop: threading.Event) -> None:
        """Hand `follow` the transactions that it wants, with the height of their block: from `before` backwards, as far
        as `lookback` bytes of blocks."""
        wanted = follow(before.height, {})
        for height, data in self._backwards(before, lookback) if wanted else ():
            wanted = self._ancestors_in(height, data, wanted, follow)
            if not wanted or stop.is_set():
                return

    def _backwards(self, before: BlockRef, lookback: int) -> Iterator[tuple[int, memoryview]]:
        number = self.tree.find(before.hash)
        buffer = bytearray(BATCH_BYTES)
        for at in self.tree.ancestors(number) if number is not None else ():
            size = self.tree.place(at).size
            lookback -= size
            if lookback < 0:
                return
            try:
                data = self._bare(self._checked(at, memoryview(buffer)[:size] if size <= len(buffer) else None))
            except ParseError:
                continue  # its bytes are not its own any more; refused when it is read for itself
            yield self.tree.height_of(at), data

    def _ancestors_in(self, height: int, data: memoryview, wanted: set[bytes], follow: FollowAt) -> set[bytes]:
        """Hand `follow` what it wants of this block, parents of that included; returns what it still wants."""
        segwit = self.network.rules.segwit
        try:
            offsets = block.tx_offsets(data, segwit=segwit)
            txids = list(block.txids(data, offsets, segwit=segwit))
            if wanted.isdisjoint(txids):
                return wanted
            places = {txid: index for index, txid in enumerate(txids)}
            while here := wanted & places.keys():
                found = {each: bytes(data[offsets[places[each]] : offsets[places[each] + 1]]) for each in here}
                wanted = follow(height, found) - found.keys()
        except ParseError:
            return wanted  # a bad block says nothing; it is refused when it is read for itself
        return wanted
