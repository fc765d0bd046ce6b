// The tensors among the arguments of an op, and lists of them for Python.
#pragma once

#include "matcher.h"

namespace sonde_match {

enum class Flat { kOk, kOdd };

using Items = sonde::InlineVector<PyObject*, 8>;  // borrowed
using Keys = sonde::InlineVector<uintptr_t, 8>;

struct Tensors {
  Items items;
  Keys keys;
};

// Whether a value is a plain tensor or a parameter.
inline bool is_tensor(Matcher* self, PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  return type == reinterpret_cast<PyTypeObject*>(self->tensor_type.get()) ||
         type == reinterpret_cast<PyTypeObject*>(self->parameter_type.get());
}

// Adds `value` if it is a tensor; kOdd: it is an instance of a subclass of Tensor.
inline Flat add_tensor(Matcher* self, PyObject* value, Items& items) {
  if (is_tensor(self, value)) {
    items.push_back(value);
  } else if (PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(self->tensor_type.get()))) {
    return Flat::kOdd;
  }
  return Flat::kOk;
}

// Adds the tensors of an argument: itself, or those directly in a list or tuple.
inline Flat flatten(Matcher* self, PyObject* value, Items& items) {
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

// The number of tensors that `flatten` finds.
inline size_t count_tensors(Matcher* self, PyObject* value) {
  size_t count = 0;
  if (PyList_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); ++i)
      count += is_tensor(self, PyList_GET_ITEM(value, i));
  } else if (PyTuple_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
      count += is_tensor(self, PyTuple_GET_ITEM(value, i));
  } else {
    count = is_tensor(self, value);
  }
  return count;
}

// The storages of tensors; false, without an error, where a tensor has none.
inline bool add_keys(const Items& items, Keys& keys) {
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

inline Owned list_of_keys(const Keys& keys) {
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
