#include "matcher.h"

#include "arguments.h"
#include "dispatch.h"
#include "geometry.h"
#include "provisional.h"
#include "tables.h"
#include "tensor_ref.h"

#include <algorithm>
#include <chrono>
#include <new>

namespace sonde_match {

namespace {

// Empties the tables of a step.
void forget_step(Matcher* self) {
  stop_watching(self);
  self->fresh.clear();
  self->current.clear();
  self->impl.clear();
  self->sequence.clear();
  self->leaf_refs.clear();
  self->is_reshaped = 0;
  if (self->met_leaves) PySet_Clear(self->met_leaves.get());
  drop_provisional(self);
}

// The fields that are objects of Python.
constexpr Owned MatcherFields::*kObjects[] = {
    &MatcherFields::tensor_type,     &MatcherFields::parameter_type,
    &MatcherFields::overload_type,   &MatcherFields::untyped_storage,
    &MatcherFields::sequence_number, &MatcherFields::is_same_call,
    &MatcherFields::before_op,       &MatcherFields::bind_inputs,
    &MatcherFields::inputs_match,    &MatcherFields::find_wants,
    &MatcherFields::emit_leaves,     &MatcherFields::keep_written,
    &MatcherFields::restore_written, &MatcherFields::op_raised,
    &MatcherFields::after_op,        &MatcherFields::emit_op,
    &MatcherFields::failed,          &MatcherFields::uncounted_writes,
    &MatcherFields::count_writes,    &MatcherFields::set_eval_frame,
    &MatcherFields::autograd_node,   &MatcherFields::engine_code,
    &MatcherFields::function_of,     &MatcherFields::op_writes,
    &MatcherFields::describe_site,   &MatcherFields::describe_new,
    &MatcherFields::meet_input,      &MatcherFields::complete_node,
    &MatcherFields::scope,           &MatcherFields::gone};

int visit_site(const CallSite& site, visitproc visit, void* arg) {
  for (const Owned* field : {&site.description, &site.func, &site.op, &site.scope, &site.code})
    if (int stop = field->visit(visit, arg)) return stop;
  for (const Owned& object : site.key_objects)
    if (int stop = object.visit(visit, arg)) return stop;
  return 0;
}

// Every reference that the matcher owns is visited: one that is not would count as a reference from
// outside, and a capture that has ended would be kept for ever.
int Matcher_traverse(Matcher* self, visitproc visit, void* arg) {
  for (auto field : kObjects)
    if (int stop = (self->*field).visit(visit, arg)) return stop;
  if (int stop = self->every_op.visit(visit, arg)) return stop;
  if (int stop = self->met_leaves.visit(visit, arg)) return stop;
  // Weak references refer to `gone`, and so to the matcher.
  for (const auto& watcher : self->watchers)
    if (int stop = watcher.first.visit(visit, arg)) return stop;
  for (const auto& each : self->lasting)
    if (int stop = each.second.visit(visit, arg)) return stop;
  for (const auto& each : self->sites)
    if (int stop = visit_site(*each.second, visit, arg)) return stop;
  for (const auto& each : self->writing_ops)
    if (int stop = each.second.first.visit(visit, arg)) return stop;
  for (const OwnedNode& node : self->provisional)
    if (int stop = node.visit(visit, arg)) return stop;
  return self->at.visit(visit, arg);
}

int Matcher_clear(Matcher* self) {
  // The tables hold borrowed references to what is released here.
  forget_step(self);
  for (auto field : kObjects) (self->*field).reset();
  self->every_op.reset();
  self->at.reset();
  decltype(self->lasting) lasting;
  lasting.swap(self->lasting);
  decltype(self->sites) sites;
  sites.swap(self->sites);
  decltype(self->writing_ops) writing_ops;
  writing_ops.swap(self->writing_ops);
  return 0;
}

void Matcher_dealloc(Matcher* self) {
  PyObject_GC_UnTrack(self);
  Matcher_clear(self);
  static_cast<MatcherFields*>(self)->~MatcherFields();
  --living.matchers;
  Py_TYPE(self)->tp_free(self);
}

PyObject* Matcher_new(PyTypeObject* type, PyObject*, PyObject*) {
  Matcher* self = static_cast<Matcher*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  new (static_cast<MatcherFields*>(self)) MatcherFields();
  ++living.matchers;
  self->scope = Owned::share(Py_None);
  self->met_leaves = Owned::take(PySet_New(nullptr));
  if (!self->met_leaves) {
    Py_DECREF(self);
    return nullptr;
  }
  return self;
}

struct Field {
  const char* name;
  Owned MatcherFields::*member;
};

const Field kFields[] = {
    {"tensor_type", &MatcherFields::tensor_type},
    {"parameter_type", &MatcherFields::parameter_type},
    {"overload_type", &MatcherFields::overload_type},
    {"untyped_storage", &MatcherFields::untyped_storage},
    {"sequence_number", &MatcherFields::sequence_number},
    {"is_same_call", &MatcherFields::is_same_call},
    {"before_op", &MatcherFields::before_op},
    {"bind_inputs", &MatcherFields::bind_inputs},
    {"inputs_match", &MatcherFields::inputs_match},
    {"find_wants", &MatcherFields::find_wants},
    {"emit_leaves", &MatcherFields::emit_leaves},
    {"keep_written", &MatcherFields::keep_written},
    {"restore_written", &MatcherFields::restore_written},
    {"op_raised", &MatcherFields::op_raised},
    {"after_op", &MatcherFields::after_op},
    {"emit_op", &MatcherFields::emit_op},
    {"failed", &MatcherFields::failed},
    {"uncounted_writes", &MatcherFields::uncounted_writes},
    {"count_writes", &MatcherFields::count_writes},
    {"set_eval_frame", &MatcherFields::set_eval_frame},
    {"autograd_node", &MatcherFields::autograd_node},
    {"engine_code", &MatcherFields::engine_code},
    {"function_of", &MatcherFields::function_of},
    {"op_writes", &MatcherFields::op_writes},
    {"describe_site", &MatcherFields::describe_site},
    {"describe_new", &MatcherFields::describe_new},
    {"meet_input", &MatcherFields::meet_input},
    {"complete_node", &MatcherFields::complete_node},
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
    self->*field.member = Owned::share(value);
  }
  self->gone = Owned::take(PyObject_GetAttrString(self, "gone"));
  if (!self->gone) return nullptr;
  Py_RETURN_NONE;
}

// ------------------------------------------------------------- the tables, as step_tables.py has them

bool key_argument(PyObject* number, uintptr_t* key) {
  long long value = PyLong_AsLongLong(number);
  if (value == -1 && PyErr_Occurred()) return false;
  *key = static_cast<uintptr_t>(value);
  return true;
}

PyObject* Matcher_entry(Matcher* self, PyObject* number) {
  uintptr_t key;
  if (!key_argument(number, &key)) return nullptr;
  auto found = self->current.find(key);
  if (found == self->current.end()) Py_RETURN_NONE;
  return list_of(found->second).release();
}

PyObject* Matcher_tensor(Matcher* self, PyObject* number) {
  uintptr_t key;
  if (!key_argument(number, &key)) return nullptr;
  auto found = self->impl.find(key);
  if (found == self->impl.end()) Py_RETURN_NONE;
  return Py_NewRef(found->second);
}

PyObject* Matcher_cause(Matcher* self, PyObject* number) {
  long long value = PyLong_AsLongLong(number);
  if (value == -1 && PyErr_Occurred()) return nullptr;
  auto found = self->sequence.find(value);
  if (found == self->sequence.end()) Py_RETURN_NONE;
  return Py_XNewRef(record_of(found->second));
}

// put(kind, ref, key, impl): a tensor over storage `key` holds `ref` now
PyObject* Matcher_put(Matcher* self, PyObject* args) {
  int kind;
  PyObject *ref, *key_number, *impl_number;
  uintptr_t key, impl;
  if (!PyArg_ParseTuple(args, "iOOO", &kind, &ref, &key_number, &impl_number)) return nullptr;
  if (!key_argument(key_number, &key) || !key_argument(impl_number, &impl)) return nullptr;
  Refs& entry = self->current[key];
  if (kind != kAlias) entry.clear();
  entry.push_back(ref);
  self->impl[impl] = ref;
  if (leaf_of_ref(ref)) self->leaf_refs[key] = ref;
  Py_RETURN_NONE;
}

// note(record): it is that of `at`
PyObject* Matcher_note(Matcher* self, PyObject*) {
  if (!note_sequence(self, self->at.get())) return nullptr;
  Py_RETURN_NONE;
}

PyObject* Matcher_is_fresh(Matcher* self, PyObject* number) {
  uintptr_t key;
  if (!key_argument(number, &key)) return nullptr;
  return PyBool_FromLong(self->fresh.count(key) != 0);
}

PyObject* Matcher_add_fresh(Matcher* self, PyObject* number) {
  uintptr_t key;
  if (!key_argument(number, &key)) return nullptr;
  self->fresh.insert(key);
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

// watch_always(key, object): the same, also when the step has ended
PyObject* Matcher_watch_always(Matcher* self, PyObject* args) {
  PyObject *number, *object;
  uintptr_t key;
  if (!PyArg_ParseTuple(args, "OO", &number, &object) || !key_argument(number, &key))
    return nullptr;
  Owned watcher = Owned::take(PyWeakref_NewRef(object, self->gone.get()));
  if (!watcher) return nullptr;
  self->lasting.insert_or_assign(key, std::move(watcher));
  Py_RETURN_NONE;
}

// gone(watcher): the object of a weak reference has died
PyObject* Matcher_gone(Matcher* self, PyObject* watcher) {
  auto found = self->watchers.find(Owned::share(watcher));
  if (found != self->watchers.end()) {
    forget_key(self, found->second);
    self->watchers.erase(found);
    Py_RETURN_NONE;
  }
  for (auto each = self->lasting.begin(); each != self->lasting.end(); ++each) {
    if (each->second.get() != watcher) continue;
    forget_key(self, each->first);
    self->lasting.erase(each);
    break;
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

PyObject* Matcher_forget(Matcher* self, PyObject*) {
  forget_step(self);
  Py_RETURN_NONE;
}

PyObject* Matcher_get_at(Matcher* self, void*) {
  return Py_NewRef(self->at ? self->at.as_python() : Py_None);
}

int Matcher_set_at(Matcher* self, PyObject* value, void*) {
  if (!value || !PyObject_TypeCheck(value, &NodeType)) {
    PyErr_SetString(PyExc_TypeError, "at is a Node");
    return -1;
  }
  self->at = OwnedNode::share(value);
  return note_leaves(self, self->at.get()) ? 0 : -1;
}

PyObject* Matcher_get_every_op(Matcher* self, void*) {
  return Py_NewRef(self->every_op ? self->every_op.as_python() : Py_None);
}

int Matcher_set_every_op(Matcher* self, PyObject* value, void*) {
  if (value && value != Py_None && !PyObject_TypeCheck(value, &ScreenType)) {
    PyErr_SetString(PyExc_TypeError, "every_op is a Screen or None");
    return -1;
  }
  self->every_op =
      sonde::OwnedObject<Screen>::share(value == Py_None ? nullptr : value);
  return 0;
}

PyObject* Matcher_get_met_leaves(Matcher* self, void*) {
  return Py_NewRef(self->met_leaves.get());
}

// geometry(tensor) -> bytes, or None where the tensor cannot be read directly
PyObject* Matcher_geometry(Matcher*, PyObject* tensor) {
  Geometry geometry;
  if (!read_geometry(tensor, &geometry)) Py_RETURN_NONE;
  return geometry.as_bytes().release();
}

PyObject* Matcher_get_scope(Matcher* self, void*) {
  return Py_NewRef(self->scope ? self->scope.get() : Py_None);
}

int Matcher_set_scope(Matcher* self, PyObject* value, void*) {
  self->scope = Owned::share(value ? value : Py_None);
  return 0;
}

// Attributes that are whole numbers.
template <typename Number, Number MatcherFields::*field>
PyObject* number_of(Matcher* self, void*) {
  return PyLong_FromLongLong(self->*field);
}

template <typename Number, Number MatcherFields::*field>
int set_number(Matcher* self, PyObject* value, void*) {
  const long long number = value ? PyLong_AsLongLong(value) : 0;
  if (number == -1 && PyErr_Occurred()) return -1;
  self->*field = static_cast<Number>(number);
  return 0;
}

template <typename Number, Number MatcherFields::*field>
constexpr PyGetSetDef number_attribute(const char* name, const char* text) {
  return {name, reinterpret_cast<getter>(number_of<Number, field>),
          reinterpret_cast<setter>(set_number<Number, field>), text, nullptr};
}

PyGetSetDef Matcher_getset[] = {
    {"at", reinterpret_cast<getter>(Matcher_get_at), reinterpret_cast<setter>(Matcher_set_at),
     "The node of the op that ran last in this step.", nullptr},
    {"scope", reinterpret_cast<getter>(Matcher_get_scope),
     reinterpret_cast<setter>(Matcher_set_scope), "The scope ops run in now.", nullptr},
    {"every_op", reinterpret_cast<getter>(Matcher_get_every_op),
     reinterpret_cast<setter>(Matcher_set_every_op),
     "The screen of the only sink, if that wants every op; see call_site.h.", nullptr},
    {"met_leaves", reinterpret_cast<getter>(Matcher_get_met_leaves), nullptr,
     "The step inputs that ops of this step have read.", nullptr},
    number_attribute<int, &MatcherFields::is_reshaped>(
        "is_reshaped", "Whether a step input has another shape than when it was learned."),
    number_attribute<long long, &MatcherFields::op_count>("op_count", "The ops so far."),
    number_attribute<long long, &MatcherFields::provisional_count>(
        "provisional_count", "The ops so far that got a provisional node."),
    number_attribute<long long, &MatcherFields::waiting>(
        "waiting", "The ops of this step that have a provisional node and no record."),
    number_attribute<unsigned long long, &MatcherFields::trail>(
        "trail", "Equal in steps whose provisional nodes have the same order."),
    number_attribute<long, &MatcherFields::generation>("generation", "The session's generation."),
    number_attribute<int, &MatcherFields::started>("started", "Whether the first step has begun."),
    number_attribute<int, &MatcherFields::lends>("lends", "Whether memory is lent to anybody."),
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

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
    {"geometry", reinterpret_cast<PyCFunction>(Matcher_geometry), METH_O,
     "What distinguishes a tensor from others over its storage."},
    {"watch", reinterpret_cast<PyCFunction>(Matcher_watch), METH_VARARGS, "Forget with it."},
    {"watch_always", reinterpret_cast<PyCFunction>(Matcher_watch_always), METH_VARARGS,
     "Forget with it, in any step."},
    {"gone", reinterpret_cast<PyCFunction>(Matcher_gone), METH_O, "A watched object died."},
    {"drop", reinterpret_cast<PyCFunction>(Matcher_drop), METH_O, "Forget a storage."},
    {"now", reinterpret_cast<PyCFunction>(Matcher_now), METH_NOARGS,
     "A timestamp, later than the last."},
    {"forget", reinterpret_cast<PyCFunction>(Matcher_forget), METH_NOARGS, "End of a step."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyTypeObject MatcherType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool make_matcher_type() {
  MatcherType.tp_name = "sonde.adapters.torch.eager._match.Matcher";
  MatcherType.tp_basicsize = sizeof(Matcher);
  MatcherType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
  MatcherType.tp_doc = "Matches ops that were learned before.";
  MatcherType.tp_new = Matcher_new;
  MatcherType.tp_dealloc = reinterpret_cast<destructor>(Matcher_dealloc);
  MatcherType.tp_traverse = reinterpret_cast<traverseproc>(Matcher_traverse);
  MatcherType.tp_clear = reinterpret_cast<inquiry>(Matcher_clear);
  MatcherType.tp_methods = Matcher_methods;
  MatcherType.tp_getset = Matcher_getset;
  return PyType_Ready(&MatcherType) == 0;
}

}  // namespace sonde_match
