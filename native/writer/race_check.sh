#!/bin/sh
# Builds race_check.cpp with ThreadSanitizer, then with AddressSanitizer, and runs both.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for sanitizer in thread address,undefined; do
    "${CXX:-c++}" -std=c++17 -O1 -g -pthread "-fsanitize=$sanitizer" -fno-omit-frame-pointer \
        "$here/race_check.cpp" "$here/engine.cpp" "$here/files.cpp" -o "$work/race_check"
    echo "sanitizer: $sanitizer"
    "$work/race_check" "$work/files"
done
