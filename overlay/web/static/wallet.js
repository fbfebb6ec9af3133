"use strict";
/* The wallet button of the page Register: a BRC-100 wallet on this computer chooses the coins, signs and sends. It is
   called after the click only; each listing has a key of its own, by which a wallet finds it again in its basket. */
(() => {
  const form = document.getElementById("register");
  const section = document.getElementById("wallet");
  const button = document.getElementById("wallet-button");
  const state = document.getElementById("wallet-state");
  const PROTOCOL = [2, "a2b listing"];
  const BASKET = "a2b listings";
  const SIGHASH = "41";

  const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const bytes = (text) => text.match(/../g).map((pair) => parseInt(pair, 16));
  const pushed = (text) => hex([text.length / 2]) + text;

  /* A browser that asks its user before a page may call this computer is told that this is one. */
  const request = (url, args) => {
    const init = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(args) };
    try {
      return new Request(url, { ...init, targetAddressSpace: "loopback" });
    } catch {
      return new Request(url, init);
    }
  };

  const call = async (wallet, method, args) => {
    const answer = await fetch(request(`${wallet}/${method}`, args));
    const result = await answer.json().catch(() => ({}));
    if (!answer.ok || result.isError) throw new Error(`the wallet refuses ${method}: ${result.message ?? answer.status}`);
    return result;
  };

  const reachable = async () => {
    for (const wallet of section.dataset.wallets.split(" ")) {
      try {
        await call(wallet, "getVersion", {});
        return wallet;
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
      }
    }
    throw new Error("no wallet answers on this computer, or the browser does not let this page call it");
  };

  /* What this server answers for the form and more fields. */
  const prepared = async (more) => {
    const body = new URLSearchParams(new FormData(form));
    for (const [name, value] of Object.entries(more)) body.set(name, value);
    const answer = await fetch("/register", { method: "POST", headers: { Accept: "application/json" }, body });
    const result = await answer.json();
    if (!answer.ok) throw new Error(result.errors?.[0]?.detail ?? result.detail ?? `status ${answer.status}`);
    return result;
  };

  /* The key of a new listing, or the one that the wallet noted with the output of a listing. */
  const keyOf = async (wallet, id) => {
    if (!id) {
      const keyID = hex(crypto.getRandomValues(new Uint8Array(16)));
      return { protocolID: PROTOCOL, keyID, counterparty: "self" };
    }
    const answer = await fetch(`/v1/listings/${encodeURIComponent(id)}`);
    const outpoint = answer.ok ? (await answer.json()).outpoint?.replace("_", ".") : null;
    const { outputs } = await call(wallet, "listOutputs", { basket: BASKET, includeCustomInstructions: true, limit: 10000 });
    const output = outputs.find((one) => one.outpoint === outpoint && one.customInstructions);
    if (!output) throw new Error(`this wallet does not have the key of ${id}`);
    const { protocolID, keyID } = JSON.parse(output.customInstructions);
    return { protocolID, keyID, counterparty: "self" };
  };

  const signed = async (wallet, key, publicKey, { tx, reference }) => {
    try {
      const { digest } = await prepared({ key: publicKey, tx: hex(tx) });
      const { signature } = await call(wallet, "createSignature", { ...key, hashToDirectlySign: bytes(digest) });
      const unlockingScript = pushed(hex(signature) + SIGHASH) + pushed(publicKey);
      return await call(wallet, "signAction", { reference, spends: { 0: { unlockingScript } } });
    } catch (error) {
      await call(wallet, "abortAction", { reference }).catch(() => null);
      throw error;
    }
  };

  const publish = async () => {
    const action = form.elements.action.value;
    const id = action === "register" ? "" : form.elements.id.value.trim();
    if (action !== "register" && !id) throw new Error("name the listing");
    const wallet = await reachable();
    state.textContent = "The wallet answers: it may ask you now.";
    const key = await keyOf(wallet, id);
    const { publicKey } = await call(wallet, "getPublicKey", key);
    const { createAction } = await prepared({ key: publicKey });
    if (!["transfer", "delist"].includes(action)) {
      Object.assign(createAction.outputs[0], { basket: BASKET, customInstructions: JSON.stringify(key) });
    }
    const built = await call(wallet, "createAction", createAction);
    const { txid } = built.signableTransaction ? await signed(wallet, key, publicKey, built.signableTransaction) : built;
    location.assign(`/publish?${new URLSearchParams({ tx: txid })}`);
  };

  button.addEventListener("click", async () => {
    button.disabled = true;
    state.textContent = "Looking for a wallet on this computer.";
    try {
      await publish();
    } catch (error) {
      state.textContent = `Not sent: ${error.message}.`;
    }
    button.disabled = false;
  });
  section.hidden = !window.isSecureContext;
})();
