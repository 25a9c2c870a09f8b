"""A conversation for reading, outside of Holdfast: JSON, Markdown, or one HTML page."""
