import { visible } from "@palaver/client";
import type { Question } from "../shapes";

const KINDS = { number: "number", integer: "number", url: "url", text: "text" } as const;

/** One question: its choices as radio buttons or boxes, with room for an answer in one's own words. */
export function QuestionField({ question, name }: { question: Question; name: string }) {
  const options = question.type === "boolean" ? [{ label: "yes" }, { label: "no" }] : (question.options ?? []);
  const free = question.type === "choice" ? question.free_text !== false : question.type !== "boolean";
  return (
    <fieldset>
      <legend>
        {question.header ? <span className="eyebrow">{visible(question.header)} </span> : null}
        {visible(question.text, { prose: true })}
      </legend>
      {options.map(option => (
        <label key={option.label} className="opt">
          <input type={question.multiple ? "checkbox" : "radio"} name={name} value={option.label} />
          <span className="lab">
            {visible(option.label, { prose: true })}
            {"description" in option && option.description ? <small>{visible(option.description, { prose: true })}</small> : null}
            {"preview" in option && option.preview ? <code className="cmd">{visible(option.preview, { prose: true })}</code> : null}
          </span>
          <span>{question.default === option.label ? <span className="chip">Suggested</span> : null}</span>
        </label>
      ))}
      {free ? (
        <input
          className="free"
          name={`${name}:text`}
          type={question.type in KINDS ? KINDS[question.type as keyof typeof KINDS] : "text"}
          step={question.type === "number" ? "any" : undefined}
          aria-label={options.length > 0 ? "Answer in your own words" : question.text}
          placeholder={options.length > 0 ? "Or answer in your own words" : "Your answer"}
          autoComplete="off"
        />
      ) : null}
    </fieldset>
  );
}
