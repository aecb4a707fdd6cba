import { visible } from "@palaver/client";
import { createElement, memo, type ReactNode } from "react";
import { Code } from "../code/Code";
import { inline } from "./inline";
import type { Token, Tokens } from "./lex";

/** One block of Markdown; drawn again only if what it was written as, or what its links mean, is another. */
export const MarkdownBlock = memo(
  function MarkdownBlock({ token, open }: { token: Token; open: boolean }) {
    return block(token, open);
  },
  (before, after) => before.open === after.open && before.token.raw === after.token.raw && links(before.token) === links(after.token),
);

function links(token: Token): string {
  const found: string[] = [];
  const look = (tokens: Token[] | undefined) => {
    for (const one of tokens ?? []) {
      if (one.type === "link") found.push(one.href);
      look("tokens" in one ? one.tokens : undefined);
      if (one.type === "list") for (const item of (one as Tokens.List).items) look(item.tokens);
    }
  };
  look([token]);
  return found.join(" ");
}

function block(token: Token, open: boolean): ReactNode {
  switch (token.type) {
    case "paragraph":
      return <p>{inline(token.tokens)}</p>;
    case "text":
      return <p>{"tokens" in token && token.tokens ? inline(token.tokens) : inline([token])}</p>;
    case "heading":
      // The page's own headings are of the first three levels.
      return createElement(`h${Math.min(6, token.depth + 2)}`, { className: `h${token.depth}` }, inline(token.tokens));
    case "code":
      return <Code text={token.text} language={token.lang ?? ""} open={open} />;
    case "blockquote":
      return <blockquote>{blocks(token.tokens)}</blockquote>;
    case "list":
      return list(token as Tokens.List);
    case "table":
      return table(token as Tokens.Table);
    case "hr":
      return <hr />;
    default:
      return <p>{visible(token.raw, { prose: true })}</p>;
  }
}

function blocks(tokens: Token[] | undefined): ReactNode {
  return (tokens ?? []).map((token, place) =>
    token.type === "space" || token.type === "def" ? null : <MarkdownBlock key={place} token={token} open={false} />,
  );
}

function list(token: Tokens.List): ReactNode {
  const items = token.items.map((item, place) => (
    <li key={place} className={item.task ? "task" : undefined}>
      {item.task ? <span className="box-mark">{item.checked ? "☑" : "☐"} </span> : null}
      {item.tokens.map((part, at) =>
        part.type === "text" ? (
          <span key={at}>{inline("tokens" in part && part.tokens ? part.tokens : [part])}</span>
        ) : part.type === "space" || part.type === "checkbox" ? null : (
          <MarkdownBlock key={at} token={part} open={false} />
        ),
      )}
    </li>
  ));
  if (!token.ordered) return <ul>{items}</ul>;
  return <ol start={typeof token.start === "number" && token.start !== 1 ? token.start : undefined}>{items}</ol>;
}

function table(token: Tokens.Table): ReactNode {
  const side = (place: number) => (token.align[place] ? `to-${token.align[place]}` : undefined);
  return (
    <div className="table" role="region" aria-label="Table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {token.header.map((cell, place) => (
              <th key={place} className={side(place)}>
                {inline(cell.tokens)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {token.rows.map((row, at) => (
            <tr key={at}>
              {row.map((cell, place) => (
                <td key={place} className={side(place)}>
                  {inline(cell.tokens)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
