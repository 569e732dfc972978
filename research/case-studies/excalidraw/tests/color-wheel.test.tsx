import React from "react";
import { Excalidraw } from "../index";
import { API } from "./helpers/api";
import { act, fireEvent, render, togglePopover } from "./test-utils";

const { h } = window;

const RADIUS = 100;

/** Gives the wheel a place: there is no layout in tests. */
const placed = () => {
  const wheel = document.querySelector<HTMLElement>(
    '[data-testid="color-wheel"]',
  )!;
  expect(wheel).not.toBeNull();
  const size = 2 * RADIUS;
  const box = { x: 0, y: 0, left: 0, top: 0, right: size, bottom: size };
  const rect = { ...box, width: size, height: size, toJSON: () => box };
  wheel.getBoundingClientRect = () => rect;
  for (const [name, value] of [
    ["clientWidth", size],
    ["clientHeight", size],
    ["offsetWidth", size],
    ["offsetHeight", size],
  ] as const) {
    Object.defineProperty(wheel, name, { value, configurable: true });
  }
  return wheel;
};

const slider = () =>
  document.querySelector<HTMLInputElement>(
    '[data-testid="color-wheel-value"]',
  )!;

const setBrightness = (value: number) =>
  fireEvent.change(slider(), { target: { value: String(value) } });

const at = (x: number, y: number) => ({
  clientX: RADIUS + x * RADIUS,
  clientY: RADIUS + y * RADIUS,
  pointerId: 1,
  button: 0,
  buttons: 1,
});

/** Presses and releases at a point: 1 is the radius. */
const pick = (x: number, y: number) => {
  const wheel = placed();
  fireEvent.pointerDown(wheel, at(x, y));
  fireEvent.pointerUp(wheel, { ...at(x, y), buttons: 0 });
};

const channels = (color: string) => {
  expect(color).toMatch(/^#[0-9a-f]{6}$/i);
  return [1, 3, 5].map((start) => parseInt(color.slice(start, start + 2), 16));
};

const expectColor = (found: string, expected: string) => {
  const wanted = channels(expected);
  channels(found).forEach((channel, index) =>
    expect(
      Math.abs(channel - wanted[index]),
      `${found}, not ${expected}`,
    ).toBeLessThanOrEqual(4),
  );
};

const stroke = () => API.getSelectedElement().strokeColor;

beforeAll(() => {
  const prototype = HTMLElement.prototype as any;
  prototype.setPointerCapture ??= () => {};
  prototype.releasePointerCapture ??= () => {};
  prototype.hasPointerCapture ??= () => true;
});

describe("color wheel", () => {
  beforeEach(async () => {
    await render(<Excalidraw handleKeyboardGlobally />);
    const element = API.createElement({ type: "rectangle", strokeColor: "#ff0000" });
    API.setElements([element]);
    API.setSelectedElements([element]);
  });

  it("is in the pickers of stroke and background", () => {
    togglePopover("Stroke");
    placed();
    expect(slider().type).toBe("range");
    togglePopover("Stroke");
    togglePopover("Background");
    placed();
  });

  it("picks hue by angle, clockwise from the right", () => {
    togglePopover("Stroke");
    setBrightness(100);
    for (const [x, y, color] of [
      [1, 0, "#ff0000"],
      [0, 1, "#80ff00"],
      [-1, 0, "#00ffff"],
      [0, -1, "#8000ff"],
    ] as const) {
      pick(x, y);
      expectColor(stroke(), color);
    }
  });

  it("picks saturation by distance", () => {
    togglePopover("Stroke");
    setBrightness(100);
    pick(0, 0);
    expectColor(stroke(), "#ffffff");
    pick(0.5, 0);
    expectColor(stroke(), "#ff8080");
    pick(-0.25, 0);
    expectColor(stroke(), "#bfffff");
  });

  it("takes a point outside for one of the edge", () => {
    togglePopover("Stroke");
    setBrightness(100);
    pick(-3, 0);
    expectColor(stroke(), "#00ffff");
  });

  it("goes on picking while the pointer is pressed, and no longer", () => {
    togglePopover("Stroke");
    setBrightness(100);
    const wheel = placed();
    fireEvent.pointerDown(wheel, at(1, 0));
    fireEvent.pointerMove(wheel, at(0, 1));
    expectColor(stroke(), "#80ff00");
    fireEvent.pointerMove(wheel, at(-1, 0));
    expectColor(stroke(), "#00ffff");
    fireEvent.pointerUp(wheel, { ...at(-1, 0), buttons: 0 });
    fireEvent.pointerMove(wheel, { ...at(1, 0), buttons: 0 });
    expectColor(stroke(), "#00ffff");
  });

  it("keeps hue and saturation when the brightness changes, through black too", () => {
    togglePopover("Stroke");
    setBrightness(100);
    pick(-1, 0);
    setBrightness(50);
    expectColor(stroke(), "#008080");
    setBrightness(0);
    expectColor(stroke(), "#000000");
    setBrightness(100);
    expectColor(stroke(), "#00ffff");
  });

  it("shows the brightness of the current color", () => {
    act(() => {
      h.app.updateScene({
        elements: [{ ...h.elements[0], strokeColor: "#800000" }],
      });
    });
    togglePopover("Stroke");
    placed();
    expect(Number(slider().value)).toBeGreaterThanOrEqual(49);
    expect(Number(slider().value)).toBeLessThanOrEqual(51);
  });

  it("changes the background, and leaves the stroke", () => {
    togglePopover("Background");
    setBrightness(100);
    pick(0, 1);
    expectColor(API.getSelectedElement().backgroundColor, "#80ff00");
    expectColor(stroke(), "#ff0000");
  });
});
