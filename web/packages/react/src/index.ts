/** React hooks over @palaver/client: thin windows on stores that know nothing of React. */

export * from "./hooks/index.js";
export { type HookClient, PalaverProvider, useClient } from "./provider.js";
