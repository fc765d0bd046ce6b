// Which of the learned ops is about to run.
#pragma once

#include "arguments.h"

namespace sonde_match {

// The node that matches, borrowed; nullptr with or without an error set.
Node* find_node(Matcher* self, PyObject* func, Tensors& tensors);

// The names it asks of Python objects; false with an error set.
bool make_frame_names();

}  // namespace sonde_match
