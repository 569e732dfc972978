import React from "react";
import { Excalidraw } from "../index";
import { resolvablePromise } from "../utils";
import { API } from "./helpers/api";
import { Keyboard, UI } from "./helpers/ui";
import { act, fireEvent, render, waitFor } from "./test-utils";

const { h } = window;

const start = async (initialData: any = null): Promise<any> => {
  const promise = resolvablePromise<any>();
  await render(
    <Excalidraw
      handleKeyboardGlobally
      initialData={initialData}
      excalidrawAPI={(found) => promise.resolve(found)}
    />,
  );
  return promise;
};

const done = <T,>(change: () => T): T => {
  let result: T;
  act(() => {
    result = change();
  });
  return result!;
};

const types = (api: any) =>
  api.getSceneElements().map((element: any) => element.type);

const tabs = () =>
  Array.from(document.querySelectorAll('[data-testid="page-tab"]'));

describe("pages", () => {
  it("has one page at first", async () => {
    const api = await start();
    expect(api.getPages()).toHaveLength(1);
    expect(api.getPages()[0].id).toBe(api.getActivePageId());
    expect(api.getPages()[0].name).toMatch(/\S/);
  });

  it("keeps the elements of each page apart", async () => {
    const api = await start();
    const first = api.getActivePageId();
    UI.createElement("rectangle", { x: 10, y: 10, size: 50 });
    const second = done(() => api.addPage("Second"));
    expect(api.getActivePageId()).toBe(second);
    expect(api.getPages().map((page: any) => page.id)).toEqual([first, second]);
    expect(api.getPages()[1].name).toBe("Second");
    expect(types(api)).toEqual([]);
    UI.createElement("ellipse", { x: 10, y: 10, size: 50 });
    UI.createElement("diamond", { x: 90, y: 10, size: 50 });
    done(() => api.setActivePage(first));
    expect(types(api)).toEqual(["rectangle"]);
    done(() => api.updateScene({ elements: [] }));
    done(() => api.setActivePage(second));
    expect(types(api)).toEqual(["ellipse", "diamond"]);
  });

  it("undoes and redoes on the page shown alone", async () => {
    const api = await start();
    const first = api.getActivePageId();
    UI.createElement("rectangle", { x: 10, y: 10, size: 50 });
    const second = done(() => api.addPage());
    UI.createElement("ellipse", { x: 10, y: 10, size: 50 });
    done(() => api.setActivePage(first));
    Keyboard.undo();
    expect(types(api)).toEqual([]);
    Keyboard.undo();
    done(() => api.setActivePage(second));
    expect(types(api)).toEqual(["ellipse"]);
    Keyboard.undo();
    expect(types(api)).toEqual([]);
    done(() => api.setActivePage(first));
    Keyboard.redo();
    expect(types(api)).toEqual(["rectangle"]);
  });

  it("keeps selection, scroll and zoom of each page", async () => {
    const api = await start();
    const first = api.getActivePageId();
    UI.createElement("rectangle", { x: 10, y: 10, size: 50 });
    const chosen = API.getSelectedElement().id;
    API.setAppState({ scrollX: 123, scrollY: 45, zoom: { value: 2 as any } });
    const second = done(() => api.addPage());
    expect(API.getSelectedElements()).toHaveLength(0);
    API.setAppState({ scrollX: -7, scrollY: -8, zoom: { value: 1 as any } });
    done(() => api.setActivePage(first));
    expect(h.state).toMatchObject({ scrollX: 123, scrollY: 45, zoom: { value: 2 } });
    expect(API.getSelectedElement().id).toBe(chosen);
    done(() => api.setActivePage(second));
    expect(h.state).toMatchObject({ scrollX: -7, scrollY: -8, zoom: { value: 1 } });
  });

  it("renames and deletes pages", async () => {
    const api = await start();
    const first = api.getActivePageId();
    UI.createElement("rectangle", { x: 10, y: 10, size: 50 });
    const second = done(() => api.addPage());
    done(() => api.renamePage(first, "Plan"));
    expect(api.getPages()[0]).toMatchObject({ id: first, name: "Plan" });
    done(() => api.deletePage(second));
    expect(api.getPages()).toHaveLength(1);
    expect(api.getActivePageId()).toBe(first);
    expect(types(api)).toEqual(["rectangle"]);
  });

  it("refuses what cannot be", async () => {
    const api = await start();
    const only = api.getActivePageId();
    expect(() => api.deletePage(only)).toThrow();
    expect(() => api.deletePage("unknown")).toThrow();
    expect(() => api.setActivePage("unknown")).toThrow();
    expect(() => api.renamePage("unknown", "x")).toThrow();
    expect(api.getPages()).toHaveLength(1);
    expect(api.getActivePageId()).toBe(only);
  });

  it("saves all pages, and loads them", async () => {
    let api = await start();
    done(() => api.renamePage(api.getActivePageId(), "One"));
    UI.createElement("rectangle", { x: 10, y: 10, size: 50 });
    done(() => api.addPage("Two"));
    UI.createElement("ellipse", { x: 10, y: 10, size: 50 });
    const saved = JSON.parse(api.serializePages());
    const names = (list: any[]) => list.map((it) => it.type);
    expect(saved.type).toBe("excalidraw");
    expect(names(saved.elements)).toEqual(["ellipse"]);
    expect(saved.pages.map((page: any) => page.name)).toEqual(["One", "Two"]);
    expect(names(saved.pages[0].elements)).toEqual(["rectangle"]);
    expect(names(saved.pages[1].elements)).toEqual(["ellipse"]);

    api = await start(saved);
    await waitFor(() => expect(api.getPages()).toHaveLength(2));
    expect(api.getPages().map((page: any) => page.name)).toEqual(["One", "Two"]);
    expect(types(api)).toEqual(["rectangle"]);
    done(() => api.setActivePage(api.getPages()[1].id));
    expect(types(api)).toEqual(["ellipse"]);
  });

  it("loads data without pages as one", async () => {
    const api = await start({ elements: [API.createElement({ type: "diamond" })] });
    await waitFor(() => expect(types(api)).toEqual(["diamond"]));
    expect(api.getPages()).toHaveLength(1);
  });

  it("has tabs that show pages, and a button that adds one", async () => {
    const api = await start();
    expect(document.querySelector('[data-testid="page-tabs"]')).not.toBeNull();
    expect(tabs()).toHaveLength(1);
    UI.createElement("rectangle", { x: 10, y: 10, size: 50 });
    fireEvent.click(document.querySelector('[data-testid="page-add"]')!);
    expect(tabs()).toHaveLength(2);
    expect(types(api)).toEqual([]);
    fireEvent.click(tabs()[0]);
    expect(types(api)).toEqual(["rectangle"]);
    done(() => api.renamePage(api.getActivePageId(), "Plan"));
    expect(tabs()[0].textContent).toContain("Plan");
  });
});
