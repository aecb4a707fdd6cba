import { createContext, type KeyboardEvent, type ReactNode, useContext, useEffect, useRef, useState } from "react";
import { Icon } from "./Icon";
import type { IconName } from "./icons";

const CloseContext = createContext<() => void>(() => {});

/** A button and the few things that can be done. It closes by Escape, by a choice, and by looking elsewhere. */
export function Menu({ label, icon, className, children }: { label: string; icon: ReactNode; className: string; children: ReactNode }) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!open) return;
    const list = box.current?.querySelector<HTMLElement>("[role=menu]");
    if (list && button.current) place(list, button.current);
    items(box.current)[0]?.focus();
    const away = (event: PointerEvent) => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, [open]);
  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  const move = (event: KeyboardEvent) => {
    const all = items(box.current);
    const at = all.indexOf(document.activeElement as HTMLElement);
    if (event.key === "Escape") {
      event.stopPropagation();
      close();
    } else if (event.key === "ArrowDown") all[(at + 1) % all.length]?.focus();
    else if (event.key === "ArrowUp") all[(at - 1 + all.length) % all.length]?.focus();
    else if (event.key === "Tab") setOpen(false);
    else return;
    if (event.key !== "Tab") event.preventDefault();
  };
  return (
    <div className="menu" ref={box}>
      <button
        ref={button}
        type="button"
        className={className}
        aria-label={label}
        aria-haspopup="menu"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        {icon}
      </button>
      {open ? (
        <div role="menu" aria-label={label} onKeyDown={move} tabIndex={-1}>
          <CloseContext value={close}>{children}</CloseContext>
        </div>
      ) : null}
    </div>
  );
}

export function MenuItem({ icon, act, children }: { icon?: IconName; act: () => void; children: ReactNode }) {
  const close = useContext(CloseContext);
  return (
    <button
      type="button"
      role="menuitem"
      onClick={() => {
        close();
        act();
      }}
    >
      {icon ? <Icon name={icon} /> : null}
      {children}
    </button>
  );
}

function items(box: HTMLElement | null): HTMLElement[] {
  return [...(box?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
}

/** Beside its button, and inside the window whatever scrolls around it. */
function place(list: HTMLElement, button: HTMLElement): void {
  const at = button.getBoundingClientRect();
  const size = list.getBoundingClientRect();
  const below = at.bottom + 4 + size.height <= window.innerHeight;
  list.style.top = `${below ? at.bottom + 4 : Math.max(8, at.top - 4 - size.height)}px`;
  list.style.left = `${Math.max(8, Math.min(at.right - size.width, window.innerWidth - size.width - 8))}px`;
}
