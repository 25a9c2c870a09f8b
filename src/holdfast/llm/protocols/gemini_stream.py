"""Decodes Gemini streams: chunks with complete parts of the first candidate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.llm import event as ev
from holdfast.llm.errors import invalid_output
from holdfast.llm.lifecycle import StreamDecoder, truncated
from holdfast.llm.limits import DEFAULT_LIMITS, AnswerLimits
from holdfast.llm.protocols.base import compact, read_frame
from holdfast.llm.protocols.gemini import NAMESPACE
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.llm.request import (
        ProviderMetadata,
    )

FINISH = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content-filter",
    "RECITATION": "content-filter",
    "BLOCKLIST": "content-filter",
    "PROHIBITED_CONTENT": "content-filter",
    "SPII": "content-filter",
    "IMAGE_SAFETY": "content-filter",
    "MALFORMED_FUNCTION_CALL": "error",
}
_UNSAFE = pattern(r"[^A-Za-z0-9_-]")


class _Wire(msgspec.Struct, rename="camel"):
    pass


class _Call(_Wire):
    id: str | None = None
    name: str | None = None
    args: Any = None


class _Part(_Wire):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _Call | None = None


class _Content(_Wire):
    parts: list[_Part] | None = None


class _Candidate(_Wire):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: Any = None


class _Feedback(_Wire):
    block_reason: str | None = None


class _Chunk(_Wire):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: Any = None
    response_id: Any = None
    error: Any = None


_CHUNK = msgspec.json.Decoder(_Chunk)


class GeminiDecoder(StreamDecoder):
    """Every chunk has complete parts. Any chunk may carry a finish reason, so the turn finishes at the end of the
    stream."""

    def __init__(self, fresh: Callable[[], str], limits: AnswerLimits = DEFAULT_LIMITS) -> None:
        self._fresh = fresh
        super().__init__(limits)
        self._text = self._reasoning = ""
        self._signature: str | None = None
        """Signature of the open reasoning block."""
        self._turn = ""
        self._ids: set[str] = set()
        self._reason: str | None = None
        self._native: dict[str, Any] = {}
        self._raw_usage: dict[str, Any] = {}

    def feed(self, frame: bytes) -> list[ev.Event]:
        if self._emit.ended:
            return []
        if frame == b"[DONE]":
            return self.finish()
        chunk = read_frame(_CHUNK, "Gemini", frame)
        if chunk.error is not None:
            self._fail(chunk.error)
            return self._emit.take()
        self._note_usage(chunk.usage_metadata)
        if isinstance(chunk.response_id, str) and not self._turn:
            self._turn = _UNSAFE.sub("_", chunk.response_id)[:40]
        if chunk.candidates:
            self._candidate(chunk.candidates[0], frame)
        elif chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason and self._reason is None:
            self._reason = "content-filter"
            self._native = {"blockReason": chunk.prompt_feedback.block_reason}
        return self._emit.take()

    def finish(self) -> list[ev.Event]:
        if self._emit.ended:
            return []
        if self._reason is None:
            raise truncated("Gemini", self._usage())
        self._close_blocks()
        self._emit.finish(self._reason, self._usage(ended=True), {NAMESPACE: self._native})
        return self._emit.take()

    def _candidate(self, candidate: _Candidate, frame: bytes) -> None:
        for part in (candidate.content and candidate.content.parts) or ():
            if part.function_call is not None:
                self._call(part.function_call, part.thought_signature, frame)
            elif part.text is not None and part.thought:
                self._thought(part.text, part.thought_signature)
            elif part.text is not None:
                self._visible(part.text, part.thought_signature)
        if candidate.finish_reason:
            self._reason = FINISH.get(candidate.finish_reason, "unknown")
            self._native = compact(
                {"finishReason": candidate.finish_reason, "finishMessage": candidate.finish_message or None}
            )

    def _thought(self, text: str, signature: str | None) -> None:
        if not (text or signature):
            return
        self._close_text()
        if not self._reasoning:
            self._reasoning = self._emit.unused_id("reasoning-0")
            self._emit.open_reasoning(self._reasoning)
        self._emit.reasoning(self._reasoning, text)
        self._signature = signature or self._signature

    def _visible(self, text: str, signature: str | None) -> None:
        """A signed part ends its block, because the signature does not cover what follows. A signature without text, as
        at the end of a stream, belongs to the text before it; otherwise it gets a block of its own."""
        if text:
            self._close_reasoning()
            self._text = self._text or self._emit.unused_id("text-0")
            self._emit.text(self._text, text)
        if signature and self._text:
            self._close_text(_signed(signature))
        elif signature:
            self._close_reasoning()
            self._thought("", signature)
            self._close_reasoning()

    def _call(self, call: _Call, signature: str | None, frame: bytes) -> None:
        if not call.name:
            raise invalid_output("Gemini sent a function call without a name", frame)
        self._close_blocks()
        native = compact({"thoughtSignature": signature or None, "functionCallId": call.id or None})
        metadata = {NAMESPACE: native} if native else None
        self._emit.add_call(
            self._call_id(call.id), call.name, {} if call.args is None else call.args, metadata=metadata
        )

    def _call_id(self, given: str | None) -> str:
        """The provider's id if there is one, otherwise an id that is unique among all turns."""
        id = given or ""
        if not id or id in self._ids:
            self._turn = self._turn or self._fresh()
            id = f"call_{self._turn}_{len(self._ids)}"
        self._ids.add(id)
        return id

    def _close_blocks(self) -> None:
        self._close_reasoning()
        self._close_text()

    def _close_reasoning(self) -> None:
        if self._reasoning:
            self._emit.close_reasoning(self._reasoning, _signed(self._signature) if self._signature else None)
            self._reasoning, self._signature = "", None

    def _close_text(self, metadata: ProviderMetadata | None = None) -> None:
        if self._text:
            self._emit.close_text(self._text, metadata)
            self._text = ""

    def _fail(self, error: Any) -> None:
        fields = error if isinstance(error, dict) else {}
        word, message, code = fields.get("status"), fields.get("message"), fields.get("code")
        said = [str(item) for item in (word, message) if item] or ([error] if isinstance(error, str) else [])
        self._close_blocks()
        self._emit.fail(
            ": ".join(said) or "Gemini stream error",
            body={"error": error},
            code=word if isinstance(word, str) else None,
            status=code if isinstance(code, int) and not isinstance(code, bool) else None,
            usage=self._usage(),
        )

    def _note_usage(self, raw: Any) -> None:
        """Counts grow from chunk to chunk, and a chunk may hold some of them; a report of zeros is ignored."""
        if isinstance(raw, dict) and (not self._raw_usage or any(_count(value) for value in raw.values())):
            self._raw_usage |= {key: value for key, value in raw.items() if value is not None}

    def _usage(self, *, ended: bool = False) -> ev.Usage | None:
        """Text and thoughts are counted separately. A turn that ended inside its thoughts has only those."""
        raw = self._raw_usage
        if not raw:
            return None
        visible, thoughts = _count(raw.get("candidatesTokenCount")), _count(raw.get("thoughtsTokenCount"))
        output = visible + (thoughts or 0) if visible is not None else thoughts if ended else None
        return ev.usage(
            input=_count(raw.get("promptTokenCount")),
            cache_read=_count(raw.get("cachedContentTokenCount")),
            output=output,
            reasoning=thoughts,
            total=_count(raw.get("totalTokenCount")),
            namespace=NAMESPACE,
            raw=dict(raw),
        )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _signed(signature: str) -> ProviderMetadata:
    return {NAMESPACE: {"thoughtSignature": signature}}
