// What the two fast paths of a sink share (`core.sink`): the row collector (row_collector.h) and the
// screen (screen.h).
//
// A fast path does natively what the Emitter and the sink do together in Python, so that the cost
// per tensor is that of reading its values. Inputs are read before the op runs, outputs after. A
// tensor that was read before in this step, has not been written since and is the same view of its
// memory is not read again: its *token* (a TensorRef of op_tree.py, compared by identity) names the
// contents, and the cache maps it to what was found.
#pragma once

#include "tensor.h"

#include <cstdint>
#include <memory_resource>
#include <unordered_map>

namespace sonde_match {

using sonde::Owned;
using sonde_tensor::TensorInfo;

// How many objects of this module exist, for tests: Python's collector does not list all of them.
struct Living {
  Py_ssize_t matchers = 0;
  Py_ssize_t nodes = 0;
  Py_ssize_t paths = 0;  // fast paths: row collectors and screens
};
inline Living living;

// The values of the parameter `io` of Python functions.
struct IoNames {
  PyObject* input;
  PyObject* output;
};
inline IoNames io_names;

inline bool make_io_names() {
  io_names.input = PyUnicode_InternFromString("input");
  io_names.output = PyUnicode_InternFromString("output");
  return io_names.input && io_names.output;
}

// A tensor as it was when it was read, and what was found. What `result` means is up to the path.
struct Measured : TensorInfo {
  Py_ssize_t result = 0;
};

// The tensors read in the running step, by token.
struct Cache {
  std::pmr::unsynchronized_pool_resource pool;  // of the next, kept from step to step
  std::pmr::unordered_map<PyObject*, Measured> measured{&pool};
};

// What every fast path of a session gets from the adapter.
struct Context {
  Owned codes;    // dict: dtype -> code of the kernels
  Owned foreign;  // set of storages that may change without an observed op
  Owned met;      // set of TensorRef: inputs of the step that were emitted in this step
};

// One tensor of one op. `token` names its contents; null: they are not known; False: they mean
// nothing (memory that was not filled yet).
struct TensorUse {
  PyObject* node;  // the OpNode
  PyObject* io;
  Py_ssize_t slot;
  PyObject* tensor;
  uintptr_t key;  // of its storage
  PyObject* token;
};

// Where the contents of a tensor come from. `is_output`: the op has just made it; `is_fresh`: in
// memory of its own (else torch counts the write, or lets a view share the count of what it is a
// view of, only later); `arranged` is what was found of the tensor this one is a rearrangement of.
struct Provenance {
  bool is_output = false;
  bool is_fresh = true;
  const Measured* arranged = nullptr;
};

// Whether `now` is the same view of the same memory as `then`, not written since.
inline bool is_unchanged(const Measured& then, const Measured& now) {
  if (then.has_version && (!now.has_version || then.version != now.version)) return false;
  return sonde_tensor::same_elements(then, now);
}

// 1 if the memory may have changed without an observed op, 0 if not, -1 with an error set.
inline int is_foreign(const Context& context, uintptr_t key) {
  if (!PySet_GET_SIZE(context.foreign.get())) return 0;
  const Owned number = Owned::take(PyLong_FromVoidPtr(reinterpret_cast<void*>(key)));
  return number ? PySet_Contains(context.foreign.get(), number.get()) : -1;
}

// What is known of the values of `tensor` under `token`, if anything. False with an error set.
inline bool recall(const Context& context, const Cache& cache, PyObject* tensor, uintptr_t key,
                   PyObject* token, const Measured** known) {
  if (!token || token == Py_False) return true;
  auto found = cache.measured.find(token);
  if (found == cache.measured.end()) return true;
  int foreign = is_foreign(context, key);
  Measured info;
  if (foreign || !sonde_tensor::read_info(tensor, &info)) return foreign >= 0;
  if (is_unchanged(found->second, info)) *known = &found->second;
  return true;
}

// Whether a kernel can read the memory.
inline bool is_readable(const TensorInfo& info) {
  return info.is_on_host && !info.is_negated && (!info.numel || info.address);
}

// Two functions of sonde.kernels: for contiguous tensors, and with shape and strides.
struct Kernel {
  Owned contiguous;
  Owned strided;

  // Calls it for a readable tensor; `row` is its first argument, if it is not null. Empty with an
  // error set.
  Owned call(const void* row, PyObject* tensor, PyObject* code, const TensorInfo& info) const {
    Owned row_address, size, stride;
    if (row) {
      row_address = Owned::take(PyLong_FromVoidPtr(const_cast<void*>(row)));
      if (!row_address) return {};
    }
    const Owned address = Owned::take(PyLong_FromVoidPtr(reinterpret_cast<void*>(info.address)));
    if (info.is_contiguous) {
      size = Owned::take(PyLong_FromLongLong(info.numel));
    } else {
      size = sonde_tensor::attribute(tensor, sonde_tensor::strings.shape);
      stride = sonde_tensor::call_method(tensor, sonde_tensor::strings.stride);
      if (!stride) return {};
    }
    if (!address || !size) return {};
    PyObject* values[5] = {row_address.get(), address.get(), code, size.get(), stride.get()};
    PyObject* const* first = row ? values : values + 1;
    const size_t count = (row ? 3 : 2) + (info.is_contiguous ? 1 : 2);
    return Owned::take(PyObject_Vectorcall((info.is_contiguous ? contiguous : strided).get(),
                                           first, count, nullptr));
  }
};

enum class Outcome { kDone, kNotPlain, kError };

// Fills `found`: with what is known under the token, or of the tensor this one is a rearrangement
// of, else with what `compute(code, &found)` finds. `entry` becomes its place in the cache, or stays
// null where the contents have no token. kNotPlain: this is not memory that a kernel can read.
template <typename Compute>
Outcome measure(const Context& context, Cache* cache, const TensorUse& use,
                const Provenance& provenance, Measured* found, Measured** entry,
                const Compute& compute) {
  PyObject* token = use.token;
  if (token) {
    int foreign = is_foreign(context, use.key);
    if (foreign < 0) return Outcome::kError;
    if (foreign) token = nullptr;
  }
  if (!sonde_tensor::read_info(use.tensor, found)) return Outcome::kNotPlain;
  PyObject* code = PyDict_GetItemWithError(context.codes.get(), found->dtype);
  if (!code) return PyErr_Occurred() ? Outcome::kError : Outcome::kNotPlain;
  if (token && !provenance.is_output) {
    auto known = cache->measured.find(token);
    if (known != cache->measured.end() && is_unchanged(known->second, *found)) {
      known->second.version = found->version;
      known->second.has_version = found->has_version;
      found->result = known->second.result;
      *entry = &known->second;
      return Outcome::kDone;
    }
  }
  const Measured* arranged = provenance.arranged;
  if (arranged && arranged->numel == found->numel && !found->is_negated &&
      !arranged->is_negated) {
    found->result = arranged->result;
  } else {
    if (!is_readable(*found)) return Outcome::kNotPlain;
    if (!compute(code, found)) return Outcome::kError;
  }
  if (token) {
    *entry = &cache->measured[token];
    **entry = *found;
    (*entry)->has_version = found->has_version && provenance.is_fresh;
  }
  return Outcome::kDone;
}

}  // namespace sonde_match
