/** A line between two days. Which days they are is said by the browser's clock, so it stands in a `time`. */
export function Day({ at, before }: { at: string | undefined; before: string | undefined }) {
  if (at === undefined || (before !== undefined && sameDay(at, before))) return null;
  return (
    <div className="day">
      <time dateTime={at}>{nameOf(at)}</time>
    </div>
  );
}

function sameDay(a: string, b: string): boolean {
  return new Date(a).toDateString() === new Date(b).toDateString();
}

function nameOf(at: string): string {
  const now = new Date();
  const yesterday = new Date(now.getFullYear(), now.getMonth(), now.getDate() - 1);
  const date = new Date(at);
  if (date.toDateString() === now.toDateString()) return "Today";
  if (date.toDateString() === yesterday.toDateString()) return "Yesterday";
  return date.toLocaleDateString(undefined, { weekday: "long", day: "numeric", month: "long", year: "numeric" });
}
