// The function that torch calls for every op.
#pragma once

#include "matcher.h"

namespace sonde_match {

// dispatch(mode, func, types, args, kwargs=None): torch wants a method bound to the mode itself,
// so the mode is the first argument; it is not used.
PyObject* Matcher_dispatch(Matcher* self, PyObject* const* values, Py_ssize_t count);

// Interns the attribute name that it reads from ops; false with an error set.
bool make_op_name();

}  // namespace sonde_match
