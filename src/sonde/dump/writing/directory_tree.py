"""Directories that are renamed while files in them are known: where each of them is now.

Renaming costs the same however many directories are known: a renamed one takes all below it along.
Directories to which no caller refers are forgotten.
"""

from __future__ import annotations

from weakref import WeakValueDictionary


class Directory:
    """One directory. Its parent is kept alive by it, its children are not."""

    __slots__ = ("__weakref__", "_merged_into", "children", "name", "parent")

    def __init__(self, parent: Directory | None, name: str) -> None:
        self.parent = parent
        self.name = name
        self.children: WeakValueDictionary[str, Directory] = WeakValueDictionary()
        self._merged_into: Directory | None = None

    def current(self) -> Directory:
        found = self
        while found._merged_into is not None:
            found = found._merged_into
        return found

    def path(self) -> str:
        """The present path, without a slash at the end."""
        parts: list[str] = []
        node: Directory | None = self.current()
        while node is not None and node.parent is not None:
            parts.append(node.name)
            node = node.parent.current()
        return "".join(f"/{part}" for part in reversed(parts))

    def move_to(self, parent: Directory, name: str) -> None:
        """Become ``name`` of ``parent``; if that is known already, its children get ours."""
        there = parent.children.get(name)
        if there is None:
            self.parent, self.name = parent, name
            parent.children[name] = self
            return
        self._merged_into = there
        for child in list(self.children.values()):
            child.move_to(there, child.name)


class DirectoryTree:
    """The known directories, by absolute path. Not locked: its owner has a lock."""

    def __init__(self) -> None:
        self._root = Directory(None, "")

    def at(self, path: str) -> Directory:
        """The directory that is at ``path`` now."""
        node = self._root
        for part in path.split("/"):
            if part:
                child = node.children.get(part)
                if child is None:
                    child = node.children[part] = Directory(node, part)
                node = child
        return node

    def move(self, old: str, new: str) -> None:
        """Note that the directory ``old`` was renamed to ``new``, or merged into it."""
        moved = self._known(old)
        if moved is None or moved.parent is None or old == new:
            return
        moved.parent.current().children.pop(moved.name, None)
        parent, _, name = new.rpartition("/")
        moved.move_to(self.at(parent), name)

    def _known(self, path: str) -> Directory | None:
        node: Directory | None = self._root
        for part in path.split("/"):
            if part and node is not None:
                node = node.children.get(part)
        return node
