#!/bin/sh
# Builds the matcher with the address and undefined-behaviour sanitizers and runs tests with it.
# usage: sanitize_matcher.sh PYTHON [TESTS...]; CXX (g++) compiles.
# Python objects are allocated with malloc, so that a use after free of one is found, too.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
[ $# -gt 0 ] || set -- tests/adapters/torch/eager/test_call_sites.py \
  tests/adapters/torch/eager/test_varying_steps.py
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
for source in "$here"/../match/*.cpp; do
  ${CXX:-g++} -std=c++17 -O1 -g -fPIC -fwrapv -fvisibility=hidden \
    -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer \
    -I"$here/.." -I"$include" -c "$source" -o "$build/$(basename "$source").o"
done
${CXX:-g++} -shared -fsanitize=address,undefined "$build"/*.o -o "$build/_match.so"
cat > "$build/sitecustomize.py" <<'PYTHON'
"""Makes Python load the matcher that is beside this file."""
import importlib.util
import sys
from pathlib import Path

NAME = "sonde.adapters.torch.eager._match"


class Sanitized:
    def find_spec(self, name, path=None, target=None):
        place = Path(__file__).with_name("_match.so")
        return importlib.util.spec_from_file_location(name, place) if name == NAME else None


sys.meta_path.insert(0, Sanitized())
PYTHON
cd "$root"
LD_PRELOAD="$(${CXX:-g++} -print-file-name=libasan.so) $(${CXX:-g++} -print-file-name=libstdc++.so)" \
  ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:halt_on_error=1:allocator_may_return_null=1 \
  UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc PYTHONPATH="$build" OMP_NUM_THREADS=1 \
  "$python" -m pytest -n 0 -q -x -p no:cacheprovider --capture=sys "$@"
