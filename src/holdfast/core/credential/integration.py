"""The editable set of integrations: models.dev, plugins and configuration add connection methods to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from holdfast.schema.catalog import EnvMethod, KeyMethod, OAuthMethod
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from holdfast.core.credential.store import OAuthValue


class Authorization(Frozen):
    """A started sign-in. `auto` completes when `finish(None)` returns; `code` needs the code that the user was
    shown."""

    url: str
    instructions: str
    mode: Literal["auto", "code"]
    finish: Callable[[str | None], Awaitable[OAuthValue]]
    close: Callable[[], Awaitable[None]] | None = None
    accept: Callable[[str], None] | None = None
    """Gives an `auto` sign-in what the browser was sent, if that cannot arrive by itself. Raises AuthorizationFailed
    for a text that does not belong to it."""


class OAuth(Frozen):
    """How one OAuth method works. Without `refresh`, its token is used until it expires."""

    method: OAuthMethod
    authorize: Callable[[Mapping[str, str]], Awaitable[Authorization]]
    refresh: Callable[[OAuthValue], Awaitable[OAuthValue]] | None = None


ConnectMethod = OAuth | KeyMethod | EnvMethod


class Integration(Frozen):
    id: str
    name: str
    methods: tuple[ConnectMethod, ...] = ()

    def oauth(self, method_id: str) -> OAuth | None:
        return next(
            (method for method in self.methods if isinstance(method, OAuth) and method.method.id == method_id), None
        )

    @property
    def variables(self) -> tuple[str, ...]:
        return next((method.names for method in self.methods if isinstance(method, EnvMethod)), ())


class IntegrationDraft:
    def __init__(self, integrations: Mapping[str, Integration] | None = None) -> None:
        self._integrations = dict(integrations or {})

    def copy(self) -> IntegrationDraft:
        return IntegrationDraft(self._integrations)

    def list(self) -> tuple[Integration, ...]:
        return tuple(self._integrations.values())

    def get(self, id: str) -> Integration | None:
        return self._integrations.get(id)

    def add(self, id: str, method: ConnectMethod, name: str | None = None) -> None:
        """A key or env method replaces an earlier one; OAuth methods are distinguished by id."""
        known = self._integrations.get(id) or Integration(id, name or id)
        methods = {_slot(other): other for other in known.methods}
        methods[_slot(method)] = method
        self._integrations[id] = known.replace(name=name or known.name, methods=tuple(methods.values()))

    def rename(self, id: str, name: str) -> None:
        if (known := self._integrations.get(id)) is not None:
            self._integrations[id] = known.replace(name=name)

    def remove(self, id: str) -> None:
        self._integrations.pop(id, None)


def _slot(method: ConnectMethod) -> str:
    match method:
        case OAuth():
            return f"oauth {method.method.id}"
        case KeyMethod():
            return "key"
        case EnvMethod():
            return "env"
