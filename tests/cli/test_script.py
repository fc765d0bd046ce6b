"""A program under ``sonde run`` behaves as under ``python``: both are run and compared."""

import os
import py_compile
import re
import signal
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

STUBBED = Path(__file__).with_name("stubbed.py")
SRC = Path(__file__).parents[2] / "src"


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def brief(self) -> tuple[int, bool, list[str]]:
        """The exit code and how the error, if any, begins its last line."""
        return (
            self.code,
            bool(self.err),
            [line.split(":")[0] for line in self.err.splitlines()[-1:]],
        )


@dataclass(frozen=True)
class Folder:
    """A folder with programs, and two ways to run them."""

    path: Path

    def write(self, name: str, text: str) -> None:
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(dedent(text))

    def python(self, *words: str, flags: tuple[str, ...] = (), stdin: str = "") -> Ended:
        return self._run([sys.executable, *flags, *words], stdin)

    def sonde(self, *words: str, flags: tuple[str, ...] = (), stdin: str = "") -> Ended:
        return self._run([sys.executable, *flags, str(STUBBED), "run", *words], stdin)

    def _run(self, command: list[str], stdin: str) -> Ended:
        environ = {
            **os.environ,
            "PYTHONPATH": str(SRC),
            "SONDE_TEST_LOG": str(self.path / "log"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        done = subprocess.run(
            command, cwd=self.path, env=environ, input=stdin, capture_output=True, text=True
        )
        err = re.sub(r"(?m)^sonde: nothing is dumped.*\n", "", done.stderr)
        err = re.sub(r'(?m)^  File "<frozen (runpy|importlib).*\n', "", err)
        return Ended(done.returncode, done.stdout, err)

    @property
    def log(self) -> list[str]:
        return (self.path / "log").read_text().splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


PROGRAMS = {
    "its_own_globals": """
        import sys
        names = sorted(name for name in globals() if name != "names")
        print(names, __name__, __file__, __package__, __cached__, __doc__)
        print(__spec__ and (__spec__.name, __spec__.origin))
        print(type(__loader__).__name__, __loader__.name, __loader__.path, type(__builtins__))
        print(sys.argv, sys.path)
        import __main__
        print(__main__ is sys.modules["__main__"], vars(__main__) is globals())
        """,
    "arguments_that_look_like_ours": "import sys; print(sys.argv)",
    "exit_with_a_number": "import sys; sys.exit(3)",
    "exit_with_a_text": "import sys; sys.exit('the reason')",
    "exit_with_nothing": "import sys; print('x'); sys.exit()",
    "exit_with_a_bool": "raise SystemExit(True)",
    "exit_with_a_list": "raise SystemExit([1, 2])",
    "exit_with_a_huge_number": "raise SystemExit(2 ** 40 + 5)",
    "exit_at_once": "import os; print('x', flush=True); os._exit(7)",
    "an_exception": """
        def inner():
            raise ValueError("wrong")
        inner()
        """,
    "a_chain_of_exceptions": """
        def first():
            raise KeyError("a")
        try:
            first()
        except KeyError as error:
            raise RuntimeError("b") from error
        """,
    "an_exception_in_an_exception": """
        try:
            {}["a"]
        except KeyError:
            1 / 0
        """,
    "an_error_of_sonde_raised_by_the_program": """
        from sonde.core.errors import UsageError
        raise UsageError("mine", slug="mine")
        """,
    "a_recursion": """
        import sys
        sys.tracebacklimit = 2
        def f(n):
            f(n + 1)
        try:
            f(0)
        except RecursionError:
            print("deep")
        """,
    "a_syntax_error": "x = (\n",
    "a_nul": "x = '\0'\n",
    "an_annotation_is_evaluated": "def f(x: undefined): pass\n",
    "a_hook_of_its_own": """
        import sys, traceback
        def hook(kind, value, trace):
            frames = traceback.extract_tb(trace)
            print("hook", kind.__name__, len(frames), value.__traceback__ is trace)
        sys.excepthook = hook
        1 / 0
        """,
    "a_hook_that_fails": """
        import sys
        def hook(*_):
            raise KeyError("in the hook")
        sys.excepthook = hook
        1 / 0
        """,
    "functions_at_exit": """
        import atexit, sys
        atexit.register(lambda: print("last", sys.argv, __name__, sys.modules["__main__"].x))
        atexit.register(print, "first")
        x = 1
        print("body")
        sys.exit(4)
        """,
    "a_thread_that_outlives_the_body": """
        import threading
        release = threading.Event()
        def work():
            release.wait()
            print("thread")
        threading.Thread(target=work).start()
        print("body")
        release.set()
        """,
    "an_exception_in_a_thread": """
        import threading
        def work():
            raise ValueError("in a thread")
        thread = threading.Thread(target=work, name="worker")
        thread.start()
        thread.join()
        """,
    "reading_stdin": "import sys; print(sys.stdin.read().upper(), input.__name__)",
    "a_warning": """
        import warnings
        warnings.warn("shown because it is in __main__", DeprecationWarning)
        """,
    "an_interrupt": """
        import os, signal
        def deep():
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(10 ** 9):
                pass
        deep()
        """,
    "an_interrupt_it_catches": """
        import os, signal
        try:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(10 ** 9):
                pass
        except KeyboardInterrupt:
            print("caught")
        """,
    "a_termination": """
        import os, signal
        os.kill(os.getpid(), signal.SIGTERM)
        """,
    "pickles_of_its_classes": """
        import pickle
        class Net:
            pass
        print(type(pickle.loads(pickle.dumps(Net()))) is Net, Net.__module__)
        """,
    "type_hints_of_its_functions": """
        from __future__ import annotations
        import inspect, typing
        class Net: ...
        def build(net: Net) -> int: ...
        print(typing.get_type_hints(build), inspect.getsource(build), inspect.getfile(Net))
        """,
    "children_that_are_spawned": """
        import multiprocessing
        def double(x):
            return 2 * x, __name__
        print(__name__)
        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(double, [1, 2]))
        """,
    "children_that_are_forked": """
        import multiprocessing
        def double(x):
            return 2 * x, __name__
        if __name__ == "__main__":
            with multiprocessing.get_context("fork").Pool(1) as pool:
                print(pool.map(double, [1, 2]))
        """,
    "a_fork_that_runs_to_the_end": """
        import os, sys
        child = os.fork()
        if child == 0:
            print("child", flush=True)
            sys.exit(9)
        print("parent", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
}


SHOWN_OTHERWISE = {
    "a_nul",  # compile() has other words for it than the reader of files
    "a_hook_that_fails",  # the frame that called it is ours
}
FRAMES_OF_RUNPY = {"a_syntax_error", "a_hook_of_its_own"}  # which python -m shows and we do not


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_script_is_the_same_with_and_without_sonde(folder: Folder, name: str) -> None:
    folder.write("program.py", PROGRAMS[name])
    words = ("program.py", "--stats", "-m", "x", "--", "--help")
    plain = folder.python(*words, stdin="from stdin")
    ours = folder.sonde(*words, stdin="from stdin")
    assert ours.brief == plain.brief
    if name not in SHOWN_OTHERWISE:
        assert ours == plain


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_module_is_the_same_with_and_without_sonde(folder: Folder, name: str) -> None:
    folder.write("package/__init__.py", "")
    folder.write("package/program.py", PROGRAMS[name])
    words = ("-m", "package.program", "--stats", "-m", "x", "--", "--help")
    plain = folder.python(*words, stdin="from stdin")
    ours = folder.sonde(*words, stdin="from stdin")
    assert ours.brief == plain.brief
    if name not in {*SHOWN_OTHERWISE, *FRAMES_OF_RUNPY}:
        assert ours == plain


@pytest.mark.parametrize(
    "word", ["./program.py", "sub/../program.py", "sub/link.py", "{}/program.py"]
)
def test_a_script_reached_by_any_path(folder: Folder, word: str) -> None:
    folder.write("program.py", PROGRAMS["its_own_globals"])
    folder.write("sub/empty", "")
    (folder.path / "sub" / "link.py").symlink_to("../program.py")
    word = word.format(folder.path)
    assert folder.sonde(word) == folder.python(word)


@pytest.mark.parametrize("flags", [("-O",), ("-P",), ("-I",), ("-W", "error"), ("-X", "dev")])
def test_flags_of_the_interpreter_hold(folder: Folder, flags: tuple[str, ...]) -> None:
    if "-P" in flags and sys.version_info < (3, 11):
        pytest.skip("-P came with 3.11")
    folder.write("program.py", "import sys\nprint(sys.flags, __debug__, sys.argv)\n")
    assert folder.sonde("program.py", flags=flags) == folder.python("program.py", flags=flags)


def test_the_script_s_folder_is_searched_unless_python_is_in_safe_mode(folder: Folder) -> None:
    folder.write("sub/beside.py", "")
    folder.write("sub/program.py", "import beside")
    assert folder.sonde("sub/program.py").code == 0
    assert "No module named 'beside'" in folder.sonde("sub/program.py", flags=("-I",)).err


def test_a_directory_and_a_zip_file_with_a_main(folder: Folder) -> None:
    text = "import sys, beside\nprint(__file__, __spec__.name, __package__, sys.argv, sys.path[0])"
    folder.write("app/__main__.py", text)
    folder.write("app/beside.py", "")
    with zipfile.ZipFile(folder.path / "app.zip", "w") as archive:
        archive.write(folder.path / "app" / "__main__.py", "__main__.py")
        archive.write(folder.path / "app" / "beside.py", "beside.py")
    for word in ("app", "app.zip", "./app/"):
        plain = folder.python(word, "a")
        assert plain.code == 0
        assert folder.sonde(word, "a") == plain


def test_a_compiled_file(folder: Folder) -> None:
    folder.write("program.py", "print(__name__, __file__)")
    py_compile.compile(str(folder.path / "program.py"), str(folder.path / "program.pyc"))
    assert folder.sonde("program.pyc") == folder.python("program.pyc")


def test_a_package_runs_its_main_and_imports_relatively(folder: Folder) -> None:
    folder.write("package/__init__.py", "import sys; print('init', sys.argv[0], sys.path[0])")
    folder.write("package/part.py", "value = 5")
    folder.write("package/__main__.py", "from .part import value; print(value, __package__)")
    assert folder.sonde("-m", "package") == folder.python("-m", "package")
    assert folder.sonde("-mpackage") == folder.python("-mpackage")


def test_a_package_that_fails_to_import_is_the_programs_own_error(folder: Folder) -> None:
    folder.write("package/__init__.py", "1 / 0")
    folder.write("package/program.py", "")
    plain = folder.python("-m", "package.program")
    assert plain.code == 1
    assert folder.sonde("-m", "package.program") == plain


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere.py",), "can't open file '{}/nowhere.py': [Errno 2] No such file or directory"),
        (("empty",), "can't find '__main__' module in '{}/empty'"),
        (("-m", "nowhere"), "No module named nowhere"),
        (("-m", "nowhere.at.all"), "Error while finding module specification for 'nowhere.at.all'"),
        (("-m", "package"), "No module named package.__main__; 'package' is a package and cannot"),
        (("-",), "can't open file '{}/-': [Errno 2] No such file or directory"),
    ],
)
def test_a_program_that_is_not_there_is_one_line_and_exit_code_2(
    folder: Folder, words: tuple[str, ...], said: str
) -> None:
    (folder.path / "empty").mkdir()
    folder.write("package/__init__.py", "")
    ended = folder.sonde(*words)
    assert ended.code == 2
    assert ended.out == ""
    assert len(ended.err.splitlines()) == 1
    assert ended.err.startswith(f"sonde: {said.format(folder.path)}")
    assert ended.err.endswith(" [program-not-found]\n")
    assert not (folder.path / "log").exists(), "nothing was attached"


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("", "leave"),
        ("import sys; sys.exit(3)", "leave SystemExit"),
        ("1 / 0", "leave ZeroDivisionError"),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGINT); [0 for _ in range(10**9)]",
            "leave KeyboardInterrupt",
        ),
    ],
)
def test_the_capture_is_left_before_the_process_ends_however_it_ends(
    folder: Folder, body: str, left: str
) -> None:
    note = "import atexit, os; atexit.register(lambda: open('log', 'a').write('atexit\\n'))\n"
    folder.write("program.py", note + body)
    folder.sonde("program.py")
    assert folder.log == ["attach nothing, optimizer", left, "atexit"]


def test_a_forked_child_does_not_leave_its_parents_capture(folder: Folder) -> None:
    folder.write("program.py", PROGRAMS["a_fork_that_runs_to_the_end"])
    folder.sonde("program.py")
    assert folder.log == ["attach nothing, optimizer", "leave"]


def test_a_capture_that_fails_at_the_end_does_not_change_how_the_program_ends(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SONDE_TEST_FAIL", "1")
    folder.write("good.py", "print('done')")
    folder.write("bad.py", "import sys; sys.exit(5)")
    good = folder.sonde("good.py")
    assert (good.code, good.out) == (0, "done\n")
    lines = good.err.splitlines()
    assert "sonde: Traceback (most recent call last):" in lines
    assert "sonde: RuntimeError: the sink broke" in lines
    assert good.err.endswith("sonde: the failure above is Sonde's, not your program's\n")
    assert folder.sonde("bad.py").code == 5


def test_a_reader_that_goes_away_ends_the_program_as_it_would_without_sonde(
    folder: Folder,
) -> None:
    folder.write("program.py", "for n in range(100000): print(n)")
    codes = []
    for start in ([], [str(STUBBED), "run"]):
        environ = {**os.environ, "PYTHONPATH": str(SRC), "SONDE_TEST_LOG": os.devnull}
        with subprocess.Popen(
            [sys.executable, *start, "program.py"],
            cwd=folder.path,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == b"0\n"
            process.stdout.close()
            assert b"BrokenPipeError" in process.stderr.read()
        codes.append(process.returncode)
    assert codes[0] == codes[1]
    assert codes[0] not in (0, 2)


def test_the_shell_sees_that_a_signal_ended_the_program(folder: Folder) -> None:
    folder.write("program.py", PROGRAMS["an_interrupt"])
    assert folder.sonde("program.py").code == -signal.SIGINT
