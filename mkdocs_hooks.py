"""Hooks of ``mkdocs build``: links that leave ``docs/``, pages without a place, words of MindSpore.

Pages link to files of the repository that are outside ``docs/``, as readers of the repository need
it. The site has a copy of each such file under ``source/``, and the links lead there.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent
COPIES = "source/"
FENCED = re.compile(r"(?ms)^(```.*?^```)")
LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)\s]*)?\))")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add a section *More* with the pages that the navigation does not name."""
    docs = Path(config.docs_dir)
    named = set(_named(config.nav))
    missing = sorted(path.name for path in docs.glob("*.md") if path.name not in named)
    if missing:
        config.nav = [*(config.nav or []), {"More": missing}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside ``docs/`` that pages link to, and those that these link to."""
    waiting = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    waiting += [_origin(name) for name in _named(config.nav) if _is_copy(name)]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        if not path.startswith("docs/"):
            file = File.generated(config, COPIES + path, abs_src_path=str(ROOT / path))
            files.append(file)
        if path.endswith(".md"):
            found = {target for target in _targets(path) if (ROOT / target).is_file()} - seen
            seen |= found
            waiting += [target for target in found if not target.startswith("docs/")]
    return files


@event_priority(100)  # Before the plugin that reads the tags.
def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links fit the site, and give the page the words of MindSpore by which it is found."""
    words = _words_of_pages().get(page.file.src_uri)
    if words:
        page.meta["tags"] = words
    here = _origin(page.file.src_uri)

    def adapted(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(here), match[2]))
        place = target.removeprefix("docs/") if target.startswith("docs/") else COPIES + target
        return match[1] + posixpath.relpath(place, posixpath.dirname(page.file.src_uri)) + match[3]

    parts = FENCED.split(markdown)
    parts[::2] = [LINK.sub(adapted, part) for part in parts[::2]]
    return "".join(parts)


def _named(nav: Any) -> Iterator[str]:
    """The files that a navigation names, at all depths."""
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        yield from _named(list(nav.values()))
    else:
        for each in nav or []:
            yield from _named(each)


def _is_copy(place: str) -> bool:
    return place.startswith(COPIES)


def _origin(place: str) -> str:
    """The path in the repository of a file of the site."""
    return place.removeprefix(COPIES) if _is_copy(place) else f"docs/{place}"


def _targets(path: str) -> Iterator[str]:
    """The files that a page of the repository links to."""
    text = "".join(FENCED.split((ROOT / path).read_text())[::2])
    for match in LINK.finditer(text):
        yield posixpath.normpath(posixpath.join(posixpath.dirname(path), match[2]))


def _words_of_pages() -> dict[str, list[str]]:
    """The words of MindSpore for each page."""
    words: defaultdict[str, list[str]] = defaultdict(list)
    for entry in yaml.safe_load((ROOT / "docs" / "mindspore_words.yaml").read_text()):
        words[entry["page"].partition("#")[0]].append(entry["word"])
    return words
