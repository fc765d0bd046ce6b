// Draft: an op of the running step that was told by its call site (call_site.h) and has no node yet.
#pragma once

#include "node.h"
#include "shared/inline_vector.h"
#include "tensor_ref.h"

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
  // The arguments, owned; null for those with tensors. Those with names are a dict, with `...`.
  sonde::InlineVector<PyObject*, 6> arguments;
  Owned named_arguments;
  OwnedNode node;  // once something has asked for it

  // Whether the step has ended, in which all drafts are cleared. Code of the program that runs while
  // Python code of ours does, such as a signal handler, may end it.
  bool is_gone() const { return !site; }

  // Releases what it has.
  void clear(RefPool* refs) {
    for (const DraftInput& input : inputs) Py_DECREF(input.geometry);
    for (const DraftOutput& out : outs) {
      Owned ref = Owned::take(out.ref);
      if (!node && !PyObject_GC_IsTracked(out.ref)) refs->give_back(std::move(ref));
    }
    for (PyObject* argument : arguments) Py_XDECREF(argument);
    inputs.clear();
    outs.clear();
    leaves.clear();
    returned.clear();
    arguments.clear();
    named_arguments.reset();
    node.reset();
    site = nullptr;
    before = cause = {};
  }
};

inline int visit_draft(const Draft& draft, visitproc visit, void* arg) {
  for (const DraftOutput& out : draft.outs)
    if (int stop = visit(out.ref, arg)) return stop;
  for (PyObject* argument : draft.arguments)
    if (argument)
      if (int stop = visit(argument, arg)) return stop;
  if (int stop = draft.named_arguments.visit(visit, arg)) return stop;
  return draft.node.visit(visit, arg);
}

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
  void take_back(Draft* draft) {
    draft->clear(&refs);
    if (draft == at(count_ - 1)) --count_;
  }

  void clear() {
    const size_t count = count_;
    count_ = 0;
    for (size_t i = 0; i < count; ++i) at(i)->clear(&refs);
    if (blocks_.size() > kKept) blocks_.resize(kKept);
  }

  // For tp_traverse.
  int visit(visitproc visit_object, void* arg) const {
    for (size_t i = 0; i < count_; ++i)
      if (int stop = visit_draft(blocks_[i / kBlock][i % kBlock], visit_object, arg)) return stop;
    return 0;
  }

  RefPool refs;  // for their outputs

 private:
  static constexpr size_t kBlock = 256;
  static constexpr size_t kKept = 256;

  Draft* at(size_t i) { return &blocks_[i / kBlock][i % kBlock]; }

  std::vector<std::unique_ptr<Draft[]>> blocks_;
  size_t count_ = 0;
};

}  // namespace sonde_match
