// What Python sees of a Lane.

#include "lane.h"

#include <structmember.h>

#include <utility>

namespace sonde_lane {

namespace {

PyObject* Lane_new(PyTypeObject* type, PyObject*, PyObject*) {
  Lane* self = reinterpret_cast<Lane*>(type->tp_alloc(type, 0));
  if (self) {
    self->shared = new std::shared_ptr<Known>(new Known());
    self->known = self->shared->get();
    self->arena = new std::vector<char>();
  }
  return reinterpret_cast<PyObject*>(self);
}

int Lane_init(Lane* self, PyObject* args, PyObject* kwargs) {
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

int Lane_traverse(Lane* self, visitproc visit, void* arg) {
  for (PyObject* field : {self->heads, self->tails, self->stamps, self->index, self->codes,
                          self->whole, self->strided, self->describe, self->other, self->now,
                          self->grow, self->foreign, self->met, self->stamp, self->summary,
                          self->summary_strided})
    Py_VISIT(field);
  return 0;
}

int Lane_clear(Lane* self) {
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
  Py_CLEAR(self->summary);
  Py_CLEAR(self->summary_strided);
  return 0;
}

void Lane_dealloc(Lane* self) {
  PyObject_GC_UnTrack(self);
  delete self->shared;
  delete self->screen;
  delete self->arena;
  Lane_clear(self);
  Py_TYPE(self)->tp_free(reinterpret_cast<PyObject*>(self));
}

PyObject* Lane_begin(Lane* self, PyObject*) {
  self->known->forget();
  self->count = 0;
  Py_RETURN_NONE;
}

PyObject* Lane_next(Lane* self, PyObject*) {
  uintptr_t address;
  if (!next_row(self, &address)) return nullptr;
  return Py_BuildValue("nK", self->count, static_cast<unsigned long long>(address));
}

PyObject* Lane_keep(Lane* self, PyObject*) {
  ++self->count;
  Py_RETURN_NONE;
}

// screened(summary, summary_strided, other, takes_inputs, tests): a lane that knows what this one
// does; `tests` are the bytes of float64, see screen.h.
PyObject* Lane_screened(Lane* self, PyObject* args) {
  PyObject *summary, *summary_strided, *other;
  int takes_inputs;
  const char* bytes;
  Py_ssize_t size;
  if (!PyArg_ParseTuple(args, "OOOpy#", &summary, &summary_strided, &other, &takes_inputs, &bytes,
                        &size))
    return nullptr;
  sonde_screen::Screen tests(static_cast<size_t>(size) / sizeof(double));
  if (size % sizeof(double) == 0) std::memcpy(tests.data(), bytes, static_cast<size_t>(size));
  if (size % sizeof(double) || !self->is_watch || !sonde_screen::is_valid(tests)) {
    PyErr_SetString(PyExc_ValueError, "screened: a watch, and tests that can be read");
    return nullptr;
  }
  PyObject* made = Lane_new(Py_TYPE(self), nullptr, nullptr);
  if (!made) return nullptr;
  Lane* lane = reinterpret_cast<Lane*>(made);
  PyObject** fields[] = {&lane->heads, &lane->tails, &lane->stamps, &lane->index, &lane->codes,
                         &lane->whole, &lane->strided, &lane->describe, &lane->other, &lane->now,
                         &lane->grow, &lane->foreign, &lane->met, &lane->summary,
                         &lane->summary_strided};
  PyObject* values[] = {self->heads, self->tails, self->stamps, self->index, self->codes,
                        self->whole, self->strided, self->describe, other, self->now,
                        self->grow, self->foreign, self->met, summary, summary_strided};
  for (int i = 0; i < 15; ++i) *fields[i] = Py_NewRef(values[i]);
  lane->takes_inputs = takes_inputs;
  lane->takes_outputs = 1;
  lane->is_watch = 1;
  *lane->shared = *self->shared;
  lane->known = lane->shared->get();
  lane->screen = new sonde_screen::Screen(std::move(tests));
  return made;
}

// passes(tests, row): both bytes of float64.
PyObject* Lane_passes(PyObject*, PyObject* args) {
  const char *bytes, *row;
  Py_ssize_t size, row_size;
  if (!PyArg_ParseTuple(args, "y#y#", &bytes, &size, &row, &row_size)) return nullptr;
  sonde_screen::Screen tests(static_cast<size_t>(size) / sizeof(double));
  std::memcpy(tests.data(), bytes, tests.size() * sizeof(double));
  double columns[sonde_screen::kColumns];
  if (!sonde_screen::is_valid(tests) || row_size != sizeof columns) {
    PyErr_SetString(PyExc_ValueError, "passes: tests that can be read, and a row");
    return nullptr;
  }
  std::memcpy(columns, row, sizeof columns);
  return PyBool_FromLong(sonde_screen::passes(tests, columns));
}

PyMethodDef Lane_methods[] = {
    {"passes", reinterpret_cast<PyCFunction>(Lane_passes), METH_VARARGS | METH_STATIC,
     "Whether a row passes a screen."},
    {"screened", reinterpret_cast<PyCFunction>(Lane_screened), METH_VARARGS,
     "A lane that also brings ops whose outputs do not pass a screen."},
    {"begin", reinterpret_cast<PyCFunction>(Lane_begin), METH_NOARGS, "A step begins."},
    {"next", reinterpret_cast<PyCFunction>(Lane_next), METH_NOARGS,
     "Number and address of the next row."},
    {"keep", reinterpret_cast<PyCFunction>(Lane_keep), METH_NOARGS, "Make it one of the rows."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef Lane_members[] = {
    {"count", T_PYSSIZET, offsetof(Lane, count), READONLY, "Rows so far in this step."},
    {"is_watch", T_INT, offsetof(Lane, is_watch), READONLY, "Brings only some ops."},
    {nullptr, 0, 0, 0, nullptr}};

}  // namespace

PyTypeObject LaneType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool make_lane_type() {
  LaneType.tp_name = "sonde.adapters.torch._match.Lane";
  LaneType.tp_basicsize = sizeof(Lane);
  LaneType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
  LaneType.tp_doc = "The shortcut for numbers of every tensor.";
  LaneType.tp_new = Lane_new;
  LaneType.tp_init = reinterpret_cast<initproc>(Lane_init);
  LaneType.tp_dealloc = reinterpret_cast<destructor>(Lane_dealloc);
  LaneType.tp_traverse = reinterpret_cast<traverseproc>(Lane_traverse);
  LaneType.tp_clear = reinterpret_cast<inquiry>(Lane_clear);
  LaneType.tp_methods = Lane_methods;
  LaneType.tp_members = Lane_members;
  return PyType_Ready(&LaneType) == 0;
}

}  // namespace sonde_lane
