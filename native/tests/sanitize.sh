#!/bin/sh
# Builds the kernels with the address and undefined-behaviour sanitizers and fuzzes them.
# ROUNDS (2000) tensors; CXX (g++) compiles.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
sources=$(ls "$here"/../kernels/*.cpp | grep -v /module)
# shellcheck disable=SC2086  # the list is meant to split
${CXX:-g++} -std=c++17 -O1 -g -Wall -Wextra -ffp-contract=off -fno-strict-aliasing \
  -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -pthread \
  -I"$here/.." "$here/fuzz_kernels.cpp" $sources -o "$build/fuzz"
"$build/fuzz" "${ROUNDS:-2000}"
