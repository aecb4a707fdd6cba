import { visible } from "@palaver/client";
import { Fragment, type ReactNode } from "react";
import { Link } from "./Link";
import { decodeEntities, type Token, type Tokens } from "./lex";

/** Running text: no HTML of the text's own, no picture from anywhere, every invisible character by its number. */
export function inline(tokens: Token[] | undefined): ReactNode {
  // Tokens have no names of their own and only their order: a piece never moves.
  return (tokens ?? []).map((token, place) => <Fragment key={place}>{one(token)}</Fragment>);
}

const shown = (text: string) => visible(decodeEntities(text), { prose: true });

function one(token: Token): ReactNode {
  switch (token.type) {
    case "text":
      return "tokens" in token && token.tokens ? inline(token.tokens) : shown(token.text);
    case "escape":
      return visible(token.text, { prose: true });
    case "strong":
      return <strong>{inline(token.tokens)}</strong>;
    case "em":
      return <em>{inline(token.tokens)}</em>;
    case "del":
      return <del>{inline(token.tokens)}</del>;
    case "codespan":
      return <code>{visible(token.text, { prose: true })}</code>;
    case "br":
      return <br />;
    case "link":
      return <Link href={token.href}>{inline(token.tokens)}</Link>;
    case "image":
      return <Link href={(token as Tokens.Image).href}>{shown((token as Tokens.Image).text || "picture")}</Link>;
    case "checkbox":
      return null;
    default:
      return visible(token.raw, { prose: true });
  }
}
