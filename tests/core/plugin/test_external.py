"""Plugins of files, folders and installed packages."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from tests.core.config.conftest import Place
from tests.core.plugin.conftest import Surroundings

from holdfast.core.config.trust import TRUST_NOTHING
from holdfast.core.plugin.external import PREFIX, ExternalPlugin, external_plugins
from holdfast.core.plugin.plugin import PluginFailed

pytestmark = pytest.mark.anyio

PLUGIN = """
class Acme:
    id = "{id}"

    async def setup(self, host):
        name = host.options.get("name", "{agent}")
        host.agent.transform(lambda draft: draft.update(name, lambda agent: agent))

plugin = Acme()
"""


WAITING = """
import asyncio

class Waiting:
    id = "waiting"

    async def setup(self, host):
        await asyncio.Event().wait()

plugin = Waiting()
"""


def text(id: str, agent: str) -> str:
    return PLUGIN.replace("{id}", id).replace("{agent}", agent)


def test_plugins_come_from_documents_and_then_from_folders(place: Place) -> None:
    """CAT-146: in document order, relative to the document's folder, then the folder's own files, sorted."""
    place.user_config(
        {"plugins": ["installed", {"package": "./near.py", "options": {"x": 1}}, "file:///abs/a%20b.py", "~/h.py"]}
    )
    place.write("~/.config/opencode/plugin/b.py", "")
    place.write("~/.config/opencode/plugin/a.py", "")
    place.write("~/.config/opencode/plugin/notes.md", "")
    place.write("~/.config/opencode/plugins/folder/__init__.py", "")
    place.write("packages/opencode.json", {"plugins": ["../up.py"]})
    config = place.load(place.root / "packages")
    found = external_plugins(config, place.environment())
    assert [(plugin.path or plugin.name, plugin.options) for plugin in found.plugins] == [
        ("installed", {}),
        (place.home / "near.py", {"x": 1}),
        (Path("/abs/a b.py"), {}),
        (place.user / "h.py", {}),
        (place.home / "plugin/a.py", {}),
        (place.home / "plugin/b.py", {}),
        (place.home / "plugins/folder", {}),
        (place.root / "packages/../up.py", {}),
    ]


def test_a_name_that_is_no_address_stops_nothing(place: Place) -> None:
    """CAT-146: a missing or invalid plugin is skipped, and that is found out when it is loaded."""
    place.write("opencode.json", {"plugins": ["file://[oops", "file://", "file://localhost/a.py", "\x00", ""]})
    found = external_plugins(place.load(), place.environment())
    assert [plugin.path for plugin in found.plugins] == [Path("/"), Path("/"), Path("/a.py"), None, None]


def test_a_project_is_not_trusted_by_itself(place: Place) -> None:
    """CAT-147: neither what its documents name nor what its folders hold is executed, and that is said."""
    place.user_config({"plugins": ["mine"]})
    place.write("opencode.json", {"plugins": ["./evil.py"]})
    place.write(".opencode/plugin/evil.py", "raise SystemExit")
    config = place.load(trust=TRUST_NOTHING)
    found = external_plugins(config, place.environment())
    assert [plugin.name for plugin in found.plugins] == ["mine"]
    problems = (*config.diagnostics(), *found.diagnostics)
    assert ["evil.py" in problem.message for problem in problems] == [True, True]


def test_all_of_them_can_be_left_out(place: Place) -> None:
    """CAT-013, CAT-147."""
    place.user_config({"plugins": ["mine"]})
    environment = place.environment(OPENCODE_PURE="true")
    assert external_plugins(place.load(), environment).plugins == ()


async def test_files_folders_modules_and_entry_points(
    place: Place, around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CAT-146, CAT-147: each form exposes `plugin`; a folder may import its own modules."""
    site = place.tmp / "site"
    (site / "acme_dist-1.0.dist-info").mkdir(parents=True)
    (site / "acme_module.py").write_text(text("module", "of-module"))
    (site / "acme_point.py").write_text(text("point", "of-point"))
    (site / "acme_dist-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: acme-dist\nVersion: 1.0\n")
    (site / "acme_dist-1.0.dist-info/entry_points.txt").write_text(
        "[opencode.plugins]\n@acme/point = acme_point:plugin\n"
    )
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    place.write("~/.config/opencode/plugin/file.py", text("file", "of-file"))
    place.write("~/.config/opencode/plugin/folder/__init__.py", "from .inner import plugin")
    place.write("~/.config/opencode/plugin/folder/inner.py", text("folder", "of-folder"))
    place.user_config({"plugins": ["acme_module", {"package": "@acme/point", "options": {"name": "renamed"}}]})
    around.plugins.start(external_plugins(place.load(trust=TRUST_NOTHING), place.environment()).plugins)
    await around.plugins.booted()
    assert (around.names(), around.plugins.problems()) == (["of-module", "renamed", "of-file", "of-folder"], ())
    assert not (place.home / "plugin" / "__pycache__").exists()
    for name in ("acme_module", "acme_point"):
        sys.modules.pop(name)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("x = 1", "exposes no `plugin`"),
        ("plugin = 7", "exposes no `plugin`"),
        ("class P:\n id = ''\n def setup(self, h): pass\nplugin = P()", "exposes no `plugin`"),
        ("raise ValueError('broken')", "broken"),
        ("import no_such_module_anywhere", "no_such_module_anywhere"),
        ("def (", "SyntaxError"),
        ("raise SystemExit", "end the process"),
        ("import time; time.sleep(30)", "longer than"),
    ],
)
async def test_a_bad_file_is_reported_and_the_rest_is_loaded(
    place: Place, around: Surroundings, content: str, reason: str
) -> None:
    """CAT-146, CAT-147: whatever importing it does, within bounded time."""
    place.write("~/.config/opencode/plugin/a.py", content)
    place.write("~/.config/opencode/plugin/b.py", text("b", "fine"))
    around.plugins._seconds = 0.5 if reason == "longer than" else 30
    around.plugins.start(external_plugins(place.load(trust=TRUST_NOTHING), place.environment()).plugins)
    await around.plugins.booted()
    assert around.names() == ["fine"]
    (problem,) = around.plugins.problems()
    assert reason in problem.message


@pytest.mark.parametrize("name", ["opencode-wakatime@1.2.3", "@scope/name", "no_such_module", "./gone.py", "./x.ts"])
async def test_a_missing_plugin_package_is_reported_and_never_installed(place: Place, name: str) -> None:
    """CAT-147: a diagnostic, for packages of another language too."""
    place.write("~/.config/opencode/x.ts", "")
    place.user_config({"plugins": [name]})
    (external,) = external_plugins(place.load(trust=TRUST_NOTHING), place.environment()).plugins
    with pytest.raises(PluginFailed):
        await external.load(5)


async def test_an_edited_file_is_loaded_anew_and_a_removed_one_disappears(place: Place, around: Surroundings) -> None:
    """CAT-144, CAT-145, CAT-146: a broken edit keeps the version that worked; nothing stays in memory."""
    before = {name for name in sys.modules if name.startswith(PREFIX)}
    file = place.write("~/.config/opencode/plugin/a.py", text("a", "one"))
    place.write("~/.config/opencode/plugin/b.py", text("b", "two"))

    async def reload() -> list[str]:
        around.plugins.start(external_plugins(place.load(trust=TRUST_NOTHING), place.environment()).plugins)
        await around.plugins.booted()
        return sorted(around.names())

    assert await reload() == ["one", "two"]
    file.write_text(text("a", "edited"))
    assert await reload() == ["edited", "two"]
    file.write_text("def (")
    assert await reload() == ["edited", "two"]
    file.write_text(text("renamed", "other"))
    assert await reload() == ["other", "two"]
    file.unlink()
    assert await reload() == ["two"]
    await around.plugins.close()
    assert {name for name in sys.modules if name.startswith(PREFIX)} <= before


async def test_boot_does_not_wait_for_plugins(place: Place, around: Surroundings) -> None:
    """CAT-142: they start in the background; closing in the middle leaves nothing."""
    place.write("~/.config/opencode/plugin/a.py", "import time; time.sleep(3)")
    around.plugins.start([ExternalPlugin(str(place.home / "plugin/a.py"), place.home / "plugin/a.py")])
    assert around.plugins.active() == ()
    await around.plugins.close()
    assert around.plugins.active() == ()


async def test_closing_ends_a_boot_that_another_one_waits_for(place: Place, around: Surroundings) -> None:
    """CAT-142, CAT-144: after a reload in the middle of a boot, too, nobody is left who adds plugins later."""
    place.write("~/.config/opencode/plugin/a.py", WAITING)
    found = external_plugins(place.load(trust=TRUST_NOTHING), place.environment()).plugins
    around.plugins.start(found)
    first = around.plugins._latest
    around.plugins.start(found)
    await around.plugins.close()
    assert first is not None
    assert first.done()
    assert around.plugins.active() == ()


async def test_a_plugin_executes_exactly_the_source_that_was_trusted(place: Place, around: Surroundings) -> None:
    """CAT-195: neither an edit in the meantime nor byte code beside the source runs, also of modules that the plugin
    imports later."""
    place.write("~/.config/opencode/plugin/folder/__init__.py", "from .inner import plugin")
    inner = place.write("~/.config/opencode/plugin/folder/inner.py", text("folder", "judged"))
    before = external_plugins(place.load(trust=TRUST_NOTHING), place.environment()).plugins
    inner.write_text(text("folder", "edited"))
    around.plugins.start(before)
    await around.plugins.booted()
    assert around.names() == []
    (problem,) = around.plugins.problems()
    assert "was changed while it was being loaded" in problem.message
    around.plugins.start(external_plugins(place.load(trust=TRUST_NOTHING), place.environment()).plugins)
    await around.plugins.booted()
    assert (around.names(), around.plugins.problems()) == (["edited"], ())
    assert not (inner.parent / "__pycache__").exists()


async def test_a_module_that_is_imported_late_is_the_one_that_was_read(place: Place) -> None:
    """CAT-195."""
    file = place.write("~/.config/opencode/plugin/folder/__init__.py", text("late", "x"))
    late = place.write("~/.config/opencode/plugin/folder/late.py", "words = 'read with the plugin'")
    external = ExternalPlugin(str(file.parent), file.parent)
    loaded = await external.load(30)
    try:
        late.write_text("words = 'written later'")
        place.write("~/.config/opencode/plugin/folder/added.py", "")
        module = type(loaded.plugin).__module__
        assert importlib.import_module(f"{module}.late").words == "read with the plugin"
        with pytest.raises(ImportError, match="was not there"):
            importlib.import_module(f"{module}.added")
    finally:
        loaded.forget()
