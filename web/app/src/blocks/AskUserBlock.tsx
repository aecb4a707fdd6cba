import { visible } from "@palaver/client";
import { useHere, useOpen } from "../app/here";
import { QuestionCard } from "../cards/QuestionCard";
import type { Answer, Block, Question, QuestionAsk } from "../shapes";
import { Icon } from "../ui/Icon";

type Asked = QuestionAsk & { cause?: string; answers?: Record<string, Answer>; by?: string; reason?: string };

/** What the agent asked: a form while it waits, a record once it is settled. */
export function AskUserBlock({ block }: { block: Block }) {
  const here = useHere();
  const open = useOpen();
  const asked = block.data as unknown as Asked;
  const waits = open.questions.some(one => one.question_id === asked.question_id);
  if (waits && !here.readOnly) return <QuestionCard asked={asked} />;
  return (
    <section className="cardx asked" aria-label="Question">
      <header>
        <Icon name="ask" />
        <h2>Question</h2>
        <span className="meta">{settled(asked)}</span>
      </header>
      <dl className="pad answers">
        {asked.questions.map(question => (
          <div key={question.id}>
            <dt>{visible(question.text, { prose: true })}</dt>
            <dd>{asked.answers ? said(question, asked.answers[question.id]) : null}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function settled({ cause, reason }: Asked): string {
  switch (cause) {
    case undefined:
      return "";
    case "user":
      return "Answered by you";
    case "agent_decides":
      return "Left to the agent";
    case "declined":
      return reason ? `Declined: “${visible(reason)}”` : "Declined";
    case "default":
      return "The default was taken";
    case "expired":
      return "Nobody answered in time";
    default:
      return "Not answered: the turn ended first";
  }
}

function said(question: Question, answer: Answer | undefined): string {
  if (!answer) return "—";
  const words = [...(answer.selected ?? []), ...(answer.text ? [`“${answer.text}”`] : [])];
  if (answer.value !== undefined && words.length === 0)
    words.push(question.type === "boolean" ? (answer.value ? "Yes" : "No") : String(answer.value));
  return words.map(word => visible(word, { prose: true })).join(", ") || "—";
}
