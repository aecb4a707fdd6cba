/**
 * Every error that a caller can expect. `Refused`: the request makes no sense now; `Failed`: the world broke. `code` is stable, the message
 * says what happened and what to do.
 */

export class PalaverError extends Error {
  /** More members of the daemon's answer, `status` among them. */
  readonly extra: Readonly<Record<string, unknown>>;

  constructor(
    readonly code: string,
    message: string,
    extra: Readonly<Record<string, unknown>> = {},
  ) {
    super(message);
    this.name = new.target.name;
    this.extra = extra;
  }
}

export class Refused extends PalaverError {}
export class Failed extends PalaverError {}

/** A problem document as the error that it is. */
export function problem(status: number, body: unknown): PalaverError {
  const { code, detail, title, ...extra } = (body ?? {}) as Record<string, unknown>;
  if (typeof code !== "string") {
    return new Failed("bad_answer", `The daemon answered ${status} without saying why. Its log may say more.`, { status });
  }
  const message = String(detail ?? title ?? code);
  return status >= 500 ? new Failed(code, message, { ...extra, status }) : new Refused(code, message, { ...extra, status });
}

export function codeOf(error: unknown): string {
  return error instanceof PalaverError ? error.code : "failed";
}

/** Whatever was thrown, as an error with a code: what is none of ours is a bug, and says so. */
export function asError(thrown: unknown): PalaverError {
  if (thrown instanceof PalaverError) return thrown;
  return new Failed("bug", `The answer could not be understood (${String(thrown)}). Report it.`);
}
