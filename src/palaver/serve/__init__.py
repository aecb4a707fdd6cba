"""HTTP, SSE and WebSocket: who may come in, what they asked for in the engine's words, and the bytes that go back."""
