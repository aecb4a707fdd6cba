import { visible } from "@palaver/client";
import { type FormEvent, useState } from "react";
import { useAnnounce } from "../app/announce";
import { useHere } from "../app/here";
import { wordsOf } from "../daemon/daemon";
import type { QuestionAsk } from "../shapes";
import { Icon } from "../ui/Icon";
import { answersOf } from "./answers";
import { QuestionField } from "./QuestionField";
import { useArmed } from "./useArmed";

/** What the agent wants to know, as a form. Typing a message meanwhile answers nothing. */
export function QuestionCard({ asked }: { asked: QuestionAsk }) {
  const here = useHere();
  const say = useAnnounce();
  const [missing, setMissing] = useState("");
  const { card, end, guarded } = useArmed(asked.question_id, JSON.stringify(asked));
  const send = (body: object) => {
    here.daemon.ask("POST", `/v1/questions/${asked.question_id}`, body).then(
      () => say("Answered"),
      error => say(wordsOf(error), "alert"),
    );
  };
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const { answers, unanswered } = answersOf(asked.questions, new FormData(event.currentTarget));
    if (unanswered.length > 0) return setMissing(`Still open: ${unanswered.map(one => one.header || one.text).join(", ")}`);
    guarded(() => send({ answers }));
  };
  const title = `${visible(here.agent)} has ${asked.questions.length === 1 ? "a question" : `${asked.questions.length} questions`}`;
  return (
    <section
      ref={card}
      className="cardx waiting ask"
      data-ask={asked.question_id}
      data-state="pending"
      role="group"
      aria-label={title}
      tabIndex={-1}
    >
      <header>
        <Icon name="ask" />
        <h2>{title}</h2>
        <span className="meta">waiting</span>
      </header>
      <form onSubmit={submit}>
        <div className="pad">
          {asked.questions.map(question => (
            <QuestionField key={question.id} question={question} name={`${asked.question_id}:${question.id}`} />
          ))}
          {missing ? <p role="alert">{visible(missing)}</p> : null}
        </div>
        <span ref={end} className="end-mark" />
        <div className="acts arms">
          <button type="submit" className="btn primary">
            Send answer
          </button>
          <button type="button" className="btn quiet" onClick={() => guarded(() => send({ agent_decides: true }))}>
            Let the agent decide
          </button>
          <button type="button" className="btn quiet" onClick={() => guarded(() => send({ declined: true }))}>
            Decline
          </button>
        </div>
      </form>
    </section>
  );
}
