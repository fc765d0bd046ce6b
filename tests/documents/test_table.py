"""The table of docs/mindspore.md is that of the tests."""

from tests.documents.table import PAGE, all_proofs, page


def test_the_page_shows_the_tests_of_today() -> None:
    assert PAGE.read_text() == page(), "write it anew: python -m tests.documents.table"


def test_items_have_numbers_of_the_documents() -> None:
    assert set(all_proofs()) <= set(range(1, 259))
