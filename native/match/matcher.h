// Matcher: the hot path of eager capture, which recognises ops that were learned before.
//
// Behaves as sonde/adapters/torch/memory.py and the slow path of eager.py, which are its twin and
// are used where this module could not be built. It knows torch only through Python objects: it
// does not link against it.
//
// Everything runs under the GIL, on the training thread. References to Ref and Record objects in
// the tables of a step are borrowed: the tree of records owns them, and changes only between steps
// or by growing.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "node.h"
#include "own_time.h"

#include <cstdint>
#include <memory_resource>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace sonde_match {

using Refs = std::pmr::vector<PyObject*>;

struct Matcher {
  PyObject_HEAD
  PyObject* tensor_type;
  PyObject* parameter_type;
  PyObject* overload_type;
  PyObject* untyped_storage;
  PyObject* sequence_number;
  PyObject* getframe;
  PyObject* look;     // (func, args, kwargs) -> seen or None: an op that is not known
  PyObject* bind;     // (record, tensors, keys) -> bool: tensors new in this step
  PyObject* exact;    // (record, tensors, keys) -> bool: tensors that may be other views
  PyObject* ask;      // (record) -> None: calls node.asked
  PyObject* leaves;   // (record, tensors) -> None
  PyObject* kept;     // (record, tensors, keys) -> list: before a write
  PyObject* restored; // (tensors, copies) -> list: the same, from the lane's memory, after it
  PyObject* raised;   // (seen, args, kwargs, error) -> None
  PyObject* after;    // (seen, result, args, kwargs) -> None: the whole of it, in Python
  PyObject* emit;     // (record, before, results, args, kwargs) -> None
  PyObject* failed;   // (error) -> None
  PyObject* set_eval_frame;  // (compiler or None) -> the compiler that was set
  PyObject* scope;
  long generation;
  int started;
  int lends;
  long long stamp;  // the latest timestamp, microseconds
  OwnTime own_time;
  Node* at;
  // Memory of the tables, kept from step to step: small pieces taken anew in each step would lie
  // between the program's tensors and keep it from using that memory again.
  std::pmr::unsynchronized_pool_resource* pool;
  std::pmr::unordered_map<uintptr_t, Refs>* current;
  std::pmr::unordered_map<uintptr_t, PyObject*>* impl;
  std::pmr::unordered_map<long long, PyObject*>* sequence;
  std::pmr::unordered_set<uintptr_t>* fresh;
  // Weak references, owned, to the storages (or tensors) that numbers in the tables stand for; the
  // tables forget a number when its object dies, before it can be used again.
  std::pmr::unordered_map<PyObject*, uintptr_t>* watchers;
  std::pmr::unordered_set<uintptr_t>* watched;
  PyObject* gone;  // what weak references call
};

extern PyTypeObject MatcherType;
bool make_matcher_type();

}  // namespace sonde_match
