"""Which configuration applies in a Location. So far: the model, and providers of OpenAI-compatible endpoints."""

from __future__ import annotations

import logging
import re
import stat
from pathlib import Path
from typing import Any

import msgspec

from holdfast.core.config.jsonc import to_json

NAMES = ("opencode.json", "opencode.jsonc")
FILE_LIMIT = 5 * 1024 * 1024

log = logging.getLogger(__name__)


class Diagnostic(msgspec.Struct, frozen=True):
    path: str
    message: str


class ModelConfig(msgspec.Struct, frozen=True):
    id: str | None = None
    name: str | None = None
    limit: dict[str, int] = {}


class ProviderOptions(msgspec.Struct, frozen=True, rename={"base_url": "baseURL", "api_key": "apiKey"}):
    base_url: str | None = None
    api_key: str | None = None
    headers: dict[str, str] = {}
    timeout: int | bool | None = None
    """Milliseconds until the first byte; false is no limit."""


class ProviderConfig(msgspec.Struct, frozen=True):
    npm: str | None = None
    name: str | None = None
    api: str | None = None
    options: ProviderOptions = ProviderOptions()
    models: dict[str, ModelConfig] = {}


class Config(msgspec.Struct, frozen=True):
    model: str | None = None
    providers: dict[str, ProviderConfig] = {}
    diagnostics: tuple[Diagnostic, ...] = ()


def load_config(directory: Path, root: Path, environment: dict[str, str]) -> Config:
    """Low to high: the global folder, the file named by OPENCODE_CONFIG, then the project from its root down."""
    model: str | None = None
    providers: dict[str, ProviderConfig] = {}
    problems: list[Diagnostic] = []
    for path in _files(directory, root, environment):
        document = _read(path, environment, problems)
        if isinstance(document.get("model"), str):
            model = document["model"]
        for id, entry in _map(document, "provider", path, problems).items():
            try:
                patch = msgspec.convert(entry, ProviderConfig)
            except msgspec.ValidationError as error:
                problems.append(Diagnostic(str(path), f"provider {id}: {error}"))
                continue
            providers[id] = _merge(providers[id], patch) if id in providers else patch
    for problem in problems:
        log.warning("%s: %s", problem.path, problem.message)
    return Config(model=model, providers=providers, diagnostics=tuple(problems))


def config_home(environment: dict[str, str]) -> Path:
    if named := environment.get("OPENCODE_CONFIG_DIR"):
        return Path(named)
    base = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".config")
    return Path(base) / "opencode"


def _files(directory: Path, root: Path, environment: dict[str, str]) -> list[Path]:
    home = config_home(environment)
    found = [home / name for name in NAMES]
    if named := environment.get("OPENCODE_CONFIG"):
        found.append(Path(named))
    if environment.get("OPENCODE_DISABLE_PROJECT_CONFIG", "").lower() in ("1", "true"):
        return found
    folders = [directory, *directory.parents]
    folders = folders[: folders.index(root) + 1] if root in folders else [directory]
    found += [folder / name for folder in reversed(folders) if folder != home for name in NAMES]
    return found


def _read(path: Path, environment: dict[str, str], problems: list[Diagnostic]) -> dict[str, Any]:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            problems.append(Diagnostic(str(path), "is not a regular file; ignored"))
            return {}
        if status.st_size > FILE_LIMIT:
            problems.append(Diagnostic(str(path), f"larger than {FILE_LIMIT} bytes; ignored"))
            return {}
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        problems.append(Diagnostic(str(path), f"cannot be read: {error}"))
        return {}
    if not text.strip():
        return {}
    try:
        document = msgspec.json.decode(to_json(text), type=dict[str, Any])
    except msgspec.DecodeError as error:
        problems.append(Diagnostic(str(path), f"is not valid: {error}"))
        return {}
    substituted = _substitute(document, environment)
    assert isinstance(substituted, dict)
    return substituted


def _map(document: dict[str, Any], key: str, path: Path, problems: list[Diagnostic]) -> dict[str, Any]:
    value = document.get(key)
    if value is not None and not isinstance(value, dict):
        problems.append(Diagnostic(str(path), f"{key} must be an object; ignored"))
    return value if isinstance(value, dict) else {}


def _substitute(value: Any, environment: dict[str, str]) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: environment.get(match[1], ""), value)
    if isinstance(value, dict):
        return {key: _substitute(item, environment) for key, item in value.items()}
    if isinstance(value, list):
        return [_substitute(item, environment) for item in value]
    return value


def _merge(low: ProviderConfig, high: ProviderConfig) -> ProviderConfig:
    return ProviderConfig(
        npm=high.npm or low.npm,
        name=high.name or low.name,
        api=high.api or low.api,
        options=ProviderOptions(
            base_url=high.options.base_url or low.options.base_url,
            api_key=high.options.api_key or low.options.api_key,
            headers={**low.options.headers, **high.options.headers},
            timeout=high.options.timeout if high.options.timeout is not None else low.options.timeout,
        ),
        models={**low.models, **high.models},
    )


_VARIABLE = re.compile(r"\{env:([^}]+)\}")
