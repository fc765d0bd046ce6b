#include "find_node.h"

#include "frames.h"

#include <cstdlib>

namespace sonde_match {

namespace {

// Whether the op is called from where it was learned, the same call of the same code: 1, 0, or -1
// with an error set.
int is_same_call(Matcher* self, Node* node) {
  const Owned frame = frame_above(node->depth - 1);
  if (!frame) return 0;
  auto* here = reinterpret_cast<PyFrameObject*>(frame.get());
  const Owned code = Owned::take(reinterpret_cast<PyObject*>(PyFrame_GetCode(here)));
  if (code.get() != node->code.get()) return 0;
  const long last = last_instruction(here);
  if (last == node->last) return 1;
  // Python may have specialised the call since, which moves the frame within it.
  constexpr long kLongestCall = 16;
  if (std::labs(last - node->last) > kLongestCall) return 0;
  const int same = sonde_tensor::truth_from(Owned::take(PyObject_CallFunction(
      self->is_same_call.get(), "Oll", code.get(), last, node->last)));
  if (same > 0) node->last = last;
  return same;
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
  for (size_t position = 0; position < self->at->next.size(); ++position) {
    Node* node = self->at->next[position].get();
    if (node->func.get() != func || node->in_refs.size() != tensors.keys.size()) continue;
    if (node->depth) {
      if (node->scope.get() != self->scope.get()) continue;
      int same = is_same_call(self, node);
      if (same < 0) return nullptr;
      if (!same) continue;
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
