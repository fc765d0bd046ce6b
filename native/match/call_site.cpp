#include "call_site.h"

#include "frames.h"
#include "tables.h"

namespace sonde_match {

namespace {

// A program that makes code or modules without end has more; the rest is learned each time.
constexpr size_t kMostSites = 50000;
constexpr unsigned long long kNoSequence = 1ULL << 62;

struct Names {
  PyObject* sequence_nr;
  PyObject* variable;
};
Names names;

enum Kind : uintptr_t { kForward, kCaused, kAccumulates, kUncaused };

uintptr_t word(const void* object) { return reinterpret_cast<uintptr_t>(object); }

Py_ssize_t count_tensors(Matcher* self, PyObject* value) {
  std::vector<PyObject*> items;
  flatten(self, value, items);
  return static_cast<Py_ssize_t>(items.size());
}

// Whether an op writes to its arguments: 1, 0, or -1 with an error set.
int does_write(Matcher* self, PyObject* func) {
  auto known = self->writing_ops.find(func);
  if (known != self->writing_ops.end()) return known->second.second;
  const int writes = sonde_tensor::truth_from(
      Owned::take(PyObject_CallOneArg(self->op_writes.get(), func)));
  if (writes >= 0) self->writing_ops.emplace(func, std::make_pair(Owned::share(func), writes));
  return writes;
}

// How the tensors are spread over the arguments: this decides which slots an op writes to.
void add_signature(Matcher* self, PyObject* args, PyObject* kwargs, SiteKey* key) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
    key->push_back(static_cast<uintptr_t>(count_tensors(self, PyTuple_GET_ITEM(args, i))));
  if (!kwargs) return;
  PyObject *name, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(kwargs, &position, &name, &value)) {
    key->push_back(static_cast<uintptr_t>(PyObject_Hash(name)));
    key->push_back(static_cast<uintptr_t>(count_tensors(self, value)));
  }
}

// Adds the code and instruction of each frame, from the innermost outwards. With `until_engine` up
// to the frame in which autograd's engine runs.
void add_frames(Matcher* self, bool until_engine, SiteKey* key) {
  for (Owned frame = innermost_frame(); frame; frame = caller_of(frame)) {
    auto* here = reinterpret_cast<PyFrameObject*>(frame.get());
    const Owned code = Owned::take(reinterpret_cast<PyObject*>(PyFrame_GetCode(here)));
    if (until_engine && code.get() == self->engine_code.get()) return;
    key->push_back(word(code.get()));
    key->push_back(static_cast<uintptr_t>(last_instruction(here)));
  }
}

// In backward: the forward op that caused the op, or the tensor whose gradient is accumulated.
bool add_cause(Matcher* self, PyObject* autograd_node, Place* place) {
  // A node that accumulates a gradient has the largest possible number.
  const Owned asked = sonde_tensor::call_method(autograd_node, names.sequence_nr);
  const unsigned long long number =
      asked && PyLong_Check(asked.get()) ? PyLong_AsUnsignedLongLong(asked.get()) : kNoSequence;
  PyErr_Clear();
  SiteKey& key = place->key;
  if (number < kNoSequence) {
    auto found = self->sequence.find(static_cast<long long>(number) + 1);
    if (found != self->sequence.end()) {
      place->cause = static_cast<Node*>(found->second);
      if (!place->cause->site) return false;
      key.push_back(kCaused);
      key.push_back(word(place->cause->site));
      add_frames(self, true, &key);
      return true;
    }
  }
  const Owned variable = sonde_tensor::attribute(autograd_node, names.variable);
  PyErr_Clear();
  if (!variable || variable.get() == Py_None) {
    key.push_back(kUncaused);
    add_frames(self, false, &key);
    return true;
  }
  uintptr_t storage;
  if (!sonde_tensor::storage_key(variable.get(), &storage)) {
    PyErr_Clear();
    return false;
  }
  auto leaf = self->leaf_refs.find(storage);
  if (leaf == self->leaf_refs.end()) return false;
  key.push_back(kAccumulates);
  key.push_back(word(leaf->second));
  add_frames(self, false, &key);
  return true;
}

bool read_slots(const Owned& tuple, LastingVector<Py_ssize_t>* slots) {
  if (!tuple || !PyTuple_Check(tuple.get())) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i)
    slots->push_back(PyLong_AsSsize_t(PyTuple_GET_ITEM(tuple.get(), i)));
  return !PyErr_Occurred();
}

Owned field(const Owned& object, const char* name) {
  return Owned::take(PyObject_GetAttrString(object.get(), name));
}

// Keeps the code objects of the running frames alive with the site.
void keep_frames(CallSite* site) {
  for (Owned frame = innermost_frame(); frame; frame = caller_of(frame)) {
    auto* here = reinterpret_cast<PyFrameObject*>(frame.get());
    site->key_objects.push_back(
        Owned::take(reinterpret_cast<PyObject*>(PyFrame_GetCode(here))));
  }
}

// Makes the site that `description` describes; null, with or without an error set, if there is none.
CallSite* keep_site(Matcher* self, const Place& place, const Owned& description, Owned op) {
  if (self->sites.size() >= kMostSites) return nullptr;
  auto site = std::make_unique<CallSite>();
  site->op = std::move(op);
  // One after the other: a property is Python code, which must not run while an exception is set.
  Owned depth, last, fills, rearranges, writes, workspaces;
  const std::pair<Owned*, const char*> fields[] = {
      {&depth, "depth"},           {&last, "last"},         {&fills, "fills"},
      {&rearranges, "rearranges"}, {&site->func, "func"},   {&site->scope, "scope"},
      {&site->code, "code"},       {&writes, "writes"},     {&workspaces, "workspaces"}};
  for (const auto& [value, name] : fields)
    if (!(*value = field(description, name))) return nullptr;
  if (!read_slots(writes, &site->writes) || !read_slots(workspaces, &site->workspaces))
    return nullptr;
  site->depth = PyLong_AsLong(depth.get());
  site->last = PyLong_AsLong(last.get());
  if (PyErr_Occurred()) return nullptr;
  site->fills = fills.get() == Py_True;
  site->rearranges = rearranges.get() == Py_True;
  site->key_objects.push_back(Owned::share(self->scope.get()));
  keep_frames(site.get());
  site->description = Owned::share(description.get());
  return self->sites.emplace(place.key, std::move(site)).first->second.get();
}

}  // namespace

bool find_place(Matcher* self, PyObject* func, PyObject* args, PyObject* kwargs, Place* place) {
  SiteKey& key = place->key;
  key.reserve(96);
  key.push_back(word(func));
  key.push_back(word(self->scope.get()));
  key.push_back(static_cast<uintptr_t>(PyTuple_GET_SIZE(args)));
  const int writes = does_write(self, func);
  if (writes < 0) return false;
  if (writes) add_signature(self, args, kwargs, &key);
  const Owned node = Owned::take(PyObject_CallNoArgs(self->autograd_node.get()));
  if (!node) return false;
  if (node.get() != Py_None) return add_cause(self, node.get(), place);
  key.push_back(kForward);
  add_frames(self, false, &key);
  return true;
}

CallSite* find_site(Matcher* self, const SiteKey& key) {
  auto found = self->sites.find(key);
  return found == self->sites.end() ? nullptr : found->second.get();
}

bool add_site(Matcher* self, const Place& place) {
  Node* node = self->at.get();
  const auto known = self->sites.find(place.key);
  const Owned description = Owned::take(PyObject_CallFunctionObjArgs(
      self->describe_site.get(), node->record.get(),
      known == self->sites.end() ? Py_None : known->second->description.get(), nullptr));
  if (!description) return false;
  if (description.get() == Py_None) return true;
  if (known != self->sites.end()) {
    node->site = known->second.get();
    return true;
  }
  node->site = keep_site(self, place, description, Owned::share(node->op.get()));
  return node->site || !PyErr_Occurred();
}

CallSite* describe_new(Matcher* self, const Place& place, PyObject* func, PyObject* args,
                       PyObject* kwargs) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(func)) != self->overload_type.get()) return nullptr;
  PyObject* forward = place.cause ? place.cause->site->description.get() : Py_None;
  const Owned description = Owned::take(PyObject_CallFunctionObjArgs(
      self->describe_new.get(), func, args, kwargs ? kwargs : Py_None, forward, nullptr));
  if (!description || description.get() == Py_None) return nullptr;
  Owned op = Owned::take(PyObject_CallOneArg(self->function_of.get(), func));
  return op ? keep_site(self, place, description, std::move(op)) : nullptr;
}

bool make_site_names() {
  names.sequence_nr = PyUnicode_InternFromString("_sequence_nr");
  names.variable = PyUnicode_InternFromString("variable");
  return names.sequence_nr && names.variable;
}

}  // namespace sonde_match
