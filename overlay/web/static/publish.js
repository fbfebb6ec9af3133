"use strict";
/* The publisher's page while it is used: what is pasted is looked at at once, and a transaction is followed by the
   server's stream of changes until the page is left; one that the server has not seen is fetched. */
(() => {
  const form = document.getElementById("paste");
  const what = document.getElementById("what");
  const live = document.getElementById("live");
  let asking = null;
  let stream = null;
  let again = null;
  let looked = 0;
  const requested = new Set();

  const txid = (text) => /^(0x)?[0-9a-f]{64}([_:.i]\d{1,10})?$/i.test(text);
  const watched = () => document.getElementById("watch").dataset;

  const look = async (url, body) => {
    asking?.abort();
    const mine = (asking = new AbortController());
    looked = Date.now();
    try {
      a2b.swap(await a2b.load(url, { body, signal: mine.signal }));
      if (asking === mine) follow();
    } catch (error) {
      if (error.name === "AbortError") return;
      live.textContent = `No answer: ${error.message}.`;
      if (watched().txid) soon(15000);
    }
  };

  const pasted = () => {
    const text = what.value.trim();
    stop();
    if (txid(text)) {
      const url = `/publish?${new URLSearchParams({ tx: text })}`;
      history.replaceState(null, "", url);
      look(url);
    } else {
      history.replaceState(null, "", "/publish");
      look("/publish", new URLSearchParams({ what: text }));
    }
  };

  const stop = () => {
    stream?.close();
    stream = null;
    clearTimeout(again);
    live.textContent = "";
  };

  /* At once when a change is about this transaction; else, while it is in no block, now and then. */
  const changed = (event) => {
    const change = JSON.parse(event.data);
    const { txid: mine, ids, where } = watched();
    const ours = change.op === "reset" || change.id?.startsWith(mine) || ids.split(" ").includes(change.id);
    if (ours) soon(200);
    else if (where !== "block") soon(Math.max(200, looked + 3000 - Date.now()));
  };

  const looks = () => look(`/publish?tx=${watched().txid}`);
  const soon = (pause, work = looks) => {
    clearTimeout(again);
    again = setTimeout(work, pause);
  };

  /* Request one that the server has not seen by now, once: it is looked for during an hour. */
  const fetched = () => {
    const { txid: mine } = watched();
    if (!document.querySelector("#outcome input[name=fetch]") || requested.has(mine)) return looks();
    requested.add(mine);
    return look("/publish", new URLSearchParams({ what: mine, fetch: "1" }));
  };

  const follow = () => {
    const { txid: mine, where, epoch, seq } = watched();
    clearTimeout(again);
    if (!mine || !location.search.includes("tx=")) return;
    live.textContent = where === "block" ? "Mined. This page updates when anything changes."
      : "Following: this page changes when the transaction does.";
    if (where !== "block") soon(15000, fetched);
    if (stream) return;
    stream = new EventSource(`/v1/stream?${new URLSearchParams({ since: seq, epoch })}`);
    stream.onmessage = changed;
  };

  what.addEventListener("input", a2b.calm(pasted, 350));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    pasted();
  });
  addEventListener("pagehide", stop);
  follow();
})();
