"""Where a Session lives."""

from holdfast.schema.record import Record


class Location(Record):
    """A project directory; an absent workspace means implicit local placement."""

    directory: str
    workspace_id: str | None = None


class LocationProject(Record):
    id: str
    directory: str


class LocationInfo(Record):
    directory: str
    workspace_id: str | None = None
    project: LocationProject
