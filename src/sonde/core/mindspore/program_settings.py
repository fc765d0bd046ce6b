"""Settings that a program changes while it runs, with ``sonde.context.set_context``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ProgramSettings:
    """``class_names_in_scopes``: whether scopes of modules that get a name from now on have the
    class: ``Default/network-Net/fc-Linear``, or without ``Default/network/fc``."""

    class_names_in_scopes: bool = True


PROGRAM = ProgramSettings()
"""Those of this process; written by the training thread."""
