"""The error for an extra of this distribution that is not installed."""

from __future__ import annotations

from wane.core.errors import MissingExtensionError
from wane.installing import installation


class MissingResearchError(MissingExtensionError):
    """A part of `wane-research` whose extra is not installed.

    Args:
        part: what needs it, as a user would call it.
        extra: the extra to install.
    """

    def __init__(self, part: str, extra: str) -> None:
        requirement = f"wane-research[{extra}]"
        super().__init__(f"{part} needs {requirement}", installation().package_line(requirement))
        self.part = part
        self.extra = extra

    def __reduce__(self) -> tuple[type[MissingResearchError], tuple[str, str]]:
        # By default, unpickling passes the message alone.
        return type(self), (self.part, self.extra)
