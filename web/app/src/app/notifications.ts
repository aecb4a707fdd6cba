/** Which kinds of news this browser shows outside of its window. Nothing is asked of its person before they press a button. */

export type NotifyKind = "needs_you" | "finished" | "failed";

export const KINDS: NotifyKind[] = ["needs_you", "finished", "failed"];

const KEY = "palaver:notify";

export const notifications = {
  allowed: (): boolean => "Notification" in window && Notification.permission === "granted",
  ask: async (): Promise<boolean> => "Notification" in window && (await Notification.requestPermission()) === "granted",
  kinds: (): NotifyKind[] => {
    const kept = localStorage.getItem(KEY);
    return kept === null ? KINDS : (JSON.parse(kept) as NotifyKind[]);
  },
  choose: (kind: NotifyKind, on: boolean): NotifyKind[] => {
    const chosen = KINDS.filter(one => (one === kind ? on : notifications.kinds().includes(one)));
    localStorage.setItem(KEY, JSON.stringify(chosen));
    return chosen;
  },
  wanted: (): boolean => notifications.allowed() && notifications.kinds().length > 0,
  /** The answer is the notification, for whoever wants to know that it was clicked. */
  show: (notice: { id: string; kind: string; title: string; text: string }, open: () => void): void => {
    if (!notifications.allowed() || !notifications.kinds().includes(notice.kind as NotifyKind)) return;
    const shown = new Notification(notice.title, { body: notice.text, tag: notice.id });
    shown.onclick = () => {
      window.focus();
      shown.close();
      open();
    };
  },
};
