"""The HTTP clients that models are asked through."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:  # 40 ms of import that only the first turn pays for
    import httpx2


class Connections:
    """The HTTP clients of the daemon: one for each service, made at its first request and kept so that its connections are."""

    def __init__(self) -> None:
        self._clients: dict[str, httpx2.AsyncClient] = {}

    def to(self, base_url: str) -> httpx2.AsyncClient:
        client = self._clients.get(base_url)
        if client is None:
            client = self._clients[base_url] = new_client(base_url)
        return client

    async def aclose(self) -> None:
        """Closes what is open; a request that still runs fails as unreachable."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.aclose()


def new_client(base_url: str) -> httpx2.AsyncClient:
    """Without a limit on connections, since each is a turn of its own, and never through a proxy to this machine."""
    import httpx2

    address = urlsplit(base_url)
    local = address.hostname in ("localhost", "127.0.0.1", "::1")
    if local and address.scheme == "http":
        from palaver.models.direct import Direct

        return httpx2.AsyncClient(transport=Direct(), trust_env=False)
    return httpx2.AsyncClient(
        verify=address.scheme != "http",  # without TLS there is nothing to verify, and loading the certificates takes 40 ms
        trust_env=not local,
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=60),
    )
