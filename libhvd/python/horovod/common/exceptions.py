# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the package, apart from ValueError for wrong arguments.

They are what a program catches to tell "I called it wrongly" from "the job is in trouble".
"""

from typing import Optional


class HorovodInternalError(RuntimeError):
    """An operation failed across ranks: they disagree about it, or one of them died, left or stalls.

    The text says who and how. Raised by synchronize(), by the operations that wait, and by submitting an operation
    after a rank is lost. After a disagreement the job goes on; after a lost rank every operation fails.
    """


class HostsUpdatedInterrupt(RuntimeError):
    """The job's hosts changed: training has to be set up again (elastic training).

    ``skip_sync`` is true if no rank is new, so that the state need not be broadcast.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the hosts of the job have changed")
        self.skip_sync = skip_sync


class WorkersAvailableException(HorovodInternalError):
    """Ranks can be added to the job (kept for programs that catch it; nothing here raises it)."""


def get_version_mismatch_message(name: str, version: str, installed_version: Optional[str]) -> str:
    """The text of a HorovodVersionMismatchError.

    Args:
        name: the framework's name.
        version: the version that is loaded.
        installed_version: the version that the package was made for, or None.
    """
    return (f'{name} {version} is loaded, but the package was made for {installed_version or "no version of it"}. '
            'Nothing here is compiled for a version, so this is only raised by other packages.')


class HorovodVersionMismatchError(ImportError):
    """A framework's version is not the one that an extension was built for (never so here: nothing is compiled).

    Args and attributes: ``name``, ``version`` and ``installed_version`` as for get_version_mismatch_message().
    """

    def __init__(self, name: str, version: str, installed_version: Optional[str]) -> None:
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name = name
        self.version = version
        self.installed_version = installed_version
