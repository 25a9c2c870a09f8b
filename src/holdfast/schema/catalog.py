"""The catalog records of a Location: providers, models, integrations, commands, skills, references. No field holds a
secret."""

from typing import Any, Literal

from holdfast.schema.agent import ProviderRequest
from holdfast.schema.model import ModelRef
from holdfast.schema.record import Record

Status = Literal["alpha", "beta", "deprecated", "active"]


class AisdkApi(Record, tag_field="type", tag="aisdk"):
    """Uses the protocol of the named AI SDK package."""

    package: str
    url: str | None = None
    settings: dict[str, Any] | None = None


class NativeApi(Record, tag_field="type", tag="native"):
    """The URL selects the protocol."""

    url: str | None = None
    settings: dict[str, Any]


ProviderApi = AisdkApi | NativeApi


class AisdkModelApi(Record, tag_field="type", tag="aisdk"):
    """`id` is the model's name in requests to the provider."""

    id: str
    package: str
    url: str | None = None
    settings: dict[str, Any] | None = None


class NativeModelApi(Record, tag_field="type", tag="native"):
    id: str
    url: str | None = None
    settings: dict[str, Any]


ModelApi = AisdkModelApi | NativeModelApi


class ProviderInfo(Record):
    id: str
    integration_id: str | None = None
    name: str
    disabled: bool | None = None
    api: ProviderApi
    request: ProviderRequest


class ModelRequest(Record):
    headers: dict[str, str]
    body: dict[str, Any]
    variant: str | None = None
    """The default variant."""


class ModelVariant(Record):
    id: str
    headers: dict[str, str]
    body: dict[str, Any]


class ModelCapabilities(Record):
    tools: bool
    input: tuple[str, ...]
    output: tuple[str, ...]
    structured: bool | None = None
    """Whether the provider can be made to answer in the form of a JSON Schema; absent if unknown."""


class ModelTime(Record):
    released: int


class CostTier(Record):
    """Applies when the context is larger than `size` tokens."""

    type: Literal["context"]
    size: int


class CacheCost(Record):
    read: float
    write: float


class ModelCost(Record):
    """US dollars for a million tokens."""

    tier: CostTier | None = None
    input: float
    output: float
    cache: CacheCost


class ModelLimit(Record):
    """Tokens; 0 is unknown."""

    context: int
    input: int | None = None
    output: int


class ModelInfo(Record):
    id: str
    provider_id: str
    family: str | None = None
    name: str
    api: ModelApi
    capabilities: ModelCapabilities
    request: ModelRequest
    variants: tuple[ModelVariant, ...]
    time: ModelTime
    cost: tuple[ModelCost, ...]
    status: Status
    enabled: bool
    limit: ModelLimit


class When(Record):
    """Condition on an earlier answer."""

    key: str
    op: Literal["eq", "neq"]
    value: str


class TextPrompt(Record, tag_field="type", tag="text"):
    key: str
    message: str
    placeholder: str | None = None
    when: When | None = None


class SelectOption(Record):
    label: str
    value: str
    hint: str | None = None


class SelectPrompt(Record, tag_field="type", tag="select"):
    key: str
    message: str
    options: tuple[SelectOption, ...]
    when: When | None = None


class OAuthMethod(Record, tag_field="type", tag="oauth"):
    id: str
    label: str
    prompts: tuple[TextPrompt | SelectPrompt, ...] | None = None


class KeyMethod(Record, tag_field="type", tag="key"):
    label: str | None = None


class EnvMethod(Record, tag_field="type", tag="env"):
    names: tuple[str, ...]


Method = OAuthMethod | KeyMethod | EnvMethod


class CredentialConnection(Record, tag_field="type", tag="credential"):
    id: str
    label: str


class EnvConnection(Record, tag_field="type", tag="env"):
    name: str


Connection = CredentialConnection | EnvConnection


class IntegrationInfo(Record):
    id: str
    name: str
    methods: tuple[Method, ...]
    connections: tuple[Connection, ...]


class AttemptTime(Record):
    created: int
    expires: int


class Attempt(Record):
    """A sign-in that the user completes in a browser."""

    attempt_id: str
    url: str
    instructions: str
    mode: Literal["auto", "code"]
    time: AttemptTime


class AttemptStatus(Record):
    status: Literal["pending", "complete", "failed", "expired"]
    message: str | None = None
    time: AttemptTime


class CommandInfo(Record):
    name: str
    template: str
    description: str | None = None
    agent: str | None = None
    model: ModelRef | None = None
    subtask: bool | None = None


class SkillInfo(Record):
    name: str
    description: str | None = None
    slash: bool | None = None
    """Whether users can call it as a slash command."""
    location: str
    """The path of its file."""
    content: str
    """The text after the frontmatter."""


class LocalReference(Record, tag_field="type", tag="local"):
    description: str | None = None
    hidden: bool | None = None
    path: str


class GitReference(Record, tag_field="type", tag="git"):
    description: str | None = None
    hidden: bool | None = None
    repository: str
    branch: str | None = None


class ReferenceInfo(Record):
    name: str
    path: str
    description: str | None = None
    hidden: bool | None = None
    source: LocalReference | GitReference
    problem: str | None = None
    """Why it cannot be used at present."""
