import { Lexer, type Token, type Tokens, type TokensList } from "marked";

/**
 * Text that grows, cut into tokens so that nothing is read twice.
 *
 * Top-level tokens count as settled only from text up to the last line end, and the last token that is not a space is held back: with `2` on
 * screen before `2. item` arrives a list would split for ever. What is not settled is read again. When a text is whole it is read whole, once,
 * so that a text that streamed and one that was loaded come out the same.
 */
export class StreamLexer {
  private settled: Token[] = [];
  private text = "";
  private length = 0;
  private links: TokensList["links"] = {};

  /** The tokens of a text that goes on from the one before; another text begins anew. */
  grow(text: string): Token[] {
    if (!text.startsWith(this.text)) this.reset();
    this.text = text;
    this.settle(text.lastIndexOf("\n") + 1);
    return [...this.settled, ...this.lex(text.slice(this.length))];
  }

  private settle(end: number): void {
    if (end <= this.length) return;
    const tokens = this.lex(this.text.slice(this.length, end));
    let keep = tokens.length - 1;
    while (keep >= 0 && tokens[keep]?.type === "space") keep--;
    for (const token of tokens.slice(0, Math.max(0, keep))) {
      this.settled.push(token);
      this.length += token.raw.length;
    }
  }

  private lex(text: string): Token[] {
    const lexer = new Lexer({ gfm: true });
    lexer.tokens.links = this.links;
    return [...lexer.lex(text)];
  }

  private reset(): void {
    this.settled = [];
    this.length = 0;
    this.links = {};
  }
}

export function lexWhole(text: string): Token[] {
  return [...new Lexer({ gfm: true }).lex(text)];
}

const NAMED: Record<string, string> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: "\u00a0",
  copy: "©",
  reg: "®",
  trade: "™",
  hellip: "…",
  mdash: "—",
  ndash: "–",
  lsquo: "‘",
  rsquo: "’",
  ldquo: "“",
  rdquo: "”",
  times: "×",
  rarr: "→",
  larr: "←",
  bull: "•",
  middot: "·",
  deg: "°",
};

/** Character references as a reader means them; one that is unknown stays as it was written. */
export function decodeEntities(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z]{2,8}));/g, (all, dec, hex, name) => {
    if (name !== undefined) return NAMED[name] ?? all;
    const point = dec !== undefined ? Number(dec) : Number.parseInt(hex, 16);
    return point > 0 && point <= 0x10ffff && !(point >= 0xd800 && point <= 0xdfff) ? String.fromCodePoint(point) : "\ufffd";
  });
}

export type { Token, Tokens };
