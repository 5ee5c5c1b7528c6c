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
