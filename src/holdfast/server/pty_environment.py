"""The variables that a host adds to terminals: fixed ones, or a function of the Location and the starting directory."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from holdfast.core.pty.variables import check_variables

PtyEnvironment: TypeAlias = Callable[[str, str], Awaitable[Mapping[str, str]]]
"""Given the Location's directory and the one that the terminal starts in."""

VariablesFunction: TypeAlias = Callable[[str, str], Mapping[str, str] | Awaitable[Mapping[str, str]]]
HostPtyEnvironment: TypeAlias = Mapping[str, str] | VariablesFunction
"""What a host may pass: variables for all terminals, or a function, asynchronous or quick."""


async def no_overlay(directory: str, cwd: str) -> Mapping[str, str]:
    """A server that stands alone has nothing to add."""
    return {}


def pty_environment(given: HostPtyEnvironment | None) -> PtyEnvironment:
    """Fixed variables are checked now: raises ValueError. Those of a function are checked whenever it is asked."""
    if given is None:
        return no_overlay
    if callable(given):
        return _asking(given)
    fixed = check_variables(given)

    async def overlay(directory: str, cwd: str) -> Mapping[str, str]:
        return fixed

    return overlay


def _asking(function: VariablesFunction) -> PtyEnvironment:
    async def overlay(directory: str, cwd: str) -> Mapping[str, str]:
        found = function(directory, cwd)
        return await found if inspect.isawaitable(found) else found

    return overlay
