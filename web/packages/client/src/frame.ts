/** When a screen is drawn next. */

const FRAME_MS = 16;
const HIDDEN_MS = 250;

/** Call once, with the next frame; where nobody looks (a hidden tab draws none) a quarter of a second later. Gives what calls it off. */
export function nextFrame(call: () => void): () => void {
  const draws = typeof requestAnimationFrame === "function";
  const frame = draws ? requestAnimationFrame(done) : undefined;
  const timer = setTimeout(done, draws ? HIDDEN_MS : FRAME_MS);
  function off(): void {
    clearTimeout(timer);
    if (frame !== undefined) cancelAnimationFrame(frame);
  }
  function done(): void {
    off();
    call();
  }
  return off;
}
