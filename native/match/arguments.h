// The tensors among the arguments of an op, and lists of them for Python.
#pragma once

#include "matcher.h"

namespace sonde_match {

enum class Flat { kOk, kOdd };

struct Tensors {
  std::vector<PyObject*> items;  // borrowed
  std::vector<uintptr_t> keys;
};

// Adds `value` if it is a tensor; kOdd: it is an instance of a subclass of Tensor.
inline Flat add_tensor(Matcher* self, PyObject* value, std::vector<PyObject*>& items) {
  PyTypeObject* type = Py_TYPE(value);
  if (type == reinterpret_cast<PyTypeObject*>(self->tensor_type.get()) ||
      type == reinterpret_cast<PyTypeObject*>(self->parameter_type.get())) {
    items.push_back(value);
  } else if (PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(self->tensor_type.get()))) {
    return Flat::kOdd;
  }
  return Flat::kOk;
}

// Adds the tensors of an argument: itself, or those directly in a list or tuple.
inline Flat flatten(Matcher* self, PyObject* value, std::vector<PyObject*>& items) {
  if (PyList_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); ++i)
      if (add_tensor(self, PyList_GET_ITEM(value, i), items) == Flat::kOdd) return Flat::kOdd;
    return Flat::kOk;
  }
  if (PyTuple_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
      if (add_tensor(self, PyTuple_GET_ITEM(value, i), items) == Flat::kOdd) return Flat::kOdd;
    return Flat::kOk;
  }
  return add_tensor(self, value, items);
}

// The storages of tensors; false, without an error, where a tensor has none.
inline bool add_keys(const std::vector<PyObject*>& items, std::vector<uintptr_t>& keys) {
  for (PyObject* tensor : items) {
    uintptr_t key;
    if (!sonde_tensor::storage_key(tensor, &key)) {
      PyErr_Clear();
      return false;
    }
    keys.push_back(key);
  }
  return true;
}

// A Python list of borrowed objects; empty with an error set.
template <typename Items>
Owned list_of(const Items& items) {
  Owned list = Owned::take(PyList_New(static_cast<Py_ssize_t>(items.size())));
  if (!list) return list;
  for (size_t i = 0; i < items.size(); ++i)
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), Py_NewRef(items[i]));
  return list;
}

inline Owned list_of_keys(const std::vector<uintptr_t>& keys) {
  Owned list = Owned::take(PyList_New(static_cast<Py_ssize_t>(keys.size())));
  if (!list) return list;
  for (size_t i = 0; i < keys.size(); ++i) {
    PyObject* number = PyLong_FromVoidPtr(reinterpret_cast<void*>(keys[i]));
    if (!number) return {};
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), number);
  }
  return list;
}

}  // namespace sonde_match
