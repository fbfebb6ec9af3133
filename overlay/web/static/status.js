"use strict";
/* The status page keeps itself up to date while it is looked at. */
(() => {
  const PAUSE = 5000;
  const live = document.getElementById("live");
  const look = async () => {
    if (document.visibilityState === "visible") {
      try {
        a2b.swap(await a2b.load("/status"));
        if (live.textContent) live.textContent = "";
      } catch {
        live.textContent = "The server does not answer; trying again.";
      }
    }
    setTimeout(look, PAUSE);
  };
  setTimeout(look, PAUSE);
})();
