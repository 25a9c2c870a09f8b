"""What must be true of the history of a Session, whatever happened to the nodes that worked on it."""

from __future__ import annotations

from collections import Counter
from typing import Any

Json = dict[str, Any]


def check_history(events: list[Json], prompts: list[str]) -> list[str]:
    """What is wrong: prompts that are not answered exactly once, calls that are not settled exactly once, steps that
    began and did not end."""
    of_type: dict[str, list[Json]] = {}
    for event in events:
        of_type.setdefault(event["type"].removeprefix("session.next."), []).append(event)
    problems: list[str] = []

    def ids(type: str, key: str) -> Counter[str]:
        return Counter(event["data"][key] for event in of_type.get(type, ()))

    admitted, prompted = ids("prompt.admitted", "messageID"), ids("prompted", "messageID")
    problems += [f"{id} was admitted {admitted[id]} times" for id in prompts if admitted[id] != 1]
    problems += [f"{id} was prompted {prompted[id]} times" for id in prompts if prompted[id] != 1]
    problems += [f"{id} was prompted {n} times" for id, n in prompted.items() if n != 1 and id not in prompts]
    called = ids("tool.called", "callID")
    settled = ids("tool.success", "callID") + ids("tool.failed", "callID")
    problems += [f"{id} was settled {n} times" for id, n in settled.items() if n != 1]
    problems += [f"{id} was called {n} times" for id, n in called.items() if n != 1]
    problems += [f"{id} was never settled" for id in called.keys() - settled.keys()]
    begun = ids("step.started", "assistantMessageID")
    ended = ids("step.ended", "assistantMessageID") + ids("step.failed", "assistantMessageID")
    problems += [f"the step of {id} ended {n} times" for id, n in ended.items() if n != 1]
    problems += [f"the step of {id} has no end, or no begin" for id in begun.keys() ^ ended.keys()]
    if of_type.get("prompted"):
        newest = max(event["durable"]["seq"] for event in of_type["prompted"])
        answers = [event for event in of_type.get("step.ended", ()) if event["durable"]["seq"] > newest]
        if not answers or answers[-1]["data"]["finish"] != "stop":
            problems.append(f"nothing answers the prompt at {newest}: {answers[-1:]}")
    places = [event["durable"]["seq"] for event in events]
    if places != sorted(set(places)):
        problems.append(f"sequences repeat: {[place for place, n in Counter(places).items() if n > 1][:5]}")
    return problems


def lines_about(events: list[Json], problems: list[str], around: int = 3) -> str:
    """The events that the problems name, and those around them, a line each."""
    ids = {word.strip(":") for problem in problems for word in problem.split() if word.startswith(("msg_", "call_"))}
    named = [place for place, event in enumerate(events) if any(id in str(event["data"]) for id in ids)]
    shown = {near for place in named for near in range(place - around, place + around + 1)}
    shown |= set(range(len(events) - 20, len(events)))
    return "\n".join(
        f"  {event['durable']['seq']:5} {event['type'].removeprefix('session.next.'):24} {str(event['data'])[:400]}"
        for place, event in enumerate(events)
        if place in shown
    )
