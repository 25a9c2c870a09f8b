"""What all Locations of a process share, in groups by purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from holdfast.core.catalog.models_dev import ModelsDev
    from holdfast.core.config.environment import Directories
    from holdfast.core.config.trust import Trust
    from holdfast.core.context.file_cache import FileCache
    from holdfast.core.context.registry import SystemContextRegistry
    from holdfast.core.context.remote import RemoteInstructions
    from holdfast.core.credential.store import CredentialStore
    from holdfast.core.database.database import Database
    from holdfast.core.filesystem.editor_files import EditorFiles
    from holdfast.core.filesystem.own_folders import OwnFolders
    from holdfast.core.filesystem.ownership import Owners
    from holdfast.core.mcp.background_starts import BackgroundStarts
    from holdfast.core.permission.authority import AuthorityAt
    from holdfast.core.permission.permission import Unattended
    from holdfast.core.permission.requests import Attended
    from holdfast.core.process.sandbox.backends import Backends
    from holdfast.core.process.sandbox.confinement import Setting
    from holdfast.core.runner.services import SessionServices
    from holdfast.core.session.tasks import Tasks
    from holdfast.core.session.todo import Todos
    from holdfast.core.session.wakeups import Wakeups
    from holdfast.core.skill.downloads import SkillDownloads
    from holdfast.core.snapshot.copy_offer import CopyServices
    from holdfast.core.tool.output import OutputStore
    from holdfast.core.tool.registry import ApplicationTools
    from holdfast.llm.route.transport import Transport


class HostSettings(Frozen):
    """What the host program and its environment decided."""

    environment: Mapping[str, str]
    directories: Directories
    configuration: Sequence[tuple[Path, dict[str, Any]]]
    """Configuration documents of the host, by name. They count after all files."""
    preset: tuple[Path, dict[str, Any]] | None
    """The configuration document, by name, that counts before all files."""
    unattended: Unattended
    """What happens to a question that needs a person."""
    attended: Attended | None
    """Whether anybody would see a request that only a preset makes; None is always."""
    trust: Trust
    """What projects may configure beyond narrowing."""
    owners: Owners | None
    """Whose files of a project are read; None is anybody's."""
    sandbox: Setting | None
    """The sandbox mode; None leaves it to the user's configuration."""
    before_start: Callable[[], None] | None
    """Called before a command of an agent or a terminal is started."""
    own_ports: Collection[int]
    """Ports on which this process listens; tools may not connect to them."""
    own: OwnFolders
    """Folders of Holdfast itself, which its tools do not use."""
    editor: EditorFiles | None = None
    """Reads and writes files that an editor has open."""


class ProviderServices(Frozen):
    models: ModelsDev
    credentials: CredentialStore
    transport: Transport


class ContextServices(Frozen):
    files: FileCache
    remote: RemoteInstructions
    skills: SkillDownloads
    application: SystemContextRegistry


class SharedTools(Frozen):
    application: ApplicationTools
    outputs: OutputStore
    todos: Todos
    tasks: Tasks
    isolation: CopyServices
    sandboxes: Backends
    """How this machine can confine commands."""
    mcp_starts: BackgroundStarts


class ProcessServices(Frozen):
    host: HostSettings
    sessions: SessionServices
    database: Database
    providers: ProviderServices
    context: ContextServices
    tools: SharedTools
    wakeups: Wakeups
    authority_at: AuthorityAt
    """What an agent of any Location may do."""
