// Matcher: the hot path of eager capture, which matches ops that were learned before.
//
// Behaves as sonde/adapters/torch/eager/step_tables.py and the Python path of
// eager/dispatch_mode.py, which are used where this module could not be built. It uses torch through
// Python objects only and does not link against it.
//
// Everything runs under the GIL, on the training thread. References to TensorRef and OpRecord
// objects in the tables of a step are borrowed: the tree of records or a draft owns them, and both are
// only removed between steps.
#pragma once

#include "draft.h"
#include "node.h"
#include "shared/inline_vector.h"

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace sonde_match {

using Refs = sonde::InlineVector<PyObject*, 2>;

struct PointerHash {
  size_t operator()(const Owned& object) const noexcept {
    return std::hash<PyObject*>()(object.get());
  }
};

struct SamePointer {
  bool operator()(const Owned& a, const Owned& b) const noexcept { return a.get() == b.get(); }
};

// A call site's key, and its hash; see call_site.h.
using SiteKey = sonde::InlineVector<uintptr_t, 128>;

struct MatcherFields {
  Owned tensor_type;
  Owned parameter_type;
  Owned overload_type;
  Owned untyped_storage;
  Owned sequence_number;
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
  Owned meet_input;       // (description, slot, tensor, key) -> bool: a new step input, entered
  Owned complete_node;    // (parts) -> the record of a draft
  Owned name_op;          // (description, number) -> an OpNode with the name, for labels
  Owned is_user_code;     // (code) -> bool: whether its file counts as the user's
  Owned free_storage;     // (key) -> None: gives back a weak reference to a storage
  Owned has_died;         // (key) -> bool: whether such a storage has no owners left
  Owned scope;
  long generation = 0;
  int started = 0;
  int lends = 0;
  long long stamp = 0;  // the latest timestamp, microseconds
  // What observing costs: of every so many ops (dispatch.cpp) it is measured.
  long long op_count = 0;
  long long measure_at = 0;  // so many ops: the next is measured
  uint32_t random = 1;
  long long measured_ops = 0;
  long long own_nanoseconds = 0;  // of those that were measured, without the ops themselves
  long long inside_op = 0;        // of the op that is being measured
  bool is_measuring = false;
  int has_backward = 0;  // whether autograd's engine has called an op that was told by its call site
  OwnedNode at;          // the last op of the step that has a node
  Draft* tip = nullptr;  // the last op of the step, if that has none
  // Memory of the tables, kept from step to step: small pieces taken anew in each step would lie
  // between the program's tensors and keep it from using that memory again.
  std::pmr::unsynchronized_pool_resource pool;
  std::pmr::unordered_map<uintptr_t, Refs> current{&pool};
  std::pmr::unordered_map<uintptr_t, PyObject*> impl{&pool};
  std::pmr::unordered_map<long long, StepOp> sequence{&pool};
  std::pmr::unordered_set<uintptr_t> fresh{&pool};
  // The storages whose addresses are keys of the tables. Torch does not use the address of a storage
  // again while there is a weak reference to it; its memory is freed as ever.
  std::vector<uintptr_t> held;
  size_t sweep_at = 0;  // so many of them: those that have died are given back
  // The same where weak references to storages cannot be counted directly, and for tensors without
  // one: weak references of Python, which remove a key when its object dies.
  std::pmr::unordered_map<Owned, uintptr_t, PointerHash, SamePointer> watchers{&pool};
  std::pmr::unordered_set<uintptr_t> watched{&pool};
  // The same for storages that are watched from step to step.
  std::unordered_map<uintptr_t, Owned> lasting;
  Owned gone;  // what weak references call
  // Drafts and what they need; see call_site.h. At most one of the next two is set, the fast path of the
  // only sink, which wants every op; without it no drafts are made.
  sonde::OwnedObject<Screen> every_op;
  sonde::OwnedObject<RowCollector> every_row;
  // How many ops of each group (Node::group) have run in this step: the numbers in their names.
  std::vector<long> counts;
  bool are_counts_known = true;
  std::unordered_map<PyObject*, RowLabel> leaf_labels;  // by StepInput
  Owned met_leaves;  // set of StepInput: read by an op of this step
  int is_reshaped = 0;
  long long draft_count = 0;  // of all steps
  Drafts drafts;              // of this step
  long long round = 0;        // counts the steps that have ended
  std::unordered_multimap<size_t, std::unique_ptr<CallSite>> sites;  // by the hash of the key
  std::unordered_map<PyObject*, std::pair<Owned, int>> writing_ops;  // by func: does it write?
  std::unordered_map<PyObject*, std::pair<Owned, bool>> user_codes;  // by code: is it the user's?
  std::pmr::unordered_map<uintptr_t, PyObject*> leaf_refs{&pool};  // of storages that are step inputs
};

// The fields are built in Matcher_new and destroyed in Matcher_dealloc.
struct Matcher : PyObject, MatcherFields {};

extern PyTypeObject MatcherType;
bool make_matcher_type();

}  // namespace sonde_match
