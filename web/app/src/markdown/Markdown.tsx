import { useRef } from "react";
import { lexWhole, StreamLexer } from "./lex";
import { MarkdownBlock } from "./MarkdownBlock";

/** What a model wrote, as it wrote it. While it grows only its last lines are read again; whole, it is read whole. */
export function Markdown({ text, live = false }: { text: string; live?: boolean }) {
  const lexer = useRef<StreamLexer | null>(null);
  const whole = useRef<{ text: string; tokens: ReturnType<typeof lexWhole> } | null>(null);
  if (live) {
    lexer.current ??= new StreamLexer();
  } else if (whole.current?.text !== text) {
    whole.current = { text, tokens: lexWhole(text) };
  }
  const tokens = live && lexer.current ? lexer.current.grow(text) : (whole.current?.tokens ?? []);
  const closed = live ? lastSolid(tokens) : -1;
  return tokens.map((token, place) =>
    token.type === "space" || token.type === "def" ? null : (
      // A block's place is its name: blocks are only ever appended.
      <MarkdownBlock key={place} token={token} open={place === closed} />
    ),
  );
}

function lastSolid(tokens: { type: string }[]): number {
  let last = tokens.length - 1;
  while (last >= 0 && tokens[last]?.type === "space") last--;
  return last;
}
