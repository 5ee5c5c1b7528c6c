// Lets whoever uses the keyboard pass the sidebar's links, and names the part that pages are about.
(() => {
  const start = () => {
    const content = document.querySelector("#content");
    if (!content) return;
    document.querySelector("#main").setAttribute("role", "main");
    content.tabIndex = -1;
    const skip = document.createElement("a");
    skip.className = "queue-skip";
    skip.href = "#content";
    skip.textContent = "Skip to the content";
    skip.addEventListener("click", (event) => {
      // The theme takes a fragment for the name of a tab.
      event.preventDefault();
      content.focus();
    });
    document.body.prepend(skip);
  };
  document.addEventListener("DOMContentLoaded", start);
  // The theme calls the sidebar and every list the same, and the lists' tables have no name.
  window.addEventListener("load", () => {
    const region = document.querySelector("#result_list")?.closest("[role=region]");
    const name = [...document.querySelectorAll(".queue-crumb")].pop();
    if (region && name) region.setAttribute("aria-label", name.textContent.trim());
  });
})();

// An icon is a word in a font of pictures: screen readers would read "undo Undo". Where the icon is all
// that a control has, the control gets a name.
const NAMES = { arrow_back: "Back", close: "Close the menu", dock_to_right: "Menu", search: "Search" };
const nameIcons = (root) => {
  for (const icon of root.querySelectorAll(".material-symbols-outlined:not([aria-hidden])")) {
    const control = icon.closest("a, button, [role=button]");
    const word = icon.textContent.trim();
    if (control && !control.ariaLabel && control.textContent.trim() === word) {
      // The site's own symbol stands before the site's name.
      const name = NAMES[word] ?? control.nextElementSibling?.textContent.trim();
      if (!name) continue;
      control.ariaLabel = name;
    }
    if (control !== icon) icon.ariaHidden = "true";
  }
};

// Lets the keyboard use what the theme made for the mouse alone: links without an address, such as
// the one that opens the filters, and the menus of the site and of the account.
(() => {
  const MOUSE_ONLY = ":is(a:not([href]), span, div.cursor-pointer)[x-on\\:click]";
  const start = () => {
    for (const control of document.querySelectorAll(MOUSE_ONLY)) {
      control.setAttribute("role", "button");
      control.tabIndex = 0;
      control.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        control.click();
      });
    }
    nameIcons(document);
  };
  document.addEventListener("DOMContentLoaded", start);
})();

// Says once that the page is no longer kept up to date: its figures look as if they were.
const tellSignedOut = () => {
  if (document.querySelector(".queue-signed-out")) return;
  const note = document.createElement("p");
  note.className = "queue-signed-out queue-refusal";
  note.setAttribute("role", "alert");
  const again = document.createElement("a");
  again.className = "queue-link";
  again.href = location.href;
  again.textContent = "Sign in again";
  note.append("You were signed out: this page shows how it was before. ", again, ".");
  document.querySelector("#content").prepend(note);
};
const leadsToSignIn = (answer) => answer.redirected && answer.url.includes("/login/");

// Keeps the parts of a page with data-live up to date: it fetches the page again and takes over what
// changed. It asks only while the page is seen, and leaves alone a part that somebody works in.
(() => {
  const EVERY_MS = 5000;
  // A page that takes long is asked for less often.
  const SHARE = 10;
  // Of lists those that say so: Django's own script knows the checkboxes of the rows it found.
  const PARTS = "[data-live], body:has([data-live-list]) #result_list";
  // What was taken over last, by part.
  const shown = new WeakMap();

  const inUse = (part) => {
    const focused = document.activeElement;
    const selection = document.getSelection();
    return (
      (focused && focused !== document.body && part.contains(focused)) ||
      (selection && !selection.isCollapsed && part.contains(selection.anchorNode)) ||
      part.querySelector("details[open], input:checked") !== null
    );
  };

  // Returns false when the page is not to be asked for again: its reader was signed out.
  const refresh = async () => {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (leadsToSignIn(answer)) tellSignedOut();
    if (answer.redirected || answer.status === 403 || answer.status === 404) return false;
    if (!answer.ok) return true;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll(PARTS)) {
      const name = part.dataset.live;
      const fresh = page.querySelector(name ? `[data-live="${CSS.escape(name)}"]` : `#${part.id}`);
      if (!fresh || inUse(part)) continue;
      nameIcons(fresh);
      // Screen readers read what is replaced, also if it is the same.
      if (fresh.innerHTML === (shown.get(part) ?? part.innerHTML)) continue;
      shown.set(part, fresh.innerHTML);
      part.replaceChildren(...fresh.childNodes);
    }
    return true;
  };

  const start = () => {
    if (!document.querySelector(PARTS)) return;
    let timer = 0;
    const next = async () => {
      clearTimeout(timer);
      if (document.visibilityState !== "visible") return;
      const began = performance.now();
      const goesOn = await refresh().catch(() => true);
      if (goesOn) timer = setTimeout(next, Math.max(EVERY_MS, SHARE * (performance.now() - began)));
      document.documentElement.dataset.refreshed = String(Date.now());
    };
    timer = setTimeout(next, EVERY_MS);
    document.addEventListener("visibilitychange", next);
  };
  document.addEventListener("DOMContentLoaded", start);
})();

// Shows the progress of a bulk run while it goes on, and asks only while the page is seen.
(() => {
  const start = () => {
    const run = document.querySelector("[data-progress-url]");
    if (!run || run.dataset.state !== "running") return;
    const show = (progress) => {
      for (const part of run.querySelectorAll("[data-progress]")) {
        const value = progress[part.dataset.progress];
        if (part.tagName === "PROGRESS") part.value = value;
        else if (value !== undefined) part.textContent = value;
      }
      if (progress.state !== "running") location.reload();
    };
    const timer = setInterval(async () => {
      if (document.visibilityState !== "visible") return;
      const answer = await fetch(run.dataset.progressUrl).catch(() => null);
      if (answer && leadsToSignIn(answer)) {
        clearInterval(timer);
        tellSignedOut();
      } else if (answer && answer.ok) show(await answer.json());
    }, 1000);
  };
  document.addEventListener("DOMContentLoaded", start);
})();

// Copies the text of a clicked element with data-copy. The clipboard's own interface needs HTTPS or
// localhost; elsewhere the text is selected and copied as by hand.
(() => {
  const copy = async (text) => {
    if (window.isSecureContext && navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      return;
    }
    const field = document.createElement("textarea");
    field.value = text;
    field.style.position = "fixed";
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    if (!done) throw new Error("the browser did not copy");
  };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    event.preventDefault();
    let said = "Copied";
    try {
      await copy(button.dataset.copy);
    } catch {
      said = "Not copied: select it";
    }
    button.dataset.said = said;
    setTimeout(() => delete button.dataset.said, 1500);
  });
})();

// Sends a form once however often its button is clicked: each request would do it again.
(() => {
  // Long enough for a double click and a slow answer; some answers leave the page as it is.
  const AGAIN_MS = 10000;
  let sent = new WeakMap();

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post" || event.defaultPrevented) return;
    const before = sent.get(form);
    if (before !== undefined && performance.now() - before < AGAIN_MS) event.preventDefault();
    else sent.set(form, performance.now());
  });
  // Who comes back to the page may send it anew.
  window.addEventListener("pageshow", () => {
    sent = new WeakMap();
  });
})();
