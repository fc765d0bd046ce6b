from pathlib import Path

import pytest
from tests.profile.made import profile

from sonde.core.errors import SondeError
from sonde.profile.document import load_profile, save_profile


def test_a_profile_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    made = profile(0.1, findings=2)
    save_profile(made, tmp_path / "profile.json")
    assert load_profile(tmp_path / "profile.json") == made
    assert load_profile(tmp_path) == made


@pytest.mark.parametrize(
    ("text", "why"),
    [("{}", "is not a profile"), ("", "is not a profile"), ('{"format": "a"}', "is not a profile")],
)
def test_a_file_that_is_not_a_profile_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(SondeError, match=why):
        load_profile(tmp_path / "a.json")


def test_another_format_is_refused(tmp_path: Path) -> None:
    save_profile(profile(), tmp_path / "a.json")
    text = (tmp_path / "a.json").read_text().replace('"format": 1', '"format": 2')
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(SondeError, match="has format 2"):
        load_profile(tmp_path / "a.json")
