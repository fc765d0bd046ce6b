// Conversions between Python objects and the arguments of the kernels.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "kernel.h"
#include "shared/owned.h"

namespace sonde {

using Arguments = PyObject* const*;

// Each of these sets a Python exception and gives false when the object is not what it must be.
bool read_address(PyObject* object, void*& address);
bool read_count(PyObject* object, std::int64_t& count);
bool read_dtype(PyObject* object, DType& dtype);

// A shape with its strides, in elements.
struct Geometry {
  int dims = 0;
  std::array<std::int64_t, kMaxDims> shape;
  std::array<std::int64_t, kMaxDims> strides;
};

// `strides` may be None: the elements follow each other in the order of the shape.
bool read_geometry(PyObject* shape, PyObject* strides, Geometry& geometry);

bool expect_arguments(const char* name, Py_ssize_t given, Py_ssize_t expected);

// Lets other Python threads run while `work` reads `bytes` bytes, if that takes long enough to be
// worth the handover.
template <class Work>
void without_gil(std::int64_t bytes, Work work) {
  constexpr std::int64_t kWorthIt = 256 * 1024;
  if (bytes < kWorthIt) {
    work();
    return;
  }
  Py_BEGIN_ALLOW_THREADS work();
  Py_END_ALLOW_THREADS
}

// Functions of the module that have a file of their own.
PyObject* format_rows(PyObject* module, Arguments arguments, Py_ssize_t count);
PyObject* count_between(PyObject* module, Arguments arguments, Py_ssize_t count);
PyObject* tally_change(PyObject* module, Arguments arguments, Py_ssize_t count);
PyObject* compare_strided_into(PyObject* module, Arguments arguments, Py_ssize_t count);

}  // namespace sonde
