"use strict";
/* The page Register while it is used: what is filled in is prepared at once, and once the wallet has sent the
   transaction the page goes on to its trace, which follows it into a block. */
(() => {
  const form = document.getElementById("register");
  const live = document.getElementById("live");
  let asking = null;
  let stream = null;
  let before = new Set();

  /* The listings of this owner with this very card. */
  const listed = async ({ owner, card }) => {
    const query = new URLSearchParams({ owner, sort: "updated", limit: 100 });
    const answer = await fetch(`/v1/search?${query}`, { headers: { Accept: "application/json" } });
    if (!answer.ok) return [];
    return (await answer.json()).items.filter((item) => item.cardSha256 === card);
  };

  /* The revisions of the listing that is changed, or the listings of the owner with the new card: what the signed
     transaction adds to them is what the page waits for. */
  const results = async (wanted) => {
    if (!wanted.listing) return listed(wanted);
    const answer = await fetch(`/v1/listings/${encodeURIComponent(wanted.listing)}/history`);
    return answer.ok ? (await answer.json()).revisions : [];
  };
  const mark = (result) => result.id ?? result.txid;

  /* A change is announced when it is stored, which is before the search knows it: what is not there yet is looked for
     again, less and less often. */
  const MOST_SECONDS = 60;
  let again;
  const look = async (seconds) => {
    const follow = document.getElementById("follow");
    if (!follow || !stream) return;
    const result = (await results(follow.dataset)).find((one) => !before.has(mark(one)));
    if (result) location.assign(`/publish?${new URLSearchParams({ tx: result.txid })}`);
    else if (seconds < MOST_SECONDS) lookIn(seconds * 2);
  };
  const lookIn = (seconds) => {
    clearTimeout(again);
    again = setTimeout(look, seconds * 1000, seconds);
  };

  const stop = () => {
    clearTimeout(again);
    stream?.close();
    stream = null;
    live.textContent = "";
  };

  const follow = async () => {
    const wanted = document.getElementById("follow")?.dataset;
    if (!wanted) return;
    before = new Set((await results(wanted)).map(mark));
    stop();
    stream = new EventSource(`/v1/stream?${new URLSearchParams({ since: wanted.seq, epoch: wanted.epoch })}`);
    stream.onmessage = () => lookIn(0.3);
    live.textContent = "Waiting for the signed transaction: this page goes on when it is seen.";
  };

  const draw = () => {
    const canvas = document.getElementById("qr");
    if (!canvas) return;
    const size = Number(canvas.dataset.size);
    const pixels = 4;
    canvas.width = canvas.height = (size + 8) * pixels;
    canvas.hidden = false;
    const context = canvas.getContext("2d");
    context.fillStyle = "#fff";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.fillStyle = "#000";
    for (let place = 0; place < size * size; place += 1) {
      if (!(parseInt(canvas.dataset.bits[place >> 2], 16) & (8 >> (place & 3)))) continue;
      context.fillRect((place % size + 4) * pixels, (Math.floor(place / size) + 4) * pixels, pixels, pixels);
    }
  };

  const prepare = async () => {
    asking?.abort();
    const mine = (asking = new AbortController());
    try {
      a2b.swap(await a2b.load("/register", { body: new URLSearchParams(new FormData(form)), signal: mine.signal }));
      if (asking !== mine) return;
      stop();
      draw();
      await follow();
    } catch (error) {
      if (error.name !== "AbortError") live.textContent = `No answer: ${error.message}.`;
    }
  };

  form.addEventListener("input", a2b.calm(prepare, 500));
  form.addEventListener("submit", (event) => {
    if (event.submitter?.name) return;
    event.preventDefault();
    prepare();
  });
  addEventListener("pagehide", stop);
  draw();
  follow();
})();
