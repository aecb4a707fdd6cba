import type { Page } from "../app/page";
import { wordsOf } from "../daemon/daemon";
import type { SessionRow } from "../shapes";

/** What a line that begins with a slash does here. Everything else goes to the agent as it stands. */

export interface Command {
  name: string;
  says: string;
  /** The name of what follows it. */
  takes?: string;
  offered?: (session: SessionRow) => boolean;
  run: (context: Context, argument: string) => Promise<unknown> | unknown;
}

export interface Context {
  page: Page;
  session: SessionRow;
  lastTurn: string | null;
  show: (what: { kind: "undo"; turnId: string; redo: boolean }) => void;
  say: (text: string, how?: "status" | "alert") => void;
}

const at = ({ session }: Context, rest = "") => `/v1/sessions/${session.id}${rest}`;

export const COMMANDS: Command[] = [
  {
    name: "model",
    says: "Choose the model",
    takes: "model",
    run: (context, id) => context.page.daemon.ask("PATCH", at(context), { model: id }),
  },
  {
    name: "mode",
    says: "Choose what is asked first",
    takes: "mode",
    run: (context, id) => context.page.daemon.ask("PATCH", at(context), { mode: id }),
  },
  {
    name: "agent",
    says: "Begin a session with another agent",
    takes: "agent",
    run: (context, name) => context.page.show({ kind: "new", workspace: context.session.workspace_path, agent: name }),
  },
  {
    name: "new",
    says: "Begin another session here",
    run: context => context.page.show({ kind: "new", workspace: context.session.workspace_path }),
  },
  { name: "fork", says: "Go on in a copy of this session", run: context => context.page.fork(context.session.id) },
  {
    name: "compact",
    says: "Sum up the earlier conversation for the model",
    run: context => context.page.daemon.ask("POST", at(context, "/compact"), {}),
  },
  {
    name: "undo",
    says: "Take back what the last turn changed",
    run: context =>
      context.lastTurn === null
        ? context.say("No turn has changed anything yet")
        : context.show({ kind: "undo", turnId: context.lastTurn, redo: false }),
  },
  {
    name: "export",
    says: "Save this session as a file",
    takes: "html or json",
    run: (context, format) => context.page.save(context.session, format || "html"),
  },
  {
    name: "rename",
    says: "Give this session a title",
    takes: "title",
    run: (context, title) => context.page.rename(context.session, title),
  },
  { name: "archive", says: "Put this session away", run: context => context.page.archive(context.session, true) },
  { name: "search", says: "Search everything that was said", run: context => context.page.show({ kind: "search" }) },
  { name: "help", says: "Keys and commands", run: context => context.page.show({ kind: "help" }) },
];

/** Runs a line that is a command of ours. Says false where it is none: then it is a message. */
export function runCommand(line: string, context: Context): boolean {
  const found = /^\/([a-z]+)(?:[ \t]+([^\n]*))?$/.exec(line.trim());
  const command = found && COMMANDS.find(one => one.name === found[1]);
  if (!command) return false;
  const argument = found[2]?.trim() ?? "";
  if (command.takes && command.name !== "export" && argument === "") {
    context.say(`/${command.name} needs a ${command.takes}`, "alert");
    return true;
  }
  Promise.resolve(command.run(context, argument)).catch(error => context.say(wordsOf(error), "alert"));
  return true;
}
