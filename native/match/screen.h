// Screen: the fast path of a sink that wants only some runs of an op (`core.sink.ScreenPath`): those
// with values that are not finite, or with outputs that do not pass tests of their statistics. The
// other runs never reach Python.
//
// Behaves as sonde/adapters/torch/tensors/emission.py with sonde/dump/sinks/overflow.py, or with the
// debugger's sink.
#pragma once

#include "fast_path.h"
#include "row_tests.h"

#include <vector>

namespace sonde_match {

// The state that the screens of one sink share.
struct ScreeningFields {
  Context context;
  Kernel non_finite;  // (...) -> int
  // (node, io, slot, tensor, is tested) -> bool: whether a tensor that is not plain memory lets
  // its op through to the sink
  Owned unusual;
  // A result is whether the tensor is not finite (kNotFinite) and, above that bit, the number of its
  // row plus one, if it has one.
  Cache cache;
  std::vector<double> rows;
  std::vector<char> arena;  // for copies; used again by every op, so that it stays in the cache
};

constexpr Py_ssize_t kNotFinite = 1;

struct Screening : PyObject, ScreeningFields {};

struct ScreenFields {
  sonde::OwnedObject<Screening> screening;
  Kernel summary;         // (row address, ...) -> None
  RowTests tests;         // empty: only what is not finite lets an op through
  int takes_inputs = 0;   // whether a value that is not finite lets an op through, inputs too
};

struct Screen : PyObject, ScreenFields {};

// Sets `is_wanted` where this tensor lets its op through to the sink. `known` as in `collect`.
// False with an error set.
bool screen_tensor(Screen* screen, const TensorUse& use, const Provenance& provenance,
                   bool* is_wanted, const Measured** known = nullptr);

// A tensor as it was before an op that writes to it. Its bytes are in the arena, until the next op
// that writes.
struct Copy {
  Py_ssize_t slot = 0;
  size_t offset = 0;
  size_t size = 0;
  uintptr_t address = 0;
  Owned dtype;
  Owned shape;
  TensorInfo info;

  // Writes the elements to `to`, in their order.
  void write(char* to) const;
};

enum class Copied { kDone, kNotPlain, kError };

// Fills in what of `tensor` is to be copied; kNotPlain is without an error.
Copied plan_copy(const Context& context, PyObject* tensor, Copy* copy);

extern PyTypeObject ScreeningType;
extern PyTypeObject ScreenType;
bool make_screen_types();

}  // namespace sonde_match
