// Draft: an op of the running step that was told by its call site (call_site.h) and has no node yet.
#pragma once

#include "node.h"
#include "shared/inline_vector.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace sonde_match {

struct Draft;

// An op of the running step: a node, or a draft, which may have got a node since.
struct StepOp {
  Node* node = nullptr;  // borrowed: nodes are removed between steps
  Draft* draft = nullptr;

  inline Node* known_node() const;
  inline CallSite* site() const;
};

struct DraftInput {
  PyObject* memory;    // the reference of its memory, borrowed as in the tables
  PyObject* source;    // that of exactly this tensor, or None; borrowed
  PyObject* geometry;  // bytes, owned
};

struct DraftOutput {
  int kind;
  PyObject* ref;  // owned
};

struct DraftLeaf {
  Py_ssize_t slot;
  PyObject* leaf;  // a StepInput, borrowed: the registry has it
};

struct Draft {
  CallSite* site = nullptr;
  StepOp before;  // the op before it in the step
  StepOp cause;   // in backward: the forward op
  sonde::InlineVector<DraftInput, 3> inputs;
  sonde::InlineVector<DraftOutput, 2> outs;
  sonde::InlineVector<DraftLeaf, 2> leaves;     // step inputs that it is the first in the step to read
  sonde::InlineVector<Py_ssize_t, 2> returned;  // as in a Node
  Owned arguments;                              // (args, kwargs), `...` for those with tensors
  OwnedNode node;                               // once something has asked for it

  // Releases what it has. `ref_values`: where a reference has its `values`, which may be itself.
  void clear(Py_ssize_t ref_values) {
    for (const DraftInput& input : inputs) Py_DECREF(input.geometry);
    inputs.clear();
    for (const DraftOutput& out : outs) {
      if (!node) {
        auto** values = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(out.ref) + ref_values);
        PyObject* old = *values;
        *values = Py_NewRef(Py_None);
        Py_XDECREF(old);
      }
      Py_DECREF(out.ref);
    }
    outs.clear();
    leaves.clear();
    returned.clear();
    arguments.reset();
    node.reset();
    site = nullptr;
    before = cause = {};
  }
};

inline Node* StepOp::known_node() const { return node ? node : draft ? draft->node.get() : nullptr; }

inline CallSite* StepOp::site() const {
  return node ? node->site : draft ? draft->site : nullptr;
}

// The drafts of a step, at addresses that stay. Their memory is used again by the next step, so that
// it stays in the cache and does not lie between the program's tensors.
class Drafts {
 public:
  Draft* add() {
    if (count_ == blocks_.size() * kBlock) blocks_.push_back(std::make_unique<Draft[]>(kBlock));
    return at(count_++);
  }

  // Takes back a draft whose op is handled otherwise.
  void take_back(Draft* draft, Py_ssize_t ref_values) {
    draft->clear(ref_values);
    if (draft == at(count_ - 1)) --count_;
  }

  void clear(Py_ssize_t ref_values) {
    const size_t count = count_;
    count_ = 0;
    for (size_t i = 0; i < count; ++i) at(i)->clear(ref_values);
    if (blocks_.size() > kKept) blocks_.resize(kKept);
  }

 private:
  static constexpr size_t kBlock = 256;
  static constexpr size_t kKept = 256;

  Draft* at(size_t i) { return &blocks_[i / kBlock][i % kBlock]; }

  std::vector<std::unique_ptr<Draft[]>> blocks_;
  size_t count_ = 0;
};

}  // namespace sonde_match
