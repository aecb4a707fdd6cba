"""The loop's providers: what a model is asked, and the pieces in which it answers.

`demo` answers without any service; `chat_completions` speaks to whatever serves `/chat/completions`. Both are a `Model`, and the
loop cannot tell them apart.
"""

from palaver.models.base import (
    CallPiece,
    Finish,
    Model,
    ModelCall,
    ModelMessage,
    ModelRequest,
    ModelTool,
    Piece,
    TextPiece,
    from_model_call,
    to_model_tools,
)
from palaver.models.registry import ModelOffer, ModelSettings, Registry

__all__ = [
    "CallPiece",
    "Finish",
    "Model",
    "ModelCall",
    "ModelMessage",
    "ModelOffer",
    "ModelRequest",
    "ModelSettings",
    "ModelTool",
    "Piece",
    "Registry",
    "TextPiece",
    "from_model_call",
    "to_model_tools",
]
