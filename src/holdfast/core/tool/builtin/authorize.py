"""What built-in tools share: permission checks before any file is accessed, and failures from file errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Protocol

from holdfast.core.filesystem.errors import FileError
from holdfast.core.permission import protected
from holdfast.core.permission.rules import ORDINARY, Authority, Terms
from holdfast.core.permission.wildcard import has_wildcard
from holdfast.core.tool.tool import ToolContext, ToolFailure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from holdfast.core.filesystem.location_path import Target


AuthorityOf = Callable[[ToolContext], Awaitable[Authority]]
"""What the caller of a tool may do."""


class Denied(ToolFailure):
    """Policy or the user said no, and the model may read why. It tells nothing about the target itself."""


class Authorizer(Protocol):
    async def allow(
        self,
        context: ToolContext,
        action: str,
        resources: Sequence[str],
        *,
        save: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        terms: Terms = ORDINARY,
    ) -> None:
        """Wait until every resource is allowed; raise `Denied` if one is not. A denial by a person without feedback is
        not a tool failure: DeniedByPerson passes through and stops the turn."""


async def allow_outside(permissions: Authorizer, context: ToolContext, targets: Iterable[Target]) -> None:
    """Ask for each directory outside the Location that the targets are in. Call it before the tool's own check."""
    for boundary in dict.fromkeys(target.boundary for target in targets if target.boundary is not None):
        await permissions.allow(context, "external_directory", [boundary], save=[boundary])


async def allow_read(permissions: Authorizer, context: ToolContext, target: Target) -> None:
    """Ask for everything that reading a file or listing a directory needs."""
    await allow_outside(permissions, context, [target])
    await allow_files(permissions, context, "read", [target])


async def allow_files(
    permissions: Authorizer, context: ToolContext, action: Literal["read", "edit"], targets: Iterable[Target]
) -> None:
    """Ask for an action on files, under their resources and, where those do not show it, their protected names."""
    named = (protected.resources(action, target.resource, str(target.path)) for target in targets)
    resources = list(dict.fromkeys(chain.from_iterable(named)))
    await permissions.allow(context, action, resources, save=narrowest_first(*resources))


def narrowest_first(*resources: str) -> tuple[str, ...]:
    """Approvals that can be saved: these resources (the default of `always`), or `*`. A resource with a wildcard
    character in its name would be saved as a pattern, so then nothing can be saved."""
    return () if any(map(has_wildcard, resources)) else (*resources, "*")


@contextmanager
def file_failures(prefix: str) -> Iterator[None]:
    """Turn file errors into `ToolFailure` with this prefix. Other exceptions propagate."""
    try:
        yield
    except TimeoutError:
        raise ToolFailure(f"{prefix}: it took too long") from None
    except FileError as error:
        raise ToolFailure(f"{prefix}: {error}") from error
    except OSError as error:
        raise ToolFailure(f"{prefix}: {error.strerror or error}") from error
