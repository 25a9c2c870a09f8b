"""How a built-in tool asks whether it may, before it looks at anything, and how it says that a file refused."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.core.filesystem.errors import FileError
from holdfast.core.permission.wildcard import has_wildcard
from holdfast.core.tool.tool import ToolContext, ToolFailure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from holdfast.core.filesystem.location_path import Target


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
    ) -> None:
        """Return when every resource is allowed, however long that takes; raise `Denied` otherwise. A denial by
        a person without feedback is not a tool failure: DeniedByPerson passes through."""


async def allow_outside(permissions: Authorizer, context: ToolContext, targets: Iterable[Target]) -> None:
    """The approvals that come before a tool's own: one for each directory outside the Location."""
    for boundary in dict.fromkeys(target.boundary for target in targets if target.boundary is not None):
        await permissions.allow(context, "external_directory", [boundary], save=[boundary])


def narrowest_first(*resources: str) -> tuple[str, ...]:
    """What may be approved for good: these resources, which is what `always` saves by itself, or everything. A resource
    with a wildcard in its name would be saved as a pattern for others; then nothing is offered."""
    return () if any(map(has_wildcard, resources)) else (*resources, "*")


@contextmanager
def explaining(beginning: str) -> Iterator[None]:
    """Turn what a file may refuse into a failure that the model can read; anything unexpected stays what it is."""
    try:
        yield
    except TimeoutError:
        raise ToolFailure(f"{beginning}: it took too long") from None
    except FileError as error:
        raise ToolFailure(f"{beginning}: {error}") from error
    except OSError as error:
        raise ToolFailure(f"{beginning}: {error.strerror or error}") from error
