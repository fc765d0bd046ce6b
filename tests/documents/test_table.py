"""The table of docs/mindspore.md, and the index of ``sonde find``, are those of the tests."""

from tests.documents.table import DOCUMENTS, INDEX, PAGE, all_proofs, index, page


def test_the_page_shows_the_tests_of_today() -> None:
    assert PAGE.read_text() == page(), "write it anew: python -m tests.documents.table"


def test_the_index_of_the_package_shows_the_tests_of_today() -> None:
    assert INDEX.read_text() == index(), "write it anew: python -m tests.documents.table"


def test_items_have_numbers_of_the_documents() -> None:
    assert set(all_proofs()) <= set(range(1, 259))
    numbers = [number for _, first, last in DOCUMENTS for number in range(first, last + 1)]
    assert numbers == list(range(1, 259))


def test_every_item_of_the_documents_is_proved() -> None:
    missing = set(range(1, 259)) - set(all_proofs())
    assert missing == set()
