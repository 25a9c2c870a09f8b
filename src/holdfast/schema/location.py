"""Locations."""

from holdfast.schema.record import Record


class Location(Record):
    """A project directory, with an optional workspace."""

    directory: str
    workspace_id: str | None = None


class LocationProject(Record):
    id: str
    directory: str


class LocationInfo(Record):
    directory: str
    workspace_id: str | None = None
    project: LocationProject
