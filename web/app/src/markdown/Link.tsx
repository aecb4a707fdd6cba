import { visible } from "@palaver/client";
import type { ReactNode } from "react";

/** A way out of the page: http, https or mailto, with the host it really goes to. Anything else stays text. */
export function Link({ href, children }: { href: string; children: ReactNode }) {
  const target = outside(href);
  if (target === null) return <span title={visible(href)}>{children}</span>;
  const host = target.protocol === "mailto:" ? target.pathname : target.host;
  return (
    <a href={target.href} target="_blank" rel="noopener noreferrer">
      {children}
      {textOf(children).includes(host) ? null : <span className="host"> ({visible(host)})</span>}
    </a>
  );
}

function outside(href: string): URL | null {
  if (!/^(https?:|mailto:)/i.test(href)) return null;
  try {
    return new URL(href);
  } catch {
    return null;
  }
}

function textOf(node: ReactNode): string {
  if (typeof node === "string") return node;
  if (Array.isArray(node)) return node.map(textOf).join("");
  if (node !== null && typeof node === "object" && "props" in node) return textOf((node.props as { children?: ReactNode }).children);
  return "";
}
