"""Variables that the host adds to terminals: fixed, or from a function of the Location and the working directory."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from holdfast.core.pty.variables import check_variables

PtyEnvironment: TypeAlias = Callable[[str, str], Awaitable[Mapping[str, str]]]
"""Called with the Location's directory and the terminal's working directory."""

VariablesFunction: TypeAlias = Callable[[str, str], Mapping[str, str] | Awaitable[Mapping[str, str]]]
HostPtyEnvironment: TypeAlias = Mapping[str, str] | VariablesFunction
"""Variables for all terminals, or a function, which may be asynchronous."""


async def no_overlay(directory: str, cwd: str) -> Mapping[str, str]:
    """Adds nothing."""
    return {}


def pty_environment(given: HostPtyEnvironment | None) -> PtyEnvironment:
    """Fixed variables are checked now (raises ValueError), those of a function on each call."""
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
