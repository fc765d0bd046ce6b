// Reading tensors: where they are, what shape they have, how often they were written.
//
// This module uses torch through Python objects. That costs a call, and often a new object, for
// every number. So two pointers that every tensor contains are read directly from its memory, and the
// rest comes from torch's C functions with a stable binary interface (those that compiled models are
// linked against). The offsets of the pointers are found by comparing sample tensors with what Python
// returns for them. If that fails, if a function is missing, or if a tensor is of another class
// (sparse, nested, quantized), the numbers are read through Python each time.
#pragma once

#include "shared/owned.h"

#include <cstdint>
#include <cstring>
#include <vector>

namespace sonde_tensor {

using sonde::Owned;

constexpr int kMostDims = 8;
constexpr int kMostTypes = 128;
// Torch's numbers of dtypes, which are part of its stable interface.
constexpr int kInt64 = 4;
constexpr int kFloat32 = 6;
constexpr int kFloat64 = 7;
constexpr size_t kImplBytes = 176;  // of a TensorImpl in torch 2.13; earlier ones are longer

struct Strings {
  PyObject* cdata;
  PyObject* untyped_storage;
  PyObject* version;
  PyObject* shape;
  PyObject* dtype;
  PyObject* is_cpu;
  PyObject* data_ptr;
  PyObject* numel;
  PyObject* nbytes;
  PyObject* stride;
  PyObject* is_neg;
  PyObject* is_conj;
};
inline Strings strings;

inline bool make_strings() {
  struct {
    PyObject** place;
    const char* text;
  } all[] = {{&strings.cdata, "_cdata"},       {&strings.untyped_storage, "untyped_storage"},
             {&strings.version, "_version"},   {&strings.shape, "shape"},
             {&strings.dtype, "dtype"},        {&strings.is_cpu, "is_cpu"},
             {&strings.data_ptr, "data_ptr"},  {&strings.numel, "numel"},
             {&strings.nbytes, "nbytes"},      {&strings.stride, "stride"},
             {&strings.is_neg, "is_neg"},     {&strings.is_conj, "is_conj"}};
  for (auto& each : all)
    if (!(*each.place = PyUnicode_InternFromString(each.text))) return false;
  return true;
}

inline Owned attribute(PyObject* object, PyObject* name) {
  return Owned::take(PyObject_GetAttr(object, name));
}

inline Owned call_method(PyObject* object, PyObject* name) {
  return Owned::take(
      PyObject_VectorcallMethod(name, &object, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

inline bool number_from(const Owned& value, long long* out) {
  if (!value) return false;
  *out = PyLong_AsLongLong(value.get());
  return !(*out == -1 && PyErr_Occurred());
}

inline bool pointer_from(const Owned& value, uintptr_t* out) {
  if (!value) return false;
  void* pointer = PyLong_AsVoidPtr(value.get());
  *out = reinterpret_cast<uintptr_t>(pointer);
  return pointer || !PyErr_Occurred();
}

// 1, 0, or -1 with an error set.
inline int truth_from(const Owned& value) { return value ? PyObject_IsTrue(value.get()) : -1; }

inline bool pointer_attribute(PyObject* object, uintptr_t* out) {
  return pointer_from(attribute(object, strings.cdata), out);
}

// ------------------------------------------------------------------------------- direct access

using Handle = void*;  // an at::Tensor's address; an at::Tensor is a pointer to its TensorImpl

struct Torch {
  bool is_known = false;
  size_t impl_at = 0;     // of the TensorImpl, in a Python tensor
  size_t storage_at = 0;  // of the StorageImpl, in a TensorImpl
  uintptr_t kind = 0;     // first word of a TensorImpl that is of no derived class
  int32_t (*data_ptr)(Handle, void**) = nullptr;
  int32_t (*numel)(Handle, int64_t*) = nullptr;
  int32_t (*dim)(Handle, int64_t*) = nullptr;
  int32_t (*sizes)(Handle, int64_t**) = nullptr;
  int32_t (*strides)(Handle, int64_t**) = nullptr;
  int32_t (*dtype)(Handle, int32_t*) = nullptr;
  int32_t (*device_type)(Handle, int32_t*) = nullptr;
  int32_t (*storage_offset)(Handle, int64_t*) = nullptr;
  // The word of a TensorImpl with a bit for negated and one for conjugated views; no bits: unknown.
  size_t flags_at = 0;
  uintptr_t negated = 0;
  uintptr_t conjugated = 0;
  // By torch's number; borrowed: torch keeps its dtypes for as long as the process lives.
  PyObject* dtypes[kMostTypes] = {};
};
inline Torch torch;

inline uintptr_t word_at(const void* object, size_t offset) {
  uintptr_t word;
  std::memcpy(&word, static_cast<const char*>(object) + offset, sizeof(word));
  return word;
}

// Leaves in `places` the offsets where `object` has `word`.
inline void narrow(std::vector<size_t>* places, const void* object, uintptr_t word) {
  std::vector<size_t> left;
  for (size_t offset : *places)
    if (word_at(object, offset) == word) left.push_back(offset);
  places->swap(left);
}

// Finds the flags of views. `views`: of each dtype a plain tensor, the tensor negated and, of complex
// dtypes, conjugated, else None. Leaves them unknown unless exactly one word has them.
inline void probe_flags(PyObject* samples, PyObject* views) {
  const auto word = [](PyObject* tensor, size_t at) {
    return word_at(reinterpret_cast<void*>(word_at(tensor, torch.impl_at)), at);
  };
  const auto is_one_bit = [](uintptr_t bits) { return bits && !(bits & (bits - 1)); };
  size_t found = 0;
  for (size_t at = 8; at < kImplBytes; at += 8) {
    uintptr_t negated = 0, conjugated = 0;
    bool fits = true;
    for (Py_ssize_t i = 0; fits && i < PyList_GET_SIZE(views); ++i) {
      PyObject* view = PyList_GET_ITEM(views, i);
      const uintptr_t plain = word(PyTuple_GET_ITEM(view, 0), at);
      const uintptr_t changed = plain ^ word(PyTuple_GET_ITEM(view, 1), at);
      fits = is_one_bit(changed) && !(plain & changed) && (!negated || negated == changed);
      negated = changed;
      if (!fits || PyTuple_GET_ITEM(view, 2) == Py_None) continue;
      const uintptr_t other = plain ^ word(PyTuple_GET_ITEM(view, 2), at);
      fits = is_one_bit(other) && !(plain & other) && other != negated &&
             (!conjugated || conjugated == other);
      conjugated = other;
    }
    for (Py_ssize_t i = 0; fits && i < PyList_GET_SIZE(samples); ++i)
      fits = !(word(PyList_GET_ITEM(samples, i), at) & (negated | conjugated));
    if (!fits || !negated || !conjugated) continue;
    ++found;
    torch.flags_at = at;
    torch.negated = negated;
    torch.conjugated = conjugated;
  }
  if (found != 1) torch.negated = torch.conjugated = 0;
}

// probe(functions, samples, views): addresses of torch's functions, in the order of `Torch`; plain
// tensors of different dtypes, each with memory of its own; see probe_flags. Returns whether direct
// access works.
inline PyObject* probe(PyObject*, PyObject* args) {
  PyObject *functions, *samples, *views;
  if (!PyArg_ParseTuple(args, "O!O!O!", &PyTuple_Type, &functions, &PyList_Type, &samples,
                        &PyList_Type, &views))
    return nullptr;
  void** places[] = {reinterpret_cast<void**>(&torch.data_ptr),
                     reinterpret_cast<void**>(&torch.numel),
                     reinterpret_cast<void**>(&torch.dim),
                     reinterpret_cast<void**>(&torch.sizes),
                     reinterpret_cast<void**>(&torch.strides),
                     reinterpret_cast<void**>(&torch.dtype),
                     reinterpret_cast<void**>(&torch.device_type),
                     reinterpret_cast<void**>(&torch.storage_offset)};
  torch.is_known = false;
  torch.negated = torch.conjugated = 0;
  const Py_ssize_t count = sizeof(places) / sizeof(places[0]);
  if (PyTuple_GET_SIZE(functions) != count || PyList_GET_SIZE(samples) < 4) Py_RETURN_FALSE;
  for (Py_ssize_t i = 0; i < count; ++i) {
    *places[i] = PyLong_AsVoidPtr(PyTuple_GET_ITEM(functions, i));
    if (!*places[i]) {
      if (PyErr_Occurred()) return nullptr;
      Py_RETURN_FALSE;
    }
  }
  // A TensorImpl is more than twenty words long; its storage is among the first.
  std::vector<size_t> impl_at, storage_at = {8, 16, 24, 32, 40, 48};
  size_t size = static_cast<size_t>(Py_TYPE(PyList_GET_ITEM(samples, 0))->tp_basicsize);
  for (size_t at = sizeof(PyObject); at + sizeof(uintptr_t) <= size && at <= 64; at += 8)
    impl_at.push_back(at);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(samples); ++i) {
    PyObject* sample = PyList_GET_ITEM(samples, i);
    uintptr_t impl, storage;
    if (!pointer_attribute(sample, &impl)) return nullptr;
    const Owned owner = call_method(sample, strings.untyped_storage);
    if (!owner || !pointer_attribute(owner.get(), &storage)) return nullptr;
    narrow(&impl_at, sample, impl);
    narrow(&storage_at, reinterpret_cast<void*>(impl), storage);
    uintptr_t kind = word_at(reinterpret_cast<void*>(impl), 0);
    if (i > 0 && kind != torch.kind) Py_RETURN_FALSE;
    torch.kind = kind;
  }
  if (impl_at.size() != 1 || storage_at.size() != 1) Py_RETURN_FALSE;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(samples); ++i) {
    PyObject* sample = PyList_GET_ITEM(samples, i);
    uintptr_t impl = word_at(sample, impl_at[0]);
    int32_t type, device;
    uintptr_t address;
    void* data;
    if (!pointer_from(call_method(sample, strings.data_ptr), &address)) return nullptr;
    if (torch.dtype(&impl, &type) || type < 0 || type >= kMostTypes ||
        torch.device_type(&impl, &device) || device != 0 || torch.data_ptr(&impl, &data) ||
        reinterpret_cast<uintptr_t>(data) != address)
      Py_RETURN_FALSE;
    const Owned dtype = attribute(sample, strings.dtype);
    if (!dtype) return nullptr;
    torch.dtypes[type] = dtype.get();
  }
  torch.impl_at = impl_at[0];
  torch.storage_at = storage_at[0];
  torch.is_known = true;
  probe_flags(samples, views);
  Py_RETURN_TRUE;
}

// ------------------------------------------------------------------------------------- numbers

// The TensorImpl of a tensor that can be read directly, or 0.
inline uintptr_t direct_impl(PyObject* tensor) {
  if (!torch.is_known) return 0;
  uintptr_t impl = word_at(tensor, torch.impl_at);
  return impl && word_at(reinterpret_cast<void*>(impl), 0) == torch.kind ? impl : 0;
}

// The tensor's `_cdata`. False with an error set.
inline bool impl_of(PyObject* tensor, uintptr_t* impl) {
  *impl = direct_impl(tensor);
  return *impl || pointer_attribute(tensor, impl);
}

// The `_cdata` of the tensor's storage. False with an error set where it has none.
inline bool storage_key(PyObject* tensor, uintptr_t* key) {
  uintptr_t impl = direct_impl(tensor);
  *key = impl ? word_at(reinterpret_cast<void*>(impl), torch.storage_at) : 0;
  if (*key) return true;
  const Owned storage = call_method(tensor, strings.untyped_storage);
  return storage && pointer_attribute(storage.get(), key);
}

// Whether a tensor is a negated view: 1, 0, or -1 with an error set. `impl`: as `direct_impl` has it.
inline int is_negated(PyObject* tensor, uintptr_t impl) {
  if (impl && torch.negated)
    return (word_at(reinterpret_cast<void*>(impl), torch.flags_at) & torch.negated) != 0;
  return truth_from(call_method(tensor, strings.is_neg));
}

// The same for a conjugated view.
inline int is_conjugated(PyObject* tensor, uintptr_t impl) {
  if (impl && torch.conjugated)
    return (word_at(reinterpret_cast<void*>(impl), torch.flags_at) & torch.conjugated) != 0;
  return truth_from(call_method(tensor, strings.is_conj));
}

// The facts about a tensor that are needed before its values are read.
struct TensorInfo {
  uintptr_t address = 0;
  long long version = -1;
  bool has_version = false;
  bool is_negated = false;
  bool is_on_host = false;
  bool is_contiguous = false;
  int dims = 0;  // -1: more than fit
  int64_t numel = 0;
  PyObject* dtype = nullptr;  // borrowed: torch keeps its dtypes
  int64_t shape[kMostDims] = {};
  int64_t stride[kMostDims] = {};
};

inline bool is_dense(const int64_t* shape, const int64_t* stride, int64_t dims) {
  int64_t expected = 1;
  for (int64_t i = dims - 1; i >= 0; --i) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && stride[i] != expected) {
      for (; i >= 0; --i)
        if (shape[i] == 0) return true;
      return false;
    }
    expected *= shape[i];
  }
  return true;
}

inline void set_shape(TensorInfo* info, const int64_t* shape, const int64_t* stride, int64_t dims) {
  info->is_contiguous = is_dense(shape, stride, dims);
  info->dims = dims <= kMostDims ? static_cast<int>(dims) : -1;
  if (info->dims > 0) {
    std::memcpy(info->shape, shape, static_cast<size_t>(dims) * sizeof(int64_t));
    std::memcpy(info->stride, stride, static_cast<size_t>(dims) * sizeof(int64_t));
  }
}

// The shape, from torch's C functions. False where the tensor is not plain.
inline bool read_direct(uintptr_t impl, TensorInfo* info) {
  int32_t type, device;
  int64_t dims, *shape, *stride;
  void* data;
  if (!word_at(reinterpret_cast<void*>(impl), torch.storage_at)) return false;
  if (torch.dtype(&impl, &type) || type < 0 || type >= kMostTypes || !torch.dtypes[type] ||
      torch.device_type(&impl, &device) || torch.numel(&impl, &info->numel) ||
      torch.dim(&impl, &dims) || torch.sizes(&impl, &shape) || torch.strides(&impl, &stride))
    return false;
  info->dtype = torch.dtypes[type];
  info->is_on_host = device == 0;
  if (torch.data_ptr(&impl, &data)) return false;
  info->address = reinterpret_cast<uintptr_t>(data);
  set_shape(info, shape, stride, dims);
  return true;
}

inline bool numbers_from(const Owned& tuple, std::vector<int64_t>* out) {
  if (!tuple || !PyTuple_Check(tuple.get())) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i)
    out->push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple.get(), i)));
  return !PyErr_Occurred();
}

// The same, through Python.
inline bool read_through_python(PyObject* tensor, TensorInfo* info) {
  info->dtype = attribute(tensor, strings.dtype).get();
  if (!info->dtype) return false;
  long long numel = 0;
  int on_host = truth_from(attribute(tensor, strings.is_cpu));
  if (on_host < 0 || !pointer_from(call_method(tensor, strings.data_ptr), &info->address) ||
      !number_from(call_method(tensor, strings.numel), &numel))
    return false;
  std::vector<int64_t> dims, steps;
  if (!numbers_from(attribute(tensor, strings.shape), &dims) ||
      !numbers_from(call_method(tensor, strings.stride), &steps) || dims.size() != steps.size())
    return false;
  info->is_on_host = on_host != 0;
  info->numel = numel;
  set_shape(info, dims.data(), steps.data(), static_cast<int64_t>(dims.size()));
  return true;
}

// Fills `info`. False, without an error, where the tensor is not plain memory.
inline bool read_info(PyObject* tensor, TensorInfo* info) {
  uintptr_t impl = direct_impl(tensor);
  bool ok = impl ? read_direct(impl, info) : read_through_python(tensor, info);
  if (ok) {
    info->has_version = number_from(attribute(tensor, strings.version), &info->version);
    PyErr_Clear();  // inference tensors are not counted
    int negated = is_negated(tensor, impl);
    info->is_negated = negated > 0;
    ok = negated >= 0;
  }
  PyErr_Clear();
  return ok;
}

// Whether two are the same elements of memory, in the same order.
inline bool same_elements(const TensorInfo& a, const TensorInfo& b) {
  if (a.address != b.address || a.numel != b.numel || a.is_negated != b.is_negated) return false;
  if (a.dims < 0 || a.dims != b.dims) return false;
  size_t size = static_cast<size_t>(a.dims) * sizeof(int64_t);
  return std::memcmp(a.shape, b.shape, size) == 0 && std::memcmp(a.stride, b.stride, size) == 0;
}

}  // namespace sonde_tensor
