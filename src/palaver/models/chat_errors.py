"""What goes wrong inside an answer, as `ModelFailed`, with the provider's own words where it gave some."""

from __future__ import annotations

import json
import re
from typing import Any

from palaver.errors import ModelFailed


def bad_chunk(why: str, data: bytes) -> ModelFailed:
    shown = data[:200].decode("utf-8", "replace")
    return ModelFailed("bad_chunk", f"The model's service sent a piece that cannot be read ({why}): {shown!r}. Try again.", retryable=True)


def provider_error(error: Any) -> ModelFailed:
    """An `error` that came inside a stream which had begun well."""
    detail = error if isinstance(error, dict) else {}
    code = str(detail.get("code") or detail.get("type") or "")
    if overflows(f"{code} {error_text(error)}"):
        return overflow("The model's service", error_text(error))
    temporary = bool(re.search(r"429|5\d\d|overload|rate|server|timeout|unavailable", code, re.IGNORECASE))
    return ModelFailed("model_failed", f"The model's service reported an error: {error_text(error)}", retryable=temporary)


_TOO_LONG = re.compile(
    r"context.{0,20}(length|window|size)|(maximum|too many) [\w ]{0,20}(tokens|context)|prompt is too long|context the overflows"
    r"|exceed\w* .{0,40}(token|context)|n_ctx|request too large",
    re.IGNORECASE,
)
"""What services say of a request that does not fit the model's window: OpenAI, vLLM, llama.cpp, LM Studio, Google, Anthropic."""


def overflows(said: str) -> bool:
    """Whether a refusal in the provider's words means that the request is longer than the model's context."""
    return _TOO_LONG.search(said) is not None


def overflow(who: str, said: str) -> ModelFailed:
    advice = "Compact the conversation, or choose a model with a larger context."
    return ModelFailed("context_overflow", f"{who} says that the conversation is longer than the model can take. {advice} It says: {said}")


def error_text(error: Any) -> str:
    """The provider's own words, shortened, wherever it put them."""
    if isinstance(error, dict):
        error = error.get("message") or error.get("error") or error.get("detail") or error
    if isinstance(error, dict):
        return error_text(error) if "message" in error else json.dumps(error)[:500]
    text = clean(str(error)).strip()
    return text if len(text) <= 500 else f"{text[:500]}…"


def clean(text: str) -> str:
    """Halves of UTF-16 pairs that met become their character; one that is alone becomes U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
