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
    setInterval(async () => {
      if (document.visibilityState !== "visible") return;
      const answer = await fetch(run.dataset.progressUrl).catch(() => null);
      if (answer && answer.ok) show(await answer.json());
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
