"""The floor of an agent: reads prompts from a pipe, reads the model's stream with urllib and throws it away.

A line of stdin is JSON: `{"url", "messages", "size"}`, what to ask and how large the request shall be. Each is answered by two lines on
stdout: `taken` when the prompt was read, `done` when the stream was. Every answer makes one more message of the same size.
"""

from __future__ import annotations

import json
import sys
import urllib.request

BLOCK = 1 << 16


def ask(url: str, messages: int, size: int) -> None:
    share = "x" * max(1, size // max(1, messages) - 40)
    body = {"model": "bench", "stream": True, "messages": [{"role": "user", "content": share} for _ in range(messages)]}
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        while answer.read(BLOCK):
            pass


def main() -> None:
    for line in sys.stdin:
        prompt = json.loads(line)
        print("taken", flush=True)
        ask(prompt["url"], prompt["messages"], prompt["size"])
        print("done", flush=True)


if __name__ == "__main__":
    main()
