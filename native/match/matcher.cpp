#include "matcher.h"

#include <structmember.h>

#include "arguments.h"
#include "dispatch.h"
#include "tables.h"

#include <algorithm>
#include <chrono>

namespace sonde_match {

namespace {

int Matcher_traverse(Matcher* self, visitproc visit, void* arg) {
  Py_VISIT(self->look);
  Py_VISIT(self->bind);
  Py_VISIT(self->exact);
  Py_VISIT(self->ask);
  Py_VISIT(self->leaves);
  Py_VISIT(self->kept);
  Py_VISIT(self->restored);
  Py_VISIT(self->raised);
  Py_VISIT(self->after);
  Py_VISIT(self->emit);
  Py_VISIT(self->failed);
  Py_VISIT(self->scope);
  Py_VISIT(self->gone);
  Py_VISIT(reinterpret_cast<PyObject*>(self->at));
  return 0;
}

int Matcher_clear(Matcher* self) {
  Py_CLEAR(self->look);
  Py_CLEAR(self->bind);
  Py_CLEAR(self->exact);
  Py_CLEAR(self->ask);
  Py_CLEAR(self->leaves);
  Py_CLEAR(self->kept);
  Py_CLEAR(self->restored);
  Py_CLEAR(self->raised);
  Py_CLEAR(self->after);
  Py_CLEAR(self->emit);
  Py_CLEAR(self->failed);
  Py_CLEAR(self->scope);
  Py_CLEAR(self->gone);
  Py_CLEAR(self->at);
  return 0;
}

void Matcher_dealloc(Matcher* self) {
  PyObject_GC_UnTrack(self);
  if (self->watchers) stop_watching(self);
  Matcher_clear(self);
  Py_CLEAR(self->tensor_type);
  Py_CLEAR(self->parameter_type);
  Py_CLEAR(self->overload_type);
  Py_CLEAR(self->untyped_storage);
  Py_CLEAR(self->sequence_number);
  Py_CLEAR(self->getframe);
  Py_CLEAR(self->set_eval_frame);
  delete self->current;
  delete self->impl;
  delete self->sequence;
  delete self->fresh;
  delete self->watchers;
  delete self->watched;
  delete self->pool;
  Py_TYPE(self)->tp_free(reinterpret_cast<PyObject*>(self));
}

PyObject* Matcher_new(PyTypeObject* type, PyObject*, PyObject*) {
  Matcher* self = reinterpret_cast<Matcher*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->pool = new std::pmr::unsynchronized_pool_resource();
  self->current = new std::pmr::unordered_map<uintptr_t, Refs>(self->pool);
  self->impl = new std::pmr::unordered_map<uintptr_t, PyObject*>(self->pool);
  self->sequence = new std::pmr::unordered_map<long long, PyObject*>(self->pool);
  self->fresh = new std::pmr::unordered_set<uintptr_t>(self->pool);
  self->watchers = new std::pmr::unordered_map<PyObject*, uintptr_t>(self->pool);
  self->watched = new std::pmr::unordered_set<uintptr_t>(self->pool);
  self->scope = Py_NewRef(Py_None);
  return reinterpret_cast<PyObject*>(self);
}

struct Field {
  const char* name;
  PyObject* Matcher::*member;
};

const Field kFields[] = {
    {"tensor_type", &Matcher::tensor_type},
    {"parameter_type", &Matcher::parameter_type},
    {"overload_type", &Matcher::overload_type},
    {"untyped_storage", &Matcher::untyped_storage},
    {"sequence_number", &Matcher::sequence_number},
    {"getframe", &Matcher::getframe},
    {"look", &Matcher::look},
    {"bind", &Matcher::bind},
    {"exact", &Matcher::exact},
    {"ask", &Matcher::ask},
    {"leaves", &Matcher::leaves},
    {"kept", &Matcher::kept},
    {"restored", &Matcher::restored},
    {"raised", &Matcher::raised},
    {"after", &Matcher::after},
    {"emit", &Matcher::emit},
    {"failed", &Matcher::failed},
    {"set_eval_frame", &Matcher::set_eval_frame},
};

// connect(*, tensor_type=..., ...): each of kFields, all needed.
PyObject* Matcher_connect(Matcher* self, PyObject* args, PyObject* kwargs) {
  const Py_ssize_t count = sizeof(kFields) / sizeof(kFields[0]);
  if (PyTuple_GET_SIZE(args) != 0 || !kwargs || PyDict_GET_SIZE(kwargs) != count) {
    PyErr_SetString(PyExc_TypeError, "connect() takes all its fields, by name");
    return nullptr;
  }
  for (const Field& field : kFields) {
    PyObject* value = PyDict_GetItemString(kwargs, field.name);
    if (!value) {
      PyErr_Format(PyExc_TypeError, "connect() lacks %s", field.name);
      return nullptr;
    }
    PyObject* old = self->*field.member;
    self->*field.member = Py_NewRef(value);
    Py_XDECREF(old);
  }
  PyObject* old = self->gone;
  self->gone = PyObject_GetAttrString(reinterpret_cast<PyObject*>(self), "gone");
  Py_XDECREF(old);
  if (!self->gone) return nullptr;
  Py_RETURN_NONE;
}

// ------------------------------------------------------------- the tables, as memory.py has them

bool key_argument(PyObject* number, uintptr_t* key) {
  long long value = PyLong_AsLongLong(number);
  if (value == -1 && PyErr_Occurred()) return false;
  *key = static_cast<uintptr_t>(value);
  return true;
}

PyObject* Matcher_entry(Matcher* self, PyObject* number) {
  uintptr_t key;
  if (!key_argument(number, &key)) return nullptr;
  auto found = self->current->find(key);
  if (found == self->current->end()) Py_RETURN_NONE;
  return list_of(found->second);
}

PyObject* Matcher_tensor(Matcher* self, PyObject* number) {
  uintptr_t key;
  if (!key_argument(number, &key)) return nullptr;
  auto found = self->impl->find(key);
  if (found == self->impl->end()) Py_RETURN_NONE;
  return Py_NewRef(found->second);
}

PyObject* Matcher_cause(Matcher* self, PyObject* number) {
  long long value = PyLong_AsLongLong(number);
  if (value == -1 && PyErr_Occurred()) return nullptr;
  auto found = self->sequence->find(value);
  if (found == self->sequence->end()) Py_RETURN_NONE;
  return Py_NewRef(found->second);
}

// put(kind, ref, key, impl): a tensor over storage `key` holds `ref` now
PyObject* Matcher_put(Matcher* self, PyObject* args) {
  int kind;
  PyObject *ref, *key_number, *impl_number;
  uintptr_t key, impl;
  if (!PyArg_ParseTuple(args, "iOOO", &kind, &ref, &key_number, &impl_number)) return nullptr;
  if (!key_argument(key_number, &key) || !key_argument(impl_number, &impl)) return nullptr;
  Refs& entry = (*self->current)[key];
  if (kind != kAlias) entry.clear();
  entry.push_back(ref);
  (*self->impl)[impl] = ref;
  Py_RETURN_NONE;
}

PyObject* Matcher_note(Matcher* self, PyObject* record) {
  if (!note_sequence(self, record)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* Matcher_is_fresh(Matcher* self, PyObject* number) {
  uintptr_t key;
  if (!key_argument(number, &key)) return nullptr;
  return PyBool_FromLong(self->fresh->count(key) != 0);
}

PyObject* Matcher_add_fresh(Matcher* self, PyObject* number) {
  uintptr_t key;
  if (!key_argument(number, &key)) return nullptr;
  self->fresh->insert(key);
  Py_RETURN_NONE;
}

// watch(key, object)
PyObject* Matcher_watch(Matcher* self, PyObject* args) {
  PyObject *number, *object;
  uintptr_t key;
  if (!PyArg_ParseTuple(args, "OO", &number, &object)) return nullptr;
  if (!key_argument(number, &key) || !watch(self, object, key)) return nullptr;
  Py_RETURN_NONE;
}

// gone(watcher): the object of a weak reference has died
PyObject* Matcher_gone(Matcher* self, PyObject* watcher) {
  Ours ours(&self->own_time);
  auto found = self->watchers->find(watcher);
  if (found != self->watchers->end()) {
    forget_key(self, found->second);
    self->watchers->erase(found);
    Py_DECREF(watcher);
  }
  Py_RETURN_NONE;
}

PyObject* Matcher_drop(Matcher* self, PyObject* number) {
  uintptr_t key;
  if (!key_argument(number, &key)) return nullptr;
  forget_key(self, key);
  Py_RETURN_NONE;
}

// now(): a timestamp, microseconds since the epoch, later than the last
PyObject* Matcher_now(Matcher* self, PyObject*) {
  using namespace std::chrono;
  long long time = duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
  self->stamp = std::max(self->stamp + 1, time);
  return PyLong_FromLongLong(self->stamp);
}

// begin_work() -> whether our work begins here: not where it goes on already, or nobody counts
PyObject* Matcher_begin_work(Matcher* self, PyObject*) {
  return PyBool_FromLong(self->own_time.begin());
}

PyObject* Matcher_end_work(Matcher* self, PyObject*) {
  self->own_time.end();
  Py_RETURN_NONE;
}

// own_seconds() -> seconds of our work so far, with what goes on
PyObject* Matcher_own_seconds(Matcher* self, PyObject*) {
  return PyFloat_FromDouble(self->own_time.seconds());
}

PyObject* Matcher_forget(Matcher* self, PyObject*) {
  stop_watching(self);
  self->fresh->clear();
  self->current->clear();
  self->impl->clear();
  self->sequence->clear();
  Py_RETURN_NONE;
}

PyObject* Matcher_get_at(Matcher* self, void*) {
  return self->at ? Py_NewRef(reinterpret_cast<PyObject*>(self->at)) : Py_NewRef(Py_None);
}

int Matcher_set_at(Matcher* self, PyObject* value, void*) {
  if (!value || !PyObject_TypeCheck(value, &NodeType)) {
    PyErr_SetString(PyExc_TypeError, "at is a Node");
    return -1;
  }
  PyObject* old = reinterpret_cast<PyObject*>(self->at);
  self->at = reinterpret_cast<Node*>(Py_NewRef(value));
  Py_XDECREF(old);
  return 0;
}

PyGetSetDef Matcher_getset[] = {
    {"at", reinterpret_cast<getter>(Matcher_get_at), reinterpret_cast<setter>(Matcher_set_at),
     "The node of the op that ran last in this step.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef Matcher_members[] = {
    {"scope", T_OBJECT, offsetof(Matcher, scope), 0, "The scope ops run in now."},
    {"generation", T_LONG, offsetof(Matcher, generation), 0, "The session's generation."},
    {"started", T_INT, offsetof(Matcher, started), 0, "Whether the first step has begun."},
    {"counts_time", T_INT, offsetof(Matcher, own_time.is_counted), 0,
     "Whether our work is timed."},
    {"visits", T_LONGLONG, offsetof(Matcher, own_time.visits), 0, "How many ops came."},
    {"lends", T_INT, offsetof(Matcher, lends), 0, "Whether memory is lent to anybody."},
    {nullptr, 0, 0, 0, nullptr}};

PyMethodDef Matcher_methods[] = {
    {"connect",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)(void)>(Matcher_connect)),
     METH_VARARGS | METH_KEYWORDS, "Give it torch and the functions it asks; before all else."},
    {"dispatch", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)(void)>(Matcher_dispatch)),
     METH_FASTCALL, "__torch_dispatch__(func, types, args, kwargs)"},
    {"entry", reinterpret_cast<PyCFunction>(Matcher_entry), METH_O, "Refs over a storage."},
    {"tensor", reinterpret_cast<PyCFunction>(Matcher_tensor), METH_O, "Ref of a tensor."},
    {"cause", reinterpret_cast<PyCFunction>(Matcher_cause), METH_O, "Record by autograd number."},
    {"put", reinterpret_cast<PyCFunction>(Matcher_put), METH_VARARGS, "What a tensor holds."},
    {"note", reinterpret_cast<PyCFunction>(Matcher_note), METH_O, "The op that just ran."},
    {"is_fresh", reinterpret_cast<PyCFunction>(Matcher_is_fresh), METH_O, "Made in this step?"},
    {"add_fresh", reinterpret_cast<PyCFunction>(Matcher_add_fresh), METH_O,
     "It was made in this step."},
    {"watch", reinterpret_cast<PyCFunction>(Matcher_watch), METH_VARARGS, "Forget with it."},
    {"gone", reinterpret_cast<PyCFunction>(Matcher_gone), METH_O, "A watched object died."},
    {"drop", reinterpret_cast<PyCFunction>(Matcher_drop), METH_O, "Forget a storage."},
    {"now", reinterpret_cast<PyCFunction>(Matcher_now), METH_NOARGS,
     "A timestamp, later than the last."},
    {"begin_work", reinterpret_cast<PyCFunction>(Matcher_begin_work), METH_NOARGS,
     "Our work begins."},
    {"end_work", reinterpret_cast<PyCFunction>(Matcher_end_work), METH_NOARGS, "Our work ends."},
    {"own_seconds", reinterpret_cast<PyCFunction>(Matcher_own_seconds), METH_NOARGS,
     "Seconds of our work."},
    {"forget", reinterpret_cast<PyCFunction>(Matcher_forget), METH_NOARGS, "End of a step."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyTypeObject MatcherType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool make_matcher_type() {
  MatcherType.tp_name = "sonde.adapters.torch._match.Matcher";
  MatcherType.tp_basicsize = sizeof(Matcher);
  MatcherType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
  MatcherType.tp_doc = "Recognises ops.";
  MatcherType.tp_new = Matcher_new;
  MatcherType.tp_dealloc = reinterpret_cast<destructor>(Matcher_dealloc);
  MatcherType.tp_traverse = reinterpret_cast<traverseproc>(Matcher_traverse);
  MatcherType.tp_clear = reinterpret_cast<inquiry>(Matcher_clear);
  MatcherType.tp_methods = Matcher_methods;
  MatcherType.tp_members = Matcher_members;
  MatcherType.tp_getset = Matcher_getset;
  return PyType_Ready(&MatcherType) == 0;
}

}  // namespace sonde_match
