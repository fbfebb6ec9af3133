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

  const look = a2b.calm(async () => {
    const follow = document.getElementById("follow");
    if (!follow || !stream) return;
    const item = (await listed(follow.dataset)).find((listing) => !before.has(listing.id));
    if (item) location.assign(`/publish?${new URLSearchParams({ tx: item.txid })}`);
  }, 300);

  const stop = () => {
    stream?.close();
    stream = null;
    live.textContent = "";
  };

  const follow = async () => {
    const wanted = document.getElementById("follow")?.dataset;
    if (!wanted) return;
    before = new Set((await listed(wanted)).map((listing) => listing.id));
    stop();
    stream = new EventSource(`/v1/stream?${new URLSearchParams({ since: wanted.seq, epoch: wanted.epoch })}`);
    stream.onmessage = look;
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
