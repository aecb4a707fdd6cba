import { visible } from "@palaver/client";
import type { Offer } from "./complete";

/** What could stand here. The text box keeps the focus and names the chosen line. */
export function Completion({
  id,
  offers,
  chosen,
  choose,
}: {
  id: string;
  offers: Offer[];
  chosen: number;
  choose: (offer: Offer) => void;
}) {
  return (
    <div className="offers" role="listbox" id={id} aria-label="Suggestions">
      {offers.map((offer, place) => (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the text box that owns this list takes the keys
        <div
          key={offer.id}
          id={`${id}-${place}`}
          role="option"
          tabIndex={-1}
          aria-selected={place === chosen}
          onPointerDown={event => event.preventDefault()}
          onClick={() => choose(offer)}
        >
          <b>{visible(offer.label)}</b>
          {offer.detail ? <small>{visible(offer.detail)}</small> : null}
        </div>
      ))}
    </div>
  );
}
