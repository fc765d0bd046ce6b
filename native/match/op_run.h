// One run of a matched op: what is done before the op runs and after it. Its tensors go to the sink,
// by a fast path or through Python, and the tables of the step record what it made.
#pragma once

#include "arguments.h"

namespace sonde_match {

struct NamedOp;

// The state of an op between its start and its end.
struct OpRun {
  Owned inputs_before;      // the inputs as they were, where the op writes to them; see copy_written
  size_t entries = 0;       // of the row collector before this op, its leaves included
  bool is_wanted = false;   // a tensor did not pass the screen
  const Measured* arranged = nullptr;  // what is known of the tensor that the op rearranges
  std::vector<Copy> copies;            // of what the op writes to, in the arena of its screening
  sonde::OwnedObject<Screen> screen;   // with copies, and of a draft
  // Of a draft whose sink collects rows:
  sonde::OwnedObject<RowCollector> rows;
  NamedOp* named = nullptr;
};

// Does the work before the op runs; false with an error set.
bool before_op(Matcher* self, Node* node, const Tensors& tensors, OpRun* run);

// Whether a list is inside the list or tuple that an op returned.
bool has_nested_list(PyObject* result);

// Does the work after the op ran; false with an error set.
bool after_op(Matcher* self, Node* node, const Tensors& tensors, OpRun* run, PyObject* result,
              PyObject* args, PyObject* kwargs);

// An op raised: the row collector has its leaves, and not its inputs. False with an error set.
bool take_back_inputs(Node* node, const OpRun& run);

// Copies what the op writes to, the slots `writes`: all of it, or nothing where a tensor is not plain.
Copied copy_written(Screen* screen, const std::vector<Py_ssize_t>& writes, const Tensors& tensors,
                    OpRun* run);

// Makes Python tensors of the copies, as `inputs_before`; false with an error set.
bool restore_written(Matcher* self, const Tensors& tensors, OpRun* run);

// Hands an op to the sinks through Python; false with an error set.
bool emit(Matcher* self, PyObject* record, const Tensors& tensors, const Owned& inputs_before,
          const Items& results, PyObject* args, PyObject* kwargs);

// The tuple that Python gets for an op that has begun: record, tensors, keys, inputs before the op.
Owned begun_tuple(Node* node, const Tensors& tensors, const Owned& inputs_before);

}  // namespace sonde_match
