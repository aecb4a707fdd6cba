import { useEffect, useState } from "react";
import { useConnection } from "../daemon/connection";
import { Icon } from "../ui/Icon";

const PATIENCE_MS = 1000;

/** A connection that is gone shows itself; one that heals in a second does not flicker. */
export function OfflineBar() {
  const { open } = useConnection();
  const [shown, setShown] = useState(false);
  useEffect(() => {
    if (open) return setShown(false);
    const timer = setTimeout(() => setShown(true), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, [open]);
  if (!shown) return null;
  return (
    <div className="offline" role="alert">
      <Icon name="off" />
      The connection to Palaver is lost. It is tried again by itself; what you write is kept.
    </div>
  );
}
