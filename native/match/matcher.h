// Matcher: the hot path of eager capture, which matches ops that were learned before.
//
// Behaves as sonde/adapters/torch/eager/step_tables.py and the Python path of
// eager/dispatch_mode.py, which are used where this module could not be built. It uses torch through
// Python objects only and does not link against it.
//
// Everything runs under the GIL, on the training thread. References to TensorRef and OpRecord
// objects in the tables of a step are borrowed: the tree of records owns them, and records are only
// removed between steps.
#pragma once

#include "node.h"

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace sonde_match {

using Refs = std::pmr::vector<PyObject*>;

struct PointerHash {
  size_t operator()(const Owned& object) const noexcept {
    return std::hash<PyObject*>()(object.get());
  }
};

struct SamePointer {
  bool operator()(const Owned& a, const Owned& b) const noexcept { return a.get() == b.get(); }
};

using SiteKey = LastingVector<uintptr_t>;

struct SiteKeyHash {
  size_t operator()(const SiteKey& key) const noexcept {
    size_t hash = 1469598103934665603ULL;
    for (uintptr_t word : key) hash = (hash ^ word) * 1099511628211ULL ^ hash >> 29;
    return hash;
  }
};

// By key; its entries last as long as the graph.
using SiteTable =
    std::unordered_map<SiteKey, std::unique_ptr<CallSite>, SiteKeyHash, std::equal_to<SiteKey>,
                       sonde::PythonAllocator<std::pair<const SiteKey, std::unique_ptr<CallSite>>>>;

struct MatcherFields {
  Owned tensor_type;
  Owned parameter_type;
  Owned overload_type;
  Owned untyped_storage;
  Owned sequence_number;
  Owned is_same_call;     // (code, offset, offset) -> bool: whether both are the same call
  Owned before_op;        // (func, args, kwargs) -> begun or None: an op that is not matched here
  Owned bind_inputs;      // (record, tensors, keys) -> bool: tensors that are new in this step
  Owned inputs_match;     // (record, tensors, keys) -> bool: tensors that may be other views
  Owned find_wants;       // (record) -> None: calls node.set_wants
  Owned emit_leaves;      // (record, tensors) -> None
  Owned keep_written;     // (record, tensors, keys) -> list: the inputs, before a write
  Owned restore_written;  // (tensors, copies) -> list: the same after it, from a screening's copies
  Owned op_raised;        // (begun, args, kwargs, error) -> None
  Owned after_op;         // (begun, result, args, kwargs) -> None: the work after the op, in Python
  Owned emit_op;          // (record, inputs, results, args, kwargs) -> None
  Owned failed;           // (error) -> None, or raises an exception of the program again
  Owned uncounted_writes; // (func, args, kwargs) -> list: what torch will not count as written
  Owned count_writes;     // (that list) -> None, after the op
  Owned set_eval_frame;   // (compiler or None) -> the compiler that was set
  Owned autograd_node;    // () -> the node of autograd that runs now, or None
  Owned engine_code;      // of the function in which autograd's engine runs
  Owned function_of;      // (func) -> the function that runs an overload
  Owned op_writes;        // (func) -> bool: whether it writes to its arguments
  Owned describe_site;    // (record, known description or None) -> description or None
  Owned describe_new;     // (func, args, kwargs, description of the forward op or None) -> the same
  Owned meet_input;       // (description, slot, tensor, key) -> bool: a new step input, entered
  Owned complete_node;    // (parts) -> the record of a provisional node
  Owned scope;
  long generation = 0;
  int started = 0;
  int lends = 0;
  long long stamp = 0;  // the latest timestamp, microseconds
  OwnedNode at;
  // Memory of the tables, kept from step to step: small pieces taken anew in each step would lie
  // between the program's tensors and keep it from using that memory again.
  std::pmr::unsynchronized_pool_resource pool;
  std::pmr::unordered_map<uintptr_t, Refs> current{&pool};
  std::pmr::unordered_map<uintptr_t, PyObject*> impl{&pool};
  std::pmr::unordered_map<long long, Node*> sequence{&pool};
  std::pmr::unordered_set<uintptr_t> fresh{&pool};
  // Weak references to the storages (or tensors) whose addresses are keys of the tables; the
  // tables remove a key when its object dies, before the address can be used again.
  std::pmr::unordered_map<Owned, uintptr_t, PointerHash, SamePointer> watchers{&pool};
  std::pmr::unordered_set<uintptr_t> watched{&pool};
  // The same for storages that are watched from step to step.
  std::unordered_map<uintptr_t, Owned> lasting;
  Owned gone;  // what weak references call
  // Provisional nodes and what they need; see call_site.h. `every_op`: the screen of the only sink,
  // which wants every op; without it no provisional nodes are made.
  sonde::OwnedObject<Screen> every_op;
  Owned met_leaves;  // set of StepInput: read by an op of this step
  int is_reshaped = 0;
  long long op_count = 0;
  long long provisional_count = 0;
  long long waiting = 0;  // provisional nodes of this step that have no record
  bool is_completing = false;  // whether the record of one of them is being made
  // A hash of the order in which provisional nodes of this step ran: equal in steps that repeat.
  unsigned long long trail = 0;
  SiteTable sites;
  std::unordered_map<PyObject*, std::pair<Owned, int>> writing_ops;  // by func: does it write?
  std::vector<OwnedNode> provisional;  // those of this step
  std::pmr::unordered_map<uintptr_t, PyObject*> leaf_refs{&pool};  // of storages that are step inputs
};

// The fields are built in Matcher_new and destroyed in Matcher_dealloc.
struct Matcher : PyObject, MatcherFields {};

extern PyTypeObject MatcherType;
bool make_matcher_type();

}  // namespace sonde_match
