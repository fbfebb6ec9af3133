"use strict";
/* Results and completions while typing. The URL stays the state: what is shown is the page at that URL. */
(() => {
  const form = document.getElementById("search");
  const words = document.getElementById("q");
  const completions = document.getElementById("completions");
  const filters = document.getElementById("filters");
  let asking = null;
  let retry = 0; /* the timer that asks the newest question again, 0 for none */

  const address = () => {
    const fields = [...new FormData(form)].filter(([, value]) => value.trim());
    const parameters = new URLSearchParams(fields.filter(([name, value]) => name !== "sort" || value !== "relevance"));
    return parameters.size ? `/?${parameters}` : "/";
  };

  const show = async (url, { push = false } = {}) => {
    asking?.abort();
    clearTimeout(retry);
    retry = 0;
    const mine = (asking = new AbortController());
    document.body.classList.add("loading");
    try {
      const page = await a2b.load(url, { signal: mine.signal });
      a2b.swap(page);
      if (new URL(url, location).searchParams.getAll("skillId").includes(skill.value)) skill.value = "";
      document.title = page.title;
      history[push ? "pushState" : "replaceState"]({ a2b: true }, "", url);
    } catch (error) {
      if (error.status === 429 || error.status === 503) retry = setTimeout(() => show(url, { push }), 1000);
      else if (error.name !== "AbortError") location.assign(url);
    } finally {
      if (asking === mine) {
        document.body.classList.remove("loading");
        asking = null;
      }
    }
  };

  const complete = async () => {
    const typed = words.value.trim();
    let items = [];
    if (typed.length > 1) {
      try {
        const answer = await fetch(`/v1/suggest?limit=6&q=${encodeURIComponent(typed)}`);
        if (answer.ok) items = (await answer.json()).items;
      } catch {
        /* without completions the results are still there */
      }
    }
    if (words.value.trim() !== typed) return;
    completions.replaceChildren(...items.map(({ text, kind, id }) => {
      const link = document.createElement("a");
      const words = document.createElement("span");
      const label = document.createElement("span");
      link.href = kind === "listing" ? `/listings/${encodeURIComponent(id)}` : kind === "tag"
        ? `/?${new URLSearchParams({ tag: text })}` : `/?${new URLSearchParams({ q: text })}`;
      words.textContent = text;
      label.textContent = kind;
      label.className = "soft";
      link.append(words, label);
      return link;
    }));
    completions.hidden = !items.length;
  };

  const skill = document.getElementById("skill");
  const skills = document.getElementById("skill-ids");
  const completeSkill = async () => {
    const typed = skill.value.trim();
    const word = encodeURIComponent(typed);
    const urls = [`/v1/search?limit=1&facets=skillId&facetLimit=8&facetPrefix=${word}`, `/v1/suggest?limit=20&q=${word}`];
    const answers = typed ? await Promise.all(urls.map(async (url) => (await fetch(url)).json())).catch(() => []) : [];
    if (skill.value.trim() !== typed) return;
    const names = new Map(answers[0]?.facets?.skillId.map(({ value }) => [value, value]));
    for (const { text, kind, id } of answers[1]?.items ?? []) if (kind === "skill") names.set(id, text);
    skills.replaceChildren(...Array.from(names, ([id, name]) => new Option(name, id)));
  };
  const skillTyped = a2b.calm(completeSkill, 140);
  skill.addEventListener("input", (event) => { if (!event.isComposing) skillTyped(); });
  skill.addEventListener("change", () => { if (skill.value.trim()) show(address(), { push: true }); });

  const relevance = form.elements.namedItem("sort").querySelector("[data-query]");
  const relabel = () => { relevance.textContent = words.value.trim() ? relevance.dataset.query : relevance.dataset.noQuery; };
  const typed = a2b.calm(() => { relabel(); show(address()); complete(); }, 140);
  words.addEventListener("input", (event) => { if (!event.isComposing) typed(); });
  words.addEventListener("compositionend", typed);
  const hide = () => {
    completions.hidden = true;
    words.focus();
  };
  words.addEventListener("keydown", (event) => {
    if (event.key === "Escape") completions.hidden = true;
    if (event.key !== "ArrowDown" || completions.hidden || event.isComposing) return;
    event.preventDefault();
    completions.firstElementChild?.focus();
  });
  completions.addEventListener("keydown", (event) => {
    const next = { ArrowDown: "nextElementSibling", ArrowRight: "nextElementSibling", ArrowUp: "previousElementSibling", ArrowLeft: "previousElementSibling" }[event.key];
    if (event.key === "Escape") hide();
    if (!next) return;
    event.preventDefault();
    (document.activeElement[next] ?? (next === "previousElementSibling" ? words : null))?.focus();
  });
  for (const left of ["pointerdown", "focusin"]) {
    document.addEventListener(left, (event) => { if (!form.contains(event.target)) completions.hidden = true; });
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    completions.hidden = true;
    show(address(), { push: true });
  });
  for (const field of document.querySelectorAll("[form=search]")) {
    if (field.tagName === "SELECT") field.addEventListener("change", () => show(address(), { push: true }));
  }

  /* links that only change the search keep the page, and where it is scrolled to when a filter is chosen */
  document.addEventListener("click", (event) => {
    const link = event.target.closest("#found a, #facets a, #completions a, #intro a");
    if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const url = new URL(link.href);
    if (url.origin !== location.origin || url.pathname !== "/") return;
    event.preventDefault();
    const again = link.closest("#facets") ? link.textContent : null;
    const paging = link.closest(".paging");
    fill(url);
    completions.hidden = true;
    show(url.pathname + url.search, { push: true }).then(() => {
      if (paging) document.getElementById("main").scrollIntoView();
      if (again === null) { /* the link is gone: go on from where it stood, not from the top of the page */
        if (document.activeElement === document.body) document.getElementById("found").focus({ preventScroll: true });
        return;
      }
      const label = again.replace(/[\d\s]+$/, "");
      [...filters.querySelectorAll("#facets a")].find((link) => link.textContent.startsWith(label))?.focus();
    });
  });

  const fill = (url) => {
    for (const name of ["q", "minPrice", "maxPrice", "priceCurrency", "sort"]) {
      const field = form.elements.namedItem(name);
      field.value = url.searchParams.get(name) ?? (name === "sort" ? "relevance" : "");
    }
    relabel();
  };

  /* a registry that is just being read, or indexed, turns up by itself */
  const turnUp = async () => {
    if (!document.querySelector("#found [data-again]")) return;
    if (!asking && !retry && document.visibilityState === "visible") await show(location.pathname + location.search);
    setTimeout(turnUp, 2000);
  };
  setTimeout(turnUp, 2000);

  history.replaceState({ a2b: true }, "", location.href);
  addEventListener("popstate", () => {
    fill(new URL(location.href));
    show(location.pathname + location.search);
  });
})();
