#include "find_node.h"

#include "frames.h"

namespace sonde_match {

namespace {

// Whether the op is called from where it was learned: the same instruction of the same code.
bool is_same_call(const Node* node) {
  long above = node->depth - 1;
  bool is_same = false;
  visit_frames([&](const Frame& frame) {
    if (above--) return true;
    is_same = frame.code == node->code.get() && frame.last == node->last;
    return false;
  });
  return is_same;
}

// Asks Python a yes/no question about a node and the tensors at hand: 1, 0, or -1 with an error.
int ask_about(PyObject* question, Node* node, const Tensors& tensors) {
  const Owned list = list_of(tensors.items);
  const Owned keys = list_of_keys(tensors.keys);
  if (!list || !keys) return -1;
  return sonde_tensor::truth_from(Owned::take(PyObject_CallFunctionObjArgs(
      question, node->record.get(), list.get(), keys.get(), nullptr)));
}

enum class Inputs { kOthers, kSame, kNew, kError };

// Whether the memory of the inputs holds what the node expects. kNew: some of it is met for the
// first time in this step. An input that is perhaps another view of its memory is asked about.
Inputs compare_inputs(Matcher* self, Node* node, const Tensors& tensors) {
  bool is_new = false, is_ambiguous = false;
  for (size_t i = 0; i < tensors.keys.size(); ++i) {
    auto entry = self->current.find(tensors.keys[i]);
    if (entry == self->current.end()) {
      is_new = true;
      continue;
    }
    if (entry->second[0] != node->in_refs[i].get()) return Inputs::kOthers;
    PyObject* source = node->sources[i].get();
    if (entry->second.size() > 1 && source != Py_None && !is_ambiguous) {
      uintptr_t impl;
      if (!sonde_tensor::impl_of(tensors.items[i], &impl)) return Inputs::kError;
      auto known = self->impl.find(impl);
      is_ambiguous = known != self->impl.end() && known->second != source;
    }
  }
  if (is_ambiguous) {
    int match = ask_about(self->inputs_match.get(), node, tensors);
    if (match < 0) return Inputs::kError;
    if (!match) return Inputs::kOthers;
  }
  return is_new ? Inputs::kNew : Inputs::kSame;
}

}  // namespace

Node* find_node(Matcher* self, PyObject* func, Tensors& tensors) {
  if (self->tip) return nullptr;  // Nothing follows it yet.
  for (size_t position = 0; position < self->at->next.size(); ++position) {
    Node* node = self->at->next[position].get();
    if (node->func.get() != func || node->in_refs.size() != tensors.keys.size()) continue;
    if (node->depth) {
      if (node->scope.get() != self->scope.get() || !is_same_call(node)) continue;
    }
    Inputs inputs = compare_inputs(self, node, tensors);
    if (inputs == Inputs::kError) return nullptr;
    if (inputs == Inputs::kOthers) continue;
    if (inputs == Inputs::kNew) {
      int bound = ask_about(self->bind_inputs.get(), node, tensors);
      if (bound < 0) return nullptr;
      if (!bound) continue;
    }
    return node;
  }
  return nullptr;
}

}  // namespace sonde_match
