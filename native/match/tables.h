// The tables of a step: what the memory of each storage holds now. The same in Python:
// sonde/adapters/torch/eager/step_tables.py.
#pragma once

#include "matcher.h"

namespace sonde_match {

// Forgets every watched object.
inline void stop_watching(Matcher* self) {
  self->watchers.clear();
  self->watched.clear();
}

// Forget `key` when `object` dies. False with an error set.
inline bool watch(Matcher* self, PyObject* object, uintptr_t key) {
  if (!self->watched.insert(key).second) return true;
  Owned watcher = Owned::take(PyWeakref_NewRef(object, self->gone.get()));
  if (!watcher) {
    self->watched.erase(key);
    return false;
  }
  self->watchers.emplace(std::move(watcher), key);
  return true;
}

// Forget what is known of a storage.
inline void forget_key(Matcher* self, uintptr_t key) {
  self->current.erase(key);
  self->fresh.erase(key);
  self->watched.erase(key);
  self->leaf_refs.erase(key);
}

// The storage object of a plain tensor; empty with an error set.
inline Owned storage_of(Matcher* self, PyObject* tensor) {
  return Owned::take(PyObject_Vectorcall(self->untyped_storage.get(), &tensor, 1, nullptr));
}

// Notes that a tensor over storage `key` holds this output of the op. False with an error set.
inline bool register_output(Matcher* self, const Out& out, PyObject* tensor, uintptr_t key) {
  if (out.kind == kFresh && self->fresh.insert(key).second) {
    const Owned storage = storage_of(self, tensor);
    if (!storage || !watch(self, storage.get(), key)) return false;
  }
  uintptr_t impl;
  if (!sonde_tensor::impl_of(tensor, &impl)) return false;
  Refs& entry = self->current[key];
  if (out.kind != kAlias) entry.clear();
  entry.push_back(out.ref.get());
  self->impl[impl] = out.ref.get();
  return true;
}

// Notes the op that just ran under autograd's sequence number. False with an error set.
inline bool note_sequence(Matcher* self, Node* node) {
  long long value;
  if (!sonde_tensor::number_from(Owned::take(PyObject_CallNoArgs(self->sequence_number.get())),
                                 &value))
    return false;
  self->sequence.emplace(value, node);
  return true;
}

// Notes the step inputs that an op is the first in the step to read. False with an error set.
inline bool note_leaves(Matcher* self, const Node* node) {
  for (const Owned& leaf : node->leaves)
    if (PySet_Add(self->met_leaves.get(), leaf.get()) < 0) return false;
  return true;
}

}  // namespace sonde_match
