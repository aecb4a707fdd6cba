"""A model behind any server that speaks Chat Completions: OpenAI, OpenRouter, llama.cpp, vLLM, Ollama, LM Studio, gateways.

The request is `chat_request`'s, the answer is `chat_stream`'s; this module is the HTTP between them and says in our words what
went wrong there. It asks once: whether to ask again is the loop's decision.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from palaver.errors import Invalid, ModelFailed
from palaver.models.base import CallPiece, Finish, ModelRequest, Piece, TextPiece
from palaver.models.chat_errors import error_text, overflow, overflows
from palaver.models.chat_request import Echo, to_body
from palaver.models.chat_stream import Answer
from palaver.models.media import NOTHING, Takes
from palaver.models.sse import EventSplitter
from palaver.models.tokens import estimate
from palaver.wire.ids import new_id
from palaver.wire.values import Usage

if TYPE_CHECKING:  # 40 ms of import that only the first turn pays for
    import httpx2

CONNECT_S = 15.0
PATIENCE = 5
"""How many times `silence_s` a service may hold the line with comments alone: every turn ends."""
LINGER_S = 0.5
"""How long to wait for the end of a response that said `[DONE]`, so that its connection can serve the next request."""
ECHO_ALWAYS = re.compile(r"(^|\.)(deepseek\.com|moonshot\.(ai|cn))(:\d+)?$")
"""Services that refuse an answer of theirs without its `reasoning_content`."""
ERROR_BODY_LIMIT = 64 * 1024
CHARACTERS_PER_TOKEN = 4


class ChatCompletions:
    """One model of one service. Safe to use for many turns at once."""

    def __init__(
        self,
        name: str,
        base_url: str,
        model: str,
        api_key: str | None,
        *,
        client: Callable[[], httpx2.AsyncClient],
        api_key_env: str | None = None,
        silence_s: float = 120,
        takes: Takes = NOTHING,
        tools: bool = True,
        max_output: int | None = None,
        echo: Echo = "auto",
        extra: Mapping[str, Any] = MappingProxyType({}),
        context_window: int | None = None,
        new_call_id: Callable[[], str] = lambda: new_id("call"),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`extra` is more members of each request. Raises `Invalid` for a base_url that cannot be taken apart."""
        try:
            self.provider = urlsplit(base_url).netloc.rpartition("@")[2] or base_url
        except ValueError as error:
            raise Invalid(f"The base_url of the model {name!r} is no address ({error}). Correct it in the settings.") from error
        self.name = name
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._model = model
        self._api_key = api_key.strip() if api_key else None
        self._client = client
        self._api_key_env = api_key_env
        self._silence_s = silence_s
        self.takes = takes
        self._tools = tools
        self._echo_may_change = echo == "auto"
        self._echo: Echo = "reasoning_content" if echo == "auto" and ECHO_ALWAYS.search(self.provider) else echo
        self._ready: tuple[ModelRequest, Echo, bytes] | None = None
        """The latest request as it will be sent: who keeps it and who sends it ask for the same."""
        self._extra = extra
        self.max_output = max_output
        self.context_window = context_window
        self._new_call_id = new_call_id
        self._now = now

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Piece, None]:
        """The answer, piece by piece. Raises `ModelFailed`; closing the generator closes the request at once."""
        said = 0
        answer, events, quiet = Answer(self._new_call_id, self.name), EventSplitter(), _Quiet(PATIENCE * self._silence_s)
        async with self._response(request) as response, aclosing(self._reads(response)) as reads:
            try:
                async for chunk in reads:
                    ended = events.feed(chunk)
                    for piece in answer.take_all(ended):
                        said += _length(piece)
                        yield piece
                    if answer.done:
                        break
                    if quiet.too_long(bool(ended)):
                        raise self._silent(PATIENCE * self._silence_s)
                for piece in answer.take_all(events.end()):
                    yield piece
            except ModelFailed as failed:
                if not (answer.complete and failed.code == "model_unreachable"):
                    raise self._without_key_in(failed) from failed
                # otherwise all was said before the connection broke
            if not answer.complete:
                raise self._cut_off(response)
            for piece in answer.end():
                yield _counted(piece, request, said) if isinstance(piece, Finish) and piece.usage is None else piece
            await _linger(reads)

    @asynccontextmanager
    async def _response(self, request: ModelRequest) -> AsyncIterator[httpx2.Response]:
        """The response once its status is known to be good."""
        import httpx2

        try:
            client = self._client()
        except (ImportError, ValueError) as error:  # a proxy that the environment names and httpx2 cannot use
            raise ModelFailed("model_unreachable", f"The proxy in the environment cannot be used: {error}. Correct or unset it.") from error
        timeout = httpx2.Timeout(connect=CONNECT_S, read=self._silence_s, write=self._silence_s, pool=CONNECT_S)
        try:
            outgoing = client.build_request("POST", self._url, content=self.body(request), headers=self._headers(), timeout=timeout)
            self._ready = None  # a long one is not kept longer than it is needed
            response = await client.send(outgoing, stream=True, follow_redirects=False)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._unreachable(error) from error
        try:
            if response.status_code != 200:
                raise await self._refused(response)
            yield response
        finally:
            await response.aclose()

    def body(self, request: ModelRequest) -> bytes:
        """What is sent for that request, to the byte."""
        if self._ready is not None and self._ready[0] is request and self._ready[1] == self._echo:
            return self._ready[2]
        newer = self.provider == "api.openai.com"  # the only one that refuses the older name
        made = to_body(
            request,
            self._model,
            tools=self._tools,
            takes=self.takes,
            max_output=self.max_output,
            max_output_field="max_completion_tokens" if newer else "max_tokens",
            name=self.name,
            echo=self._echo,
            extra=self._extra,
        )
        self._ready = (request, self._echo, made)
        return made

    def _headers(self) -> dict[str, str]:
        """Raises `ModelFailed` for a key that no header can carry, before a library shows it in its error."""
        if self._api_key and not (self._api_key.isascii() and self._api_key.isprintable()):
            raise ModelFailed("model_auth", f"The key for {self.provider} has characters that no key has. {self._key_advice()}")
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream", "Accept-Encoding": "identity"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        return headers

    async def _reads(self, response: httpx2.Response) -> AsyncGenerator[bytes, None]:
        """The body as it arrives. Raises `ModelFailed` when it breaks off or falls silent."""
        import httpx2

        encoded = "content-encoding" in response.headers
        try:
            async with aclosing(response.aiter_bytes() if encoded else response.aiter_raw()) as chunks:
                async for chunk in chunks:
                    yield chunk
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from error

    # --- what went wrong, in our words; the key is never part of them -------------------------------------------------------------

    async def _refused(self, response: httpx2.Response) -> ModelFailed:
        status, said = response.status_code, self._without_key(await _error_body(response))
        says = f" It says: {said}" if said else ""
        if status in (401, 403):
            return ModelFailed("model_auth", f"{self.provider} refused the key ({status}). {self._key_advice()}{says}")
        if status == 429:
            seconds = self._retry_after(response.headers)
            wait = "Wait" if seconds is None else f"Wait {seconds:.0f} s"
            return ModelFailed(
                "model_rate_limited",
                f"{self.provider} has had too many requests (429). {wait}, or choose another model.{says}",
                retryable=True,
                retry_after=seconds,
            )
        if status < 500 and overflows(said):
            return overflow(self.provider, said)
        if status >= 500 or status in (408, 409, 425):
            return ModelFailed(
                "model_failed",
                f"{self.provider} failed with status {status}. Try again later.{says}",
                retryable=True,
                retry_after=self._retry_after(response.headers),
            )
        if status == 400 and self._learns_echo(said):
            return ModelFailed("model_failed", f"{self.provider} wants its thinking back in another form.{says}", retryable=True)
        advice = "Check base_url and the model's name." if status in (404, 405) or status < 400 else "Check the model's settings."
        return ModelFailed("model_failed", f"{self.provider} refused the request with status {status}. {advice}{says}")

    def _learns_echo(self, said: str) -> bool:
        """What a service wants to be given back changes with its models: its refusal says so, and the next request follows it."""
        if not self._echo_may_change or "reasoning" not in said:
            return False
        wanted: Echo = "reasoning_content" if re.search(r"missing|must be|required", said, re.IGNORECASE) else "none"
        self._echo_may_change = False
        changed, self._echo = wanted != self._echo, wanted
        return changed

    def _key_advice(self) -> str:
        if self._api_key_env is None:
            return "Set api_key_env in the model's settings to the name of the variable that holds the key."
        if not self._api_key:
            return f"The variable {self._api_key_env} is not set: set it to the key and start the daemon again."
        return f"Check the key in the variable {self._api_key_env}."

    def _retry_after(self, headers: Mapping[str, str]) -> float | None:
        """Seconds, or a date as HTTP writes it."""
        value = headers.get("retry-after", "").strip()
        if re.fullmatch(r"\d+(\.\d+)?", value):
            return float(value)
        try:
            date = parsedate_to_datetime(value)
        except ValueError:
            return None
        return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - self._now()).total_seconds())

    def _unreachable(self, error: Exception) -> ModelFailed:
        import httpx2

        if isinstance(error, httpx2.ReadTimeout):
            return self._silent(self._silence_s)
        what = self._without_key(str(error)) or type(error).__name__
        if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol | httpx2.LocalProtocolError):
            return ModelFailed("model_unreachable", f"{self._url} cannot be asked: {what}. Check base_url and the key in the settings.")
        return ModelFailed(
            "model_unreachable", f"No connection to {self.provider}: {what}. Check that the service runs, then try again.", retryable=True
        )

    def _silent(self, seconds: float) -> ModelFailed:
        return ModelFailed("provider_silent", f"{self.provider} sent nothing for {seconds:g} s. Try again, or choose another model.")

    def _cut_off(self, response: httpx2.Response) -> ModelFailed:
        content_type = response.headers.get("content-type", "")
        if "event-stream" not in content_type:
            what = f"{self.provider} answered with {content_type or 'something'} where an event stream was due. Check base_url."
            return ModelFailed("model_failed", what)
        return ModelFailed("model_unreachable", f"{self.provider} ended its answer before it was whole. Try again.", retryable=True)

    def _without_key_in(self, failed: ModelFailed) -> ModelFailed:
        message = self._without_key(failed.message)
        return ModelFailed(failed.code, message, retryable=failed.retryable, retry_after=failed.retry_after)

    def _without_key(self, text: str) -> str:
        return text.replace(self._api_key, "…") if self._api_key else text


def _length(piece: Piece) -> int:
    return len(piece.text) if isinstance(piece, TextPiece) else len(piece.arguments) if isinstance(piece, CallPiece) else 0


def _counted(finish: Finish, request: ModelRequest, said: int) -> Finish:
    """With the usage that the service did not tell, about: not every one counts in a stream."""
    asked = sum(message.tokens for message in request.messages) + sum(estimate(str(tool.schema)) for tool in request.tools)
    return replace(finish, usage=Usage(asked, -(-said // CHARACTERS_PER_TOKEN), estimated=True))


class _Quiet:
    """Measures how long reads have brought no event, only comments: a service may hold the line, but not for ever."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._clock = asyncio.get_running_loop().time
        self._since: float | None = None

    def too_long(self, event: bool) -> bool:
        if event:
            self._since = None
            return False
        if self._since is None:
            self._since = self._clock()
        return self._clock() - self._since > self._limit_s


async def _linger(reads: AsyncGenerator[bytes, None]) -> None:
    """Read to the end, so that the connection is kept; a service that does not end its response loses it."""
    try:
        async with asyncio.timeout(LINGER_S):
            async for _ in reads:
                pass
    except (TimeoutError, ModelFailed):
        return  # the answer was whole: only the connection is lost, and the next request opens another


async def _error_body(response: httpx2.Response) -> str:
    """What the service says about its error, as short as it is given."""
    import httpx2

    body = bytearray()
    try:
        async with asyncio.timeout(CONNECT_S), aclosing(response.aiter_bytes()) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) > ERROR_BODY_LIMIT:
                    break
    except (httpx2.HTTPError, TimeoutError):
        pass  # the status alone says enough
    text = body.decode("utf-8", "replace")
    try:
        return error_text(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError):
        return error_text(re.sub(r"<[^>]*>|\s+", " ", text))
