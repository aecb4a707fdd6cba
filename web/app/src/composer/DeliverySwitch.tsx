export type Delivery = "steer" | "queue" | "interrupt";

const WORDS: Record<Delivery, string> = { steer: "Steer", queue: "Queue", interrupt: "Interrupt" };

/** What Enter does while the agent works. */
export function DeliverySwitch({ value, change, canSteer }: { value: Delivery; change: (value: Delivery) => void; canSteer: boolean }) {
  return (
    <div className="seg" role="radiogroup" aria-label="While the agent works, sending will">
      {(Object.keys(WORDS) as Delivery[])
        .filter(one => one !== "steer" || canSteer)
        .map(one => (
          <label key={one}>
            <input className="sr" type="radio" name="delivery" value={one} checked={one === value} onChange={() => change(one)} />
            {WORDS[one]}
          </label>
        ))}
    </div>
  );
}
