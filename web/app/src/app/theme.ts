/** Light, dark, or as the system has it: this browser's own choice. */

export type Theme = "system" | "light" | "dark";

const KEY = "palaver:theme";

export const theme = {
  get: (): Theme => {
    const kept = localStorage.getItem(KEY);
    return kept === "light" || kept === "dark" ? kept : "system";
  },
  set: (chosen: Theme): void => {
    if (chosen === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, chosen);
    theme.apply();
  },
  apply: (): void => {
    const chosen = theme.get();
    if (chosen === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
  },
  /** To the other of the two that can be seen. */
  toggle: (): void => {
    const dark = theme.get() === "dark" || (theme.get() === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
    theme.set(dark ? "light" : "dark");
  },
};
