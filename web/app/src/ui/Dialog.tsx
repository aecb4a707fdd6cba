import { type ReactNode, useEffect, useRef } from "react";
import { Icon } from "./Icon";

/** A question or a view over the page. The browser keeps the focus in it and gives it back. */
export function Dialog({
  label,
  close,
  wide = false,
  bare = false,
  children,
}: {
  label: string;
  close: () => void;
  wide?: boolean;
  bare?: boolean;
  children: ReactNode;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      className={wide ? "wide" : undefined}
      aria-label={label}
      onCancel={event => {
        event.preventDefault();
        close();
      }}
      onPointerDown={event => {
        if (event.target === dialog.current) close();
      }}
    >
      {bare ? (
        children
      ) : (
        <>
          <header>
            <h2>{label}</h2>
            <button type="button" className="icon-btn" aria-label="Close" onClick={close}>
              <Icon name="x" />
            </button>
          </header>
          {children}
        </>
      )}
    </dialog>
  );
}
