// A shortcut for sinks that only want numbers of every tensor: rows of statistics, or whether a
// tensor is finite. It does natively what the Emitter and the sink do together in Python, so that
// the cost per tensor is that of looking at it.
//
// Behaves as sonde/adapters/torch/emission.py with sonde/dump/statistic.py or overflow.py: inputs
// are judged before the op runs, outputs after; a tensor that was judged before in this step, has
// not been written since and is the same view is not read again.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "screen.h"
#include "tensor.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <unordered_map>
#include <vector>

namespace sonde_lane {

constexpr int kRowColumns = 16;

// The fixed columns of one tensor's row, good for one shape and dtype.
struct Slot {
  PyObject* head = nullptr;
  PyObject* tail = nullptr;
  PyObject* dtype = nullptr;  // borrowed, as in Look
  int dims = 0;
  int64_t shape[sonde_tensor::kMostDims] = {};

  bool fits(const sonde_tensor::Look& look) const {
    return head && dtype == look.dtype && dims >= 0 && dims == look.dims &&
           std::memcmp(shape, look.shape, static_cast<size_t>(dims) * sizeof(int64_t)) == 0;
  }

  void clear() {
    Py_CLEAR(head);
    Py_CLEAR(tail);
  }
};

// What a tensor looked like when it was judged, and the judgement: a row; of a watch whether it is
// not finite (kBad) and, above that bit, its row plus one, if it has one.
struct Judged : sonde_tensor::Look {
  Py_ssize_t verdict = 0;
};

constexpr Py_ssize_t kBad = 1;

// What the lanes of one sink know together of this step.
struct Known {
  std::pmr::unsynchronized_pool_resource pool;  // of the next, kept from step to step
  std::pmr::unordered_map<PyObject*, Judged> judged{&pool};
  std::vector<double> rows;  // of screens

  void forget() {
    judged.clear();
    rows.clear();
  }
};

struct Lane {
  PyObject_HEAD
  PyObject* heads;    // list of bytes
  PyObject* tails;    // list of bytes
  PyObject* stamps;   // list of int
  PyObject* index;    // list of int: rows
  PyObject* codes;    // dict: dtype -> kernel code
  PyObject* whole;    // (row address, address, code, numel), or (address, code, numel) -> count
  PyObject* strided;  // the same with shape and strides
  PyObject* describe; // (node, io, slot, tensor) -> (head, tail)
  PyObject* other;    // (node, io, slot, tensor, stamp) -> count or None: what is not plain
  PyObject* now;      // () -> int
  PyObject* grow;     // () -> (address, capacity)
  PyObject* foreign;  // set of storages that change unseen
  PyObject* met;      // set of leaves (refs) that have been handed over in this step
  int takes_inputs;
  int takes_outputs;
  int is_watch;
  uintptr_t rows;
  Py_ssize_t capacity;
  Py_ssize_t count;
  PyObject* stamp;
  std::vector<char>* arena;  // for copies; used again by every op, so that it stays in the cache
  std::shared_ptr<Known>* shared;
  Known* known;
  // A watch with a screen brings ops, too, whose outputs do not pass it.
  PyObject* summary;          // (row address, address, code, numel)
  PyObject* summary_strided;  // the same with shape and strides
  sonde_screen::Screen* screen;
};

struct Strings {
  PyObject* input;
  PyObject* output;
};
inline Strings strings;

inline bool make_strings() {
  strings.input = PyUnicode_InternFromString("input");
  strings.output = PyUnicode_InternFromString("output");
  return strings.input && strings.output && sonde_tensor::make_strings();
}

// Whether `look` is at what `known` was at, not written since.
inline bool same_look(const Judged& known, const Judged& look) {
  if (known.has_version && (!look.has_version || known.version != look.version)) return false;
  return sonde_tensor::same_elements(known, look);
}

inline bool next_row(Lane* lane, uintptr_t* address) {
  if (lane->count == lane->capacity) {
    PyObject* answer = PyObject_CallNoArgs(lane->grow);
    if (!answer) return false;
    unsigned long long place;
    Py_ssize_t capacity;
    bool ok = PyArg_ParseTuple(answer, "Kn", &place, &capacity);
    Py_DECREF(answer);
    if (!ok) return false;
    lane->rows = static_cast<uintptr_t>(place);
    lane->capacity = capacity;
  }
  *address = lane->rows + static_cast<uintptr_t>(lane->count) * kRowColumns * sizeof(double);
  return true;
}

// 1 if the memory may have changed unseen, 0 if not, -1 error.
inline int is_foreign(Lane* lane, uintptr_t key) {
  if (!PySet_GET_SIZE(lane->foreign)) return 0;
  PyObject* number = PyLong_FromVoidPtr(reinterpret_cast<void*>(key));
  int found = number ? PySet_Contains(lane->foreign, number) : -1;
  Py_XDECREF(number);
  return found;
}

// The judgement of what `tensor` holds, if it is known under `ref`. False with an error set.
inline bool recall(Lane* lane, PyObject* tensor, uintptr_t key, PyObject* ref,
                   const Judged** known) {
  if (!ref || ref == Py_False) return true;
  auto found = lane->known->judged.find(ref);
  if (found == lane->known->judged.end()) return true;
  int foreign = is_foreign(lane, key);
  Judged look;
  if (foreign || !sonde_tensor::look_at(tensor, &look)) return foreign >= 0;
  if (same_look(found->second, look)) *known = &found->second;
  return true;
}

enum class Verdict { kGiven, kNotPlain, kError };

// Has a kernel look at a plain tensor; `row` is its first argument, if it is not null.
inline PyObject* call_kernel(PyObject* whole, PyObject* strided, const void* row, PyObject* tensor,
                             PyObject* code, const Judged& look) {
  bool contiguous = look.is_contiguous;
  PyObject* shape = nullptr;
  PyObject* stride = nullptr;
  if (!contiguous) {
    shape = PyObject_GetAttr(tensor, sonde_tensor::strings.shape);
    stride = sonde_tensor::call_method(tensor, sonde_tensor::strings.stride);
  }
  PyObject* row_address = row ? PyLong_FromVoidPtr(const_cast<void*>(row)) : Py_NewRef(Py_None);
  PyObject* address = PyLong_FromVoidPtr(reinterpret_cast<void*>(look.address));
  PyObject* numel = PyLong_FromLongLong(look.numel);
  PyObject* answer = nullptr;
  if (address && numel && row_address && (contiguous || (shape && stride))) {
    PyObject* values[5] = {row_address, address, code, contiguous ? numel : shape, stride};
    PyObject* const* first = row ? values : values + 1;
    size_t count = (row ? 3 : 2) + (contiguous ? 1 : 2);
    answer = PyObject_Vectorcall(contiguous ? whole : strided, first, count, nullptr);
  }
  Py_XDECREF(address);
  Py_XDECREF(numel);
  Py_XDECREF(row_address);
  Py_XDECREF(shape);
  Py_XDECREF(stride);
  return answer;
}

inline bool is_readable(const Judged& look) {
  return look.is_on_host && !look.is_negated && (!look.numel || look.address);
}

// Judges a plain tensor: computes its row, or counts what is not finite.
inline Verdict judge(Lane* lane, PyObject* tensor, PyObject* code, Judged* look) {
  if (!is_readable(*look)) return Verdict::kNotPlain;
  uintptr_t row = 0;
  if (!lane->is_watch && !next_row(lane, &row)) return Verdict::kError;
  PyObject* answer = call_kernel(lane->whole, lane->strided, reinterpret_cast<void*>(row), tensor,
                                 code, *look);
  if (!answer) return Verdict::kError;
  if (lane->is_watch) {
    long long bad;
    if (!sonde_tensor::number_from(answer, &bad)) return Verdict::kError;
    look->verdict = bad > 0 ? kBad : 0;
  } else {
    Py_DECREF(answer);
    look->verdict = lane->count++;
  }
  return Verdict::kGiven;
}

// Judges a plain tensor that must pass a screen: computes its row.
inline Verdict summarize(Lane* lane, PyObject* tensor, PyObject* code, Judged* look) {
  if (!is_readable(*look)) return Verdict::kNotPlain;
  std::vector<double>& rows = lane->known->rows;
  const size_t start = rows.size();
  rows.resize(start + sonde_screen::kColumns);
  PyObject* answer = call_kernel(lane->summary, lane->summary_strided, rows.data() + start, tensor,
                                 code, *look);
  if (!answer) {
    rows.resize(start);
    return Verdict::kError;
  }
  Py_DECREF(answer);
  const auto number = static_cast<Py_ssize_t>(start / sonde_screen::kColumns) + 1;
  look->verdict = number * 2 + (sonde_screen::is_finite(rows.data() + start) ? 0 : kBad);
  return Verdict::kGiven;
}

// Whether a watched output is one that the sink wants to see.
inline bool is_wanted(Lane* lane, const Judged& look, bool is_screened) {
  if ((look.verdict & kBad) && (lane->takes_inputs || !is_screened)) return true;
  if (!is_screened) return false;
  const auto row = static_cast<size_t>((look.verdict >> 1) - 1) * sonde_screen::kColumns;
  return !sonde_screen::passes(*lane->screen, lane->known->rows.data() + row);
}

inline bool append(PyObject* list, PyObject* item) { return PyList_Append(list, item) == 0; }

// The row's text and number go to the sink's lists.
inline bool add_row(Lane* lane, Slot* slot, PyObject* node, PyObject* io, Py_ssize_t place,
                    PyObject* tensor, const Judged& look) {
  if (!slot->fits(look)) {
    PyObject* number = PyLong_FromSsize_t(place);
    PyObject* parts = number ? PyObject_CallFunctionObjArgs(lane->describe, node, io, number,
                                                            tensor, nullptr)
                             : nullptr;
    Py_XDECREF(number);
    if (!parts) return false;
    PyObject *head, *tail;
    if (!PyArg_ParseTuple(parts, "SS", &head, &tail)) {
      Py_DECREF(parts);
      return false;
    }
    slot->clear();
    slot->head = Py_NewRef(head);
    slot->tail = Py_NewRef(tail);
    slot->dtype = look.dtype;
    slot->dims = look.dims;
    std::memcpy(slot->shape, look.shape, sizeof(slot->shape));
    Py_DECREF(parts);
  }
  PyObject* row = PyLong_FromSsize_t(look.verdict);
  bool ok = row && append(lane->heads, slot->head) && append(lane->tails, slot->tail) &&
            append(lane->stamps, lane->stamp) && append(lane->index, row);
  Py_XDECREF(row);
  return ok;
}

// What take() is told of a tensor besides its name. `is_made`: the op has just made it;
// `is_new`: in memory of its own (else torch counts the write, or lets a view share the count of
// what it is a view of, only later); `like` is the judgement of the tensor this one is a
// rearrangement of.
struct Given {
  bool is_made = false;
  bool is_new = true;
  const Judged* like = nullptr;
};

// One tensor of one op. `ref` names its contents; null: nobody knows them; False: they mean
// nothing. `bad` is set where a watched tensor is not finite, or does not pass the screen; `kept` becomes the judgement, where
// it is known under `ref` from here on. False with an error set.
inline bool take(Lane* lane, Slot* slot, PyObject* node, PyObject* io, Py_ssize_t place,
                 PyObject* tensor, uintptr_t key, PyObject* ref, const Given& given, bool* bad,
                 const Judged** kept = nullptr) {
  if (ref == Py_False) {  // memory nobody has filled
    if (lane->is_watch) return true;
    ref = nullptr;
  }
  if (ref) {
    int foreign = is_foreign(lane, key);
    if (foreign < 0) return false;
    if (foreign) ref = nullptr;
  }
  const bool is_screened = lane->screen && io == strings.output;
  Judged look;
  Verdict verdict = Verdict::kNotPlain;
  bool is_plain = sonde_tensor::look_at(tensor, &look);
  PyObject* code = is_plain ? PyDict_GetItemWithError(lane->codes, look.dtype) : nullptr;
  if (!code && PyErr_Occurred()) return false;
  if (code) {
    auto known = ref && !given.is_made ? lane->known->judged.find(ref) : lane->known->judged.end();
    bool same = known != lane->known->judged.end() && same_look(known->second, look);
    const Judged* like = given.like;
    if (same) {
      known->second.version = look.version;
      known->second.has_version = look.has_version;
      look.verdict = known->second.verdict;
      verdict = Verdict::kGiven;
      if (kept) *kept = &known->second;
    } else if (like && like->numel == look.numel && !look.is_negated && !like->is_negated) {
      look.verdict = like->verdict;
      verdict = Verdict::kGiven;
    } else {
      verdict = (is_screened ? summarize : judge)(lane, tensor, code, &look);
    }
    if (is_screened && verdict == Verdict::kGiven && look.verdict < 2) {
      // Known from where only NaN and Inf were looked for.
      verdict = summarize(lane, tensor, code, &look);
      if (same) known->second.verdict = look.verdict;
    }
    if (verdict == Verdict::kError) return false;
    if (verdict == Verdict::kGiven && ref && !same) {
      Judged& entry = lane->known->judged[ref];
      entry = look;
      entry.has_version = look.has_version && given.is_new;
      if (kept) *kept = &entry;
    }
  }
  bool ok = true;
  if (verdict == Verdict::kNotPlain) {
    PyObject* number = PyLong_FromSsize_t(place);
    PyObject* answer = number ? PyObject_CallFunctionObjArgs(lane->other, node, io, number, tensor,
                                                             lane->stamp, nullptr)
                              : nullptr;
    Py_XDECREF(number);
    int truth = sonde_tensor::truth_from(answer);
    ok = truth >= 0;
    if (lane->is_watch && truth > 0) *bad = true;
  } else if (lane->is_watch) {
    if (is_wanted(lane, look, is_screened)) *bad = true;
  } else {
    ok = add_row(lane, slot, node, io, place, tensor, look);
  }
  return ok;
}

// A tensor as it was before an op that writes to it. Its bytes are in the lane's memory, until the
// next op that writes.
struct Copy {
  Py_ssize_t slot = 0;
  size_t offset = 0;
  size_t size = 0;
  uintptr_t address = 0;
  PyObject* dtype = nullptr;  // owned, as the shape
  PyObject* shape = nullptr;

  void clear() {
    Py_CLEAR(dtype);
    Py_CLEAR(shape);
  }
};

enum class Copied { kDone, kNot, kError };

// Fills in what of `tensor` is to be copied. kNot, without an error: it is not plain memory.
inline Copied measure(Lane* lane, PyObject* tensor, Copy* copy) {
  sonde_tensor::Look look;
  if (!sonde_tensor::look_at(tensor, &look)) return Copied::kNot;
  PyObject* code = PyDict_GetItemWithError(lane->codes, look.dtype);
  if (!code && PyErr_Occurred()) return Copied::kError;
  if (!code || !look.is_on_host || !look.is_contiguous || look.is_negated ||
      (look.numel && !look.address))
    return Copied::kNot;
  long long size;
  if (!sonde_tensor::number_from(PyObject_GetAttr(tensor, sonde_tensor::strings.nbytes), &size))
    return Copied::kError;
  copy->shape = PyObject_GetAttr(tensor, sonde_tensor::strings.shape);
  if (!copy->shape) return Copied::kError;
  copy->dtype = Py_NewRef(look.dtype);
  copy->address = look.address;
  copy->size = static_cast<size_t>(size);
  return Copied::kDone;
}

inline bool set_stamp(Lane* lane) {
  PyObject* stamp = PyObject_CallNoArgs(lane->now);
  if (!stamp) return false;
  PyObject* old = lane->stamp;
  lane->stamp = stamp;
  Py_XDECREF(old);
  return true;
}

// Takes back the rows of an op that raised.
inline bool truncate(Lane* lane, Py_ssize_t size) {
  for (PyObject* list : {lane->heads, lane->tails, lane->stamps, lane->index})
    if (PyList_SetSlice(list, size, PyList_GET_SIZE(list), nullptr) < 0) return false;
  return true;
}

extern PyTypeObject LaneType;
bool make_lane_type();

}  // namespace sonde_lane
