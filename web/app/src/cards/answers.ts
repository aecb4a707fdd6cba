import type { Answer, Question } from "../shapes";

/** What a filled form says, by question; and which questions it leaves open though they must be answered. */
export function answersOf(questions: Question[], form: FormData): { answers: Record<string, Answer>; unanswered: Question[] } {
  const answers: Record<string, Answer> = {};
  const unanswered: Question[] = [];
  for (const question of questions) {
    const name = [...form.keys()].find(key => key.endsWith(`:${question.id}`) || key.endsWith(`:${question.id}:text`));
    const stem = name?.replace(/:text$/, "") ?? "";
    const selected = form
      .getAll(stem)
      .map(String)
      .filter(one => one !== "");
    const text = String(form.get(`${stem}:text`) ?? "").trim();
    const answer = answerOf(question, selected, text);
    if (answer) answers[question.id] = answer;
    else if (question.required !== false) unanswered.push(question);
  }
  return { answers, unanswered };
}

function answerOf(question: Question, selected: string[], text: string): Answer | null {
  switch (question.type) {
    case "choice":
      return selected.length === 0 && text === "" ? null : { ...(selected.length > 0 ? { selected } : {}), ...(text ? { text } : {}) };
    case "boolean":
      return selected[0] === undefined ? null : { value: selected[0] === "yes" };
    case "number":
    case "integer":
      return text === "" || Number.isNaN(Number(text)) ? null : { value: Number(text) };
    default:
      return text === "" ? null : { text };
  }
}
