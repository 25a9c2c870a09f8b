"""Forms: made by a client, answered by a person, from whichever process."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from tests.outside.scripted_provider import PATIENCE, Turn
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, ask, newest, text_of

from holdfast import ApiError, Conflict, FormAlreadySettled, FormNotFound, InvalidFormAnswer, InvalidRequest
from holdfast.schema.form import (
    BooleanField,
    ExternalField,
    Form,
    FormCondition,
    FormField,
    FormOption,
    FormState,
    IntegerField,
    MultiselectField,
    NumberField,
    StringField,
)
from holdfast.schema.live_event import FormCancelledLive, FormCreatedLive, FormRepliedLive

pytestmark = pytest.mark.anyio

COLOURS = (FormOption(value="r", label="red"), FormOption(value="g", label="green", description="as grass"))
NAME = StringField(key="name", title="Your name", required=True, min_length=2, max_length=5)
EVERY: tuple[FormField, ...] = (
    NAME,
    StringField(key="mail", format="email"),
    StringField(key="page", format="uri"),
    StringField(key="day", format="date"),
    StringField(key="moment", format="date-time"),
    StringField(key="code", pattern="^[a-z]+[0-9]$"),
    StringField(key="colour", options=COLOURS),
    StringField(key="any-colour", options=COLOURS, custom=True),
    NumberField(key="weight", minimum=0.5, maximum=10),
    IntegerField(key="count", minimum=1),
    BooleanField(key="agree"),
    MultiselectField(key="colours", options=COLOURS, min_items=1, max_items=2),
    ExternalField(key="visit", url="https://example.org/start"),
)
GOOD: dict[str, Any] = {
    "name": "Ada",
    "mail": "ada@example.org",
    "page": "https://example.org",
    "day": "2026-02-28",
    "moment": "2026-02-28T10:00:00Z",
    "code": "ab1",
    "colour": "g",
    "any-colour": "pink",
    "weight": 2.5,
    "count": 3,
    "agree": False,
    "colours": ("r", "g"),
    "visit": True,
}
WRONG: dict[str, list[Any]] = {
    "name": ["A", "Adelaide", 3, ""],
    "mail": ["ada", "a@b"],
    "page": ["example", "http://a b"],
    "day": ["2026-02-30", "28.2.2026"],
    "moment": ["2026-02-28", "soon"],
    "code": ["AB1"],
    "colour": ["pink", "red"],
    "any-colour": [True],
    "weight": [0.1, 11, "2", True, 10**400],
    "count": [0, 1.5, 10**400],
    "agree": ["yes", 1],
    "colours": [(), ("r", "r"), ("pink",), "r"],
    "visit": [False, "true"],
}


async def test_a_form_is_made_answered_and_read(world: World) -> None:
    """API-610, API-611, API-616: its state is readable afterwards, live events tell of it, and it is listed while it
    waits."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        async with asyncio.timeout(PATIENCE), aclosing(aiter(hf.events.subscribe())) as live:
            await anext(live)
            form = await hf.forms.create(session.id, title="About you", fields=(NAME,), metadata={"kind": "mine"})
            assert form == Form(
                id=form.id, session_id=session.id, title="About you", metadata={"kind": "mine"}, fields=(NAME,)
            )
            assert await hf.forms.list(session.id) == [form]
            assert (await hf.forms.list_requests()).data == [form]
            assert await hf.forms.get(session.id, form_id=form.id) == form
            assert await hf.forms.state(session.id, form_id=form.id) == FormState(status="pending")
            await hf.forms.reply(session.id, form_id=form.id, answer={"name": "Ada"})
            second = await hf.forms.create(session.id, title="Again", fields=(NAME,))
            await hf.forms.cancel(session.id, form_id=second.id)
            heard = []
            async for event in live:
                if event.type.startswith("form."):
                    heard.append(event.data)
                if event.type == "form.cancelled":
                    break
        assert heard == [
            FormCreatedLive(form=form, session_id=session.id),
            FormRepliedLive(id=form.id, session_id=session.id, answer={"name": "Ada"}),
            FormCreatedLive(form=second, session_id=session.id),
            FormCancelledLive(id=second.id, session_id=session.id),
        ]
        assert await hf.forms.list(session.id) == []
        answered = FormState(status="answered", answer={"name": "Ada"})
        assert await hf.forms.state(session.id, form_id=form.id) == answered
        assert await hf.forms.state(session.id, form_id=second.id) == FormState(status="cancelled")
        for settled in (form, second):
            with pytest.raises(FormAlreadySettled):
                await hf.forms.reply(session.id, form_id=settled.id, answer={"name": "Bob"})
            with pytest.raises(FormAlreadySettled):
                await hf.forms.cancel(session.id, form_id=settled.id)
        other = await hf.sessions.create()
        for stranger in (other.id, "global"):
            with pytest.raises(FormNotFound):
                await hf.forms.state(stranger, form_id=form.id)
        with pytest.raises(Conflict):
            await hf.forms.create(other.id, id=form.id, title="Taken", fields=(NAME,))


async def test_a_form_of_a_client_survives_its_process(world: World) -> None:
    """API-611: it waits on, also over turns of the Session, and is answered from another process."""
    world.model.always = lambda request: Turn(text="fine")
    async with world.host() as hf:
        session = await hf.sessions.create()
        form = await hf.forms.create(session.id, title="About you", fields=(NAME,))
    async with world.host() as hf:
        await ask(hf, session, "go")
        assert text_of(await newest(hf, session)) == "fine"
        (wait,) = await hf.sessions.waits(session.id)
        assert (wait.kind, wait.what, wait.id) == ("form", "a form: About you", form.id)
        async with world.host() as other:
            await other.forms.reply(session.id, form_id=form.id, answer={"name": "Ada"})
        state = await hf.forms.state(session.id, form_id=form.id)
        assert state == FormState(status="answered", answer={"name": "Ada"})
        assert await hf.sessions.waits(session.id) == []


async def test_answers_are_checked_field_by_field(world: World) -> None:
    """API-613, API-630: the refusal names the field, and the form goes on waiting."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        form = await hf.forms.create(session.id, title="Everything", fields=EVERY)
        for key, values in WRONG.items():
            for value in values:
                with pytest.raises(InvalidFormAnswer) as refused:
                    await hf.forms.reply(session.id, form_id=form.id, answer={**GOOD, key: value})
                assert (refused.value.status, refused.value.id, refused.value.field) == (400, form.id, key)
        for answer, key in (({}, "name"), ({**GOOD, "other": 1}, "other")):
            with pytest.raises(InvalidFormAnswer) as refused:
                await hf.forms.reply(session.id, form_id=form.id, answer=answer)
            assert refused.value.field == key
        await hf.forms.reply(session.id, form_id=form.id, answer=GOOD)
        state = await hf.forms.state(session.id, form_id=form.id)
        assert state == FormState(status="answered", answer=GOOD)


async def test_a_field_is_part_of_the_form_while_its_conditions_hold(world: World) -> None:
    """API-614: an inactive field takes no answer, and everything that depends on it is inactive too."""
    fields = (
        StringField(key="pet", options=(FormOption(value="cat", label="Cat"), FormOption(value="none", label="None"))),
        StringField(key="name", required=True, when=(FormCondition(key="pet", op="neq", value="none"),)),
        BooleanField(key="vet", required=True, when=(FormCondition(key="name", op="eq", value="Tom"),)),
    )
    async with world.host() as hf:
        session = await hf.sessions.create()

        async def field_of(answer: dict[str, Any]) -> str | None:
            form = await hf.forms.create(session.id, title="Pets", fields=fields)
            try:
                await hf.forms.reply(session.id, form_id=form.id, answer=answer)
            except InvalidFormAnswer as refused:
                await hf.forms.cancel(session.id, form_id=form.id)
                return refused.field
            return None

        assert await field_of({}) is None
        assert await field_of({"pet": "none"}) is None
        assert await field_of({"pet": "none", "name": "Tom"}) == "name"
        assert await field_of({"name": "Tom"}) == "name"
        assert await field_of({"pet": "cat"}) == "name"
        assert await field_of({"pet": "cat", "name": "Tom"}) == "vet"
        assert await field_of({"pet": "cat", "name": "Tom", "vet": False}) is None
        assert await field_of({"pet": "cat", "name": "Ann"}) is None
        assert await field_of({"pet": "cat", "name": "Ann", "vet": True}) == "vet"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ((), "0 fields"),
        ((NAME, NAME), "same key"),
        ((StringField(key=""),), "a key has"),
        ((StringField(key="a", pattern="("),), "pattern"),
        ((StringField(key="a", pattern="(a+)+\\1"),), "pattern"),
        ((StringField(key="a", min_length=3, max_length=2),), "minLength"),
        ((StringField(key="a", options=COLOURS, default="pink"),), "default"),
        ((StringField(key="a", options=(COLOURS[0], COLOURS[0])),), "same value"),
        ((MultiselectField(key="a", options=()),), "0 options"),
        ((IntegerField(key="a", minimum=2, default=1),), "default"),
        ((IntegerField(key="a", default=10**400),), "default"),
        ((NumberField(key="a", maximum=10**400),), "finite"),
        (
            (NumberField(key="a"), StringField(key="b", when=(FormCondition(key="a", op="eq", value=10**400),))),
            "needs a number",
        ),
        ((ExternalField(key="a", url="javascript:alert(1)"),), "url"),
        ((ExternalField(key="a", url="//example.org"),), "url"),
        ((StringField(key="a", when=(FormCondition(key="b", op="eq", value="x"),)), StringField(key="b")), "earlier"),
        ((NAME, StringField(key="a", when=(FormCondition(key="name", op="eq", value=1),))), "needs a string"),
        (
            (
                StringField(key="a", options=COLOURS),
                StringField(key="b", when=(FormCondition(key="a", op="eq", value="x"),)),
            ),
            "one of the options",
        ),
        (tuple(StringField(key=str(number)) for number in range(101)), "101 fields"),
    ],
)
async def test_a_definition_that_is_not_valid_is_refused(
    world: World, fields: tuple[FormField, ...], reason: str
) -> None:
    """API-612, API-618, API-630"""
    async with world.host() as hf:
        session = await hf.sessions.create()
        for owner in (session.id, "global"):
            with pytest.raises(InvalidRequest) as refused:
                await hf.forms.create(owner, title="Form", fields=fields)
            assert (refused.value.status, refused.value.field) == (400, "fields")
            assert reason in str(refused.value)


@pytest.mark.parametrize("id", ["frm_", "frm_a/b", "frm_\0", "frm_a?b", f"frm_{'x' * 101}", "frm_a\n", "other"])
async def test_an_id_that_cannot_be_addressed_is_refused(world: World, id: str) -> None:
    """API-632"""
    async with world.host() as hf:
        session = await hf.sessions.create()
        for owner in (session.id, "global"):
            with pytest.raises(InvalidRequest):
                await hf.forms.create(owner, id=id, title="Form", fields=(NAME,))
        assert (await hf.forms.list_requests()).data == []


@pytest.mark.parametrize("of_session", [False, True])
async def test_so_many_forms_may_wait(world: World, of_session: bool) -> None:
    """API-618"""
    async with world.host() as hf:
        owner = (await hf.sessions.create()).id if of_session else "global"
        forms = [await hf.forms.create(owner, title="Form", fields=(NAME,)) for _ in range(100)]
        with pytest.raises(Conflict):
            await hf.forms.create(owner, title="Form", fields=(NAME,))
        await hf.forms.cancel(owner, form_id=forms[0].id)
        await hf.forms.create(owner, title="Form", fields=(NAME,))


async def test_a_form_without_a_session_lives_in_its_process(world: World) -> None:
    """API-617: under the id `global`, at the Location of the request; it ends with the process."""
    async with world.host() as hf:
        form = await hf.forms.create("global", title="Anyone?", fields=(NAME,))
        assert form.session_id == "global"
        assert await hf.forms.list("global") == [form]
        assert (await hf.forms.list_requests()).data == [form]
        with pytest.raises(InvalidFormAnswer):
            await hf.forms.reply("global", form_id=form.id, answer={})
        await hf.forms.reply("global", form_id=form.id, answer={"name": "Ada"})
        assert await hf.forms.state("global", form_id=form.id) == FormState(status="answered", answer={"name": "Ada"})
        with pytest.raises(FormAlreadySettled):
            await hf.forms.cancel("global", form_id=form.id)
        await hf.forms.create("global", title="Later", fields=(NAME,))
        with pytest.raises(ApiError):
            await hf.forms.list("other")
    async with world.host() as hf:
        assert await hf.forms.list("global") == []
        with pytest.raises(FormNotFound):
            await hf.forms.get("global", form_id=form.id)


async def test_forms_of_children_are_answered_through_their_ancestors(world: World) -> None:
    """API-615"""
    world.model.always = Cast(root=[delegating("a")], a=[])
    async with world.host() as hf:
        root = await hf.sessions.create()
        await ask(hf, root, "root")
        (child,) = (await hf.sessions.list(parent_id=root.id)).items
        form = await hf.forms.create(child.id, title="Below", fields=(NAME,))
        assert form.ancestors == (root.id,)
        assert await hf.forms.list(root.id) == [form]
        (wait,) = await hf.sessions.waits(root.id)
        assert (wait.kind, wait.session_id) == ("form", child.id)
        await hf.forms.reply(root.id, form_id=form.id, answer={"name": "Ada"})
        for session in (root, child):
            state = await hf.forms.state(session.id, form_id=form.id)
            assert state == FormState(status="answered", answer={"name": "Ada"})
