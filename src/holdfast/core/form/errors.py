"""How a form is refused, or not found.

InvalidForm          its definition is not valid
InvalidFormAnswer    the answer does not fit the form, which goes on waiting
FormNotFound         no such form
FormAlreadySettled   the form was answered or cancelled before
"""

from __future__ import annotations

from holdfast.schema.exceptions import FormAlreadySettled as FormAlreadySettled
from holdfast.schema.exceptions import FormNotFound as FormNotFound
from holdfast.schema.exceptions import InvalidFormAnswer as InvalidFormAnswer
from holdfast.schema.exceptions import InvalidRequest


class InvalidForm(InvalidRequest):
    """The definition of a form is not valid; the reason names the field."""

    def __init__(self, reason: str, *, field: str = "fields") -> None:
        super().__init__(f"This form is not valid: {reason}", kind="Payload", field=field)
        self.reason = reason
