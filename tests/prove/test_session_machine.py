"""Two thousand random sequences of everything one can do to a Session, longer than those of the ordinary suite."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from tests.core.session.support_machine import SessionMachine
from tests.core.session.test_session_machine import SOME

MANY = settings(SOME, max_examples=2_000, stateful_step_count=25)


@pytest.mark.prove
@pytest.mark.timeout(7_200)
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_two_thousand_sequences_keep_the_rules() -> None:
    """SES-034, SES-046, SES-136, SES-137, SES-139, SES-213, CMP-029: what the ordinary suite checks, more often."""
    run_state_machine_as_test(SessionMachine, settings=MANY)
