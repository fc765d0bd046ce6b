// The tables of a step: what the memory of each storage holds now. The same in Python:
// sonde/adapters/torch/eager/step_tables.py.
#pragma once

#include "matcher.h"

namespace sonde_match {

// Forget what is known of a storage.
inline void forget_key(Matcher* self, uintptr_t key) {
  self->current.erase(key);
  self->fresh.erase(key);
  self->watched.erase(key);
  self->leaf_refs.erase(key);
}

// Gives back the weak reference to a storage.
inline void let_go(Matcher* self, uintptr_t key) {
  const Owned number = Owned::take(PyLong_FromVoidPtr(reinterpret_cast<void*>(key)));
  if (!number || !Owned::take(PyObject_CallOneArg(self->free_storage.get(), number.get())))
    PyErr_Clear();
}

// Gives back the storages that have died: a step may be long, and each is some memory.
inline void sweep_storages(Matcher* self) {
  constexpr size_t kFew = 16384;
  size_t kept = 0;
  for (uintptr_t key : self->held) {
    const Owned number = Owned::take(PyLong_FromVoidPtr(reinterpret_cast<void*>(key)));
    const int is_dead =
        number ? sonde_tensor::truth_from(
                     Owned::take(PyObject_CallOneArg(self->has_died.get(), number.get())))
               : -1;
    if (is_dead < 0) PyErr_Clear();
    if (is_dead <= 0) {
      self->held[kept++] = key;
      continue;
    }
    forget_key(self, key);
    let_go(self, key);
  }
  self->held.resize(kept);
  self->sweep_at = 2 * kept + kFew;
}

// Keeps the address of a storage from being used again in this step. False where that is not possible.
inline bool hold_storage(Matcher* self, uintptr_t key) {
  using sonde_tensor::torch;
  if (!torch.weak_one || static_cast<intptr_t>(key) <= 0) return false;
  if (self->held.size() >= self->sweep_at) sweep_storages(self);
  __atomic_fetch_add(reinterpret_cast<uint64_t*>(key + torch.weak_at), torch.weak_one,
                     __ATOMIC_RELAXED);
  self->held.push_back(key);
  return true;
}

// Forgets every watched object.
inline void stop_watching(Matcher* self) {
  sonde::KeepException pending;
  std::vector<uintptr_t> held;
  held.swap(self->held);
  for (uintptr_t key : held) let_go(self, key);
  held.clear();
  held.swap(self->held);  // keeps its memory
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

// The storage object of a plain tensor; empty with an error set.
inline Owned storage_of(Matcher* self, PyObject* tensor) {
  return Owned::take(PyObject_Vectorcall(self->untyped_storage.get(), &tensor, 1, nullptr));
}

// Notes that a tensor over storage `key` holds this output of an op. False with an error set.
inline bool register_output(Matcher* self, int kind, PyObject* ref, PyObject* tensor,
                            uintptr_t key) {
  if (kind == kFresh && self->fresh.insert(key).second && !hold_storage(self, key)) {
    const Owned storage = storage_of(self, tensor);
    if (!storage || !watch(self, storage.get(), key)) return false;
  }
  uintptr_t impl;
  if (!sonde_tensor::impl_of(tensor, &impl)) return false;
  Refs& entry = self->current[key];
  if (kind != kAlias) entry.clear();
  entry.push_back(ref);
  self->impl[impl] = ref;
  return true;
}

// Notes the op that just ran under autograd's sequence number. False with an error set.
inline bool note_sequence(Matcher* self, const StepOp& op) {
  long long value;
  if (!sonde_tensor::number_from(Owned::take(PyObject_CallNoArgs(self->sequence_number.get())),
                                 &value))
    return false;
  self->sequence.emplace(value, op);
  return true;
}

// Counts an op of the step for the numbers in names.
inline void count_op(Matcher* self, long group) {
  if (group < 0) {
    self->are_counts_known = false;
    return;
  }
  const auto at = static_cast<size_t>(group);
  if (self->counts.size() <= at) self->counts.resize(at + 64);
  ++self->counts[at];
}

inline long ops_counted(const Matcher* self, long group) {
  const auto at = static_cast<size_t>(group);
  return at < self->counts.size() ? self->counts[at] : 0;
}

// Notes the step inputs that an op is the first in the step to read. False with an error set.
inline bool note_leaves(Matcher* self, const Node* node) {
  for (const Owned& leaf : node->leaves)
    if (PySet_Add(self->met_leaves.get(), leaf.get()) < 0) return false;
  return true;
}

}  // namespace sonde_match
