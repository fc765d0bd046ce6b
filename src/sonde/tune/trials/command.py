"""Builds the command and the environment of a trial from its values."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sonde.core.settings import nearest
from sonde.tune.config.search_config import TuneConfig
from sonde.tune.config.space import SearchParameter, Value
from sonde.tune.errors import TuneError
from sonde.tune.script_side.current import HYPER_CONFIG_VARIABLE, TRIAL_VARIABLE, VALUES_VARIABLE
from sonde.tune.script_side.script_scan import ScriptInputs, scan_command

Way = Literal["placeholder", "replaced", "appended", "environment", "code"]

SYSTEM_NAMES: dict[str, tuple[str, ...]] = {
    "learning_rate": ("learning_rate", "lr"),
    "batch_size": ("batch_size", "bs"),
    "epoch": ("epoch", "epochs", "num_epochs", "n_epochs", "max_epochs", "epoch_size"),
}
"""The names under which scripts take MindOptimizer's system-defined parameters."""
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_DESCRIPTIONS: dict[Way, str] = {
    "placeholder": "{{{parameter}}} in the command",
    "replaced": "{name} in the command",
    "appended": "{name}, added to the command",
    "environment": "the variable {name}",
    "code": "sonde.tune.suggest() or HyperConfig in the script",
}


@dataclass(frozen=True, slots=True)
class Launch:
    """A trial's command: its words, and the variables that are set for it."""

    words: tuple[str, ...]
    environment: dict[str, str]
    shown: dict[str, str] = field(default_factory=dict)
    """The variables that a user must set to run the command again."""

    def text(self) -> str:
        """The command as a user would type it."""
        assigned = [f"{name}={shlex.quote(value)}" for name, value in self.shown.items()]
        return " ".join([*assigned, shlex.join(self.words)])


@dataclass(frozen=True, slots=True)
class Delivery:
    """How one parameter is passed to the script; ``name`` is the option or variable."""

    parameter: SearchParameter
    way: Way
    name: str = ""

    def described(self) -> str:
        return _DESCRIPTIONS[self.way].format(parameter=self.parameter.name, name=self.name)


class CommandTemplate:
    """The command of a configuration, to be filled with values.

    ``unused`` names the parameters that neither the command nor the scripts it names use.
    """

    def __init__(self, config: TuneConfig) -> None:
        self._config = config
        self._words = config.command
        self._assigned = dict(config.assignments)
        self._placeholders = (*config.space.names, "summary_dir")
        self._check_placeholders()
        inputs = scan_command(config.command, Path.cwd())
        self.deliveries = tuple(self._deliver(one, inputs) for one in config.space.parameters)
        self._asks = inputs.asks_the_search or any(one.way == "code" for one in self.deliveries)
        self._is_opaque = not inputs.is_readable
        self.unused = tuple(
            one.parameter.name
            for one in self.deliveries
            if one.way == "code" and inputs.is_readable and not inputs.asks_the_search
        )

    def render(self, values: Mapping[str, Value], directory: Path | None) -> Launch:
        """The launch of a trial; without a directory, that of a run outside a search."""
        words, environment = self._fill(values, directory)
        shown = {**dict(self._config.environment), **environment}
        encoded = json.dumps(dict(values), allow_nan=False)
        if self._asks or set(values) - set(self._config.space.names):
            shown[VALUES_VARIABLE] = encoded
        if directory is None:
            return Launch(words, shown, shown)
        hidden = {
            TRIAL_VARIABLE: str(directory),
            VALUES_VARIABLE: encoded,
            HYPER_CONFIG_VARIABLE: json.dumps(
                {
                    "params": dict(values),
                    "summary_dir": str(directory),
                    "custom_lineage_data": {
                        one.name: values[one.name]
                        for one in self._config.space.parameters
                        if one.source == "user_defined" and one.name in values
                    },
                },
                allow_nan=False,
            ),
            "PYTHONUNBUFFERED": "1",  # the output is read while the script runs
        }
        return Launch(words, {**hidden, **shown}, shown)

    def _check_placeholders(self) -> None:
        for word in self._words:
            for found in _PLACEHOLDER.findall(word):
                hint = nearest(found, self._placeholders)
                if found not in self._placeholders and hint:
                    raise TuneError(
                        f"{self._config.path}: command has {{{found}}}, no parameter{hint}",
                        slug="tune-command",
                    )

    def _deliver(self, parameter: SearchParameter, inputs: ScriptInputs) -> Delivery:
        words = (*self._words, *self._assigned.values())
        if any(f"{{{parameter.name}}}" in word for word in words):
            return Delivery(parameter, "placeholder")
        if parameter.argument is not None:
            is_there = _position(self._words, parameter.argument) is not None
            return Delivery(parameter, "replaced" if is_there else "appended", parameter.argument)
        if parameter.environment is not None:
            return Delivery(parameter, "environment", parameter.environment)
        names = _names_of(parameter)
        for word in self._words:
            option = word.partition("=")[0]
            if _bare(option) in names and ("=" in word or option.startswith("-")):
                return Delivery(parameter, "replaced", option)
        for variable in (*self._assigned, *sorted(inputs.variables)):
            if variable.lower() in names:
                return Delivery(parameter, "environment", variable)
        for option in sorted(inputs.options, key=len, reverse=True):
            if _bare(option) in names:
                return Delivery(parameter, "appended", option)
        return Delivery(parameter, "code")

    def _fill(
        self, values: Mapping[str, Value], directory: Path | None
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        environment = dict(self._assigned)
        words = list(self._words)
        for delivery in self.deliveries:
            parameter = delivery.parameter
            is_given = parameter.name in values
            value = values.get(parameter.name)
            if delivery.way == "environment":
                environment.pop(delivery.name, None)
                if is_given:
                    environment[delivery.name] = value_text(value, parameter)
            elif delivery.way == "replaced":
                _replace(words, delivery.name, value, parameter, is_given=is_given)
            elif delivery.way == "appended" and is_given:
                words += _option(delivery.name, value, parameter)
            elif delivery.way == "code" and self._is_opaque and is_given:
                # The program cannot be scanned: it may read the usual variables.
                for name in _names_of(parameter):
                    environment[name.upper()] = value_text(value, parameter)
        texts = {
            one.name: value_text(values[one.name], one)
            for one in self._config.space.parameters
            if one.name in values
        }
        texts["summary_dir"] = "summary" if directory is None else str(directory)
        filled = _fill_placeholders(words, texts, self._placeholders)
        return filled, {name: _filled(text, texts) for name, text in environment.items()}


def value_text(value: Value, parameter: SearchParameter | None = None) -> str:
    """A value as a word; numbers with a step without binary rounding errors (0.3)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if parameter is not None and parameter.step is not None:
            value = float(f"{value:.12g}")
        return repr(value)
    return str(value)


def _names_of(parameter: SearchParameter) -> tuple[str, ...]:
    if parameter.source == "system_defined":
        return SYSTEM_NAMES[parameter.name]
    return (parameter.name.lower(),)


def _bare(option: str) -> str:
    return option.lstrip("-").replace("-", "_").lower()


def _position(words: Sequence[str], option: str) -> int | None:
    for index, word in enumerate(words):
        if word == option or word.startswith(f"{option}="):
            return index
    return None


def _option(name: str, value: Value, parameter: SearchParameter) -> list[str]:
    """The words of an option; a true flag has no value, a false flag is left out."""
    if isinstance(value, bool):
        return [name] if value else []
    if name.endswith("="):
        return [f"{name}{value_text(value, parameter)}"]
    return [name, value_text(value, parameter)]


def _replace(
    words: list[str], option: str, value: Value, parameter: SearchParameter, *, is_given: bool
) -> None:
    """Replace the value of an option in the command; without a value, remove the option."""
    index = _position(words, option)
    if index is None:
        return
    if "=" in words[index]:
        words[index : index + 1] = [f"{option}={value_text(value, parameter)}"] if is_given else []
        return
    has_value = index + 1 < len(words) and not _is_option(words[index + 1])
    new = _option(option, value, parameter) if is_given else []
    words[index : index + (2 if has_value else 1)] = new


def _is_option(word: str) -> bool:
    return bool(re.match(r"--?[A-Za-z]", word))


def _fill_placeholders(
    words: Sequence[str], texts: Mapping[str, str], known: Sequence[str]
) -> tuple[str, ...]:
    """Fill in the placeholders; a word without a value is removed, with the option before it."""
    filled: list[str] = []
    for word in words:
        missing = [one for one in _PLACEHOLDER.findall(word) if one in known and one not in texts]
        if not missing:
            filled.append(_filled(word, texts))
        elif _PLACEHOLDER.fullmatch(word) and filled and _is_option(filled[-1]):
            filled.pop()
    return tuple(filled)


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)


def check_program(words: Sequence[str]) -> None:
    """A `TuneError` if the command's program cannot be found."""
    if shutil.which(words[0]) is None:
        raise TuneError(
            f"the command's program {words[0]!r} cannot be found or run", slug="tune-command"
        )
