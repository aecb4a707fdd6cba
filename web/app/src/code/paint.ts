/**
 * Colour for code that stays one piece of text: ranges in named `Highlight`s, painted when a block comes into view.
 *
 * Copying, searching and screen readers meet plain text, and a block that streamed has the same nodes as one that was loaded. Where the
 * browser has no such highlights the code is shown without colour.
 */

type Span = { start: number; end: number; name: string };

const CLASSES: Record<string, string> = {
  keyword: "keyword",
  built_in: "built",
  type: "built",
  literal: "literal",
  number: "literal",
  string: "string",
  regexp: "string",
  comment: "comment",
  title: "title",
  attr: "attr",
  attribute: "attr",
  property: "attr",
  variable: "attr",
  meta: "comment",
  section: "title",
  name: "keyword",
  tag: "keyword",
  addition: "string",
  deletion: "literal",
  symbol: "literal",
  params: "",
};

const painted = new WeakMap<Element, Range[]>();
let watching: IntersectionObserver | undefined;

export function watch(code: HTMLElement): () => void {
  if (!("highlights" in CSS)) return () => {};
  watching ??= new IntersectionObserver(
    seen => {
      for (const one of seen) if (one.isIntersecting) void paint(one.target as HTMLElement);
    },
    { rootMargin: "200px" },
  );
  watching.observe(code);
  return () => {
    watching?.unobserve(code);
    wipe(code);
  };
}

async function paint(code: HTMLElement): Promise<void> {
  watching?.unobserve(code);
  const { spansOf } = await import("./languages");
  const text = code.firstChild;
  if (!(text instanceof Text) || painted.has(code)) return;
  const ranges: Range[] = [];
  for (const span of spansOf(text.data, code.dataset.language ?? "")) {
    const range = new Range();
    range.setStart(text, span.start);
    range.setEnd(text, span.end);
    highlight(span.name).add(range);
    ranges.push(range);
  }
  painted.set(code, ranges);
}

function wipe(code: Element): void {
  for (const range of painted.get(code) ?? []) for (const one of CSS.highlights.values()) one.delete(range);
  painted.delete(code);
}

function highlight(name: string): Highlight {
  let found = CSS.highlights.get(name);
  if (!found) {
    found = new Highlight();
    CSS.highlights.set(name, found);
  }
  return found;
}

export function nameOf(classes: string[]): string {
  for (const one of classes) {
    const stem = one.replace(/^hljs-/, "").replace(/_$/, "");
    if (CLASSES[stem]) return `code-${CLASSES[stem]}`;
  }
  return "";
}

export type { Span };
