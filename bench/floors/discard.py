"""The floor of a stream: httpx2 and msgspec read it and discard it. A line of stdin is a URL; the answer is `done`."""

from __future__ import annotations

import asyncio
import sys

import httpx2
import msgspec
import uvloop


class Delta(msgspec.Struct):
    content: str | None = None


class Choice(msgspec.Struct):
    delta: Delta


class Chunk(msgspec.Struct):
    choices: list[Choice]


async def main() -> None:
    loop = asyncio.get_running_loop()
    decoder = msgspec.json.Decoder(Chunk)
    async with httpx2.AsyncClient(trust_env=False, verify=False) as client:
        while url := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
            async with client.stream("POST", url, json={"messages": []}) as response:
                held = b""
                async for piece in response.aiter_raw():
                    *events, held = (held + piece).split(b"\n\n")
                    for event in events:
                        if event != b"data: [DONE]":
                            decoder.decode(event[6:])
            print("done", flush=True)


if __name__ == "__main__":
    uvloop.run(main())
