"""The environment of child processes: an allow-list of host variables, so that credentials are not passed on. An
address of a proxy is passed on without the user and password in it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# Prompts and pagers would wait forever, because there is no terminal.
UNATTENDED = {
    "OPENCODE": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "PAGER": "cat",
    "DEBIAN_FRONTEND": "noninteractive",
    "NO_COLOR": "1",
}

_PERSON = "HOME LANG LANGUAGE LOGNAME PATH SHELL SSH_AUTH_SOCK TEMP TERM TMP TMPDIR TZ USER"
_PROXY = "ALL_PROXY FTP_PROXY HTTPS_PROXY HTTP_PROXY NO_PROXY all_proxy ftp_proxy http_proxy https_proxy no_proxy"
_CERTIFICATES = "CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE SSL_CERT_DIR SSL_CERT_FILE"
_TOOLCHAIN = (
    "ANDROID_HOME AR ASDF_DATA_DIR ASDF_DIR BUN_INSTALL CARGO_HOME CARGO_TARGET_DIR CC CFLAGS CI CMAKE_PREFIX_PATH "
    "CONDA_DEFAULT_ENV CONDA_PREFIX CPATH CPPFLAGS CXX CXXFLAGS DENO_DIR DOTNET_ROOT GEM_HOME GEM_PATH GOBIN GOCACHE "
    "GOFLAGS GOMODCACHE GOPATH GOROOT GRADLE_HOME HOMEBREW_PREFIX JAVA_HOME LDFLAGS LD_LIBRARY_PATH LIBRARY_PATH "
    "MAKEFLAGS MAVEN_HOME MISE_DATA_DIR NODE_PATH NVM_BIN NVM_DIR PIP_CACHE_DIR PKG_CONFIG_PATH PNPM_HOME PYENV_ROOT "
    "PYTHONDONTWRITEBYTECODE PYTHONPATH RBENV_ROOT RUSTUP_HOME SDKMAN_DIR UV_CACHE_DIR VIRTUAL_ENV VOLTA_HOME"
)
_NAMES = frozenset(f"{_PERSON} {_PROXY} {_CERTIFICATES} {_TOOLCHAIN}".split())
_PREFIXES = ("LC_", "XDG_")
_PROXIES = frozenset(_PROXY.split())
_USER = pattern(r"^([A-Za-z][A-Za-z0-9+.-]*://)?.*@", re.DOTALL)
"""Programs take the last `@` for the end of the user."""


def child_environment(
    host: Mapping[str, str], *, passed: Collection[str] = (), values: Mapping[str, str] | None = None
) -> dict[str, str]:
    """In increasing precedence: allowed host variables, `UNATTENDED`, further host variables `passed` by name, and
    `values`."""
    allowed = {name: shared for name, value in host.items() if (shared := shared_value(name, value)) is not None}
    named = {name: host[name] for name in passed if name in host}
    return {**allowed, **UNATTENDED, **named, **(values or {})}


def shared_value(name: str, value: str) -> str | None:
    """What every child gets of a host variable; None if it gets nothing."""
    if name not in _NAMES and not name.startswith(_PREFIXES):
        return None
    return _USER.sub(r"\1", value) if name in _PROXIES else value
