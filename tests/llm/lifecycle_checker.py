"""The order of canonical events, as an independent check: what `event.py` promises, said a second time."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.llm import event as ev


def check_lifecycle(events: Iterable[ev.Event], *, complete: bool = True) -> None:
    """Raises AssertionError at the first event out of order. `complete` says that the stream was not cut short."""
    checker = LifecycleChecker()
    for event in events:
        checker.see(event)
    if complete:
        assert checker.ended, "the events have no end"


class LifecycleChecker:
    def __init__(self) -> None:
        self.ended = False
        self._started = False
        self._step: ev.StepFinish | None = None
        self._open: dict[str, str] = {}
        self._blocks: set[str] = set()
        self._inputs: dict[str, str] = {}
        self._complete: dict[str, str] = {}
        self._calls: set[str] = set()
        self._awaited: dict[str, str] = {}

    def see(self, event: ev.Event) -> None:
        assert not self.ended, f"{event} after the end"
        if self._step is not None:
            self._finish(event)
            return
        if not isinstance(event, ev.StepStart | ev.ProviderError):
            assert self._started, f"{event} before the step started"
        match event:
            case ev.StepStart():
                assert not self._started, "the step started twice"
                self._started = True
            case ev.TextStart(id) | ev.ReasoningStart(id):
                assert id not in self._blocks, f"block {id} started twice"
                self._blocks.add(id)
                self._open[id] = _kind(event)
            case ev.TextDelta(id, text) | ev.ReasoningDelta(id, text):
                assert self._open.get(id) == _kind(event), f"{event} outside its block"
                assert text, "an empty delta"
            case ev.TextEnd(id) | ev.ReasoningEnd(id):
                assert self._open.pop(id, None) == _kind(event), f"{event} without a start"
            case ev.ToolInputStart(id, name):
                assert id not in self._inputs, f"the input of {id} started twice"
                assert id not in self._complete, f"the input of {id} started again"
                assert id not in self._calls, f"a second call {id}"
                self._inputs[id] = name
            case ev.ToolInputDelta(id, name, text):
                assert self._inputs.get(id) == name, f"{event} outside its input"
                assert text, "an empty input delta"
            case ev.ToolInputEnd(id, name):
                assert self._inputs.pop(id, None) == name, f"{event} without a start"
                self._complete[id] = name
            case ev.ToolCall():
                assert self._complete.pop(event.id, None) == event.name, f"{event} without complete input"
                self._calls.add(event.id)
                if event.provider_executed:
                    self._awaited[event.id] = event.name
                assert not (event.invalid and event.input), "an invalid call has input"
            case ev.ToolResultEvent():
                assert event.provider_executed, f"{event} is not the provider's"
                assert self._awaited.pop(event.id, None) == event.name, f"{event} of no call that waits for it"
            case ev.StepFinish():
                assert not self._open, f"still open at the finish: {self._open}"
                assert not self._inputs, f"inputs still open at the finish: {self._inputs}"
                self._step = event
            case ev.ProviderError():
                assert not self._open, f"still open at the failure: {self._open}"
                assert not self._inputs, f"inputs still open at the failure: {self._inputs}"
                self.ended = True
            case ev.Finish():
                raise AssertionError("a finish without its step-finish")
            case _:
                raise AssertionError(f"{event} does not belong into a provider's stream")

    def _finish(self, event: ev.Event) -> None:
        step = self._step
        assert step is not None
        assert isinstance(event, ev.Finish), f"{event} between step-finish and finish"
        assert (event.reason, event.usage) == (step.reason, step.usage), "finish and step-finish differ"
        self.ended = True


def _kind(event: ev.Event) -> str:
    return "text" if isinstance(event, ev.TextStart | ev.TextDelta | ev.TextEnd) else "reasoning"
