"""One table of checkpoint formats: suffixes, readers and writers, and what each part derives."""

from sonde.compare.weights.file_formats import FILE_FORMATS, PREFERENCE, SUFFIXES
from sonde.train.checkpoint import format as training


def test_every_suffix_belongs_to_one_format_and_has_a_place_in_directories() -> None:
    listed = [suffix for each in FILE_FORMATS.values() for suffix in each.suffixes]
    assert len(set(listed)) == len(listed)
    assert set(PREFERENCE) == set(SUFFIXES) == set(listed)


def test_a_reader_exists_for_each_format_and_only_torch_brings_its_own() -> None:
    assert [name for name, each in FILE_FORMATS.items() if each.read is None] == ["torch"]


def test_training_saves_in_the_formats_of_the_table() -> None:
    assert training.FORMATS == ("ckpt", "safetensors", "pt")
    assert training.SUFFIXES == {
        ".ckpt": "ckpt",
        ".safetensors": "safetensors",
        ".pt": "pt",
        ".pth": "pt",
    }
    for each in FILE_FORMATS.values():
        assert set(each.trained) <= set(each.suffixes)
