// TensorRef objects (sonde/adapters/torch/eager/op_tree.py), read and made without Python code.
#pragma once

#include "shared/owned.h"

#include <structmember.h>

#include <utility>
#include <vector>

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

// References of steps that have ended, to be used again: as with nodes (node.cpp), Python's collector would
// count each one that is allocated.
inline std::vector<PyObject*> spare_refs;
constexpr size_t kMostSpareRefs = 16384;

// Keeps a reference for make_ref if no other object has it.
inline void reuse_ref(Owned ref) {
  if (Py_REFCNT(ref.get()) != 1 || spare_refs.size() >= kMostSpareRefs ||
      Py_TYPE(ref.get()) != ref_layout.type)
    return;
  PyObject_GC_UnTrack(ref.get());
  for (Py_ssize_t place : {ref_layout.owner, ref_layout.geometry, ref_layout.leaf,
                           ref_layout.values, ref_layout.mark})
    set_ref_field(ref.get(), place, Py_NewRef(Py_None));
  spare_refs.push_back(ref.release());
}

// A reference of an output, without an owner; empty with an error set.
inline Owned make_ref(Py_ssize_t slot, Owned geometry, bool is_unfilled, bool has_gaps) {
  const RefLayout& at = ref_layout;
  Owned number = Owned::take(PyLong_FromSsize_t(slot));
  Owned round = Owned::take(PyLong_FromLong(-1));
  Owned ref;
  if (spare_refs.empty()) {
    ref = Owned::take(at.type->tp_alloc(at.type, 0));
  } else {
    ref = Owned::take(spare_refs.back());
    spare_refs.pop_back();
  }
  if (!ref || !number || !round) return {};
  PyObject* made = ref.get();
  set_ref_field(made, at.owner, Py_NewRef(Py_None));
  set_ref_field(made, at.slot, number.release());
  set_ref_field(made, at.geometry, geometry.release());
  set_ref_field(made, at.leaf, Py_NewRef(Py_None));
  set_ref_field(made, at.values, Py_NewRef(made));
  set_ref_field(made, at.is_unfilled, Py_NewRef(is_unfilled ? Py_True : Py_False));
  set_ref_field(made, at.has_gaps, Py_NewRef(has_gaps ? Py_True : Py_False));
  set_ref_field(made, at.mark, Py_NewRef(Py_None));
  set_ref_field(made, at.version, Py_NewRef(Py_None));
  set_ref_field(made, at.round, round.release());
  PyObject_GC_UnTrack(made);  // until it has an owner
  return ref;
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
