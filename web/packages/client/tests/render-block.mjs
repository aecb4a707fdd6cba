// Renders the component of a compiled file on the daemon of $PALAVER_URL, as a person would use it: types and sends, or presses Go, and allows
// what is asked. Ends with 0 when the page's text matches the second argument. It runs where the packed packages are installed.

import { pathToFileURL } from "node:url";
import { createClient } from "@palaver/client";
import { PalaverProvider } from "@palaver/react";
import { Window } from "happy-dom";
import { createElement, StrictMode, version } from "react";
import { WebSocket } from "ws";

const [, , file, wanted] = process.argv;
const window = new Window();
for (const name of ["document", "HTMLElement", "HTMLIFrameElement", "Node", "Event", "navigator"]) globalThis[name] ??= window[name];
globalThis.window = window;
const { createRoot } = await import("react-dom/client");

const client = createClient({ url: process.env.PALAVER_URL, WebSocket });
const sessionId = await client.newSession(process.cwd());
const { default: Component } = await import(pathToFileURL(file).href);
const main = window.document.body.appendChild(window.document.createElement("div"));
const provided = createElement(PalaverProvider, { client }, createElement(Component, { sessionId }));
createRoot(main).render(createElement(StrictMode, null, provided));

const end = Date.now() + 15_000;
async function until(find) {
  for (;;) {
    const found = find();
    if (found) return found;
    if (Date.now() > end) throw new Error(`React ${version}: ${JSON.stringify(main.textContent)} never came to match ${wanted}`);
    await new Promise(resolve => setTimeout(resolve, 10));
  }
}

const button = word => [...main.querySelectorAll("button")].find(one => one.textContent.startsWith(word));
const entry = await until(() => button("Go") ?? main.querySelector("input"));
if (entry.tagName === "INPUT") {
  Object.getOwnPropertyDescriptor(window.HTMLInputElement.prototype, "value").set.call(entry, "run the command `echo hello`");
  entry.dispatchEvent(new window.Event("input", { bubbles: true }));
  await until(() => entry.value.startsWith("run"));
  entry.form.dispatchEvent(new window.Event("submit", { bubbles: true, cancelable: true }));
} else entry.click();
let isAllowed = false;
await until(() => {
  if (!isAllowed) button("Allow")?.click();
  isAllowed ||= button("Allow") !== undefined;
  return new RegExp(wanted).test(main.textContent);
});
console.log(version, main.textContent);
client.close();
process.exit(0);
