"""What the model reads, pinned once; other tests look at structure."""

from __future__ import annotations

from holdfast.core.context import configured, date, environment, instructions, model, nested, remote


def test_the_sentences_of_the_baseline_are_these_constants() -> None:
    """CTX-203: each text is one constant. A change here is a change of what every new baseline says."""
    assert (environment.BASELINE, environment.UPDATE) == (
        "This is the environment that you work in:",
        "You now work in this environment:",
    )
    assert (date.BASELINE, date.UPDATE) == ("Today's date is {}.", "Today's date is now {}.")
    assert (model.BASELINE, model.UPDATE, model.REMOVED) == (
        "The selected model is {}/{}.",
        "The selected model is now {}/{}.",
        "Which model is selected is no longer stated.",
    )
    assert instructions.HEADING == "Instructions from: {}\n{}"
    for kind, module in (("ambient", instructions), ("configured", configured), ("nested", nested)):
        assert f"The following instructions replace every {kind} instruction that was given before." == module.UPDATE
        assert f"The {kind} instructions given before are no longer in force." == module.REMOVED
    assert remote.UPDATE == "The following instructions replace those given before from {}."
    assert remote.REMOVED == "The instructions given before from {} are no longer in force."
