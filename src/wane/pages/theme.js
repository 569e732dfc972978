// Light, dark, or as the system has it; paper is light.

// What is drawn on a canvas is drawn again when the colours change; the rest takes them from the style sheet.
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const repaints = [];
const onColours = (draw) => repaints.push(draw);
const repaint = () => repaints.forEach((draw) => draw());
prefersDark.addEventListener("change", repaint);

const THEMES = ["auto", "light", "dark"];

function theme(name) {
  document.documentElement.dataset.theme = THEMES.includes(name) ? name : "auto";
  byId("theme").textContent = `Theme: ${document.documentElement.dataset.theme}`;
  repaint();
}

// Paper is light; what is drawn with colours of the screen is drawn again for it.
function onPaper() {
  const root = document.documentElement;
  let before = null;
  addEventListener("beforeprint", () => { before = root.dataset.theme; theme("light"); });
  addEventListener("afterprint", () => theme(before));
}

function remembered(key, value) {
  // A page that is opened from a file may be refused a memory.
  try {
    if (value !== undefined) localStorage.setItem(key, value);
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

// Last, when there is something to paint. The address may name a theme.
function startTheme() {
  byId("theme").addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
    remembered("wane-theme", next);
    theme(next);
  });
  theme(new URLSearchParams(location.hash.slice(1)).get("theme") || remembered("wane-theme") || "auto");
  onPaper();
}
