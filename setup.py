"""The native parts, each optional (Sonde works without a compiler, only slower), and rule pages.

Everything else about the package stands in ``pyproject.toml``.
"""

from __future__ import annotations

import shutil
from glob import glob
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py


class BuildWithPages(build_py):
    """Adds the pages of the rules, which the debugger shows; a checkout has them in ``docs``."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            pages = Path(self.build_lib, "sonde", "diagnosis", "pages")
            pages.mkdir(parents=True, exist_ok=True)
            for page in sorted(glob("docs/rules/*.md")):
                shutil.copy(page, pages)


SHARED = sorted(glob("native/shared/*.h"))

EXTENSIONS = [
    Extension(
        "sonde.kernels._native",
        sources=sorted(glob("native/kernels/*.cpp")),
        depends=sorted(glob("native/kernels/*.h")) + SHARED,
        include_dirs=["native"],
        extra_compile_args=[
            "-std=c++17",
            "-O3",
            # The same bits on every path: no fused multiply-add where the source has none.
            "-ffp-contract=off",
            "-fno-math-errno",
            "-fno-trapping-math",
            # Tensors are read as numbers and as their bits.
            "-fno-strict-aliasing",
            "-fvisibility=hidden",
            "-pthread",
            "-Wall",
            "-Wextra",
        ],
        extra_link_args=["-pthread"],
        language="c++",
        optional=True,
    ),
    Extension(
        "sonde.adapters.torch.eager._match",
        sources=sorted(glob("native/match/*.cpp")),
        depends=sorted(glob("native/match/*.h")) + SHARED,
        include_dirs=["native"],
        extra_compile_args=[
            "-std=c++17",
            "-O2",
            "-fvisibility=hidden",
            "-Wno-missing-field-initializers",
        ],
        language="c++",
        optional=True,
    ),
    Extension(
        "sonde.dump.writing._writer",
        sources=[
            "native/writer/engine.cpp",
            "native/writer/files.cpp",
            "native/writer/module.cpp",
            "native/writer/queueing.cpp",
            "native/writer/waiting.cpp",
        ],
        depends=sorted(glob("native/writer/*.hpp")) + SHARED,
        include_dirs=["native"],
        extra_compile_args=["-std=c++17", "-O3", "-fvisibility=hidden", "-pthread"],
        extra_link_args=["-pthread"],
        language="c++",
        optional=True,
    ),
]

setup(ext_modules=EXTENSIONS, cmdclass={"build_py": BuildWithPages})
