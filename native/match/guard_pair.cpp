#include "guard_pair.h"

#include <new>

namespace sonde_match {

namespace {

using sonde::Owned;

struct GuardPair {
  PyObject_HEAD
  Owned outer;
  Owned inner;
};

PyObject* enter_name;
PyObject* exit_name;

GuardPair* as_pair(PyObject* self) { return reinterpret_cast<GuardPair*>(self); }

// GuardPair(outer, inner)
PyObject* GuardPair_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *outer, *inner;
  if (!PyArg_ParseTuple(args, "OO", &outer, &inner)) return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) return nullptr;
  new (&as_pair(self)->outer) Owned(Owned::share(outer));
  new (&as_pair(self)->inner) Owned(Owned::share(inner));
  return self;
}

void GuardPair_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  as_pair(self)->outer.~Owned();
  as_pair(self)->inner.~Owned();
  Py_TYPE(self)->tp_free(self);
}

int GuardPair_traverse(PyObject* self, visitproc visit, void* argument) {
  if (int result = as_pair(self)->outer.visit(visit, argument)) return result;
  return as_pair(self)->inner.visit(visit, argument);
}

int GuardPair_clear(PyObject* self) {
  as_pair(self)->outer.reset();
  as_pair(self)->inner.reset();
  return 0;
}

Owned leave(PyObject* guard) {
  return Owned::take(
      PyObject_CallMethodObjArgs(guard, exit_name, Py_None, Py_None, Py_None, nullptr));
}

PyObject* GuardPair_enter(PyObject* self, PyObject*) {
  PyObject* outer = as_pair(self)->outer.get();
  if (!Owned::take(PyObject_CallMethodNoArgs(outer, enter_name))) return nullptr;
  if (!Owned::take(PyObject_CallMethodNoArgs(as_pair(self)->inner.get(), enter_name))) {
    sonde::KeepException keep;
    if (!leave(outer)) PyErr_Clear();
    return nullptr;
  }
  Py_RETURN_NONE;
}

// The outer guard is left even where the inner one fails.
PyObject* GuardPair_exit(PyObject* self, PyObject*) {
  const bool is_inner_left = static_cast<bool>(leave(as_pair(self)->inner.get()));
  if (!is_inner_left) {
    sonde::KeepException keep;
    if (!leave(as_pair(self)->outer.get())) PyErr_Clear();
    return nullptr;
  }
  if (!leave(as_pair(self)->outer.get())) return nullptr;
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"__enter__", GuardPair_enter, METH_NOARGS, "Enter the outer guard, then the inner one."},
    {"__exit__", GuardPair_exit, METH_VARARGS, "Leave the inner guard, then the outer one."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyTypeObject GuardPairType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool make_guard_pair_type() {
  enter_name = PyUnicode_InternFromString("__enter__");
  exit_name = PyUnicode_InternFromString("__exit__");
  if (!enter_name || !exit_name) return false;
  GuardPairType.tp_name = "sonde.adapters.torch.eager._match.GuardPair";
  GuardPairType.tp_basicsize = sizeof(GuardPair);
  GuardPairType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
  GuardPairType.tp_doc = "Two guards of C, entered and left as one; see guard_pair.h.";
  GuardPairType.tp_new = GuardPair_new;
  GuardPairType.tp_dealloc = GuardPair_dealloc;
  GuardPairType.tp_traverse = GuardPair_traverse;
  GuardPairType.tp_clear = GuardPair_clear;
  GuardPairType.tp_methods = methods;
  return PyType_Ready(&GuardPairType) == 0;
}

}  // namespace sonde_match
