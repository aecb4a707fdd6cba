"""What a file is, by its bytes, and whether a model can be shown it. Pure.

Names and types that came with a file are not trusted: providers refuse a JPEG that is called a PNG. Text goes to every model, as text;
images, audio and documents go to those that are said to take them.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Literal, NamedTuple

from palaver.wire.values import Part

TEXT_LIMIT = 64 * 1024
"""Bytes of a text file that go into the conversation; the model can read the rest with its tools."""
NOT_TAKEN = "media_not_taken"
"""The code of a file that a model cannot be shown: of the refusal of its message, else of a notice."""
HEAD = 64 * 1024
"""Bytes that tell what a file is."""

Sort = Literal["image", "audio", "document", "text", "other"]


@dataclass(frozen=True)
class Takes:
    """What a model can be shown beside text."""

    images: bool = False
    audio: bool = False
    files: bool = False
    """Documents that are no text: PDF."""


NOTHING = Takes()
EVERYTHING = Takes(True, True, True)


class Kind(NamedTuple):
    sort: Sort
    mime_type: str


_STARTS: tuple[tuple[bytes, Sort, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image", "image/png"),
    (b"\xff\xd8\xff", "image", "image/jpeg"),
    (b"GIF87a", "image", "image/gif"),
    (b"GIF89a", "image", "image/gif"),
    (b"%PDF-", "document", "application/pdf"),
    (b"ID3", "audio", "audio/mpeg"),
    (b"\xff\xfb", "audio", "audio/mpeg"),
    (b"\xff\xf3", "audio", "audio/mpeg"),
    (b"\xff\xf2", "audio", "audio/mpeg"),
)
_RIFF = {b"WEBP": Kind("image", "image/webp"), b"WAVE": Kind("audio", "audio/wav")}


def kind_of(data: bytes) -> Kind:
    """`data` is the file, or its beginning."""
    for start, sort, mime_type in _STARTS:
        if data.startswith(start):
            return Kind(sort, mime_type)
    if data[:4] == b"RIFF" and data[8:12] in _RIFF:
        return _RIFF[data[8:12]]
    return Kind("text", "text/plain") if _is_text(data[:HEAD]) else Kind("other", "application/octet-stream")


def _is_text(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # a character may be cut at the end
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def not_taken(part: Part, data: bytes | None, takes: Takes) -> str | None:
    """Why a model that takes so much cannot be shown this file; None where it can."""
    if data is None:
        return "its file is not there"
    kind = kind_of(data)
    match kind.sort:
        case "text" if part.type in ("image", "audio"):
            return f"it is no {part.type}"
        case "text":
            return None
        case "image":
            return None if takes.images else "the model takes no images"
        case "audio":
            return None if takes.audio else "the model takes no audio"
        case "document":
            return None if takes.files else "the model takes no PDF files"
        case "other":
            return {
                "image": "it is no image that models take: PNG, JPEG, GIF or WebP",
                "audio": "it is no audio that models take: WAV or MP3",
            }.get(part.type, "it is neither text nor an image, audio or PDF")


def refused(model: str, part: Part, data: bytes | None, takes: Takes) -> str | None:
    """The same in a sentence for the person, and what to do."""
    why = not_taken(part, data, takes)
    if why is None:
        return None
    return f"{name_of(part)} cannot be shown to the model {model}: {why}. Choose a model that takes it, or leave it out."


def name_of(part: Part) -> str:
    return part.name or (part.ref or "").rpartition("/")[2] or f"a file ({part.type})"
