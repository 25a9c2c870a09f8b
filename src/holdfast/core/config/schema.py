"""The configuration file as types. The JSON Schema, the validation and the known names are derived from them.

This module does not postpone the evaluation of annotations: msgspec would have to compile each of them when the first
document is read."""

from typing import Annotated, Any, Literal, dataclass_transform

import msgspec
from msgspec import Meta

from holdfast.schema.record import RecordMeta

PositiveInt = Annotated[int, Meta(gt=0)]
NonNegativeInt = Annotated[int, Meta(ge=0)]
Text = dict[str, str]
Color = Annotated[str, Meta(pattern="^(#[0-9a-fA-F]{6}|primary|secondary|accent|success|warning|error|info)$")]


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Section(msgspec.Struct, metaclass=RecordMeta, frozen=True, omit_defaults=True):
    """A part of the file. `null` is the same as a missing key."""


class RuleConfig(Section):
    """The last matching rule decides."""

    action: str
    resource: str
    effect: Literal["allow", "deny", "ask"]


class PolicyConfig(Section):
    effect: Literal["allow", "deny"]
    action: Literal["provider.use"]
    resource: str


class RequestConfig(Section):
    headers: Text | None = None
    body: dict[str, Any] | None = None


class AgentConfig(Section):
    model: str | None = None
    """`provider/model`."""
    variant: str | None = None
    request: RequestConfig | None = None
    system: str | None = None
    description: str | None = None
    mode: Literal["primary", "subagent", "all"] | None = None
    hidden: bool | None = None
    color: Color | None = None
    steps: PositiveInt | None = None
    disabled: bool | None = None
    permissions: list[RuleConfig] | None = None


class CommandConfig(Section):
    template: str
    description: str | None = None
    agent: str | None = None
    model: str | None = None
    variant: str | None = None
    subtask: bool | None = None


class ReferenceConfig(Section):
    """A folder or a repository. The short form is a string."""

    path: str | None = None
    repository: str | None = None
    branch: str | None = None
    description: str | None = None
    hidden: bool | None = None

    def __post_init__(self) -> None:
        if (self.path is None) == (self.repository is None):
            raise ValueError("needs either a path or a repository")


class PluginConfig(Section):
    package: str
    options: dict[str, Any] | None = None


class AiSdkApiConfig(Section, tag_field="type", tag="aisdk"):
    """Named by an AI SDK package, which selects the protocol."""

    package: str
    url: str | None = None
    settings: dict[str, Any] | None = None


class NativeApiConfig(Section, tag_field="type", tag="native"):
    url: str | None = None
    settings: dict[str, Any] | None = None


class ModelApiConfig(Section):
    id: str | None = None
    type: Literal["aisdk", "native"] | None = None
    package: str | None = None
    url: str | None = None
    settings: dict[str, Any] | None = None


class CapabilitiesConfig(Section):
    tools: bool | None = None
    input: list[str] | None = None
    output: list[str] | None = None


class ModelRequestConfig(RequestConfig):
    variant: str | None = None


class VariantConfig(RequestConfig):
    id: str


class TierConfig(Section):
    type: Literal["context"]
    size: NonNegativeInt


class CachePriceConfig(Section):
    read: float | None = None
    write: float | None = None


class CostConfig(Section):
    """Dollars per million tokens."""

    input: float
    output: float
    cache: CachePriceConfig | None = None
    tier: TierConfig | None = None


class LimitConfig(Section):
    context: NonNegativeInt | None = None
    input: NonNegativeInt | None = None
    output: NonNegativeInt | None = None


class ModelConfig(Section):
    family: str | None = None
    name: str | None = None
    api: ModelApiConfig | None = None
    capabilities: CapabilitiesConfig | None = None
    request: ModelRequestConfig | None = None
    variants: list[VariantConfig] | None = None
    cost: CostConfig | list[CostConfig] | None = None
    disabled: bool | None = None
    limit: LimitConfig | None = None


class ProviderConfig(Section):
    name: str | None = None
    env: list[str] | None = None
    api: AiSdkApiConfig | NativeApiConfig | None = None
    request: RequestConfig | None = None
    models: dict[str, ModelConfig] | None = None


class TimeoutsConfig(Section):
    """Milliseconds."""

    startup: PositiveInt | None = None
    request: PositiveInt | None = None


class OAuthConfig(Section):
    client_id: str | None = None
    client_secret: str | None = None
    scope: str | None = None
    callback_port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    redirect_uri: str | None = None


class LocalServerConfig(Section, tag_field="type", tag="local"):
    command: Annotated[list[str], Meta(min_length=1)]
    cwd: str | None = None
    environment: Text | None = None
    disabled: bool | None = None
    timeout: TimeoutsConfig | None = None


class RemoteServerConfig(Section, tag_field="type", tag="remote"):
    url: str
    headers: Text | None = None
    oauth: OAuthConfig | bool | None = None
    """False disables OAuth."""
    disabled: bool | None = None
    timeout: TimeoutsConfig | None = None


class ServerSwitchConfig(Section):
    """Changes a server that another file defines."""

    disabled: bool | None = None
    timeout: TimeoutsConfig | None = None


class McpConfig(Section):
    timeout: TimeoutsConfig | None = None
    servers: dict[str, LocalServerConfig | RemoteServerConfig] | None = None


class KeepConfig(Section):
    tokens: NonNegativeInt | None = None


class CompactionConfig(Section):
    auto: bool | None = None
    prune: bool | None = None
    keep: KeepConfig | None = None
    buffer: NonNegativeInt | None = None


class ImageConfig(Section):
    auto_resize: bool | None = None
    max_width: PositiveInt | None = None
    max_height: PositiveInt | None = None
    max_base64_bytes: PositiveInt | None = None


class AttachmentsConfig(Section):
    image: ImageConfig | None = None


class ToolOutputConfig(Section):
    max_lines: PositiveInt | None = None
    max_bytes: PositiveInt | None = None


class WatcherConfig(Section):
    ignore: list[str] | None = None


class EnterpriseConfig(Section):
    url: str | None = None


class ExperimentalConfig(Section):
    policies: list[PolicyConfig] | None = None


class AnswerConfig(Section):
    """Limits of one provider response (LLM-390)."""

    part_bytes: PositiveInt | None = None
    argument_bytes: PositiveInt | None = None
    turn_bytes: PositiveInt | None = None
    blocks: PositiveInt | None = None
    frame_bytes: PositiveInt | None = None
    stream_bytes: PositiveInt | None = None
    inflation: PositiveInt | None = None


class RetryConfig(Section):
    """How long a turn is retried while its provider is overloaded or unreachable (LLM-411)."""

    total_seconds: Annotated[int, Meta(ge=0, le=86_400)] | None = None
    """From the first attempt to the start of the last one; 0 means one attempt."""
    delay_seconds: Annotated[int, Meta(ge=1, le=3_600)] | None = None
    """The longest delay between two attempts if the provider does not ask for one."""


class SnapshotConfig(Section):
    """Limits of a project's snapshots (SES-222)."""

    file_bytes: PositiveInt | None = None
    files: PositiveInt | None = None


class SandboxConfig(Section):
    """How agents' commands are confined. Only the user's own configuration may set this."""

    mode: Literal["off", "read-only", "workspace"] | None = None
    network: Literal["off", "proxy", "on"] | None = None
    required: bool | None = None
    """Refuse commands that cannot be confined instead of running them without a sandbox."""
    writable: list[str] | None = None
    """More directories that commands may write in `workspace` mode."""
    hosts: list[str] | None = None
    """Hosts that `network: proxy` may reach. `*` is every public host; `name`, `name:port` and `*.name` may also be
    private."""


class HoldfastConfig(Section):
    """Settings of this runtime that OpenCode does not have."""

    sandbox: Literal["off", "read-only", "workspace"] | SandboxConfig | None = None

    recovery: Literal["ask", "continue", "abandon"] | None = None
    """What happens at start to turns that ended with their process."""
    titles: bool | None = None
    turns: PositiveInt | None = None
    """The largest number of turns without new input, for agents without `steps`."""
    running_calls: PositiveInt | None = None
    calls: PositiveInt | None = None
    repeated_calls: PositiveInt | None = None
    answer: AnswerConfig | None = None
    retry: RetryConfig | None = None
    snapshot: SnapshotConfig | None = None
    environment: list[str] | None = None
    """Host variables that commands get besides the usual ones."""
    external_paths: Literal["ask", "deny"] | None = None
    line_endings: Literal["as_given", "as_before"] | None = None
    stale_guard: bool | None = None
    patch_moves: bool | None = None
    patch_atomic: bool | None = None


class ConfigFile(Section, rename={"schema": "$schema"}):
    """`opencode.json`, `opencode.jsonc`."""

    schema: str | None = None
    shell: str | None = None
    model: str | None = None
    """`provider/model`."""
    default_agent: str | None = None
    autoupdate: bool | Literal["notify"] | None = None
    share: Literal["manual", "auto", "disabled"] | None = None
    enterprise: EnterpriseConfig | None = None
    username: str | None = None
    timezone: str | None = None
    permissions: list[RuleConfig] | None = None
    agents: dict[str, AgentConfig] | None = None
    snapshots: bool | None = None
    watcher: WatcherConfig | None = None
    formatter: bool | dict[str, Any] | None = None
    lsp: bool | dict[str, Any] | None = None
    attachments: AttachmentsConfig | None = None
    tool_output: ToolOutputConfig | None = None
    binary_files: Literal["refuse", "base64"] | None = None
    mcp: McpConfig | None = None
    compaction: CompactionConfig | None = None
    skills: list[str] | None = None
    commands: dict[str, CommandConfig] | None = None
    instructions: list[str] | None = None
    references: dict[str, str | ReferenceConfig] | None = None
    plugins: list[str | PluginConfig] | None = None
    providers: dict[str, ProviderConfig] | None = None
    experimental: ExperimentalConfig | None = None
    holdfast: HoldfastConfig | None = None


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the configuration file."""
    schema = msgspec.json.schema(ConfigFile)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
