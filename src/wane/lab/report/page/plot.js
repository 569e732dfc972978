// Scales, axes and lines that the pictures share.

// Values that differ by factors, at equal distances for equal factors.
function logarithmic(low, high, from, to) {
  const linear = scale(Math.log(low), Math.log(high), from, to);
  return (value) => linear(Math.log(value));
}

function logTicks(low, high) {
  const found = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) {
    for (const factor of [1, 2, 5]) if (power * factor >= low && power * factor <= high) found.push(power * factor);
  }
  return found;
}

// Puts texts next to points where no other text stands yet; those without room are left out.
function labeller(points) {
  const taken = points.map(([x, y]) => [x - 6, y - 6, x + 6, y + 6]);
  return (text, x, y) => {
    const wide = text.length * 6.2, places = [[0, 19], [0, -12], [wide / 2 + 11, 4], [-wide / 2 - 11, 4]];
    for (const [dx, dy] of places) {
      const box = [x + dx - wide / 2, y + dy - 10, x + dx + wide / 2, y + dy + 3];
      if (taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) continue;
      taken.push(box);
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

function swatch(stroke, dash) {
  const line = svg("line", { x1: 1, x2: 19, y1: 5, y2: 5, "stroke-width": 2.5, "stroke-dasharray": dash || null, "stroke-linecap": "butt" });
  line.style.stroke = stroke;
  return svg("svg", { width: 20, height: 10, class: "swatch", "aria-hidden": "true" }, line);
}
