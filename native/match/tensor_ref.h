// TensorRef objects (sonde/adapters/torch/eager/op_tree.py), read and made without Python code.
#pragma once

#include "shared/owned.h"

#include <structmember.h>

namespace sonde_match {

using sonde::Owned;

// The places of the fields in a TensorRef, and of `node` in a StepInput. Found once by
// learn_ref_layout(); both are classes with slots.
struct RefLayout {
  PyTypeObject* type = nullptr;  // owned
  Py_ssize_t owner = 0, slot = 0, geometry = 0, leaf = 0, values = 0, is_unfilled = 0,
             has_gaps = 0, mark = 0, version = 0, round = 0;
  Py_ssize_t leaf_node = 0;
};
inline RefLayout ref_layout;

inline PyObject** field_at(PyObject* object, Py_ssize_t offset) {
  return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}

inline PyObject* ref_field(PyObject* ref, Py_ssize_t offset) { return *field_at(ref, offset); }

// Replaces a field; takes over the reference `value`.
inline void set_ref_field(PyObject* ref, Py_ssize_t offset, PyObject* value) {
  PyObject** place = field_at(ref, offset);
  PyObject* old = *place;
  *place = value;
  Py_XDECREF(old);
}

inline bool is_true(PyObject* ref, Py_ssize_t offset) { return ref_field(ref, offset) == Py_True; }

// The StepInput of a reference, borrowed; null where it is the output of an op.
inline PyObject* leaf_of_ref(PyObject* ref) {
  PyObject* leaf = ref_field(ref, ref_layout.leaf);
  return leaf && leaf != Py_None ? leaf : nullptr;
}

// A reference of an output, without an owner; empty with an error set.
inline Owned make_ref(Py_ssize_t slot, Owned geometry, bool is_unfilled, bool has_gaps) {
  const RefLayout& at = ref_layout;
  PyObject* ref = at.type->tp_alloc(at.type, 0);
  PyObject* number = ref ? PyLong_FromSsize_t(slot) : nullptr;
  PyObject* round = ref ? PyLong_FromLong(-1) : nullptr;
  if (!number || !round) {
    Py_XDECREF(number);
    Py_XDECREF(round);
    Py_XDECREF(ref);
    return {};
  }
  *field_at(ref, at.owner) = Py_NewRef(Py_None);
  *field_at(ref, at.slot) = number;
  *field_at(ref, at.geometry) = geometry.release();
  *field_at(ref, at.leaf) = Py_NewRef(Py_None);
  *field_at(ref, at.values) = Py_NewRef(ref);
  *field_at(ref, at.is_unfilled) = Py_NewRef(is_unfilled ? Py_True : Py_False);
  *field_at(ref, at.has_gaps) = Py_NewRef(has_gaps ? Py_True : Py_False);
  *field_at(ref, at.mark) = Py_NewRef(Py_None);
  *field_at(ref, at.version) = Py_NewRef(Py_None);
  *field_at(ref, at.round) = round;
  PyObject_GC_UnTrack(ref);  // until it has an owner
  return Owned::take(ref);
}

// learn_ref_layout(TensorRef, StepInput): before anything else here is used.
inline PyObject* learn_ref_layout(PyObject*, PyObject* args) {
  PyTypeObject *ref, *leaf;
  if (!PyArg_ParseTuple(args, "O!O!", &PyType_Type, &ref, &PyType_Type, &leaf)) return nullptr;
  struct {
    PyTypeObject* type;
    const char* name;
    Py_ssize_t* place;
  } all[] = {{ref, "owner", &ref_layout.owner},
             {ref, "slot", &ref_layout.slot},
             {ref, "geometry", &ref_layout.geometry},
             {ref, "leaf", &ref_layout.leaf},
             {ref, "values", &ref_layout.values},
             {ref, "is_unfilled", &ref_layout.is_unfilled},
             {ref, "has_gaps", &ref_layout.has_gaps},
             {ref, "mark", &ref_layout.mark},
             {ref, "version", &ref_layout.version},
             {ref, "round", &ref_layout.round},
             {leaf, "node", &ref_layout.leaf_node}};
  for (auto& each : all) {
    const Owned member = Owned::take(
        PyObject_GetAttrString(reinterpret_cast<PyObject*>(each.type), each.name));
    if (!member) return nullptr;
    if (Py_TYPE(member.get()) != &PyMemberDescr_Type) {
      PyErr_Format(PyExc_TypeError, "%s is not a slot", each.name);
      return nullptr;
    }
    *each.place = reinterpret_cast<PyMemberDescrObject*>(member.get())->d_member->offset;
  }
  Py_INCREF(reinterpret_cast<PyObject*>(ref));
  ref_layout.type = ref;
  Py_RETURN_NONE;
}

}  // namespace sonde_match
