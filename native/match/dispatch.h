// What torch calls for every op.
#pragma once

#include "matcher.h"

namespace sonde_match {

// dispatch(mode, func, types, args, kwargs=None): torch wants a method bound to the mode itself,
// so the mode comes first and is not looked at.
PyObject* Matcher_dispatch(Matcher* self, PyObject* const* values, Py_ssize_t count);

// The name it asks of ops; false with an error set.
bool make_op_name();

}  // namespace sonde_match
