/** The client that every hook below it uses. */

import type { ClientSeam, TranscriptClient } from "@palaver/client";
import { createContext, createElement, type ReactNode, useContext } from "react";

/** What the hooks need: a client of `createClient`, or one of `@palaver/client/testing`. */
export type HookClient = ClientSeam & Partial<TranscriptClient>;

const Context = createContext<HookClient | null>(null);

export function PalaverProvider({ client, children }: { client: HookClient; children?: ReactNode }): ReactNode {
  return createElement(Context.Provider, { value: client }, children);
}

/** The client of the nearest provider. Throws where there is none. */
export function useClient<C extends HookClient = HookClient>(): C {
  const client = useContext(Context);
  if (client === null)
    throw new Error("There is no client here. Put <PalaverProvider client={createClient()}> around what uses Palaver's hooks.");
  return client as C; // the provider's type is the caller's to know
}
