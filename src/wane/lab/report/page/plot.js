// Scales, axes and lines that the pictures share.

// Values that differ by factors, at equal distances for equal factors.
function logarithmic(low, high, from, to) {
  const linear = scale(Math.log(low), Math.log(high), from, to);
  return (value) => linear(Math.log(value));
}

function logTicks(low, high, factors = [1, 2, 5]) {
  const found = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) {
    for (const factor of factors) if (power * factor >= low && power * factor <= high) found.push(power * factor);
  }
  // Where a few values would be all, more stand between them.
  return found.length < 4 && factors.length < 4 ? logTicks(low, high, [1, 1.5, 2, 3, 5, 7]) : found;
}

// Puts texts next to points where no other text, point or line stands; those without room are left out. Lines are lists of
// points; a text stands between the x of `from` and `to`, and below the y of `above`.
function labeller(points, lines, { from, to, above }) {
  const taken = points.map(([x, y]) => [x - 6, y - 6, x + 6, y + 6]), crossed = [];
  for (const line of lines) {
    for (let at = 1; at < line.length; at++) {
      const [[x0, y0], [x1, y1]] = [line[at - 1], line[at]], steps = Math.ceil(Math.hypot(x1 - x0, y1 - y0) / 4);
      for (let step = 0; step <= steps; step++) {
        const x = x0 + ((x1 - x0) * step) / (steps || 1), y = y0 + ((y1 - y0) * step) / (steps || 1);
        crossed.push([x - 1, y - 1, x + 1, y + 1]);
      }
    }
  }
  const meets = (boxes, box) => boxes.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]);
  // Over a line if it must stand.
  return (text, x, y, must) => {
    const wide = text.length * 6.6, side = wide / 2 + 11;
    const places = [[0, 20], [0, -13], [side, 4], [-side, 4], [side, 17], [-side, 17], [side, -9], [-side, -9]];
    for (const lines of must ? [crossed, []] : [crossed]) for (const [dx, dy] of places) {
      const box = [x + dx - wide / 2, y + dy - 10, x + dx + wide / 2, y + dy + 3];
      if (box[0] < from || box[2] > to || box[1] < above) continue;
      if (meets(taken, box) || meets(lines, box)) continue;
      // Two labels side by side read as one unless there is room between them.
      taken.push([box[0] - 8, box[1], box[2] + 8, box[3]]);
      return svg("text", { x: x + dx, y: y + dy, class: "pointlabel", "text-anchor": "middle" }, text);
    }
    return null;
  };
}

// A path through values by number; where several share a pixel, through the least and the most of them.
function path(values, x, y) {
  const perPixel = Math.abs(x(1) - x(0)) || 1;
  const bucket = Math.max(1, Math.floor(1 / perPixel));
  const points = [];
  for (let start = 0; start < values.length; start += bucket) {
    const stop = Math.min(values.length, start + bucket);
    let low = start, high = start;
    for (let at = start; at < stop; at++) {
      if (values[at] < values[low]) low = at;
      if (values[at] > values[high]) high = at;
    }
    for (const at of low === high ? [low] : [Math.min(low, high), Math.max(low, high)]) {
      points.push(`${x(at).toFixed(1)} ${y(values[at]).toFixed(1)}`);
    }
  }
  return points.length ? `M${points.join("L")}` : "";
}

// A canvas as sharp as the screen; the drawing is in CSS pixels.
function sharpen(canvas, width, height) {
  const ratio = Math.min(3, window.devicePixelRatio || 1);
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  styled(canvas, { width: `${width}px`, height: `${height}px` });
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// What was or would be without Wane is an area, in charts and here, so that it can be told from a line without colour.
function swatchOf(name) {
  if (name === withoutWane() || name === WORDS.strategies.recorded) return svg("svg", { width: 20, height: 10, class: "swatch", "aria-hidden": "true" }, svg("rect", { x: 1, y: 0.5, width: 18, height: 9, class: name === "none" ? "historyarea" : "recordedarea edged" }));
  const { stroke, dash } = look(name);
  return swatch(stroke, dash);
}

function swatch(stroke, dash) {
  const line = svg("line", { x1: 1, x2: 19, y1: 5, y2: 5, "stroke-width": 2.5, "stroke-dasharray": dash || null, "stroke-linecap": "butt" });
  line.style.stroke = stroke;
  return svg("svg", { width: 20, height: 10, class: "swatch", "aria-hidden": "true" }, line);
}
