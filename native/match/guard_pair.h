// GuardPair: two context managers of C, entered and left as one.
//
// Python runs signal handlers between the instructions of Python code. An exception of a handler
// that arrives in a context manager written in Python leaves the guards inside it on: torch then
// treats the program's ops as Sonde's. No Python code runs between the two guards of a pair.
#pragma once

#include "shared/owned.h"

namespace sonde_match {

extern PyTypeObject GuardPairType;

bool make_guard_pair_type();

}  // namespace sonde_match
