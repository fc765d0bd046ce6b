// One run of a matched op: what is done before the op runs and after it. Its tensors go to the sink,
// by a fast path or through Python, and the tables of the step record what it made.
#pragma once

#include "arguments.h"

namespace sonde_match {

// The state of an op between its start and its end.
struct OpRun {
  Owned inputs_before;      // the inputs as they were, where the op writes to them; see copy_written
  size_t entries = 0;       // of the row collector before this op, its leaves included
  bool is_wanted = false;   // a tensor did not pass the screen
  const Measured* arranged = nullptr;  // what is known of the tensor that the op rearranges
  std::vector<Copy> copies;            // of what the op writes to, in the arena of the screening
};

// Does the work before the op runs; false with an error set.
bool before_op(Matcher* self, Node* node, const Tensors& tensors, OpRun* run);

// The same for a provisional node (call_site.h). kNotPlain: Python has to handle this op, and nothing
// was done.
Copied before_provisional(Matcher* self, Node* node, const Tensors& tensors, OpRun* run);

// Whether a list is inside the list or tuple that an op returned.
bool has_nested_list(PyObject* result);

// Enters the outputs of an op into the tables and hands them to the sink. False with an error set.
bool finish_op(Matcher* self, Node* node, const Tensors& tensors, OpRun* run,
               const std::vector<PyObject*>& results, const std::vector<uintptr_t>& keys,
               PyObject* args, PyObject* kwargs);

// Does the work after the op ran; false with an error set.
bool after_op(Matcher* self, Node* node, const Tensors& tensors, OpRun* run, PyObject* result,
              PyObject* args, PyObject* kwargs);

// An op raised: the row collector has its leaves, and not its inputs. False with an error set.
bool take_back_inputs(Node* node, const OpRun& run);

// Makes Python tensors of the copies, as `inputs_before`; false with an error set.
bool restore_written(Matcher* self, Node* node, const Tensors& tensors, OpRun* run);

// The tuple that Python gets for an op that has begun: record, tensors, keys, inputs before the op.
Owned begun_tuple(Node* node, const Tensors& tensors, const Owned& inputs_before);

}  // namespace sonde_match
