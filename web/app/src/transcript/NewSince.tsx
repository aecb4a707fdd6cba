/** Above it its person had read; below it not. */
export function NewSince() {
  return (
    <div className="day new" data-now="" role="separator" aria-label="New since you left">
      <span>New since you left</span>
    </div>
  );
}
