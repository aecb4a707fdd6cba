"""Refusals and failures as problem documents: one table from stable codes to HTTP statuses."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from palaver.errors import DiskFailed, PalaverError, Refused

STATUSES: dict[str, int] = {
    "bad_json": 400,
    "bad_request": 400,
    "unknown_op": 400,
    "no_token": 401,
    "bad_code": 401,
    "scope": 403,
    "origin": 403,
    "peer": 403,
    "workspace_unknown": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "already_answered": 409,
    "wrong_turn": 409,
    "id_reused": 409,
    "session_closed": 409,
    "item_gone": 409,
    "not_retryable": 409,
    "turn_running": 409,
    "draft_conflict": 409,
    "not_supported": 409,
    "read_only": 409,
    "not_text": 409,
    "cursor_ahead": 410,
    "cursor_gone": 410,
    "too_large": 413,
    "content_type": 415,
    "host": 421,
    "invalid": 422,
    "role_not_allowed": 422,
    "unknown_attachment": 422,
    "media_not_taken": 422,
    "queue_full": 422,
    "denied_by_rule": 422,
    "file_only": 422,
    "too_many": 429,
    "headers_too_large": 431,
    "internal": 500,
    "stopping": 503,
    "page_not_built": 503,
    "disk": 507,
}

MEANINGS: dict[str, str] = {
    "bad_json": "The body is not JSON that can be taken: malformed, not UTF-8, a NUL, half a surrogate pair, or nested too deeply.",
    "bad_request": "What came is not HTTP.",
    "unknown_op": "A frame of the socket names no op that there is.",
    "no_token": "No token came with the request, or one that is unknown, revoked or expired.",
    "bad_code": "The sign-in code is wrong, was used already or is older than a minute.",
    "scope": "The token's scope is too small; `needed` names the one that is needed.",
    "origin": "The request comes from a page that is not Palaver's own.",
    "peer": "Without a token only the user who runs the daemon is served.",
    "workspace_unknown": "No token that may approve has used this folder yet.",
    "not_found": "There is nothing at this address.",
    "method_not_allowed": "The address exists, but not for this method; `Allow` names those that it has.",
    "already_answered": "Somebody answered first; the problem carries the recorded outcome.",
    "wrong_turn": "The call belongs to another turn.",
    "id_reused": "The same client id came before with another content.",
    "session_closed": "The session is closed: it can be read, forked and deleted.",
    "item_gone": "The queue item was removed, or its turn has started.",
    "not_retryable": "Only the latest turn can be retried, once, if it did not complete.",
    "turn_running": "A turn is running: wait for its end or cancel it.",
    "draft_conflict": "Another client saved a newer draft; the problem carries it.",
    "not_supported": "This session's backend cannot do that.",
    "read_only": "The session's log can be read but not written.",
    "not_text": "The file is not text, so it comes over HTTP only.",
    "cursor_ahead": "The cursor is beyond the head of the log.",
    "cursor_gone": "The cursor is below the oldest event that is kept.",
    "too_large": "The body is larger than this address takes.",
    "content_type": "Writes take `application/json`; only attachments take `multipart/form-data` as well.",
    "host": "The Host header is not this daemon's own address.",
    "invalid": "Fields are missing or wrong; `errors` names each.",
    "role_not_allowed": "Clients may only write messages of the role `user`.",
    "unknown_attachment": "The `ref` names no file of this session.",
    "media_not_taken": "The session's model cannot be shown a file of this kind; the message is not sent.",
    "queue_full": "The queue holds as many items as it may.",
    "denied_by_rule": "A rule denies the changed input; the approval stays open.",
    "file_only": "This setting can only be changed in the settings file.",
    "too_many": "Too many wrong codes; wait a minute.",
    "headers_too_large": "The request's headers are larger than 64 KiB.",
    "internal": "A bug in the daemon; its log on stderr says more.",
    "page_not_built": "This installation has no built page; `detail` names the command that builds it.",
    "stopping": "The daemon is stopping.",
    "disk": "The disk did not take the write; nothing was changed.",
}


def status_of(code: str) -> int:
    """A code that the table does not know is a conflict with how things are now."""
    return STATUSES.get(code, 409)


def problem(code: str, detail: str, **extra: Any) -> tuple[int, dict[str, Any]]:
    status = status_of(code)
    title = HTTPStatus(status).phrase
    return status, {**extra, "type": f"urn:palaver:problem:{code}", "title": title, "status": status, "detail": detail, "code": code}


def problem_of(error: PalaverError) -> tuple[int, dict[str, Any]]:
    """What the client is told of an error that we meant to raise."""
    match error:
        case Refused():
            return problem(error.code, error.message, **error.extra)
        case DiskFailed():
            return problem("disk", error.message)
        case _:
            return problem("internal", str(error))
