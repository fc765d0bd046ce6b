// What is done for a recognised op before it runs and after it: its tensors go to the sink, by the
// shortcut or through Python, and the tables learn what it made.
#pragma once

#include "arguments.h"

namespace sonde_match {

// What the shortcut has to know between the start of an op and its end.
struct Passage {
  PyObject* kept = nullptr;   // the inputs as they were, where the op writes to them
  Py_ssize_t rows = 0;        // rows the sink had before this op, its leaves included
  bool is_bad = false;        // a watched tensor is not finite
  const sonde_lane::Judged* like = nullptr;  // of the tensor the op rearranges
  std::vector<sonde_lane::Copy> copies;  // of what the op writes to, in the lane's memory

  ~Passage() {
    Py_XDECREF(kept);
    for (sonde_lane::Copy& copy : copies) copy.clear();
  }
};

// What has to be done before the op runs; false with an error set.
bool before(Matcher* self, Node* node, const Tensors& tensors, Passage* passage);

// What has to be done after the op ran; false with an error set.
bool after(Matcher* self, Node* node, const Tensors& tensors, Passage* passage, PyObject* result,
           PyObject* args, PyObject* kwargs);

// An op raised: its leaves have been handed over, its inputs are taken back.
bool lane_raised(Node* node, const Passage& passage);

// The inputs as they were before the op, for who is told of it; false with an error set.
bool restore(Matcher* self, Node* node, const Tensors& tensors, Passage* passage);

// What Python is told of an op: record, tensors, keys, the tensors as they were before it.
PyObject* seen_tuple(Node* node, const Tensors& tensors, PyObject* kept);

}  // namespace sonde_match
