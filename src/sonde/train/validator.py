"""The checks of arguments, under the name that users import in their own schedules and metrics."""

from sonde.core.arguments import *  # noqa: F403 - every name, for users
