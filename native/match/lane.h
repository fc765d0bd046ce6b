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
#include <structmember.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace sonde_lane {

constexpr int kRowColumns = 16;

// The fixed columns of one tensor's row, good for one shape and dtype.
struct Slot {
  PyObject* head = nullptr;
  PyObject* tail = nullptr;
  PyObject* shape = nullptr;
  PyObject* dtype = nullptr;

  void clear() {
    Py_CLEAR(head);
    Py_CLEAR(tail);
    Py_CLEAR(shape);
    Py_CLEAR(dtype);
  }
};

// What a tensor looked like when it was judged, and the judgement: a row, or 0 and 1 for finite.
struct Judged {
  uintptr_t address = 0;
  long long version = -1;
  bool has_version = false;
  bool is_negated = false;
  Py_ssize_t numel = 0;
  PyObject* shape = nullptr;
  PyObject* stride = nullptr;
  Py_ssize_t verdict = 0;
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
  std::unordered_map<PyObject*, Judged>* judged;
};

struct Strings {
  PyObject* version;
  PyObject* shape;
  PyObject* dtype;
  PyObject* is_cpu;
  PyObject* data_ptr;
  PyObject* numel;
  PyObject* stride;
  PyObject* is_contiguous;
  PyObject* is_neg;
  PyObject* input;
  PyObject* output;
};
inline Strings strings;

inline bool make_strings() {
  strings.version = PyUnicode_InternFromString("_version");
  strings.shape = PyUnicode_InternFromString("shape");
  strings.dtype = PyUnicode_InternFromString("dtype");
  strings.is_cpu = PyUnicode_InternFromString("is_cpu");
  strings.data_ptr = PyUnicode_InternFromString("data_ptr");
  strings.numel = PyUnicode_InternFromString("numel");
  strings.stride = PyUnicode_InternFromString("stride");
  strings.is_contiguous = PyUnicode_InternFromString("is_contiguous");
  strings.is_neg = PyUnicode_InternFromString("is_neg");
  strings.input = PyUnicode_InternFromString("input");
  strings.output = PyUnicode_InternFromString("output");
  return strings.output != nullptr;
}

inline void forget(Lane* lane) {
  for (auto& item : *lane->judged) {
    Py_XDECREF(item.second.shape);
    Py_XDECREF(item.second.stride);
  }
  lane->judged->clear();
}

inline PyObject* call_method(PyObject* object, PyObject* name) {
  return PyObject_VectorcallMethod(name, &object, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
}

inline bool number_from(PyObject* value, long long* out) {
  if (!value) return false;
  *out = PyLong_AsLongLong(value);
  Py_DECREF(value);
  return !(*out == -1 && PyErr_Occurred());
}

inline int truth_from(PyObject* value) {
  if (!value) return -1;
  int truth = PyObject_IsTrue(value);
  Py_DECREF(value);
  return truth;
}

// Reads what identifies the tensor's contents into `look`, which then owns shape and stride.
// False, without an error, where the tensor is not plain memory on the host.
inline bool look_at(PyObject* tensor, Judged* look) {
  long long number;
  PyObject* address = call_method(tensor, strings.data_ptr);
  if (!address) {
    PyErr_Clear();
    return false;
  }
  look->address = reinterpret_cast<uintptr_t>(PyLong_AsVoidPtr(address));
  Py_DECREF(address);
  PyObject* version = PyObject_GetAttr(tensor, strings.version);
  if (version) {
    look->has_version = number_from(version, &look->version);
  }
  PyErr_Clear();  // inference tensors are not counted
  look->shape = PyObject_GetAttr(tensor, strings.shape);
  look->stride = look->shape ? call_method(tensor, strings.stride) : nullptr;
  int negated = look->stride ? truth_from(call_method(tensor, strings.is_neg)) : -1;
  bool counted = negated >= 0 && number_from(call_method(tensor, strings.numel), &number);
  if (!counted || PyErr_Occurred()) {
    PyErr_Clear();
    Py_CLEAR(look->shape);
    Py_CLEAR(look->stride);
    return false;
  }
  look->is_negated = negated != 0;
  look->numel = static_cast<Py_ssize_t>(number);
  return true;
}

inline void drop(Judged* look) {
  Py_CLEAR(look->shape);
  Py_CLEAR(look->stride);
}

// 1 same, 0 another, -1 error.
inline int same_look(const Judged& known, const Judged& look) {
  if (known.address != look.address || known.numel != look.numel ||
      known.is_negated != look.is_negated)
    return 0;
  if (known.has_version && (!look.has_version || known.version != look.version)) return 0;
  int same = PyObject_RichCompareBool(known.shape, look.shape, Py_EQ);
  return same == 1 ? PyObject_RichCompareBool(known.stride, look.stride, Py_EQ) : same;
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
  auto found = lane->judged->find(ref);
  if (found == lane->judged->end()) return true;
  int foreign = is_foreign(lane, key);
  Judged look;
  if (foreign || !look_at(tensor, &look)) return foreign >= 0;
  int same = same_look(found->second, look);
  drop(&look);
  if (same > 0) *known = &found->second;
  return same >= 0;
}

enum class Verdict { kGiven, kNotPlain, kError };

// Judges a plain tensor: computes its row, or counts what is not finite.
inline Verdict judge(Lane* lane, PyObject* tensor, PyObject* code, Judged* look) {
  int on_host = truth_from(PyObject_GetAttr(tensor, strings.is_cpu));
  if (on_host < 0) return Verdict::kError;
  if (!on_host || look->is_negated || (look->numel && !look->address)) return Verdict::kNotPlain;
  int contiguous = truth_from(call_method(tensor, strings.is_contiguous));
  if (contiguous < 0) return Verdict::kError;
  PyObject* address = PyLong_FromVoidPtr(reinterpret_cast<void*>(look->address));
  PyObject* numel = PyLong_FromSsize_t(look->numel);
  PyObject* row_address = nullptr;
  uintptr_t row = 0;
  if (!lane->is_watch) {
    if (next_row(lane, &row)) row_address = PyLong_FromVoidPtr(reinterpret_cast<void*>(row));
  } else {
    row_address = Py_NewRef(Py_None);
  }
  PyObject* answer = nullptr;
  if (address && numel && row_address) {
    PyObject* values[5] = {row_address, address, code, contiguous ? numel : look->shape,
                           look->stride};
    PyObject* const* first = lane->is_watch ? values + 1 : values;
    size_t count = (lane->is_watch ? 2 : 3) + (contiguous ? 1 : 2);
    answer = PyObject_Vectorcall(contiguous ? lane->whole : lane->strided, first, count, nullptr);
  }
  Py_XDECREF(address);
  Py_XDECREF(numel);
  Py_XDECREF(row_address);
  if (!answer) return Verdict::kError;
  if (lane->is_watch) {
    long long bad;
    if (!number_from(answer, &bad)) return Verdict::kError;
    look->verdict = bad > 0;
  } else {
    Py_DECREF(answer);
    look->verdict = lane->count++;
  }
  return Verdict::kGiven;
}

inline bool append(PyObject* list, PyObject* item) { return PyList_Append(list, item) == 0; }

// The row's text and number go to the sink's lists.
inline bool add_row(Lane* lane, Slot* slot, PyObject* node, PyObject* io, Py_ssize_t place,
                    PyObject* tensor, const Judged& look, PyObject* dtype) {
  int same = slot->head && slot->dtype == dtype
                 ? PyObject_RichCompareBool(slot->shape, look.shape, Py_EQ)
                 : 0;
  if (same < 0) return false;
  if (!same) {
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
    slot->shape = Py_NewRef(look.shape);
    slot->dtype = Py_NewRef(dtype);
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
// nothing. `bad` is set where a watched tensor is not finite; `kept` becomes the judgement, where
// it is known under `ref` from here on. False with an error set.
inline bool take(Lane* lane, Slot* slot, PyObject* node, PyObject* io, Py_ssize_t place,
                 PyObject* tensor, uintptr_t key, PyObject* ref, const Given& given, bool* bad,
                 const Judged** kept = nullptr) {
  if (ref == Py_False) {  // memory nobody has filled
    if (lane->is_watch) return true;
    ref = nullptr;
  }
  PyObject* dtype = PyObject_GetAttr(tensor, strings.dtype);
  if (!dtype) return false;
  PyObject* code = PyDict_GetItemWithError(lane->codes, dtype);
  Py_DECREF(dtype);  // dtypes are immortal singletons
  if (!code && PyErr_Occurred()) return false;
  if (ref) {
    int foreign = is_foreign(lane, key);
    if (foreign < 0) return false;
    if (foreign) ref = nullptr;
  }
  Judged look;
  Verdict verdict = Verdict::kNotPlain;
  if (code && look_at(tensor, &look)) {
    auto known = ref && !given.is_made ? lane->judged->find(ref) : lane->judged->end();
    int same = known != lane->judged->end() ? same_look(known->second, look) : 0;
    if (same < 0) {
      drop(&look);
      return false;
    }
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
      verdict = judge(lane, tensor, code, &look);
    }
    if (verdict == Verdict::kError) {
      drop(&look);
      return false;
    }
    if (verdict == Verdict::kGiven && ref && !same) {
      Judged& entry = (*lane->judged)[ref];
      drop(&entry);
      entry = look;
      entry.has_version = look.has_version && given.is_new;
      Py_INCREF(entry.shape);
      Py_INCREF(entry.stride);
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
    int truth = truth_from(answer);
    ok = truth >= 0;
    if (lane->is_watch && truth > 0) *bad = true;
  } else if (lane->is_watch) {
    if (look.verdict) *bad = true;
  } else {
    ok = add_row(lane, slot, node, io, place, tensor, look, dtype);
  }
  drop(&look);
  return ok;
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

// ---------------------------------------------------------------------------------- Python type

inline PyObject* Lane_new(PyTypeObject* type, PyObject*, PyObject*) {
  Lane* self = reinterpret_cast<Lane*>(type->tp_alloc(type, 0));
  if (self) self->judged = new std::unordered_map<PyObject*, Judged>();
  return reinterpret_cast<PyObject*>(self);
}

inline int Lane_init(Lane* self, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"heads", "tails", "stamps", "index", "codes", "whole",
                                   "strided", "describe", "other", "now", "grow", "foreign", "met",
                                   "takes_inputs", "takes_outputs", "is_watch", nullptr};
  PyObject *heads, *tails, *stamps, *index, *codes, *whole, *strided, *describe, *other, *now,
      *grow, *foreign, *met;
  if (!PyArg_ParseTupleAndKeywords(
          args, kwargs, "O!O!O!O!O!OOOOOOO!O!ppp", const_cast<char**>(keywords), &PyList_Type,
          &heads, &PyList_Type, &tails, &PyList_Type, &stamps, &PyList_Type, &index, &PyDict_Type,
          &codes, &whole, &strided, &describe, &other, &now, &grow, &PySet_Type, &foreign,
          &PySet_Type, &met, &self->takes_inputs, &self->takes_outputs, &self->is_watch))
    return -1;
  PyObject** fields[] = {&self->heads, &self->tails, &self->stamps, &self->index, &self->codes,
                         &self->whole, &self->strided, &self->describe, &self->other, &self->now,
                         &self->grow, &self->foreign, &self->met};
  PyObject* values[] = {heads, tails, stamps, index, codes, whole, strided, describe, other, now,
                        grow, foreign, met};
  for (int i = 0; i < 13; ++i) {
    PyObject* old = *fields[i];
    *fields[i] = Py_NewRef(values[i]);
    Py_XDECREF(old);
  }
  return 0;
}

inline int Lane_traverse(Lane* self, visitproc visit, void* arg) {
  for (PyObject* field : {self->heads, self->tails, self->stamps, self->index, self->codes,
                          self->whole, self->strided, self->describe, self->other, self->now,
                          self->grow, self->foreign, self->met, self->stamp})
    Py_VISIT(field);
  return 0;
}

inline int Lane_clear(Lane* self) {
  Py_CLEAR(self->heads);
  Py_CLEAR(self->tails);
  Py_CLEAR(self->stamps);
  Py_CLEAR(self->index);
  Py_CLEAR(self->codes);
  Py_CLEAR(self->whole);
  Py_CLEAR(self->strided);
  Py_CLEAR(self->describe);
  Py_CLEAR(self->other);
  Py_CLEAR(self->now);
  Py_CLEAR(self->grow);
  Py_CLEAR(self->foreign);
  Py_CLEAR(self->met);
  Py_CLEAR(self->stamp);
  return 0;
}

inline void Lane_dealloc(Lane* self) {
  PyObject_GC_UnTrack(self);
  forget(self);
  delete self->judged;
  Lane_clear(self);
  Py_TYPE(self)->tp_free(reinterpret_cast<PyObject*>(self));
}

inline PyObject* Lane_begin(Lane* self, PyObject*) {
  forget(self);
  self->count = 0;
  Py_RETURN_NONE;
}

inline PyObject* Lane_next(Lane* self, PyObject*) {
  uintptr_t address;
  if (!next_row(self, &address)) return nullptr;
  return Py_BuildValue("nK", self->count, static_cast<unsigned long long>(address));
}

inline PyObject* Lane_keep(Lane* self, PyObject*) {
  ++self->count;
  Py_RETURN_NONE;
}

inline PyMethodDef Lane_methods[] = {
    {"begin", reinterpret_cast<PyCFunction>(Lane_begin), METH_NOARGS, "A step begins."},
    {"next", reinterpret_cast<PyCFunction>(Lane_next), METH_NOARGS,
     "Number and address of the next row."},
    {"keep", reinterpret_cast<PyCFunction>(Lane_keep), METH_NOARGS, "Make it one of the rows."},
    {nullptr, nullptr, 0, nullptr}};

inline PyMemberDef Lane_members[] = {
    {"count", T_PYSSIZET, offsetof(Lane, count), READONLY, "Rows so far in this step."},
    {"is_watch", T_INT, offsetof(Lane, is_watch), READONLY, "Counts only what is not finite."},
    {nullptr, 0, 0, 0, nullptr}};

}  // namespace sonde_lane
