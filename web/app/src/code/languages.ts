/** The languages that code is coloured in: loaded when the first block comes into view. */
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight } from "lowlight";
import { nameOf, type Span } from "./paint";

const lowlight = createLowlight({ bash, c, css, diff, go, ini, java, json, python, rust, sql, typescript, xml, yaml });
lowlight.registerAlias({
  typescript: ["javascript", "js", "jsx", "mjs", "cjs"],
  ini: ["conf"],
  c: ["cpp", "c++", "h", "hpp"],
  bash: ["console", "shell"],
});

/** Longer ones stay plain: colour is not worth a stutter. */
const MOST = 60_000;

export function spansOf(text: string, language: string): Span[] {
  if (text.length > MOST || !lowlight.registered(language)) return [];
  const spans: Span[] = [];
  let at = 0;
  type Node = { type: string; value?: string; children?: Node[]; properties?: { className?: unknown } };
  const walk = (node: Node, name: string): void => {
    if (node.type === "text") {
      const end = at + (node.value ?? "").length;
      if (name) spans.push({ start: at, end, name });
      at = end;
      return;
    }
    const classes = node.properties?.className;
    const own = Array.isArray(classes) ? nameOf(classes as string[]) : "";
    for (const child of node.children ?? []) walk(child, own || name);
  };
  walk(lowlight.highlight(language, text) as Node, "");
  return spans;
}
