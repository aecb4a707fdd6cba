"""The floor of a start: the smallest Starlette application on uvicorn, its parts named.

python bare_app.py PORT
"""

from __future__ import annotations

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


async def health(request: Request) -> Response:
    return JSONResponse({"ok": True})


if __name__ == "__main__":
    uvicorn.run(
        Starlette(routes=[Route("/v1/health", health)]),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
    )
