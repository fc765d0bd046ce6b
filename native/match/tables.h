// The tables of a step: what the memory of each storage holds now. Their twin is
// sonde/adapters/torch/memory.py.
#pragma once

#include "matcher.h"

namespace sonde_match {

// Forgets every watched object.
inline void stop_watching(Matcher* self) {
  std::vector<PyObject*> watchers;
  for (auto& watcher : *self->watchers) watchers.push_back(watcher.first);
  self->watchers->clear();
  self->watched->clear();
  for (PyObject* watcher : watchers) Py_DECREF(watcher);
}

// Forget `key` when `object` dies. False with an error set.
inline bool watch(Matcher* self, PyObject* object, uintptr_t key) {
  if (!self->watched->insert(key).second) return true;
  PyObject* watcher = PyWeakref_NewRef(object, self->gone);
  if (!watcher) {
    self->watched->erase(key);
    return false;
  }
  self->watchers->emplace(watcher, key);
  return true;
}

// Forget what is known of a storage.
inline void forget_key(Matcher* self, uintptr_t key) {
  self->current->erase(key);
  self->fresh->erase(key);
  self->watched->erase(key);
}

// The storage object of a plain tensor, or nullptr with an error set.
inline PyObject* storage_of(Matcher* self, PyObject* tensor) {
  return PyObject_Vectorcall(self->untyped_storage, &tensor, 1, nullptr);
}

// A tensor over storage `key` holds what the op put out. False with an error set.
inline bool register_output(Matcher* self, const Out& out, PyObject* tensor, uintptr_t key) {
  if (out.kind == kFresh && self->fresh->insert(key).second) {
    PyObject* storage = storage_of(self, tensor);
    bool ok = storage && watch(self, storage, key);
    Py_XDECREF(storage);
    if (!ok) return false;
  }
  uintptr_t impl;
  if (!sonde_tensor::impl_of(tensor, &impl)) return false;
  Refs& entry = (*self->current)[key];
  if (out.kind != kAlias) entry.clear();
  entry.push_back(out.ref);
  (*self->impl)[impl] = out.ref;
  return true;
}

// The op that just ran, by autograd's number of it. False with an error set.
inline bool note_sequence(Matcher* self, PyObject* record) {
  PyObject* number = PyObject_CallNoArgs(self->sequence_number);
  if (!number) return false;
  long long value = PyLong_AsLongLong(number);
  Py_DECREF(number);
  if (value == -1 && PyErr_Occurred()) return false;
  self->sequence->emplace(value, record);
  return true;
}

}  // namespace sonde_match
