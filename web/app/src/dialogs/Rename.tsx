import { type FormEvent, useRef } from "react";
import { usePage } from "../app/page";
import type { SessionRow } from "../shapes";
import { Dialog } from "../ui/Dialog";

export function Rename({ session, close }: { session: SessionRow; close: () => void }) {
  const page = usePage();
  const field = useRef<HTMLInputElement>(null);
  const save = (event: FormEvent) => {
    event.preventDefault();
    close();
    void page.rename(session, field.current?.value.trim() ?? "");
  };
  return (
    <Dialog label="Rename session" close={close}>
      <form className="form" onSubmit={save}>
        <label>
          Title
          <input ref={field} name="title" defaultValue={session.title ?? ""} autoComplete="off" required />
        </label>
        <div className="acts">
          <button type="submit" className="btn primary">
            Save
          </button>
          <button type="button" className="btn quiet" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
