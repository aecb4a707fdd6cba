import { createContext, useContext } from "react";

/** Says a line, on the screen and to whoever does not look: the page's one `role=status`, or its one `role=alert`. */
export type Announce = (text: string, how?: "status" | "alert") => void;

export const AnnounceContext = createContext<Announce>(() => {});

export const useAnnounce = (): Announce => useContext(AnnounceContext);
