// Saves a picture as a file: as it is drawn, or as pixels. The browser does it; nothing leaves the page.

const SAVED_STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "stroke-linecap", "opacity", "font-family", "font-size", "font-weight", "visibility"];

// A copy that needs no style sheet.
function standalone(node) {
  const copy = node.cloneNode(true);
  const from = [node, ...node.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((each, at) => {
    const style = getComputedStyle(each);
    for (const name of SAVED_STYLES) to[at].setAttribute(name, style.getPropertyValue(name));
    to[at].removeAttribute("class");
    to[at].removeAttribute("style");
    to[at].removeAttribute("tabindex");
  });
  for (const mark of copy.querySelectorAll("[visibility=hidden]")) mark.remove();
  copy.setAttribute("xmlns", SVG);
  copy.insertBefore(svg("rect", { width: "100%", height: "100%", fill: colour("surface") }), copy.firstChild);
  return new XMLSerializer().serializeToString(copy);
}

function save(address, name) {
  const link = h("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}

function savers(picture, name) {
  const file = name.replace(/[^A-Za-z0-9._-]+/g, "-");
  const drawn = () => `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(picture()))}`;
  const pixels = () => {
    const node = picture(), image = new Image(), sharp = 2;
    image.onload = () => {
      const canvas = h("canvas", { width: node.width.baseVal.value * sharp, height: node.height.baseVal.value * sharp });
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      save(canvas.toDataURL("image/png"), `${file}.png`);
    };
    image.src = drawn();
  };
  return h("span", { class: "savers" },
    h("button", { type: "button", class: "pill", "data-save": "svg", onclick: () => save(drawn(), `${file}.svg`) }, "Save as SVG"),
    h("button", { type: "button", class: "pill", "data-save": "png", onclick: pixels }, "PNG"));
}
