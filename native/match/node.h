// Node: one learned op, the native face of a Record of sonde/adapters/torch/memory.py.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "lane.h"

#include <vector>

namespace sonde_match {

enum Kind : int { kFresh = 0, kAlias = 1, kWritten = 2 };

struct Out {
  int kind;
  PyObject* ref;
};

struct LaneLeaf {
  Py_ssize_t slot;
  PyObject* ref;
  PyObject* node;
  sonde_lane::Slot text;
};

struct Node {
  PyObject_HEAD
  PyObject* record;
  PyObject* func;
  PyObject* op;
  PyObject* scope;
  PyObject* code;
  long last;
  long depth;
  long generation;
  int wanted;
  int leaves_wanted;
  int has_leaves;
  int has_writes;
  int is_collective;
  std::vector<PyObject*>* in_refs;
  std::vector<PyObject*>* sources;  // None where the very tensor is not known
  std::vector<Out>* outs;
  std::vector<Py_ssize_t>* returned;
  std::vector<Node*>* next;
  sonde_lane::Lane* lane;  // the shortcut this op takes, or null
  PyObject* lane_node;     // the OpNode
  int rearranges;
  std::vector<Py_ssize_t>* writes;     // the slots of inputs the op writes to
  std::vector<PyObject*>* tokens_in;   // null where nobody knows the contents
  std::vector<PyObject*>* tokens_out;
  std::vector<sonde_lane::Slot>* slots;  // inputs, then outputs
  std::vector<LaneLeaf>* lane_leaves;
};

extern PyTypeObject NodeType;
bool make_node_type();

}  // namespace sonde_match
