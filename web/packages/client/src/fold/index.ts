/** The transcript's fold: a page, and every event after it. */

export { afterCodePoints, codePoints, lastCodePoints } from "./code-points.js";
export { Fold, fromPage, toPage } from "./fold.js";
export * from "./page.js";
export { show } from "./show.js";
export { dropProvisional, showTail } from "./tail.js";
