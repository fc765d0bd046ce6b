from collections.abc import Iterator

import optuna
import pytest


@pytest.fixture(autouse=True)
def _quiet_optuna(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for name in ("SONDE_TUNE_TRIAL", "SONDE_TUNE_VALUES", "MINDINSIGHT_HYPER_CONFIG", "RANK"):
        monkeypatch.delenv(name, raising=False)
    yield
    optuna.logging.set_verbosity(level)
