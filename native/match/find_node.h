// Finds the learned op that the op about to run matches.
#pragma once

#include "arguments.h"

namespace sonde_match {

// The node that matches, borrowed; nullptr with or without an error set.
Node* find_node(Matcher* self, PyObject* func, Tensors& tensors);

}  // namespace sonde_match
