"""The models of one Location, and the selection of one for a turn. A requested model is never replaced silently.

Invariants
- Nothing is read before a model that needs it is requested.
- Whether a provider is available is checked on each request and never stored: credentials and environment change."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from holdfast.core.catalog import packages
from holdfast.core.catalog.configured import configure, configure_integrations
from holdfast.core.catalog.demo import DEMO, DEMO_ENTRY
from holdfast.core.catalog.draft import CatalogDraft, ProviderEntry, inherited_api, new_model
from holdfast.core.catalog.errors import ModelNotSelected, ModelUnavailable, UnsupportedApi, VariantUnavailable
from holdfast.core.catalog.listing import public_model, public_models, with_inherited
from holdfast.core.catalog.models_dev import ModelsDev
from holdfast.core.catalog.provider_defaults import apply_provider_defaults
from holdfast.core.catalog.public import public
from holdfast.core.catalog.redirects import NEVER_COUNTS, foreign_origin, provider_patch
from holdfast.core.catalog.resolution import NO_CREDENTIALS, ModelEntry, resolve_entry
from holdfast.core.catalog.resolved import ResolvedModel
from holdfast.core.catalog.routes import is_supported
from holdfast.core.catalog.selection import choose_default, newest_first
from holdfast.core.clock import Ids, SystemClock
from holdfast.core.credential.integration import IntegrationDraft
from holdfast.core.credential.integrations import Integrations
from holdfast.core.diagnostic import Diagnostic
from holdfast.core.policy.policy import Policy
from holdfast.core.scope import Scope
from holdfast.core.state import Batches, Phase, State
from holdfast.llm.route.auth import origin_of
from holdfast.schema.catalog import EnvMethod, KeyMethod
from holdfast.schema.deferred import deferred
from holdfast.schema.frozen import Frozen
from holdfast.schema.live_event import CatalogUpdated
from holdfast.schema.model import ModelRef

if TYPE_CHECKING:
    import difflib
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from holdfast.core.catalog.boot import PluginBoot
    from holdfast.core.clock import Clock
    from holdfast.core.config.config import Config
    from holdfast.core.config.document import Document
    from holdfast.core.credential.store import CredentialStore
    from holdfast.schema.agent import Agent
    from holdfast.schema.catalog import ModelInfo, ProviderInfo
    from holdfast.schema.record import Record
else:
    difflib = deferred("difflib")

__all__ = ["Catalog", "ResolvedModel"]

BOOT_SECONDS = 10.0
NAMED_MODELS = 5
KEPT_DIAGNOSTICS = 200
REDIRECTED = (
    "a project's file sends it to {origin}, which neither the catalog nor your own files name for it; use another "
    "provider id there, or name the address in your own configuration"
)

FRESH_SECONDS = 1.0
"""Lifetime of a cached resolution. After it, credentials changed by another process take effect."""

log = logging.getLogger(__name__)


class _CachedResolution(Frozen):
    chosen: ModelRef | None
    agent: Agent | None
    resolved: ResolvedModel
    until: float


class Catalog:
    def __init__(
        self,
        config: Config,
        environment: Mapping[str, str],
        *,
        models: ModelsDev | None = None,
        credentials: CredentialStore | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        batches: Batches | None = None,
        announce: Callable[[Record], None] | None = None,
        boot: PluginBoot | None = None,
    ) -> None:
        """Without `models` only the bundled snapshot is used, without `credentials` no stored credentials. `announce`
        sends live events of this Location. `boot` tells when its plugins are loaded."""
        self._use(config)
        self._environment = environment
        self._models = models or ModelsDev(None, environment)
        clock = clock or SystemClock()
        self._batches = batches or Batches()
        self._announce = announce
        self._boot = boot
        self._scope = Scope()
        self._made: State[CatalogDraft] | None = None
        self._diagnostics: dict[Diagnostic, None] = {}
        self._last: _CachedResolution | None = None
        self._listed: tuple[tuple[ProviderEntry, ...], tuple[ModelInfo, ...]] | None = None
        self.integrations = Integrations(
            self._initial_integrations,
            lambda draft: configure_integrations(draft, self._documents),
            environment,
            credentials,
            ids or Ids(clock),
            clock,
            batches=self._batches,
            announce=announce,
        )
        self._scope.add(self._models.on_refresh(self._reload_all))
        if credentials is not None:
            self._scope.add(credentials.on_change(lambda _: self._forget()))

    async def close(self) -> None:
        self._scope.close()
        await self.integrations.close()

    def providers(self) -> tuple[ProviderInfo, ...]:
        """The providers that can be used now."""
        return tuple(public(entry.provider, self._secrets) for entry in self._available())

    def provider(self, id: str) -> ProviderInfo | None:
        """One provider, even if it cannot be used."""
        found = self._draft.providers.get(id)
        return public(found, self._secrets) if found else None

    def models(self) -> tuple[ModelInfo, ...]:
        """The enabled models of providers that can be used now, newest first."""
        entries = tuple(self._available())
        if self._listed is None or self._listed[0] != entries:
            models = newest_first(model for entry in entries for model in public_models(entry, self._secrets))
            self._listed = entries, tuple(models)
        return self._listed[1]

    def model(self, provider_id: str, id: str) -> ModelInfo | None:
        entry = DEMO_ENTRY if provider_id == DEMO else self._draft.find(provider_id)
        found = entry.model(id) if entry else None
        return public_model(entry, found, self._secrets) if entry and found else None

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Problems found in options so far, and addresses that do not count."""
        assert self._draft is not None  # which finds them
        return tuple(self._diagnostics)

    def foreign_origin(self, provider_id: str, patch: Any) -> str | None:
        """Where settings of a project would send a provider that is known here, if that is another host."""
        provider, given = self._draft.providers.get(provider_id), provider_patch(patch)
        return foreign_origin(provider, given) if provider is not None and given is not None else None

    def transform(
        self, apply: Callable[[CatalogDraft], None], scope: Scope, *, phase: Phase, owner: str = "holdfast"
    ) -> Callable[[], None]:
        return self._state.transform(apply, scope, phase=phase, owner=owner)

    def reload(self) -> None:
        if self._made is not None:
            self._made.reload()

    def reconfigure(self, config: Config) -> None:
        """Apply a new configuration: policy first, then everything in one rebuild. A running turn keeps its model."""
        self._use(config)
        self._diagnostics.clear()
        self._forget()
        self._reload_all()

    async def ready(self) -> None:
        """Wait until the Location's plugins are loaded, for at most BOOT_SECONDS."""
        if self._boot is None or not self._boot.running:
            return
        try:
            async with asyncio.timeout(BOOT_SECONDS):
                await self._boot.wait()
        except TimeoutError:
            log.warning("plugins took longer than %d s to start; going on without them", int(BOOT_SECONDS))

    def default(self) -> ModelRef | None:
        """The configured model, else the newest usable one."""
        if self._draft.default is not None:
            return self._draft.default
        found = choose_default(newest_first(self._supported()))
        return ModelRef(id=found.id, provider_id=found.provider_id) if found else None

    def resolve(self, session_id: str, chosen: ModelRef | None, agent: Agent | None = None) -> ResolvedModel:
        """The Session's model, else the agent's, else the configured one, else the newest usable one. A recent result
        is reused unless something changed."""
        last, now = self._last, time.monotonic()
        if last is not None and last.chosen == chosen and last.agent is agent and now < last.until:
            return last.resolved
        resolved = self._resolve(session_id, chosen, agent)
        self._last = _CachedResolution(chosen, agent, resolved, now + FRESH_SECONDS)
        return resolved

    def _resolve(self, session_id: str, chosen: ModelRef | None, agent: Agent | None) -> ResolvedModel:
        ref = _with_variant(chosen, agent) or (agent.model if agent else None) or self.default()
        if ref is None:
            raise ModelNotSelected(session_id)
        entry, found = self._demo(ref) if ref.provider_id == DEMO else self._find(ref)
        listed = ModelEntry(entry.provider, found, with_inherited(entry, found), entry.facts(found.id))
        source = NO_CREDENTIALS if ref.provider_id == DEMO else self.integrations
        resolution = resolve_entry(ref, listed, agent, source, self._environment)
        self._report(ref, resolution.problems)
        self._check_address(ref, resolution.resolved)
        return resolution.resolved

    def _check_address(self, ref: ModelRef, resolved: ResolvedModel) -> None:
        """A user's credential for a provider is sent only to an address from the catalog or the user's own files. A
        project, even a trusted one, may add a provider but must not redirect a known one."""
        projects = [document for document in self._documents if document.origin == "project"]
        if not any(ref.provider_id in document.data.get("providers", {}) for document in projects):
            return
        draft = CatalogDraft(self._models.entries())
        apply_provider_defaults(draft, self._environment)
        configure(draft, [document for document in self._documents if document.origin != "project"])
        entry = draft.find(ref.provider_id)
        if entry is None:
            return  # only the project defines it
        model = entry.model(ref.id) or new_model(ref.provider_id, ref.id)
        listed = ModelEntry(entry.provider, model, with_inherited(entry, model), entry.facts(model.id))
        there = origin_of(resolved.model.route.base_url)
        try:
            plain = ModelRef(id=ref.id, provider_id=ref.provider_id)
            known = resolve_entry(plain, listed, None, NO_CREDENTIALS, self._environment)
        except (UnsupportedApi, VariantUnavailable):
            known = None
        if known is None or origin_of(known.resolved.model.route.base_url) != there:
            raise ModelUnavailable(ref.provider_id, ref.id, REDIRECTED.format(origin=there))

    def _refuse_address(self, document: Document, id: str, origin: str) -> None:
        self._diagnostics[Diagnostic(str(document.path), NEVER_COUNTS.format(id=id, origin=origin))] = None

    def _demo(self, ref: ModelRef) -> tuple[ProviderEntry, ModelInfo]:
        found = DEMO_ENTRY.model(ref.id)
        if found is None:
            raise ModelUnavailable(ref.provider_id, ref.id, f"the offline models are {', '.join(DEMO_ENTRY.ids())}")
        return DEMO_ENTRY, found

    def _find(self, ref: ModelRef) -> tuple[ProviderEntry, ModelInfo]:
        entry = self._draft.find(ref.provider_id)
        if entry is None:
            denied = not self._policy.allows_provider(ref.provider_id)
            reason = "a policy denies its provider" if denied else "no such provider is configured"
            raise ModelUnavailable(ref.provider_id, ref.id, reason)
        found = entry.model(ref.id)
        if found is None and (entry.ids() or not ref.id):
            raise ModelUnavailable(ref.provider_id, ref.id, _alternatives(ref.id, entry))
        # Without a list any model id is accepted: a gateway may have more models than configured.
        found = found or new_model(ref.provider_id, ref.id)
        refusal = self._unavailable(entry.provider, explicit=True) if found.enabled else "it is disabled"
        if refusal is not None:
            raise ModelUnavailable(ref.provider_id, ref.id, refusal)
        return entry, found

    @property
    def _draft(self) -> CatalogDraft:
        return self._state.value

    @property
    def _state(self) -> State[CatalogDraft]:
        if self._made is None:
            own = Scope()  # never closed: these transforms live as long as the state
            with self._batches.batch():
                made = State(
                    lambda: CatalogDraft(self._models.entries()),
                    self._batches,
                    finalize=self._apply_policy,
                    updated=self._updated,
                )
                made.transform(
                    lambda draft: apply_provider_defaults(draft, self._environment), own, phase=Phase.BUILTIN
                )
                made.transform(
                    lambda draft: configure(draft, self._documents, self._refuse_address), own, phase=Phase.CONFIG
                )
            self._made = made
        return self._made

    def _use(self, config: Config) -> None:
        self._documents = config.documents()
        self._policy = Policy(self._documents)
        self._secrets = config.secrets

    def _apply_policy(self, draft: CatalogDraft) -> None:
        for provider in draft.providers.list():
            if not self._policy.allows_provider(provider.id):
                draft.providers.remove(provider.id)

    def _initial_integrations(self) -> IntegrationDraft:
        draft = IntegrationDraft()
        for id, provider in self._models.providers().items():
            if provider.env:
                draft.add(id, KeyMethod(), provider.name)
                draft.add(id, EnvMethod(names=provider.env))
        return draft

    def _reload_all(self) -> None:
        with self._batches.batch():
            self.integrations.reload()
            self.reload()

    def _forget(self) -> None:
        self._last = self._listed = None

    def _updated(self) -> None:
        self._forget()
        if self._announce is not None and self._made is not None:  # the first build is not a change
            self._announce(CatalogUpdated())

    def _available(self) -> Iterator[ProviderEntry]:
        for _, entry in sorted(self._draft.entries().items()):
            if self._unavailable(entry.provider) is None:
                yield entry

    def _supported(self) -> Iterator[ModelInfo]:
        for entry in self._available():
            for model in entry.all():
                if model.enabled and is_supported(inherited_api(entry.provider, model.api)):
                    yield model

    def _unavailable(self, provider: ProviderInfo, *, explicit: bool = False) -> str | None:
        """Why the provider cannot be used, or None. With `explicit` it was requested by name, and AWS may find
        credentials itself."""
        if provider.disabled:
            return "its provider is disabled"
        given = {**(provider.api.settings or {}), **provider.request.body}
        if any(isinstance(given.get(name), str) and given[name] for name in ("apiKey", "authToken", "accessKeyId")):
            return None
        integration = self.integrations.find(provider.integration_id or provider.id)
        if integration is None and provider.integration_id is None:
            return None
        if self.integrations.active(provider.integration_id or provider.id) is not None:
            return None
        if explicit and packages.dialect(provider.api) is packages.BEDROCK:
            return None
        if _is_local(provider.api.url) and any(
            provider.id in found.data.get("providers", {}) for found in self._documents
        ):
            return None  # a configured endpoint on this machine needs no key
        names = " or ".join(integration.variables) if integration else ""
        return f"{names} is not set, and no credential is stored" if names else "no credential is stored"

    def _report(self, ref: ModelRef, problems: Iterable[str]) -> None:
        for problem in problems:
            found = Diagnostic(f"{ref.provider_id}/{ref.id}", problem)
            if found not in self._diagnostics and len(self._diagnostics) < KEPT_DIAGNOSTICS:
                self._diagnostics[found] = None
                log.warning("%s: %s", found.path, problem)


def _with_variant(chosen: ModelRef | None, agent: Agent | None) -> ModelRef | None:
    """Applies the agent's variant if the Session selects the agent's model without a variant."""
    if chosen is None or agent is None or agent.model is None or chosen.variant is not None:
        return chosen
    same = (chosen.provider_id, chosen.id) == (agent.model.provider_id, agent.model.id)
    return msgspec.structs.replace(chosen, variant=agent.model.variant) if same else chosen


def _is_local(url: str | None) -> bool:
    try:
        host = urlsplit(url or "").hostname or ""
    except ValueError:
        return False  # not a URL
    return host in ("localhost", "::1", "0.0.0.0", "host.docker.internal") or host.startswith("127.")


def _alternatives(id: str, entry: ProviderEntry) -> str:
    """The provider's models, the most similar names first."""
    names = entry.ids()
    near = difflib.get_close_matches(id, names, n=NAMED_MODELS, cutoff=0.5)
    shown = list(dict.fromkeys((*near, *sorted(names))))[:NAMED_MODELS]
    return f"the provider has {', '.join(shown)}{' and others' if len(names) > len(shown) else ''}"
