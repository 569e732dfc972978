import React from "react";
import { Excalidraw } from "../index";
import { restoreElements } from "../data/restore";
import { serializeAsJSON } from "../data/json";
import { exportToSvg } from "../scene/export";
import { API } from "./helpers/api";
import { Keyboard, Pointer, UI } from "./helpers/ui";
import { act, render } from "./test-utils";

const { h } = window;
const mouse = new Pointer("mouse");

const BOX = { x: 100, y: 100, width: 200, height: 80 };

const draw = (): any => {
  UI.clickOnTestId("toolbar-callout");
  mouse.reset();
  mouse.downAt(BOX.x, BOX.y);
  mouse.moveTo(BOX.x + BOX.width / 2, BOX.y + BOX.height / 2);
  mouse.moveTo(BOX.x + BOX.width, BOX.y + BOX.height);
  mouse.upAt(BOX.x + BOX.width, BOX.y + BOX.height);
  return h.elements[h.elements.length - 1];
};

const change = (updates: object) => {
  act(() => {
    h.app.updateScene({
      elements: h.elements.map((element) => ({ ...element, ...updates } as any)),
    });
  });
  return h.elements[0] as any;
};

const expectTip = (element: any) => {
  expect(element.tip).toHaveLength(2);
  expect(Number.isFinite(element.tip[0])).toBe(true);
  expect(element.tip[1]).toBeGreaterThan(element.height);
};

/** A point of the tail: half way between where the line to the tip leaves the box, and the tip. */
const inTail = (element: any): [number, number] => {
  const middle = [element.width / 2, element.height / 2];
  const [dx, dy] = [element.tip[0] - middle[0], element.tip[1] - middle[1]];
  const leaves = Math.min(
    Math.abs(middle[0] / (dx || 1e-9)),
    Math.abs(middle[1] / (dy || 1e-9)),
  );
  const share = (leaves + 1) / 2;
  return [
    element.x + middle[0] + dx * share,
    element.y + middle[1] + dy * share,
  ];
};

describe("callout", () => {
  beforeEach(async () => {
    await render(<Excalidraw handleKeyboardGlobally />);
  });

  it("is drawn by dragging, with its tip below", () => {
    const element = draw();
    expect(h.elements).toHaveLength(1);
    expect(element).toMatchObject({ type: "callout", ...BOX });
    expectTip(element);
  });

  it("can be undone and redone", () => {
    draw();
    Keyboard.undo();
    expect(h.elements.filter((element) => !element.isDeleted)).toHaveLength(0);
    Keyboard.redo();
    expect(h.elements.filter((element) => !element.isDeleted)).toHaveLength(1);
    expectTip(h.elements[0]);
  });

  it("is selected by a click into the box and into the tail", () => {
    draw();
    const element = change({ backgroundColor: "#ffc9c9", fillStyle: "solid" });
    const points = [
      [BOX.x + BOX.width / 2, BOX.y + BOX.height / 2],
      inTail(element),
    ];
    for (const [x, y] of points) {
      act(() => h.setState({ selectedElementIds: {} }));
      UI.clickTool("selection");
      mouse.reset();
      mouse.clickAt(x, y);
      expect(API.getSelectedElements().map((it) => it.id)).toEqual([element.id]);
    }
    act(() => h.setState({ selectedElementIds: {} }));
    mouse.clickAt(element.x - 60, element.y + element.tip[1] + 60);
    expect(API.getSelectedElements()).toHaveLength(0);
  });

  it("scales its tip with the box", () => {
    const element = draw();
    const [x, y] = element.tip;
    UI.resize(element, "se", [BOX.width, BOX.height]);
    const resized = h.elements[0] as any;
    expect(resized.width).toBeCloseTo(2 * BOX.width, 0);
    expect(Math.abs(resized.tip[0] - 2 * x)).toBeLessThan(2);
    expect(Math.abs(resized.tip[1] - 2 * y)).toBeLessThan(2);
  });

  it("is saved and loaded", () => {
    draw();
    const element = change({ tip: [20, 150] });
    const saved = JSON.parse(serializeAsJSON([element], h.state, {}, "local"));
    expect(saved.elements[0]).toMatchObject({ type: "callout", tip: [20, 150] });
    const [restored] = restoreElements(saved.elements, null) as any[];
    expect(restored).toMatchObject({ type: "callout", ...BOX, tip: [20, 150] });
  });

  it("gets a tip when it is loaded without", () => {
    const { tip, ...rest } = draw();
    expect(tip).toBeDefined();
    const [restored] = restoreElements([rest as any], null) as any[];
    expect(restored.type).toBe("callout");
    expectTip(restored);
  });

  it("is exported with all of its tail", async () => {
    draw();
    const exported = async (tip: [number, number]) => {
      const svg = await exportToSvg(
        [change({ tip })] as any,
        { exportBackground: false, viewBackgroundColor: "#ffffff", exportPadding: 0 },
        {},
        { skipInliningFonts: true },
      );
      expect(svg.querySelectorAll("path").length).toBeGreaterThan(0);
      return [Number(svg.getAttribute("width")), Number(svg.getAttribute("height"))];
    };
    const near = await exported([100, 120]);
    expect(near[1]).toBeGreaterThanOrEqual(119);
    const far = await exported([-150, 400]);
    expect(far[1]).toBeGreaterThanOrEqual(399);
    expect(far[0]).toBeGreaterThanOrEqual(349);
  });

  it("binds a text", () => {
    const element = draw();
    UI.clickTool("selection");
    mouse.reset();
    mouse.doubleClickAt(BOX.x + BOX.width / 2, BOX.y + BOX.height / 2);
    const text = h.elements.find((it) => it.type === "text") as any;
    expect(text?.containerId).toBe(element.id);
  });
});
