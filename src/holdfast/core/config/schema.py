"""The configuration file as types. The JSON Schema, the validation and the known names are derived from them."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from holdfast.core.config.holdfast_schema import Holdfast
from holdfast.core.config.section import Depth, NonNegativeInt, PositiveInt, Section

Text = dict[str, str]
Color = Annotated[str, Meta(pattern="^(#[0-9a-fA-F]{6}|primary|secondary|accent|success|warning|error|info)$")]


class Rule(Section):
    """The last matching rule decides."""

    action: str
    resource: str
    effect: Literal["allow", "deny", "ask", "ask-changes"]
    """`ask-changes` allows commands that are proved to change nothing, and asks for everything else."""


class Statement(Section):
    effect: Literal["allow", "deny"]
    action: Literal["provider.use"]
    resource: str


class Request(Section):
    headers: Text | None = None
    body: dict[str, Any] | None = None


class Agent(Section):
    model: str | None = None
    """`provider/model`."""
    variant: str | None = None
    request: Request | None = None
    system: str | None = None
    description: str | None = None
    mode: Literal["primary", "subagent", "all"] | None = None
    hidden: bool | None = None
    color: Color | None = None
    steps: PositiveInt | None = None
    disabled: bool | None = None
    permissions: list[Rule] | None = None


class Command(Section):
    template: str
    description: str | None = None
    agent: str | None = None
    model: str | None = None
    variant: str | None = None
    subtask: bool | None = None


class Reference(Section):
    """A folder or a repository. The short form is a string."""

    path: str | None = None
    repository: str | None = None
    branch: str | None = None
    description: str | None = None
    hidden: bool | None = None

    def __post_init__(self) -> None:
        if (self.path is None) == (self.repository is None):
            raise ValueError("needs either a path or a repository")


class Plugin(Section):
    package: str
    options: dict[str, Any] | None = None


class AiSdkApi(Section, tag_field="type", tag="aisdk"):
    """Named by an AI SDK package, which selects the protocol."""

    package: str
    url: str | None = None
    settings: dict[str, Any] | None = None


class NativeApi(Section, tag_field="type", tag="native"):
    url: str | None = None
    settings: dict[str, Any] | None = None


class ModelApi(Section):
    id: str | None = None
    type: Literal["aisdk", "native"] | None = None
    package: str | None = None
    url: str | None = None
    settings: dict[str, Any] | None = None


class Capabilities(Section):
    tools: bool | None = None
    input: list[str] | None = None
    output: list[str] | None = None
    structured: bool | None = None
    """Whether the provider's JSON mode is used for structured answers; the catalog knows it of many models."""


class ModelRequest(Request):
    variant: str | None = None


class Variant(Request):
    id: str


class Tier(Section):
    type: Literal["context"]
    size: NonNegativeInt


class CachePrice(Section):
    read: float | None = None
    write: float | None = None


class Cost(Section):
    """Dollars per million tokens."""

    input: float
    output: float
    cache: CachePrice | None = None
    tier: Tier | None = None


class Limit(Section):
    context: NonNegativeInt | None = None
    input: NonNegativeInt | None = None
    output: NonNegativeInt | None = None


class Model(Section):
    family: str | None = None
    name: str | None = None
    api: ModelApi | None = None
    capabilities: Capabilities | None = None
    request: ModelRequest | None = None
    variants: list[Variant] | None = None
    cost: Cost | list[Cost] | None = None
    disabled: bool | None = None
    limit: Limit | None = None


class Provider(Section):
    name: str | None = None
    env: list[str] | None = None
    api: AiSdkApi | NativeApi | None = None
    request: Request | None = None
    models: dict[str, Model] | None = None


class Timeouts(Section):
    """Milliseconds."""

    startup: PositiveInt | None = None
    catalog: PositiveInt | None = None
    execution: PositiveInt | None = None
    request: PositiveInt | None = None
    """Both `catalog` and `execution`, where they are not given."""


class OAuth(Section):
    client_id: str | None = None
    client_secret: str | None = None
    issuer: str | None = None
    """The authorization server that gave the secret, which is sent to no other."""
    scope: str | None = None
    callback_port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    redirect_uri: str | None = None


class LocalServer(Section, tag_field="type", tag="local"):
    command: Annotated[list[str], Meta(min_length=1)]
    cwd: str | None = None
    environment: Text | None = None
    disabled: bool | None = None
    timeout: Timeouts | None = None
    codemode: bool | None = None
    eager: bool | None = None
    """Connect when the Location opens, also if it is known what the server offers."""


class RemoteServer(Section, tag_field="type", tag="remote"):
    url: str
    headers: Text | None = None
    oauth: OAuth | bool | None = None
    """False disables OAuth."""
    disabled: bool | None = None
    timeout: Timeouts | None = None
    codemode: bool | None = None
    eager: bool | None = None


class ServerSwitch(Section):
    """Changes a server that another file defines."""

    disabled: bool | None = None
    timeout: Timeouts | None = None
    codemode: bool | None = None
    eager: bool | None = None


class Mcp(Section):
    timeout: Timeouts | None = None
    servers: dict[str, LocalServer | RemoteServer] | None = None


class Keep(Section):
    tokens: NonNegativeInt | None = None


class Compaction(Section):
    auto: bool | None = None
    prune: bool | None = None
    keep: Keep | None = None
    buffer: NonNegativeInt | None = None


class Image(Section):
    auto_resize: bool | None = None
    max_width: PositiveInt | None = None
    max_height: PositiveInt | None = None
    max_base64_bytes: PositiveInt | None = None


class Attachments(Section):
    image: Image | None = None


class ToolOutput(Section):
    max_lines: PositiveInt | None = None
    max_bytes: PositiveInt | None = None


class Watcher(Section):
    ignore: list[str] | None = None


class Enterprise(Section):
    url: str | None = None


class Experimental(Section):
    policies: list[Statement] | None = None
    subagent_depth: Depth | None = None
    """As `holdfast.subagents.depth`, which comes before it."""


class ConfigFile(Section, rename={"schema": "$schema"}):
    """`opencode.json`, `opencode.jsonc`."""

    schema: str | None = None
    shell: str | None = None
    model: str | None = None
    """`provider/model`."""
    default_agent: str | None = None
    autoupdate: bool | Literal["notify"] | None = None
    share: Literal["manual", "auto", "disabled"] | None = None
    enterprise: Enterprise | None = None
    username: str | None = None
    timezone: str | None = None
    subagent_depth: Depth | None = None
    """As `holdfast.subagents.depth`, which comes before it."""
    permissions: list[Rule] | None = None
    agents: dict[str, Agent] | None = None
    snapshots: bool | None = None
    watcher: Watcher | None = None
    formatter: bool | dict[str, Any] | None = None
    lsp: bool | dict[str, Any] | None = None
    attachments: Attachments | None = None
    tool_output: ToolOutput | None = None
    binary_files: Literal["refuse", "base64"] | None = None
    mcp: Mcp | None = None
    compaction: Compaction | None = None
    skills: list[str] | None = None
    commands: dict[str, Command] | None = None
    instructions: list[str] | None = None
    references: dict[str, str | Reference] | None = None
    plugins: list[str | Plugin] | None = None
    providers: dict[str, Provider] | None = None
    experimental: Experimental | None = None
    holdfast: Holdfast | None = None


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the configuration file."""
    schema = msgspec.json.schema(ConfigFile)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
