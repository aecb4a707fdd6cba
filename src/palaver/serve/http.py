"""The handlers and the one table that the router, the scopes and `openapi.json` are made from.

A handler decodes, calls and encodes. It decides nothing: a refusal becomes a reply in `app.py`.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from palaver.errors import PalaverError, Refused
from palaver.serve import files
from palaver.serve.answers import Page
from palaver.serve.bodies import BASE64_LIMIT, JSON_LIMIT, body_pieces, decode, read_body
from palaver.serve.export import export_file, export_frame
from palaver.serve.page import STYLE, asset, page, page_headers
from palaver.serve.problems import problem_of
from palaver.serve.routes import Call, Outcome, Reply, Route
from palaver.serve.scopes import parse, require, require_fields
from palaver.serve.stream import all_events, events, session_events
from palaver.serve.times import timestamp
from palaver.serve.tokens import Minted, TokenRecord
from palaver.wire import requests as r

if TYPE_CHECKING:
    from palaver.serve.app import Palaver
    from palaver.serve.guard import Receive, Scope

# --- doors --------------------------------------------------------------------------------------------------------------------


async def health(app: Palaver, call: Call) -> Reply:
    """`proof` is HMAC-SHA256 with the key SHA-256(token) over the nonce and the port, in hex: only who knows the token can make it."""
    query = call.args(r.HealthQuery)
    proof = app.doors.tokens.proof(query.token_id, query.nonce, app.port) if query.token_id and query.nonce else None
    return Reply(200, r.Health(True, app.version, proof))


async def plain_health(app: Palaver, call: Call) -> Reply:
    return Reply(200, r.PlainHealth(True))


async def log_in(app: Palaver, call: Call) -> Reply:
    minted = app.doors.codes.exchange(call.decode(r.Login).code)
    record = minted.record
    return Reply(200, r.LoggedIn(minted.token, timestamp(record.expires or 0), ",".join(record.scopes)))


async def make_code(app: Palaver, call: Call) -> Reply:
    code, expires = app.doors.codes.mint(call.identity, parse(call.decode(r.NewCode).scope))
    return Reply(201, r.Code(code, timestamp(expires)))


async def make_ticket(app: Palaver, call: Call) -> Reply:
    ticket, expires = app.doors.tickets.mint(call.identity)
    return Reply(201, r.Ticket(ticket, timestamp(expires)))


async def list_tokens(app: Palaver, call: Call) -> Reply:
    return Reply(200, r.TokenList([_token(record) for record in app.doors.tokens.list()]))


async def make_token(app: Palaver, call: Call) -> Reply:
    new = call.decode(r.NewToken)
    scopes = parse(new.scope)
    seconds = None if new.days is None else new.days * 86_400
    minted = app.doors.tokens.mint(call.identity, name=new.name or "token", scopes=scopes, seconds=seconds)
    return Reply(201, _minted(minted))


async def revoke_token(app: Palaver, call: Call) -> Reply:
    """A token may end itself ("sign out"); ending another one is for `admin`."""
    if call.params["token_id"] != call.identity.token_id:
        require(call.actor, "admin")
    app.doors.tokens.revoke(call.params["token_id"])
    return Reply(204)


def _token(record: TokenRecord) -> r.TokenInfo:
    expires = None if record.expires is None else timestamp(record.expires)
    return r.TokenInfo(record.id, record.name, ",".join(record.scopes), timestamp(record.created), expires, record.parent)


def _minted(minted: Minted) -> r.MintedToken:
    return r.MintedToken(**msgspec.structs.asdict(_token(minted.record)), token=minted.token)


# --- sessions -----------------------------------------------------------------------------------------------------------------


async def create_session(app: Palaver, call: Call) -> Reply:
    new = call.decode(r.NewSession)
    chosen = {name: value for name, value in msgspec.structs.asdict(new).items() if value is not None}
    require_fields(call.actor, chosen, app.default_mode)
    return Reply(201, _with_id(await app.hub.create(new, call.actor)))


async def list_sessions(app: Palaver, call: Call) -> Reply:
    query = msgspec.structs.asdict(call.args(r.SessionsQuery))
    return Reply(200, await app.hub.list(**{**query, "limit": min(query["limit"], 1000)}))


async def get_session(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.get(call.session_id))


async def change_session(app: Palaver, call: Call) -> Reply:
    require_fields(call.actor, call.decode(dict[str, Any]), app.default_mode)
    return Reply(200, await app.hub.patch(call.session_id, r.sent(call.decode(r.SessionPatch)), call.actor))


async def choose_mode(app: Palaver, call: Call) -> Reply:
    return await _choose(app, call, "mode")


async def choose_model(app: Palaver, call: Call) -> Reply:
    return await _choose(app, call, "model")


async def _choose(app: Palaver, call: Call, field: str) -> Reply:
    changes = {field: call.decode(r.ChosenId).id}
    require_fields(call.actor, changes, app.default_mode)
    return Reply(200, await app.hub.patch(call.session_id, changes, call.actor))


async def delete_session(app: Palaver, call: Call) -> Reply:
    await app.hub.delete(call.session_id, call.actor)
    return Reply(204)


async def close_session(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.close(call.session_id, call.actor))


async def fork_session(app: Palaver, call: Call) -> Reply:
    at = call.decode(r.ForkAt).at_message_id
    return Reply(201, _with_id(await app.hub.fork(call.session_id, at, call.actor)))


def _with_id(session: Any) -> dict[str, Any]:
    return {"session_id": session["id"], "session": session}


async def mark_read(app: Palaver, call: Call) -> Reply:
    await app.hub.mark_read(call.session_id, call.decode(r.ReadMark).seq)
    return Reply(204)


async def get_draft(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.get_draft(call.session_id))


async def save_draft(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.put_draft(call.session_id, msgspec.to_builtins(call.decode(r.NewDraft)), call.actor))


# --- messages, queue, turns ---------------------------------------------------------------------------------------------------


async def add_message(app: Palaver, call: Call) -> Reply:
    post = call.decode(r.PostMessage)
    if post.role != "user":
        raise Refused("role_not_allowed", f"A client may send messages of the role `user` only, not `{post.role}`")
    return Reply(202, await app.hub.add_message(call.session_id, post, call.actor))


async def cancel_turn(app: Palaver, call: Call) -> Reply:
    order = call.decode(r.CancelTurn)
    answer = await app.hub.cancel(call.session_id, order.turn_id, order.keep_queue, call.actor)
    return Reply(200 if answer["turn_id"] is None else 202, answer)


async def compact_history(app: Palaver, call: Call) -> Reply:
    return Reply(202, await app.hub.compact(call.session_id, call.decode(r.CompactRequest).instructions, call.actor))


async def retry_turn(app: Palaver, call: Call) -> Reply:
    return Reply(202, await app.hub.retry(call.session_id, call.params["turn_id"], call.actor))


async def get_queue(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.queue(call.session_id))


async def edit_item(app: Palaver, call: Call) -> Reply:
    changes = r.sent(call.decode(r.EditItem))
    return Reply(200, await app.hub.edit_item(call.session_id, call.params["item_id"], changes, call.actor))


async def remove_item(app: Palaver, call: Call) -> Reply:
    await app.hub.remove_item(call.session_id, call.params["item_id"], call.actor)
    return Reply(204)


async def promote_item(app: Palaver, call: Call) -> Reply:
    return Reply(202, await app.hub.promote_item(call.session_id, call.params["item_id"], call.actor))


async def pause_queue(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.pause_queue(call.session_id, call.actor))


async def resume_queue(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.resume_queue(call.session_id, call.actor))


# --- asking -------------------------------------------------------------------------------------------------------------------


async def approve_call(app: Palaver, call: Call) -> Reply:
    answer = call.decode(r.CallAnswer)
    return Reply(200, await app.hub.approve_call(call.session_id, answer.turn_id, answer.tool_call_id, answer, call.actor))


async def answer_approval(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.answer_approval(call.params["approval_id"], call.decode(r.ApprovalAnswer), call.actor))


async def answer_approvals(app: Palaver, call: Call) -> Reply:
    """In order, and none is taken back: each answer has a result of its own."""
    return Reply(200, {"results": [await _one_of_batch(app, call, answer) for answer in call.decode(r.BatchAnswers).answers]})


async def _one_of_batch(app: Palaver, call: Call, answer: r.BatchAnswer) -> object:
    try:
        return await app.hub.answer_approval(answer.approval_id, answer, call.actor)
    except PalaverError as error:
        status, document = problem_of(error)
        return {**document, "approval_id": answer.approval_id, "status": status}


async def answer_question(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.answer_question(call.params["question_id"], call.decode(r.QuestionAnswer), call.actor))


async def get_inbox(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.inbox())


async def list_rules(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.rules(call.args(r.RulesQuery).workspace))


async def add_rule(app: Palaver, call: Call) -> Reply:
    return Reply(201, await app.hub.add_rule(call.decode(r.NewRule), call.actor))


async def remove_rule(app: Palaver, call: Call) -> Reply:
    await app.hub.remove_rule(call.params["rule_id"], call.actor)
    return Reply(204)


async def explain_rule(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.explain_rule(call.decode(r.ExplainRule)))


# --- reading ------------------------------------------------------------------------------------------------------------------


async def get_transcript(app: Palaver, call: Call) -> Reply:
    query = call.args(r.TranscriptQuery)
    page = await app.hub.transcript(
        call.session_id, before=query.before, after=query.after, around=query.around, limit=min(query.limit, 1000), at=query.at
    )
    return Reply(200, page)


async def search(app: Palaver, call: Call) -> Reply:
    query = call.args(r.SearchQuery)
    found = await app.hub.search(query.q, session=query.session, limit=min(query.limit, 200), cursor=query.cursor)
    return Reply(200, found)


async def get_output(app: Palaver, call: Call) -> Reply:
    query = call.args(r.OutputQuery)
    limit = min(query.limit, 1_048_576)
    return Reply(200, await app.hub.call_output(call.session_id, call.params["call_id"], query.stream, query.offset, limit))


async def get_changes(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.turn_changes(call.session_id, call.params["turn_id"]))


async def get_session_changes(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.session_changes(call.session_id))


async def list_jobs(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.jobs(call.session_id))


async def kill_job(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.kill_job(call.session_id, call.params["job_id"]))


async def undo_turn(app: Palaver, call: Call) -> Reply:
    wanted = call.decode(r.UndoTurn)
    return Reply(200, await app.hub.undo_turn(call.session_id, call.params["turn_id"], wanted, call.actor))


async def get_context(app: Palaver, call: Call) -> Reply:
    query = call.args(r.ContextQuery)
    return Reply(200, await app.hub.context(call.session_id, query.turn, query.step))


async def list_agents(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.agents())


async def list_models(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.models())


async def list_tools(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.tools())


async def get_settings(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.settings())


async def change_settings(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.change_settings(call.decode(r.SettingsPatch).values, call.actor))


async def get_tree(app: Palaver, call: Call) -> Reply:
    query = call.args(r.TreeQuery)
    return Reply(200, await app.hub.workspace_tree(query.path, query.depth))


async def get_files(app: Palaver, call: Call) -> Reply:
    query = call.args(r.FilesQuery)
    return Reply(200, await app.hub.workspace_files(query.workspace, query.q, min(query.limit, 200)))


async def list_workspaces(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.workspaces_used())


async def list_folders(app: Palaver, call: Call) -> Reply:
    return Reply(200, await app.hub.folders(call.args(r.FoldersQuery).path))


# --- files and the page -------------------------------------------------------------------------------------------------------


async def add_attachment(app: Palaver, call: Call, scope: Scope, receive: Receive) -> Reply:
    """Multipart is read piece by piece; base64 is taken whole and decoded beside the event loop."""
    form = files.form_type(scope)
    if form is not None:
        upload = await files.read_multipart(form, body_pieces(receive, files.UPLOAD_LIMIT))
    else:
        body = await read_body(receive, BASE64_LIMIT)
        new = await asyncio.to_thread(decode, body, r.NewAttachment)
        upload = files.Upload(new.name, new.mime_type, files.one_piece(new.data))
    return Reply(201, await app.hub.put_attachment(call.session_id, upload.name, upload.mime_type, upload.pieces))


async def get_attachment(app: Palaver, call: Call, scope: Scope, receive: Receive) -> Outcome:
    return files.FileAnswer(await app.hub.open_file(call.session_id, f"attachments/{call.params['name']}"))


async def get_artifact(app: Palaver, call: Call, scope: Scope, receive: Receive) -> Outcome:
    return files.FileAnswer(await app.hub.open_file(call.session_id, f"artifacts/{call.params['turn_id']}/{call.params['name']}"))


async def artifact_text(app: Palaver, call: Call) -> Reply:
    """Over the socket: an artifact that is text, as a string."""
    ref = f"artifacts/{call.params['turn_id']}/{call.params['name']}"
    return Reply(200, await files.text_of(await app.hub.open_file(call.session_id, ref), JSON_LIMIT))


async def get_page(app: Palaver, call: Call, scope: Scope, receive: Receive) -> Outcome:
    return Page(page(app.version), ((b"content-type", b"text/html; charset=utf-8"), *page_headers(call.host)))


async def get_session_page(app: Palaver, call: Call, scope: Scope, receive: Receive) -> Outcome:
    return await get_page(app, call, scope, receive)


async def get_asset(app: Palaver, call: Call, scope: Scope, receive: Receive) -> Outcome:
    body, headers = asset(call.params["name"])
    return Page(body, tuple(headers))


async def get_style(app: Palaver, call: Call, scope: Scope, receive: Receive) -> Outcome:
    return Page(STYLE, ((b"content-type", b"text/css; charset=utf-8"),))


async def get_openapi(app: Palaver, call: Call) -> Reply:
    return Reply(200, _document(app.version))


@lru_cache(maxsize=1)
def _document(version: str) -> msgspec.Raw:
    from palaver.serve import openapi  # few ask for it

    return msgspec.Raw(msgspec.json.encode(openapi.document(ROUTES, version)))


# --- the table ----------------------------------------------------------------------------------------------------------------

S = "/v1/sessions/{session_id}"
CLOSED = ("session_closed", "read_only")

ROUTES: tuple[Route, ...] = (
    Route("GET", "/v1/health", None, health, "Whether the daemon answers", {200: r.Health}, query=r.HealthQuery),
    Route("GET", "/api/health", None, plain_health, "The same in one word", {200: r.PlainHealth}),
    Route(
        "POST",
        "/v1/login",
        None,
        log_in,
        "A token for a sign-in code",
        {200: r.LoggedIn},
        r.Login,
        codes=("bad_code", "too_many", "scope", "disk"),
    ),
    Route("GET", "/", None, None, "The page", {200: str}, raw=get_page, media="text/html"),
    Route("GET", "/s/{session_id}", None, None, "The page, at a session", {200: str}, raw=get_session_page, media="text/html"),
    Route("GET", "/assets/{name}", None, None, "A file of the page", {200: str}, raw=get_asset, media="text/javascript"),
    Route(
        "GET",
        "/page.css",
        None,
        None,
        "The style of the page that stands in for one that was not built",
        {200: str},
        raw=get_style,
        media="text/css",
    ),
    Route("GET", "/openapi.json", "read", get_openapi, "This document", {200: dict[str, Any]}),
    Route("POST", "/v1/codes", "read", make_code, "A sign-in code, for one minute and one use", {201: r.Code}, r.NewCode, asks_token=True),
    Route("POST", "/v1/tickets", "read", make_ticket, "A ticket for an EventSource's URL", {201: r.Ticket}),
    Route("GET", "/v1/tokens", "admin", list_tokens, "All tokens, without their secrets", {200: r.TokenList}, asks_token=True),
    Route("POST", "/v1/tokens", "admin", make_token, "A new token", {201: r.MintedToken}, r.NewToken, codes=("disk",), asks_token=True),
    Route(
        "DELETE",
        "/v1/tokens/{token_id}",
        "read",
        revoke_token,
        "End a token: one's own, or as admin any",
        {204: None},
        codes=("disk", "invalid"),
        asks_token=True,
    ),
    Route(
        "POST",
        "/v1/sessions",
        "prompt",
        create_session,
        "Create a session",
        {201: r.NewSessionAnswer},
        r.NewSession,
        codes=("workspace_unknown", "disk"),
    ),
    Route("GET", "/v1/sessions", "read", list_sessions, "Sessions, the latest first", {200: r.SessionList}, query=r.SessionsQuery),
    Route("GET", S, "read", get_session, "One session", {200: r.Session}),
    Route(
        "PATCH",
        S,
        "prompt",
        change_session,
        "Change a session; some fields need more than `prompt`",
        {200: r.Session},
        r.SessionPatch,
        codes=CLOSED,
    ),
    Route("DELETE", S, "admin", delete_session, "Cancel, wait for the end, delete", {204: None}),
    Route("POST", f"{S}/close", "prompt", close_session, "Cancel and complete a session", {200: r.Session}, codes=CLOSED),
    Route(
        "POST",
        f"{S}/fork",
        "prompt",
        fork_session,
        "A new session that begins with this one's past",
        {201: r.NewSessionAnswer},
        r.ForkAt,
        codes=("workspace_unknown", "read_only"),
    ),
    Route("POST", f"{S}/mode", "prompt", choose_mode, "Choose the mode", {200: r.Session}, r.ChosenId, codes=CLOSED),
    Route("POST", f"{S}/model", "approve", choose_model, "Choose the model", {200: r.Session}, r.ChosenId, codes=CLOSED),
    Route("POST", f"{S}/read", "prompt", mark_read, "Remember how far it was read", {204: None}, r.ReadMark, codes=CLOSED),
    Route("GET", f"{S}/draft", "read", get_draft, "The message that is being written", {200: r.Draft}),
    Route("PUT", f"{S}/draft", "prompt", save_draft, "Save it", {200: r.DraftSaved}, r.NewDraft, codes=("draft_conflict", *CLOSED)),
    Route("POST", f"{S}/messages", "prompt", add_message, "Send a message", {202: r.Accepted}, r.PostMessage, codes=("id_reused", *CLOSED)),
    Route(
        "POST",
        f"{S}/cancel",
        "prompt",
        cancel_turn,
        "Cancel the running turn",
        {200: r.TurnRef, 202: r.TurnRef},
        r.CancelTurn,
        codes=CLOSED,
    ),
    Route(
        "POST",
        f"{S}/turns/{{turn_id}}/retry",
        "prompt",
        retry_turn,
        "Try the latest turn again",
        {202: r.StartedTurn},
        codes=("not_retryable", *CLOSED),
    ),
    Route(
        "POST",
        f"{S}/compact",
        "prompt",
        compact_history,
        "Have the history made shorter",
        {202: r.CompactAccepted},
        r.CompactRequest,
        codes=("turn_running", "not_supported", *CLOSED),
    ),
    Route("GET", f"{S}/queue", "read", get_queue, "What waits for its own turn", {200: r.Queue}),
    Route(
        "PATCH",
        f"{S}/queue/{{item_id}}",
        "prompt",
        edit_item,
        "Edit or move an item",
        {200: r.Queue},
        r.EditItem,
        codes=("item_gone", *CLOSED),
    ),
    Route(
        "DELETE",
        f"{S}/queue/{{item_id}}",
        "prompt",
        remove_item,
        "Remove an item: it never runs",
        {204: None},
        codes=("item_gone", *CLOSED),
    ),
    Route(
        "POST",
        f"{S}/queue/{{item_id}}/promote",
        "prompt",
        promote_item,
        "Make an item a steer",
        {202: r.Accepted},
        codes=("item_gone", *CLOSED),
    ),
    Route("POST", f"{S}/queue/pause", "prompt", pause_queue, "Hold the items that are there", {200: r.Queue}, codes=CLOSED),
    Route("POST", f"{S}/queue/resume", "prompt", resume_queue, "Let them run", {200: r.Queue}, codes=CLOSED),
    Route(
        "POST",
        f"{S}/approve",
        "approve",
        approve_call,
        "Approve or deny a call",
        {200: r.ApprovalOutcome},
        r.CallAnswer,
        codes=("already_answered", *CLOSED),
    ),
    Route(
        "POST",
        "/v1/approvals/{approval_id}",
        "approve",
        answer_approval,
        "Answer an approval",
        {200: r.ApprovalOutcome},
        r.ApprovalAnswer,
        codes=("already_answered",),
    ),
    Route("POST", "/v1/approvals", "approve", answer_approvals, "Answer several, in order", {200: r.BatchResults}, r.BatchAnswers),
    Route(
        "POST",
        "/v1/questions/{question_id}",
        "approve",
        answer_question,
        "Answer a question",
        {200: r.QuestionOutcome},
        r.QuestionAnswer,
        codes=("already_answered",),
    ),
    Route("GET", "/v1/inbox", "read", get_inbox, "Everything that waits for a person", {200: r.Inbox}),
    Route("GET", "/v1/rules", "read", list_rules, "What is allowed, asked and denied", {200: r.RuleList}, query=r.RulesQuery),
    Route("POST", "/v1/rules", "approve", add_rule, "Add a rule", {201: r.RuleInfo}, r.NewRule, codes=("disk", "read_only")),
    Route("DELETE", "/v1/rules/{rule_id}", "approve", remove_rule, "Remove a rule", {204: None}, codes=("read_only",)),
    Route(
        "POST", "/v1/rules/explain", "approve", explain_rule, "What would be decided, and by which rule", {200: r.Explained}, r.ExplainRule
    ),
    Route(
        "GET",
        "/v1/search",
        "read",
        search,
        "What was said, in all sessions or in one",
        {200: r.Found},
        query=r.SearchQuery,
        codes=("disk", "not_found"),
    ),
    Route(
        "GET",
        f"{S}/transcript",
        "read",
        get_transcript,
        "What a client shows",
        {200: r.Transcript},
        query=r.TranscriptQuery,
        codes=("cursor_ahead",),
    ),
    Route(
        "GET",
        f"{S}/events",
        "read",
        session_events,
        "The log, as a stream or as JSON",
        {200: r.Events},
        query=r.EventsQuery,
        codes=("cursor_gone",),
        raw=events,
    ),
    Route(
        "GET",
        "/v1/events",
        "read",
        None,
        "Every session's events from now on",
        {200: str},
        query=r.AllEventsQuery,
        raw=all_events,
        media="text/event-stream",
    ),
    Route("GET", f"{S}/calls/{{call_id}}/output", "read", get_output, "All of a call's output", {200: r.Output}, query=r.OutputQuery),
    Route("GET", f"{S}/turns/{{turn_id}}/changes", "read", get_changes, "The files that a turn changed", {200: r.Changes}),
    Route("GET", f"{S}/jobs", "read", list_jobs, "The background jobs of `shell`, running or ended not long ago", {200: r.JobList}),
    Route("POST", f"{S}/jobs/{{job_id}}/kill", "prompt", kill_job, "End a background job and all that it started", {200: r.JobInfo}),
    Route("GET", f"{S}/changes", "read", get_session_changes, "What the session's turns made of its files", {200: r.Changes}),
    Route(
        "POST",
        f"{S}/turns/{{turn_id}}/undo",
        "approve",
        undo_turn,
        "Put the files of a turn back, or say what that would do",
        {200: r.Undone},
        r.UndoTurn,
        codes=("turn_running", "disk", *CLOSED),
    ),
    Route("GET", f"{S}/context", "read", get_context, "What the model was given", {200: r.Context}, query=r.ContextQuery),
    Route(
        "POST", f"{S}/attachments", "prompt", None, "Upload a file", {201: r.Attachment}, r.NewAttachment, codes=CLOSED, raw=add_attachment
    ),
    Route(
        "GET",
        f"{S}/attachments/{{name}}",
        "read",
        None,
        "A file that was uploaded",
        {200: bytes},
        raw=get_attachment,
    ),
    Route(
        "GET",
        f"{S}/artifacts/{{turn_id}}/{{name}}",
        "read",
        artifact_text,
        "A file that a turn made",
        {200: bytes},
        raw=get_artifact,
    ),
    Route(
        "GET",
        f"{S}/export",
        "read",
        export_frame,
        "The whole session as one file",
        {200: r.Export},
        query=r.ExportQuery,
        codes=("page_not_built", "too_large"),
        raw=export_file,
    ),
    Route("GET", "/v1/agents", "read", list_agents, "Who can answer", {200: r.AgentList}),
    Route("GET", "/v1/models", "read", list_models, "Known and found models", {200: r.ModelList}),
    Route("GET", "/v1/tools", "read", list_tools, "The tools, and those that failed to load", {200: r.ToolList}),
    Route("GET", "/v1/settings", "admin", get_settings, "Every setting and where it comes from", {200: r.Settings}, asks_token=True),
    Route(
        "PATCH",
        "/v1/settings",
        "admin",
        change_settings,
        "Change the settings file",
        {200: r.ChangedSettings},
        r.SettingsPatch,
        codes=("file_only", "disk"),
        asks_token=True,
    ),
    Route(
        "GET",
        "/v1/workspace/tree",
        "read",
        get_tree,
        "The files of a known workspace",
        {200: r.Tree},
        query=r.TreeQuery,
        codes=("workspace_unknown",),
    ),
    Route(
        "GET",
        "/v1/workspace/files",
        "read",
        get_files,
        "The files of a known workspace by a few letters",
        {200: r.Files},
        query=r.FilesQuery,
        codes=("workspace_unknown",),
    ),
    Route("GET", "/v1/workspaces", "read", list_workspaces, "The folders that sessions work in", {200: r.WorkspaceList}),
    Route("GET", "/v1/folders", "admin", list_folders, "The folders of this machine", {200: r.Folders}, query=r.FoldersQuery),
)
