"""Shows the settings of a project that need trust, and lets the person decide. Without a decision they are ignored,
which the status line shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.client.errors import ApiError, ClientError
from holdfast.tui.pager import Pager
from holdfast.tui.pickers import Pick, Picker

if TYPE_CHECKING:
    from holdfast.schema.configuration import ConfigSource
    from holdfast.tui.operations import Operations

TITLE = "This project has settings that need your trust"


class Trust:
    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._sources: tuple[ConfigSource, ...] = ()

    @property
    def untrusted(self) -> int:
        """How many settings have no effect."""
        return sum(len(source.wants) for source in self._sources)

    async def look(self, *, asked: bool = False) -> None:
        """Ask once about settings that were not decided about; `asked` asks about all that are not trusted."""
        operations = self._operations
        try:
            report = await operations.client.config.report(location=operations.location)
        except (ApiError, ClientError):
            return  # a server of another version; any other failure shows in the next call
        self._sources = tuple(one for one in report.sources if not one.trusted and not one.directory)
        if (problems := len(report.problems) - self.untrusted) > 0 and not asked:
            operations.app.notify(f"the configuration has {problems} problems: `holdfast config check` shows them")
        operations.screen.status = operations.screen.status._replace(untrusted=self.untrusted)
        operations.app.changed()
        if operations.app.host.trust is None:
            if asked:
                operations.app.notify("trust is decided where the server runs, with `holdfast trust`")
            return
        open_ones = self._sources if asked else operations.app.host.trust().undecided(self._sources)
        if open_ones:
            self._ask(open_ones)
        elif asked:
            operations.app.notify("no setting of this project needs trust")

    def _ask(self, sources: tuple[ConfigSource, ...]) -> None:
        count = sum(len(source.wants) for source in sources)
        picks = [
            Pick("later", "decide later", "they are ignored; /trust asks again"),
            Pick("show", "show them", f"{count} settings"),
            Pick("yes", "trust them as they are now"),
            Pick("no", "never ask again about these", "they stay ignored"),
        ]
        self._operations.app.show(Picker(TITLE, picks, lambda value: self._decided(value, sources)))

    def _decided(self, value: str, sources: tuple[ConfigSource, ...]) -> None:
        operations = self._operations
        if value == "show":
            lines = ((one.path, *(f"  {text}" for text in (*one.wants, *(one.never or ())))) for one in sources)
            wants = "\n".join("".join(f"{line}\n" for line in each) for each in lines)
            self._ask(sources)
            operations.app.show(Pager("Settings that need trust", wants))
        elif value in ("yes", "no") and operations.app.host.trust is not None:
            operations.app.host.trust().decide(sources, trusted=value == "yes")
            operations.app.start(self._reload())

    async def _reload(self) -> None:
        await self._operations.client.config.reload(location=self._operations.location)
        await self.look()
