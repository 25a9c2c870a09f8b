"""Random sequences of everything one can do to a Session, crashes included. `make prove` runs many more."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.core.session.support_machine import SessionMachine

# What a failing sequence did depends on threads too, so shrinking it would chase another one.
SOME = settings(
    max_examples=30,
    stateful_step_count=12,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_any_sequence_of_operations_keeps_the_rules() -> None:
    """SES-034, SES-037, SES-038, SES-045, SES-046, SES-051, SES-053, SES-068, SES-114, SES-136, SES-137,
    SES-139, SES-155, SES-171, SES-213, CMP-029, CMP-039: a gapless log, one user message per receipt
    in order of admission, one settlement per call, one end per step, histories that every protocol accepts, requests
    that equal a cold load byte for byte, and projections that equal their rebuild."""
    run_state_machine_as_test(SessionMachine, settings=SOME)
