/** Five squares: what share of a change was added and what share removed. The numbers beside them say the same in words. */
export function Bars({ added, removed }: { added: number; removed: number }) {
  const all = added + removed;
  const filled = Math.min(5, all);
  const green = all === 0 ? 0 : Math.round((filled * added) / all);
  return (
    <span className="bars" aria-hidden="true">
      {[0, 1, 2, 3, 4].map(place => (
        <i key={place} className={place < green ? "a" : place < filled ? "d" : undefined} />
      ))}
    </span>
  );
}
