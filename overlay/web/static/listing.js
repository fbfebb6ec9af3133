"use strict";
/* The proof of a listing, recomputed here with the browser's own SHA-256; and prices converted without a new page.
   Formats: raw transactions (BIP 144 where there is a witness), BUMP (BRC-74), block headers of 80 bytes. */
(() => {
  const place = document.getElementById("proof");
  const button = document.getElementById("check");
  const steps = document.getElementById("steps");

  const bytes = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  const hex = (data) => Array.from(data, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const shown = (data) => hex(data.toReversed());
  const same = (one, other) => one.length === other.length && one.every((byte, position) => byte === other[position]);
  const joined = (...parts) => {
    const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
    let position = 0;
    for (const part of parts) { whole.set(part, position); position += part.length; }
    return whole;
  };
  const sha256 = async (data) => new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  const sha256d = async (data) => sha256(await sha256(data));
  const holds = (data, part) => {
    if (!part.length) return false;
    for (let position = data.indexOf(part[0]); position >= 0; position = data.indexOf(part[0], position + 1)) {
      let length = 1;
      while (length < part.length && data[position + length] === part[length]) length += 1;
      if (length === part.length) return true;
    }
    return false;
  };

  class Reader {
    constructor(data) { this.data = data; this.position = 0; }
    take(count) {
      if (this.position + count > this.data.length) throw new Error("it ends too early");
      this.position += count;
      return this.data.subarray(this.position - count, this.position);
    }
    number(size) { return this.take(size).reduceRight((sum, byte) => sum * 256 + byte, 0); }
    count() {
      const first = this.number(1);
      return first < 253 ? first : this.number(2 ** (first - 252));
    }
  }

  /* The bytes that a transaction's id is the hash of: all of it, without the witness where there is one. */
  const named = (raw, segwit) => {
    if (!segwit || raw[4] !== 0 || raw[5] !== 1) return raw;
    const reader = new Reader(raw);
    reader.take(6);
    for (let left = reader.count(); left > 0; left -= 1) { reader.take(36); reader.take(reader.count()); reader.take(4); }
    for (let left = reader.count(); left > 0; left -= 1) { reader.take(8); reader.take(reader.count()); }
    return joined(raw.subarray(0, 4), raw.subarray(6, reader.position), raw.subarray(raw.length - 4));
  };

  /* The merkle root that a BUMP leads to from a transaction (hashes in internal byte order), the transaction's number in
     its block, and the levels of the path. */
  const climb = async (bump, txid) => {
    const reader = new Reader(bump);
    reader.count();
    const levels = [];
    for (let height = reader.number(1); height > 0; height -= 1) {
      const level = new Map();
      for (let left = reader.count(); left > 0; left -= 1) {
        const offset = reader.count();
        const flags = reader.number(1);
        level.set(offset, flags & 1 ? null : reader.take(32));
      }
      levels.push(level);
    }
    const start = [...(levels[0] ?? [])].find(([, hash]) => hash && same(hash, txid));
    if (!start) throw new Error("the path does not begin at the transaction");
    let [offset, hash] = start;
    const leaf = { number: offset, levels: levels.length };
    if (levels.length === 1 && levels[0].size === 1) return { ...leaf, root: hash }; // alone in its block
    for (const level of levels) {
      const other = level.get(offset ^ 1);
      if (other === undefined) throw new Error("the path has a gap");
      const beside = other ?? hash;
      hash = await sha256d(offset & 1 ? joined(beside, hash) : joined(hash, beside));
      offset = Math.floor(offset / 2);
    }
    return { ...leaf, root: hash };
  };
  const root = async (bump, txid) => (await climb(bump, txid)).root;

  const COMMITMENT = bytes("6a24aa21a9ed");

  /* What a coinbase says of the witnesses in its block (BIP 141): the hash in its last output for that, or undefined. */
  const committed = (coinbase) => {
    const reader = new Reader(coinbase);
    const scripts = [];
    reader.take(4);
    for (let left = reader.count(); left > 0; left -= 1) { reader.take(36); reader.take(reader.count()); reader.take(4); }
    for (let left = reader.count(); left > 0; left -= 1) { reader.take(8); scripts.push(reader.take(reader.count())); }
    return scripts.findLast((script) => script.length >= 38 && same(script.subarray(0, 6), COMMITMENT))?.subarray(6, 38);
  };

  /* Why a witness is not proved to be the one that was mined, "" where it is: no id of a transaction covers it. */
  const unwitnessed = async (hop) => {
    const { witness } = hop;
    if (!witness) return "the server does not prove its witness, which its id does not cover; it must index the chain again";
    const [raw, coinbase] = [bytes(hop.rawTx), bytes(witness.coinbase)];
    const first = await climb(bytes(witness.coinbaseBump), await sha256d(coinbase));
    const isFirst = first.number === 0 && same(first.root, bytes(hop.header).subarray(36, 68)) && coinbase.length !== 64;
    if (!isFirst || coinbase[4] !== 1 || coinbase.subarray(5, 37).some(Boolean)) {
      return "what should commit to its witness is not the coinbase of its block";
    }
    const expected = committed(coinbase);
    if (!expected) return raw[4] === 0 ? "it has a witness, and the coinbase of its block commits to none" : "";
    const leads = await climb(bytes(witness.bump ?? ""), await sha256d(raw)).catch(() => null);
    const reserved = bytes(witness.reserved);
    const isMined = leads?.levels === first.levels && reserved.length === 32
      && same(await sha256d(joined(leads.root, reserved)), expected);
    return isMined ? "" : "its witness is not the one that the coinbase of its block commits to";
  };

  /* A card as an envelope in a witness holds it: pushes of at most 520 bytes. */
  const pushes = (card) => {
    const parts = [];
    for (let position = 0; position < card.length; position += 520) {
      const part = card.subarray(position, position + 520);
      const size = part.length;
      parts.push(Uint8Array.from(size < 76 ? [size] : size < 256 ? [76, size] : [77, size & 255, size >> 8]), part);
    }
    return joined(...parts);
  };

  const target = (header) => {
    const bits = new Reader(header.subarray(72, 76)).number(4);
    return BigInt(bits & 0x7fffff) << BigInt(8 * Math.max(0, (bits >>> 24) - 3));
  };

  /* Whether a transaction spends an output of another one (hash in internal byte order). */
  const spends = (raw, segwit, txid) => {
    const reader = new Reader(named(raw, segwit));
    reader.take(4);
    for (let left = reader.count(); left > 0; left -= 1) {
      if (same(reader.take(32), txid)) return true;
      reader.take(4); reader.take(reader.count()); reader.take(4);
    }
    return false;
  };

  const worked = (header, block) => BigInt(`0x${shown(block)}`) <= target(header);

  /* What is wrong with a transaction that moved the satoshi, "" for nothing: it must be in a block that has its work. */
  const wrong = async (hop, segwit, work) => {
    const raw = bytes(hop.rawTx);
    const txid = await sha256d(named(raw, segwit));
    if (shown(txid) !== hop.txid) return "its bytes have another id";
    if (!hop.bump) return "the server does not prove that it is in a block";
    const header = bytes(hop.header);
    if (!same(await root(bytes(hop.bump), txid), header.subarray(36, 68))) return "its merkle path ends at another root";
    const block = await sha256d(header.subarray(0, 80));
    if (shown(block) !== hop.blockHash) return "its header is not that of the block named";
    const problem = segwit ? await unwitnessed(hop) : "";
    if (problem) return problem;
    return work !== "header" || worked(header, block) ? "" : "its header does not have its work";
  };

  /* The satoshi's way: every transaction is in a block and spends the one before, the last made the outpoint shown. */
  const way = async (proof, expected) => {
    const segwit = "segwit" in expected;
    const hops = [...proof.before, proof, ...proof.after];
    for (const [number, hop] of hops.entries()) {
      const problem = hop === proof ? "" : await wrong(hop, segwit, expected.work);
      if (problem) return `transaction ${String(hop.txid).slice(0, 16)}…: ${problem}.`;
      if (number && !spends(bytes(hop.rawTx), segwit, bytes(hops[number - 1].txid).toReversed())) {
        return `transaction ${hop.txid.slice(0, 16)}… does not spend the one before it.`;
      }
    }
    const last = proof.after.length ? proof.current : proof;
    if (last?.txid !== hops.at(-1).txid) return "where the satoshi is now is not the last transaction of its way.";
    return (last.outpoint ?? "") === expected.outpoint ? "" : "it ends elsewhere than this page says.";
  };

  /* One step: what was looked at, and how that went; null for what was not checked. */
  const say = (went, word, detail) => {
    const item = document.createElement("li");
    item.className = went === null ? "open" : went ? "good" : "bad";
    const strong = document.createElement("strong");
    strong.textContent = `${word} ${went === null ? "was not checked" : went ? "holds" : "does not hold"}:`;
    const text = document.createElement("span");
    text.textContent = detail;
    item.append(strong, " ", text);
    steps.append(item);
    return went;
  };

  const get = async (path) => {
    const answer = await fetch(`/v1/listings/${encodeURIComponent(place.dataset.listing)}${path}`, { cache: "no-store" });
    if (!answer.ok) throw new Error(`the server answered ${answer.status} for ${path.slice(1)}`);
    return answer;
  };

  const check = async () => {
    const expected = place.dataset;
    const proof = await (await get("/proof")).json();
    const card = new Uint8Array(await (await get("/card")).arrayBuffer());
    const raw = bytes(proof.rawTx);
    const header = bytes(proof.header).subarray(0, 80);
    const results = [];

    const digest = await sha256(card);
    results.push(say(hex(digest) === expected.card, "The card", `its ${card.length.toLocaleString("en")} bytes have the SHA-256 ${hex(digest).slice(0, 16)}…, ${hex(digest) === expected.card ? "the one" : "not the one"} that this page names.`));

    const txid = await sha256d(named(raw, "segwit" in expected));
    results.push(say(shown(txid) === expected.txid, "The transaction", `the double SHA-256 of its ${raw.length.toLocaleString("en")} bytes is ${shown(txid).slice(0, 16)}…, ${shown(txid) === expected.txid ? "its id" : "not the id that this page names"}.`));

    if (expected.holds === "card") {
      const inside = holds(raw, card) || holds(raw, pushes(card));
      results.push(say(inside, "The place of the card", inside ? "all its bytes are in the transaction." : "its bytes are not in the transaction."));
    } else if (expected.holds === "hash") {
      const inside = holds(raw, digest) || holds(raw, new TextEncoder().encode(expected.card));
      results.push(say(inside, "The hash on chain", inside ? "the transaction names the SHA-256 of the card." : "the transaction does not name the SHA-256 of the card."));
    } else {
      say(null, "The card", "the transaction names a place and no hash, so that nothing ties these bytes to it.");
    }

    const leads = await root(bytes(proof.bump), txid);
    results.push(say(same(leads, header.subarray(36, 68)), "The merkle path", `from the transaction it leads to ${shown(leads).slice(0, 16)}…, ${same(leads, header.subarray(36, 68)) ? "the root in" : "not the root in"} the header of block ${proof.height.toLocaleString("en")}.`));

    if ("segwit" in expected && expected.holds === "card") {
      const problem = await unwitnessed(proof);
      results.push(say(!problem, "The witness", `${problem || "it is the one that the coinbase of its block commits to"}.`));
    }

    const block = await sha256d(header);
    results.push(say(shown(block) === proof.blockHash, "The header", `its hash is ${shown(block).slice(0, 24)}…${shown(block) === proof.blockHash ? "" : ", not the one that the server says"}.`));
    if (expected.work === "header") {
      const tries = (1n << 256n) / (target(header) + 1n);
      results.push(say(worked(header, block), "The proof of work", `such a hash takes about ${tries.toLocaleString("en")} tries${"regtest" in expected ? ": on a test chain that anybody can mine, this says nothing" : ""}.`));
    } else {
      say(null, "The proof of work", "this chain's is over scrypt, which browsers do not offer; a2b verify computes it.");
    }
    if (expected.holds !== "card") return results.every(Boolean); // a pointer moves nowhere
    if (proof.before && proof.after) {
      const problem = await way(proof, expected);
      const count = proof.before.length + proof.after.length + 1;
      results.push(say(!problem, "The way of the satoshi", problem || `${count.toLocaleString("en")} transaction${count === 1 ? "" : "s"} from the registration to where it is now, each in a block and spending the one before.`));
    } else {
      say(null, "The way of the satoshi", "the server does not hold all of its transactions.");
    }
    return results.every(Boolean);
  };

  const LIMITS = [
    "That this block is on the chain with most work, and how deep it is buried: one header was looked at. a2b verify checks every header from a checkpoint on.",
    "That there is no newer revision: a server can keep one back. Compare with another overlay, or follow the chain yourself.",
    "Which output of each transaction holds the satoshi, and so who owns it. a2b verify follows it through all of them.",
    "Who the publisher is, and whether what the card says is true.",
  ];

  button?.addEventListener("click", async () => {
    steps.replaceChildren();
    if (!globalThis.crypto?.subtle) {
      say(null, "The proof", "this page did not come over https, and so the browser offers it no hashing. Use a2b verify.");
      return;
    }
    button.disabled = true;
    try {
      const whole = await check();
      place.dataset.result = whole ? "holds" : "fails";
      document.getElementById("verdict").textContent = whole
        ? "All that your browser checked holds." : "Something does not hold: do not believe this listing.";
    } catch (error) {
      say(false, "The proof", `it could not be read: ${error.message}.`);
      place.dataset.result = "fails";
    }
    const limits = document.getElementById("limits");
    limits.querySelector("ul").replaceChildren(...LIMITS.map((text) => {
      const item = document.createElement("li");
      item.textContent = text;
      return item;
    }));
    limits.hidden = false;
    button.disabled = false;
    button.textContent = "Check it again";
  });
  if (button) button.hidden = false;

  const convert = document.getElementById("convert");
  const compute = async (event) => {
    event.preventDefault();
    if (!convert.reportValidity()) return;
    const fields = [...new FormData(convert)].filter(([, value]) => value.trim());
    const url = `${location.pathname}?${new URLSearchParams(fields)}`;
    try {
      a2b.swap(await a2b.load(url));
      history.replaceState(null, "", url);
    } catch {
      convert.submit();
    }
  };
  convert?.addEventListener("change", compute);
  convert?.addEventListener("submit", compute);
})();
