"""The tools that are known now: by name, and by what a model asks for. The order of results is a function of the query
and the tools."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from holdfast.core.mcp.stranger_text import printable
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.core.mcp.tool_names import NamedTool

QUERY_WORDS = 32
TEXT_CHARACTERS = 1_000
ARGUMENTS = 100
NAME, TITLE, ARGUMENT, DESCRIPTION = 6.0, 3.0, 2.0, 1.0
WHOLE_NAME = 1_000.0
PART_OF_WORD = 0.5

_WORD = pattern(r"[a-z0-9]+|[^\W\d_a-z]+")
_HUMP = pattern(r"(?<=[a-z0-9])(?=[A-Z])")


class _Entry(Frozen, eq=False):
    tool: NamedTool
    weights: dict[str, float]
    """Of each word: the heaviest place where it stands."""


class ToolIndex:
    def __init__(self, tools: Sequence[NamedTool]) -> None:
        self.tools = tuple(tools)
        self._entries = [_Entry(tool, _weights(tool)) for tool in tools]
        self._spread = Counter(word for entry in self._entries for word in entry.weights)

    def search(self, query: str, usable: Callable[[NamedTool], bool]) -> list[NamedTool]:
        """All that match, the best first; without words in the query all, by name."""
        words = list(dict.fromkeys(_words(query)))[:QUERY_WORDS]
        asked = query.strip()
        found: list[tuple[float, int]] = []
        for place, entry in enumerate(self._entries):
            if not usable(entry.tool):
                continue
            score = sum(self._score(word, entry) for word in words)
            if asked in (entry.tool.name, entry.tool.tool.name):
                score += WHOLE_NAME
            if score > 0 or not words:
                found.append((-score, place))
        return [self._entries[place].tool for _, place in sorted(found)]

    def _score(self, word: str, entry: _Entry) -> float:
        weight = entry.weights.get(word, 0.0)
        if not weight and len(word) >= 3:
            parts = [known for other, known in entry.weights.items() if word in other or _begins(word, other)]
            weight = PART_OF_WORD * max(parts, default=0.0)
        rare = math.log(1 + len(self._entries) / (1 + self._spread.get(word, 0)))
        return weight * (0.2 + rare)


def _begins(word: str, other: str) -> bool:
    """Whether one is the other with an ending: `issues` and `issue`."""
    return len(other) >= 4 and word.startswith(other)


def _weights(named: NamedTool) -> dict[str, float]:
    tool = named.tool
    places = (
        (DESCRIPTION, _words(tool.description or "")),
        (ARGUMENT, _argument_words(named)),
        (TITLE, _words(tool.title or "")),
        (NAME, [*_words(tool.name), *_words(named.server)]),
    )
    return {word: weight for weight, words in places for word in words}


def _argument_words(named: NamedTool) -> Iterable[str]:
    properties = named.tool.input_schema.get("properties")
    names = list(properties)[:ARGUMENTS] if isinstance(properties, dict) else []
    return _words(" ".join(names))


def _words(text: str) -> Iterable[str]:
    spaced = _HUMP.sub(" ", printable(text[:TEXT_CHARACTERS]))
    found: list[str] = _WORD.findall(spaced.lower())
    return found
