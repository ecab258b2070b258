// What makes pages more comfortable; all of them work without it.
"use strict";

// Suggestions while somebody types into the search field.
for (const input of document.querySelectorAll("input[data-suggest]")) {
  const field = input.parentElement;
  const list = document.createElement("ul");
  list.id = input.id + "-suggestions";
  list.className = "suggestions";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", input.labels[0] ? input.labels[0].textContent : "");
  list.hidden = true;
  field.append(list);
  const said = document.createElement("p");
  said.className = "visually-hidden";
  said.setAttribute("role", "status");
  field.after(said);
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-autocomplete", "list");
  input.setAttribute("aria-controls", list.id);
  input.setAttribute("aria-expanded", "false");

  let timer = 0;
  let asking = null;
  let chosen = -1;

  const close = () => {
    list.hidden = true;
    chosen = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };

  const choose = (at) => {
    const options = list.children;
    if (options.length === 0) return;
    chosen = (at + options.length) % options.length;
    for (const [index, option] of [...options].entries()) {
      option.setAttribute("aria-selected", String(index === chosen));
    }
    options[chosen].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", options[chosen].id);
  };

  const element = (name, className, text) => {
    const made = document.createElement(name);
    made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const show = (found) => {
    list.replaceChildren();
    for (const [index, one] of found.entries()) {
      const option = element("li", "");
      option.id = list.id + "-" + index;
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", "false");
      option.dataset.fingerprint = one.fingerprint;
      const who = element("div", "who");
      who.append(element("bdi", "", one.name));
      if (one.validity !== "valid") who.append(element("span", "badge " + one.validity, one.state));
      option.append(who);
      if (one.address) {
        const what = element("div", "what");
        what.append(element("bdi", "", one.address));
        option.append(what);
      }
      const digits = element("div", "what");
      digits.append(element("code", "", one.fingerprint.replace(/(.{4})(?=.)/g, "$1 ")));
      option.append(digits);
      list.append(option);
    }
    chosen = -1;
    list.hidden = found.length === 0;
    input.setAttribute("aria-expanded", String(found.length > 0));
    input.removeAttribute("aria-activedescendant");
    said.textContent = found.length > 0 ? input.dataset.found : input.dataset.none;
  };

  const ask = async () => {
    const typed = input.value.trim();
    if (asking) asking.abort();
    if ([...typed].length < 3) return close();
    asking = new AbortController();
    try {
      const address = input.dataset.suggest + "?q=" + encodeURIComponent(typed);
      const answer = await fetch(address, { signal: asking.signal });
      if (!answer.ok) return close();
      const found = await answer.json();
      if (document.activeElement === input) show(found);
    } catch (error) {
      if (error.name !== "AbortError") close();
    }
  };

  const open = (option) => {
    location.assign("/certificate/" + option.dataset.fingerprint);
  };

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, 200);
  });
  input.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    if (event.key === "ArrowDown") {
      event.preventDefault();
      choose(chosen + 1);
    } else if (event.key === "ArrowUp") {
      event.preventDefault();
      choose(chosen < 0 ? -1 : chosen - 1);
    } else if (event.key === "Enter" && chosen >= 0) {
      event.preventDefault();
      open(list.children[chosen]);
    } else if (event.key === "Escape") {
      event.preventDefault();
      close();
    }
  });
  input.addEventListener("blur", close);
  // Before the field loses its focus.
  list.addEventListener("pointerdown", (event) => event.preventDefault());
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) open(option);
  });
}

// Buttons that copy, where the browser lets pages do so.
if (navigator.clipboard) {
  for (const source of document.querySelectorAll("[data-copy]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet copy";
    button.textContent = source.dataset.copyLabel;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(source.dataset.copy);
      button.textContent = source.dataset.copied;
      setTimeout(() => { button.textContent = source.dataset.copyLabel; }, 2000);
    });
    const both = document.createElement("div");
    both.className = "copyable";
    source.replaceWith(both);
    both.append(source, button);
  }
}
