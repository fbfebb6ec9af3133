"use strict";
/* What the pages share: fetching a page again and putting parts of it in place; copying. Nothing here is needed to
   read or to ask: every link and form works without it. */

const a2b = {};

/* The page at a URL as a document that runs nothing. `body`: a form's fields, sent by POST. */
a2b.load = (url, { body, signal } = {}) => new Promise((done, fail) => {
  const request = new XMLHttpRequest();
  request.open(body ? "POST" : "GET", url);
  request.responseType = "document";
  request.setRequestHeader("Accept", "text/html");
  request.onload = () => (request.response && request.status < 429 ? done(request.response) : fail(Object.assign(new Error(`status ${request.status}`), { status: request.status })));
  request.onerror = () => fail(new Error("no answer"));
  request.onabort = () => fail(new DOMException("given up", "AbortError"));
  signal?.addEventListener("abort", () => request.abort());
  request.send(body ?? null);
});

/* Replace the content of the parts marked data-swap by that of the same parts of another page. */
a2b.swap = (page) => {
  for (const part of document.querySelectorAll("[data-swap]")) {
    const fresh = page.getElementById(part.id);
    if (!fresh || fresh.innerHTML === part.innerHTML) continue;
    part.replaceChildren(...Array.from(fresh.childNodes, (node) => document.importNode(node, true)));
  }
  for (const part of document.querySelectorAll("[role=status][id]")) {
    const fresh = page.getElementById(part.id);
    if (fresh && fresh.textContent !== part.textContent) part.textContent = fresh.textContent;
  }
};

/* Call `work` once it has not been requested again for so many milliseconds. */
a2b.calm = (work, pause) => {
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...args), pause);
  };
};

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const word = button.textContent;
  try {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select it and copy by hand";
  }
  setTimeout(() => { button.textContent = word; }, 2000);
});
for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = false;
