// What distinguishes tensors over one storage: with equal geometry they have equal values.
#pragma once

#include "tensor.h"

namespace sonde_match {

using sonde::Owned;

// Numbers: dtype, offset, flags, dims, shape, strides. Python has them as `bytes`.
struct Geometry {
  static constexpr int kHead = 4;
  int64_t words[kHead + 2 * sonde_tensor::kMostDims];
  int count = 0;

  size_t size() const { return static_cast<size_t>(count) * sizeof(int64_t); }

  bool equals(PyObject* other) const {
    return PyBytes_CheckExact(other) && static_cast<size_t>(PyBytes_GET_SIZE(other)) == size() &&
           std::memcmp(PyBytes_AS_STRING(other), words, size()) == 0;
  }

  Owned as_bytes() const {
    return Owned::take(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(words),
                                                 static_cast<Py_ssize_t>(size())));
  }
};

// Fills `geometry`. False, without an error, where the tensor cannot be read directly.
inline bool read_geometry(PyObject* tensor, Geometry* geometry) {
  using sonde_tensor::torch;
  uintptr_t impl = sonde_tensor::direct_impl(tensor);
  int32_t type;
  int64_t dims, offset, *shape, *stride;
  if (!impl || torch.dtype(&impl, &type) || type < 0 || type >= sonde_tensor::kMostTypes ||
      !torch.dtypes[type] || torch.dim(&impl, &dims) || dims > sonde_tensor::kMostDims ||
      torch.sizes(&impl, &shape) || torch.strides(&impl, &stride) ||
      torch.storage_offset(&impl, &offset))
    return false;
  const int negated = sonde_tensor::is_negated(tensor, impl);
  const int conjugated = sonde_tensor::is_conjugated(tensor, impl);
  if (negated < 0 || conjugated < 0) {
    PyErr_Clear();
    return false;
  }
  geometry->words[0] = type;
  geometry->words[1] = offset;
  geometry->words[2] = negated + 2 * conjugated;
  geometry->words[3] = dims;
  const size_t bytes = static_cast<size_t>(dims) * sizeof(int64_t);
  std::memcpy(geometry->words + Geometry::kHead, shape, bytes);
  std::memcpy(geometry->words + Geometry::kHead + dims, stride, bytes);
  geometry->count = Geometry::kHead + 2 * static_cast<int>(dims);
  return true;
}

// (dtype, shape) of the tensor that had this geometry; empty with an error set.
inline Owned spec_from(PyObject* bytes) {
  int64_t words[Geometry::kHead + 2 * sonde_tensor::kMostDims] = {};
  std::memcpy(words, PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes)));
  Owned shape = Owned::take(PyTuple_New(static_cast<Py_ssize_t>(words[3])));
  if (!shape) return {};
  for (int64_t i = 0; i < words[3]; ++i) {
    PyObject* size = PyLong_FromLongLong(words[Geometry::kHead + i]);
    if (!size) return {};
    PyTuple_SET_ITEM(shape.get(), static_cast<Py_ssize_t>(i), size);
  }
  return Owned::take(PyTuple_Pack(2, sonde_tensor::torch.dtypes[words[0]], shape.get()));
}

}  // namespace sonde_match
