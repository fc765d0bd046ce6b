// Owned: one reference to a Python object, released at the end of its scope.
//
// The type of a pointer says who owns the reference: `Owned` owns it, `PyObject*` borrows it. Plain C
// takes over a reference in two cases only: the value that a function returns to Python
// (`release()`), and the items that PyList_SET_ITEM and PyTuple_SET_ITEM store.
//
// An Owned is as large as a pointer and does no more reference counting than manual code would. The
// GIL must be held wherever an Owned that is not empty is made, assigned or destroyed.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <utility>

namespace sonde {

template <typename Object>
class OwnedObject {
 public:
  constexpr OwnedObject() noexcept = default;

  // Takes over a new reference, such as most functions of Python return; null makes it empty.
  static OwnedObject take(PyObject* object) noexcept {
    return OwnedObject(reinterpret_cast<Object*>(object));
  }

  // Adds a reference to a borrowed object; null makes it empty.
  template <typename Borrowed>
  static OwnedObject share(Borrowed* object) noexcept {
    Py_XINCREF(reinterpret_cast<PyObject*>(object));
    return OwnedObject(reinterpret_cast<Object*>(object));
  }

  OwnedObject(OwnedObject&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}

  // The old object is released last: that may run any Python code, which must find the new object.
  OwnedObject& operator=(OwnedObject&& other) noexcept {
    PyObject* old = as_python();
    object_ = std::exchange(other.object_, nullptr);
    Py_XDECREF(old);
    return *this;
  }

  OwnedObject(const OwnedObject&) = delete;
  OwnedObject& operator=(const OwnedObject&) = delete;

  ~OwnedObject() { Py_XDECREF(as_python()); }

  explicit operator bool() const noexcept { return object_ != nullptr; }
  Object* get() const noexcept { return object_; }
  Object* operator->() const noexcept { return object_; }
  PyObject* as_python() const noexcept { return reinterpret_cast<PyObject*>(object_); }

  // Another reference to the same object, for a function that returns one.
  PyObject* new_reference() const noexcept {
    Py_XINCREF(as_python());
    return as_python();
  }

  // Gives the reference to the caller and becomes empty.
  [[nodiscard]] PyObject* release() noexcept {
    return reinterpret_cast<PyObject*>(std::exchange(object_, nullptr));
  }

  void reset() noexcept { *this = OwnedObject(); }

  // For tp_traverse.
  int visit(visitproc visit_object, void* argument) const {
    return object_ ? visit_object(as_python(), argument) : 0;
  }

 private:
  explicit constexpr OwnedObject(Object* object) noexcept : object_(object) {}

  Object* object_ = nullptr;
};

using Owned = OwnedObject<PyObject>;

static_assert(sizeof(Owned) == sizeof(PyObject*), "an Owned is one pointer");

// Saves the Python exception that is set, and sets it again at the end of the scope.
class KeepException {
 public:
  KeepException() noexcept { PyErr_Fetch(&type_, &value_, &trace_); }
  ~KeepException() { PyErr_Restore(type_, value_, trace_); }
  KeepException(const KeepException&) = delete;
  KeepException& operator=(const KeepException&) = delete;

  // The exception as an object with its traceback, borrowed; null where none was set.
  PyObject* normalized() noexcept {
    PyErr_NormalizeException(&type_, &value_, &trace_);
    if (trace_) PyException_SetTraceback(value_, trace_);
    return value_;
  }

  // Takes the exception that is set now in place of the saved one.
  void replace() noexcept {
    drop();
    PyErr_Fetch(&type_, &value_, &trace_);
  }

  // Leaves no exception set at the end.
  void drop() noexcept {
    Owned::take(std::exchange(type_, nullptr));
    Owned::take(std::exchange(value_, nullptr));
    Owned::take(std::exchange(trace_, nullptr));
  }

 private:
  PyObject* type_ = nullptr;
  PyObject* value_ = nullptr;
  PyObject* trace_ = nullptr;
};

}  // namespace sonde
