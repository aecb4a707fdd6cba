// The ways in which a page of the daemon's own origin, where no policy holds, could make a browser run a file.
"use strict";

function add(tag, attributes) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  document.body.append(made);
}

const ways = {
  script: (url) => add("script", { src: url }),
  module: (url) => add("script", { src: url, type: "module" }),
  style: (url) => add("link", { href: url, rel: "stylesheet" }),
  image: (url) => add("img", { src: url }),
  iframe: (url) => add("iframe", { src: url }),
  object: (url) => add("object", { data: url, type: "text/html" }),
  worker: (url) => new Worker(url),
};

/** Every file in every way. `way=NAME` tells a server's log which one a request belongs to. */
function everyWay(urls) {
  for (const url of urls) for (const [name, way] of Object.entries(ways)) way(`${url}?way=${name}`);
}

/** What a client does: fetches with its token, then shows what came under an address of its own. The types that it was given. */
async function fetched(urls, token) {
  const types = [];
  for (const url of urls) {
    const got = await fetch(`${url}?way=fetched`, { headers: { Authorization: `Bearer ${token}` } });
    const file = await got.blob();
    types.push(file.type);
    const shown = document.createElement("iframe");
    const loaded = new Promise((resolve) => shown.addEventListener("load", resolve));
    shown.src = URL.createObjectURL(file);
    document.body.append(shown);
    await loaded;
  }
  return types;
}
