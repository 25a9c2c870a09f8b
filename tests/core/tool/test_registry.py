"""Registrations, and what one turn is shown of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from tests.core.tool.authorizers import AllowAll

from holdfast.core.permission.rules import ORDINARY, Terms
from holdfast.core.scope import Scope
from holdfast.core.state import Batches
from holdfast.core.tool.builtin.authorize import Denied
from holdfast.core.tool.call_permission import CallPermission
from holdfast.core.tool.codec import JsonSchema
from holdfast.core.tool.registration import RegistrationError
from holdfast.core.tool.registry import ApplicationTools, Materialized, ToolRegistry
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.schema.codec import encode
from holdfast.schema.permission import Effect, Rule

pytestmark = pytest.mark.anyio

CONTEXT = ToolContext("ses_1", "build", "msg_1", "call_1")


class Nothing(msgspec.Struct, frozen=True):
    pass


def saying(word: str, **more: Any) -> Tool[Nothing, str]:
    async def execute(given: Nothing, context: ToolContext) -> str:
        return word

    return Tool(description=word, input=Nothing, output=str, execute=execute, **more)


def shown(catalog: Materialized) -> dict[str, str]:
    """Names in order, each with the word that tells which tool it is."""
    return {definition.name: definition.description for definition in catalog.definitions}


async def call(catalog: Materialized, name: str) -> str:
    try:
        return str((await catalog.execute(name, {}, CONTEXT)).structured["value"])
    except ToolFailure as failure:
        return str(failure)


def rule(action: str, resource: str, effect: Effect) -> Rule:
    return Rule(action=action, resource=resource, effect=effect)


# -- registering -----------------------------------------------------------------------------------------------------


async def test_each_location_has_its_own_tools_above_those_of_the_application() -> None:
    """TOL-001, TOL-006: the application's are shared by all, and a Location's tool of the same name wins."""
    application = ApplicationTools()
    here, there = (ToolRegistry(application, authorizer=AllowAll()) for _ in range(2))
    here.register({"mine": saying("here"), "both": saying("own")}, Scope())
    application.register({"both": saying("host"), "common": saying("host")}, Scope())
    assert shown(here.materialize(())) == {"both": "own", "common": "host", "mine": "here"}
    assert shown(there.materialize(())) == {"both": "host", "common": "host"}
    assert await call(here.materialize(()), "both") == "own"
    assert await call(there.materialize(()), "both") == "host"


@pytest.mark.parametrize("name", ["a", "A9_-", "a" * 64])
def test_well_formed_tool_names_are_accepted(name: str) -> None:
    """TOL-003."""
    registry = ToolRegistry()
    registry.register({name: saying("x")}, Scope())
    assert list(shown(registry.materialize(()))) == [name]


@pytest.mark.parametrize("name", ["", "9a", "_a", "-a", "a" * 65, "a b", "a.b", "ä", "a\n", "a/b"])
def test_a_bad_name_registers_nothing(name: str) -> None:
    """TOL-003: none of the call, and the error names it."""
    registry = ToolRegistry()
    with pytest.raises(RegistrationError) as refused:
        registry.register({"good": saying("x"), name: saying("y")}, Scope())
    assert (refused.value.name, refused.value.message) == (name, f"Invalid tool name: {name}")
    assert shown(registry.materialize(())) == {}


def test_the_mapping_is_copied_and_may_be_empty() -> None:
    """TOL-004."""
    registry = ToolRegistry()
    registry.register({"first": saying("x")}, Scope())
    before = registry.materialize(()).definitions
    registry.register({}, Scope())()
    assert registry.materialize(()).definitions is before
    given = {"a": saying("x")}
    registry.register(given, Scope())
    given["a"] = saying("changed")
    given["b"] = saying("late")
    assert shown(registry.materialize(())) == {"first": "x", "a": "x"}


def test_closing_a_scope_removes_exactly_its_registrations() -> None:
    """TOL-005, TOL-006: what it covered comes back; a registration in the middle leaves without a trace."""
    registry = ToolRegistry()
    bottom, middle, top = Scope(), Scope(), Scope()
    registry.register({"t": saying("bottom")}, bottom)
    registry.register({"t": saying("middle"), "other": saying("x")}, middle)
    registry.register({"t": saying("top")}, top)
    assert shown(registry.materialize(()))["t"] == "top"
    middle.close()
    assert shown(registry.materialize(())) == {"t": "top"}
    top.close()
    assert shown(registry.materialize(())) == {"t": "bottom"}
    bottom.close()
    assert shown(registry.materialize(())) == {}


def test_one_registration_can_end_before_its_scope() -> None:
    """TOL-005: and ends once."""
    registry, scope = ToolRegistry(), Scope()
    end = registry.register({"t": saying("x")}, scope)
    end()
    end()
    scope.close()
    assert shown(registry.materialize(())) == {}


async def test_a_cancelled_registration_lasts_until_its_scope_closes() -> None:
    """TOL-007: a task that is cut just after leaves the tool until its scope closes; a closed scope takes nothing."""
    registry, scope = ToolRegistry(), Scope()
    reached = asyncio.Event()

    async def plugin() -> None:
        registry.register({"t": saying("x")}, scope)
        reached.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(plugin())
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert shown(registry.materialize(())) == {"t": "x"}
    scope.close()
    registry.register({"late": saying("x")}, scope)
    assert shown(registry.materialize(())) == {}


def test_a_batch_becomes_visible_at_its_end() -> None:
    """TOL-008: several changes, one rebuild; until then the old state is what everybody sees."""
    batches = Batches()
    registry, old = ToolRegistry(batches=batches), Scope()
    registry.register({"a": saying("old"), "b": saying("old")}, old)
    with batches.batch():
        old.close()
        registry.register({"c": saying("new")}, Scope())
        registry.register({"a": saying("new")}, Scope())
        assert shown(registry.materialize(())) == {"a": "old", "b": "old"}
    assert shown(registry.materialize(())) == {"c": "new", "a": "new"}


def test_a_contribution_that_fails_changes_nothing() -> None:
    """TOL-009: types that JSON cannot describe, or an input that is no object."""
    registry = ToolRegistry()
    registry.register({"a": saying("x")}, Scope())
    before = registry.materialize(()).definitions
    for bad in (object, int):
        with pytest.raises(RegistrationError, match="Invalid types of tool bad"):
            registry.register({"b": saying("y"), "bad": Tool("", bad, str, saying("z").execute)}, Scope())
    assert registry.materialize(()).definitions is before


async def test_a_tool_has_no_name_of_its_own() -> None:
    """TOL-002: the key names it, so that one value may be two tools."""
    registry, one = ToolRegistry(), saying("x")
    registry.register({"a": one, "b": one}, Scope())
    catalog = registry.materialize(())
    assert [definition.name for definition in catalog.definitions] == ["a", "b"]
    assert not hasattr(one, "name")
    assert await call(catalog, "b") == "x"


# -- the catalog of a turn -------------------------------------------------------------------------------------------


def test_the_registry_itself_settles_nothing() -> None:
    """TOL-011: definitions and execution exist only for one turn."""
    public = {name for name in dir(ToolRegistry) if not name.startswith("_")}
    assert public == {"register", "materialize", "names", "looks_only"}


@pytest.mark.parametrize(
    ("rules", "visible"),
    [
        ([], True),
        ([("t", "*", "deny")], False),
        ([("*", "*", "deny")], False),
        ([("t", "*", "ask")], True),
        ([("t", "private", "deny")], True),
        ([("t", "*", "deny"), ("t", "private", "allow")], True),
        ([("t", "private", "allow"), ("t", "*", "deny")], False),
        ([("t", "*", "deny"), ("*", "*", "allow")], True),
        ([("t", "*", "deny"), ("other", "*", "allow")], False),
        ([("t", "**", "deny")], True),
    ],
)
async def test_wholly_denied_tools_are_hidden(rules: list[tuple[str, str, Effect]], visible: bool) -> None:
    """TOL-012, TOL-013: by the last rule about the action alone; a hidden tool that is called is unknown."""
    registry = ToolRegistry()
    registry.register({"t": saying("x")}, Scope())
    catalog = registry.materialize([rule(*given) for given in rules])
    assert ("t" in shown(catalog)) is visible
    assert await call(catalog, "t") == ("x" if visible else "Unknown tool: t")


def test_the_action_is_the_name_unless_one_was_declared() -> None:
    """TOL-010: declaring one makes another value; what was registered keeps its own."""
    registry, plain = ToolRegistry(), saying("x")
    registry.register({"write": plain.replace(action="edit"), "copy": plain}, Scope())
    assert list(shown(registry.materialize([rule("edit", "*", "deny")]))) == ["copy"]
    assert list(shown(registry.materialize([rule("copy", "*", "deny")]))) == ["write"]
    assert plain.action is None


async def test_application_tools_are_filtered_and_checked_by_name() -> None:
    """TOL-278, TOL-521: whatever action the tool claims; without anybody to check, none runs."""
    application, gate = ApplicationTools(), Gate(open=True)
    application.register({"host": saying("x", action="read")}, Scope())
    registry = ToolRegistry(application, authorizer=gate)
    assert shown(registry.materialize([rule("host", "*", "deny")])) == {}
    assert await call(registry.materialize([rule("read", "*", "deny")]), "host") == "x"
    assert gate.asked == [(CONTEXT, "host", ("*",))]
    assert gate.terms == [Terms(unmatched="allow")]
    assert "nothing here checks" in await call(ToolRegistry(application).materialize(()), "host")


class Place(msgspec.Struct, frozen=True):
    x: int


class Two(msgspec.Struct, frozen=True):
    first: Place
    second: Place


def test_a_definition_puts_shared_schemas_under_defs() -> None:
    """TOL-014: shared parts under $defs; the output's schema is that of the structured value when there is one."""

    async def execute(given: Two, context: ToolContext) -> Place:
        return given.first

    move = Tool(description="Moves.", input=Two, output=Place, execute=execute)
    summed = Tool("", Two, Place, execute, structured=lambda given, value: value["x"], structured_type=int)
    opaque = Tool("", Two, Place, execute, structured=lambda given, value: value["x"])
    registry = ToolRegistry()
    registry.register({"move": move, "summed": summed, "opaque": opaque}, Scope())
    first, second, third = registry.materialize(()).definitions
    place = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    assert msgspec.to_builtins(first) == {
        "name": "move",
        "description": "Moves.",
        "inputSchema": {
            "type": "object",
            "properties": {"first": {"$ref": "#/$defs/Place"}, "second": {"$ref": "#/$defs/Place"}},
            "required": ["first", "second"],
            "$defs": {"Place": {"title": "Place", **place}},
        },
        "outputSchema": place,
    }
    assert second.output_schema == {"type": "integer"}
    assert third.output_schema is None


def test_unchanged_tools_are_the_same_objects_in_the_same_order() -> None:
    """TOL-014, TOL-015: also for a name that is covered and uncovered again, and beside one that comes and goes."""
    application = ApplicationTools()
    registry = ToolRegistry(application)
    application.register({"z": saying("1"), "y": saying("2")}, Scope())
    registry.register({"b": saying("3"), "y": saying("4"), "a": saying("5")}, Scope())
    first = registry.materialize([rule("q", "*", "ask")])
    again = registry.materialize([rule("q", "*", "ask")])
    assert list(shown(first)) == ["z", "y", "b", "a"]
    assert first.definitions is again.definitions
    with Scope() as scope:
        registry.register({"b": saying("over"), "new": saying("6")}, scope)
        assert list(shown(registry.materialize(()))) == ["z", "y", "b", "a", "new"]
    after = registry.materialize(())
    assert all(one is other for one, other in zip(first.definitions, after.definitions, strict=True))
    assert encode(first.definitions) == encode(after.definitions)


async def test_a_call_reaches_what_was_advertised_or_nothing() -> None:
    """TOL-016, TOL-348: gone, replaced, or revealed from below: stale, without running; siblings are not touched."""
    ran: list[str] = []

    def recording(word: str) -> Tool[Nothing, str]:
        async def execute(given: Nothing, context: ToolContext) -> str:
            ran.append(word)
            return word

        return Tool(description=word, input=Nothing, output=str, execute=execute)

    registry, gone, over = ToolRegistry(), Scope(), Scope()
    registry.register(
        {"revealed": recording("below"), "replaced": recording("old"), "kept": recording("kept")}, Scope()
    )
    registry.register({"gone": recording("gone")}, gone)
    registry.register({"revealed": recording("above")}, over)
    catalog = registry.materialize(())
    gone.close()
    over.close()
    registry.register({"replaced": recording("new"), "unseen": recording("unseen")}, Scope())
    for name in ("gone", "replaced", "revealed"):
        assert await call(catalog, name) == f"Stale tool call: {name}"
    assert await call(catalog, "unseen") == "Unknown tool: unseen"
    assert await call(catalog, "kept") == "kept"
    assert ran == ["kept"]


async def test_a_running_call_keeps_its_handler() -> None:
    """TOL-017: whatever happens to the registration meanwhile."""
    started, go = asyncio.Event(), asyncio.Event()

    async def execute(given: Nothing, context: ToolContext) -> str:
        started.set()
        await go.wait()
        return "done"

    registry, scope = ToolRegistry(), Scope()
    registry.register({"slow": Tool("", Nothing, str, execute)}, scope)
    catalog = registry.materialize(())
    running = asyncio.ensure_future(call(catalog, "slow"))
    await started.wait()
    scope.close()
    go.set()
    assert await running == "done"
    assert await call(catalog, "slow") == "Stale tool call: slow"


async def test_a_request_can_do_without_tools() -> None:
    """TOL-019: it narrows what the rules allow; a name that does not exist, or is denied anyway, adds nothing."""
    registry = ToolRegistry()
    registry.register({"skill": saying("x"), "read": saying("y"), "bash": saying("z")}, Scope())
    catalog = registry.materialize([rule("bash", "*", "deny")], without=frozenset({"skill", "none"}))
    assert shown(catalog) == {"read": "y"}
    assert await call(catalog, "skill") == "Unknown tool: skill"
    assert list(shown(registry.materialize(()))) == ["skill", "read", "bash"]


# -- tools of others -------------------------------------------------------------------------------------------------


async def test_tools_with_a_schema_of_their_own() -> None:
    """TOL-277: the same value and pipeline; the schema is passed on as it is, and both sides are held to it."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "x-unit": "m"}}, "required": ["n"]}
    results: list[Any] = [{"n": 1}, {"n": "one"}]

    async def execute(given: dict[str, Any], context: ToolContext) -> Any:
        return results.pop(0)

    remote: Tool[dict[str, Any], Any] = Tool("Far away.", JsonSchema(schema), JsonSchema(schema), execute)
    registry, scope = ToolRegistry(), Scope()
    registry.register({"server_tool": remote}, scope)
    catalog = registry.materialize(())
    assert catalog.definitions[0].input_schema == catalog.definitions[0].output_schema == schema
    with pytest.raises(ToolFailure, match=r"^Invalid tool input: \$: 'n' is missing"):
        await catalog.execute("server_tool", {}, CONTEXT)
    with pytest.raises(ToolFailure, match=r"^Invalid tool input: \$\.n: expected integer, got null \(null is not"):
        await catalog.execute("server_tool", {"n": None}, CONTEXT)
    assert (await catalog.execute("server_tool", {"n": 7}, CONTEXT)).structured == {"n": 1}
    with pytest.raises(ToolFailure, match=r"^Invalid tool output: \$\.n"):
        await catalog.execute("server_tool", {"n": 7}, CONTEXT)
    scope.close()
    assert registry.materialize(()).definitions == ()


class Gate:
    def __init__(self, *, open: bool) -> None:
        self.open = open
        self.asked: list[tuple[Any, ...]] = []
        self.terms: list[Terms] = []

    async def allow(
        self,
        context: ToolContext,
        action: str,
        resources: Any,
        *,
        save: Any = (),
        metadata: Mapping[str, Any] | None = None,
        terms: Terms = ORDINARY,
    ) -> None:
        self.asked.append((context, action, tuple(resources)))
        self.terms.append(terms)
        if not self.open:
            raise Denied("no")


async def test_untrusted_tools_are_asked_about_first() -> None:
    """TOL-279: by the name under which they are registered, before anything of theirs runs."""
    for open, outcome in ((True, "x"), (False, "no")):
        gate = Gate(open=open)
        registry = ToolRegistry(authorizer=gate)
        registry.register({"server_tool": saying("x", action="other")}, Scope(), CallPermission(plugin="acme"))
        catalog = registry.materialize([rule("other", "*", "deny")])
        assert await call(catalog, "server_tool") == outcome
        assert gate.asked == [(CONTEXT, "server_tool", ("*",))]
        assert shown(registry.materialize([rule("server_tool", "*", "deny")])) == {}


def test_whether_calls_could_have_changed_a_file() -> None:
    """SES-112: the tool that was advertised says so, not its name; one that says nothing may have."""
    registry = ToolRegistry()
    with Scope() as scope:
        registry.register({"read": saying("x", read_only=True), "bash": saying("x")}, scope)
        before = registry.materialize(())
        assert before.look_only(["read", "nobody"])
        assert not before.look_only(["read", "bash"])
        registry.register({"read": saying("another")}, scope)
        assert not registry.materialize(()).look_only(["read"])
        assert before.look_only(["read"])


async def test_a_tool_accepts_calls_under_names_that_are_not_offered() -> None:
    """TOL-453: with arguments of their own, unless another tool has that name."""
    registry, scope = ToolRegistry(), Scope()
    registry.register({"new": saying("new", other_names={"old": lambda given: {}})}, scope)
    catalog = registry.materialize((rule("*", "*", "allow"),))
    assert list(shown(catalog)) == ["new"]
    assert await call(catalog, "old") == "new"
    assert (await catalog.execute("old", {"unknown": 1}, CONTEXT)).structured["value"] == "new"
    denied = registry.materialize((rule("new", "*", "deny"),))
    assert await call(denied, "old") == "Unknown tool: old"
    registry.register({"old": saying("its own")}, scope)
    assert await call(registry.materialize((rule("*", "*", "allow"),)), "old") == "its own"
    scope.close()
