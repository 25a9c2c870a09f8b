"""Forms without a Session, in memory."""

from __future__ import annotations

import pytest
from tests.conftest import ManualClock

from holdfast.core.clock import Ids
from holdfast.core.form.errors import FormAlreadySettled, FormNotFound
from holdfast.core.form.forms import FormDraft
from holdfast.core.form.global_forms import KEPT_MILLISECONDS, MOST_SETTLED, GlobalForms
from holdfast.schema.form import FormState, StringField
from holdfast.schema.live_event import FormCancelledLive, FormCreatedLive
from holdfast.schema.record import Record

DRAFT = FormDraft("Form", (StringField(key="name"),))


def test_a_settled_form_is_readable_for_ten_minutes(ids: Ids, clock: ManualClock) -> None:
    """API-617: and only the newest hundred of them."""
    forms = GlobalForms(ids, clock, lambda event: None)
    old, open_ = forms.create(DRAFT), forms.create(DRAFT)
    forms.reply(old.id, {"name": "Ada"})
    with pytest.raises(FormAlreadySettled):
        forms.cancel(old.id)
    clock.advance(KEPT_MILLISECONDS - 1)
    assert forms.get(old.id)[1] == FormState(status="answered", answer={"name": "Ada"})
    clock.advance(1)
    with pytest.raises(FormNotFound):
        forms.get(old.id)
    assert forms.get(open_.id)[1] == FormState(status="pending")
    many = [forms.create(DRAFT) for _ in range(MOST_SETTLED - 1)]
    for form in many:
        forms.cancel(form.id)
    later = [forms.create(DRAFT), forms.create(DRAFT)]
    for form in later:
        clock.advance(1)
        forms.cancel(form.id)
    with pytest.raises(FormNotFound):
        forms.get(min(form.id for form in many))
    assert forms.get(later[-1].id)[1] == FormState(status="cancelled")


def test_closing_cancels_what_waits(ids: Ids, clock: ManualClock) -> None:
    """API-617"""
    told: list[Record] = []
    forms = GlobalForms(ids, clock, told.append)
    form = forms.create(DRAFT)
    forms.close()
    assert told == [FormCreatedLive(form=form, session_id="global"), FormCancelledLive(id=form.id, session_id="global")]
    assert forms.list() == ()
