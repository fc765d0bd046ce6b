// Checks and converts the arguments that Python passes.
#include "module.h"

namespace sonde {

bool read_address(PyObject* object, void*& address) {
  address = PyLong_AsVoidPtr(object);
  return address != nullptr || PyErr_Occurred() == nullptr;
}

bool read_count(PyObject* object, std::int64_t& count) {
  count = PyLong_AsLongLong(object);
  if (count >= 0) return true;
  if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_ValueError, "a count below zero");
  return false;
}

bool read_dtype(PyObject* object, DType& dtype) {
  const long code = PyLong_AsLong(object);
  if (code == -1 && PyErr_Occurred() != nullptr) return false;
  if (code < 0 || code >= kDTypeCount) {
    PyErr_Format(PyExc_ValueError, "%ld is not the code of an element type", code);
    return false;
  }
  dtype = static_cast<DType>(code);
  return true;
}

bool expect_arguments(const char* name, Py_ssize_t given, Py_ssize_t expected) {
  if (given == expected) return true;
  PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments (%zd given)", name, expected, given);
  return false;
}

namespace {

bool read_integers(PyObject* object, std::array<std::int64_t, kMaxDims>& values, int& count) {
  const Owned fast = Owned::take(PySequence_Fast(object, "expected a sequence of integers"));
  if (!fast) return false;
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(fast.get());
  bool good = size <= kMaxDims;
  if (!good) PyErr_Format(PyExc_ValueError, "%zd dimensions; %d at most", size, kMaxDims);
  for (Py_ssize_t i = 0; good && i < size; ++i) {
    const long long value = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(fast.get(), i));
    good = value != -1 || PyErr_Occurred() == nullptr;
    values[static_cast<std::size_t>(i)] = value;
  }
  count = static_cast<int>(size);
  return good;
}

}  // namespace

bool read_geometry(PyObject* shape, PyObject* strides, Geometry& geometry) {
  if (!read_integers(shape, geometry.shape, geometry.dims)) return false;
  for (int d = 0; d < geometry.dims; ++d) {
    if (geometry.shape[static_cast<std::size_t>(d)] < 0) {
      PyErr_SetString(PyExc_ValueError, "a dimension below zero");
      return false;
    }
  }
  if (strides == Py_None) {
    std::int64_t stride = 1;
    for (int d = geometry.dims - 1; d >= 0; --d) {
      geometry.strides[static_cast<std::size_t>(d)] = stride;
      stride *= geometry.shape[static_cast<std::size_t>(d)];
    }
    return true;
  }
  int count = 0;
  if (!read_integers(strides, geometry.strides, count)) return false;
  if (count == geometry.dims) return true;
  PyErr_Format(PyExc_ValueError, "%d strides for %d dimensions", count, geometry.dims);
  return false;
}

}  // namespace sonde
