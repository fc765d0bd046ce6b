#include "provisional.h"

#include "geometry.h"
#include "tables.h"
#include "tensor_ref.h"

#include <algorithm>

namespace sonde_match {

namespace {

// The reference of exactly this tensor among those of its memory, or None; the same as
// InputMatcher.exact in Python.
PyObject* exact_ref(Matcher* self, PyObject* tensor, const Geometry& geometry, const Refs& entry) {
  uintptr_t impl;
  if (!sonde_tensor::impl_of(tensor, &impl)) {
    PyErr_Clear();
    return Py_None;
  }
  auto known = self->impl.find(impl);
  if (known != self->impl.end() &&
      std::find(entry.begin(), entry.end(), known->second) != entry.end() &&
      (self->is_reshaped || geometry.equals(ref_field(known->second, ref_layout.geometry))))
    return known->second;
  for (auto ref = entry.rbegin(); ref != entry.rend(); ++ref)
    if (geometry.equals(ref_field(*ref, ref_layout.geometry))) return *ref;
  return Py_None;
}

bool is_filled(PyObject* source, PyObject* memory) {
  if (source != Py_None) return !is_true(source, ref_layout.is_unfilled);
  return !is_true(memory, ref_layout.is_unfilled) && !is_true(memory, ref_layout.has_gaps);
}

// Enters a tensor that no op of this step has read or made yet, as Python names it.
Made meet_input(Matcher* self, CallSite* site, size_t slot, const Tensors& tensors) {
  const Owned number = Owned::take(PyLong_FromSize_t(slot));
  const Owned key =
      Owned::take(PyLong_FromVoidPtr(reinterpret_cast<void*>(tensors.keys[slot])));
  if (!number || !key) return Made::kError;
  const int met = sonde_tensor::truth_from(Owned::take(
      PyObject_CallFunctionObjArgs(self->meet_input.get(), site->description.get(), number.get(),
                                   tensors.items[slot], key.get(), nullptr)));
  return met < 0 ? Made::kError : met ? Made::kDone : Made::kNotHere;
}

Made add_input(Matcher* self, CallSite* site, const Tensors& tensors, size_t slot, Node* node) {
  PyObject* tensor = tensors.items[slot];
  auto entry = self->current.find(tensors.keys[slot]);
  if (entry == self->current.end()) {
    const Made met = meet_input(self, site, slot, tensors);
    if (met != Made::kDone) return met;
    entry = self->current.find(tensors.keys[slot]);
    if (entry == self->current.end()) return Made::kNotHere;
  }
  Geometry geometry;
  if (!read_geometry(tensor, &geometry)) return Made::kNotHere;
  PyObject* memory = entry->second[0];
  PyObject* source = exact_ref(self, tensor, geometry, entry->second);
  if (PyObject* leaf = leaf_of_ref(memory)) {
    const int met = PySet_Contains(self->met_leaves.get(), leaf);
    if (met < 0) return Made::kError;
    const bool is_first =
        !met && std::none_of(node->leaves.begin(), node->leaves.end(),
                             [leaf](const Owned& other) { return other.get() == leaf; });
    if (is_first) {
      node->leaves.push_back(Owned::share(leaf));
      node->leaf_slots.push_back(static_cast<Py_ssize_t>(slot));
      node->fast_leaves.push_back({static_cast<Py_ssize_t>(slot), Owned::share(memory),
                                   Owned::share(ref_field(leaf, ref_layout.leaf_node)),
                                   {}});
    }
  }
  node->in_refs.push_back(Owned::share(memory));
  node->sources.push_back(Owned::share(source));
  PyObject* known = source == Py_None ? nullptr : ref_field(source, ref_layout.geometry);
  node->in_geometries.push_back(known && geometry.equals(known) ? Owned::share(known)
                                                                : geometry.as_bytes());
  PyObject* token = is_filled(source, memory) ? source : Py_False;
  node->tokens_in.push_back(Owned::share(token == Py_None ? nullptr : token));
  return node->in_geometries.back() ? Made::kDone : Made::kError;
}

bool has_tensors(Matcher* self, PyObject* value) {
  std::vector<PyObject*> items;
  flatten(self, value, items);
  return !items.empty();
}

// Keeps the arguments for the attributes of the op.
void keep_arguments(Matcher* self, PyObject* args, PyObject* kwargs, Node* node) {
  const auto keep = [&](PyObject* name, PyObject* value) {
    node->arguments.push_back(
        {Owned::share(name), Owned::share(has_tensors(self, value) ? Py_Ellipsis : value)});
  };
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  node->arguments.reserve(static_cast<size_t>(count + (kwargs ? PyDict_GET_SIZE(kwargs) : 0)));
  for (Py_ssize_t i = 0; i < count; ++i) keep(nullptr, PyTuple_GET_ITEM(args, i));
  PyObject *name, *value;
  Py_ssize_t position = 0;
  while (kwargs && PyDict_Next(kwargs, &position, &name, &value)) keep(name, value);
}

// What keep_arguments kept as (args, kwargs); empty with an error set.
Owned arguments_of(const Node* node) {
  const Owned plain = Owned::take(PyList_New(0));
  const Owned named = Owned::take(PyDict_New());
  if (!plain || !named) return {};
  for (const Argument& each : node->arguments)
    if ((each.name ? PyDict_SetItem(named.get(), each.name.get(), each.value.get())
                   : PyList_Append(plain.get(), each.value.get())) < 0)
      return {};
  const Owned args = Owned::take(PyList_AsTuple(plain.get()));
  return args ? Owned::take(PyTuple_Pack(2, args.get(), named.get())) : Owned();
}

// The reference of one output; empty with an error set. The same as output_ref in op_outputs.py.
Owned output_ref(Node* node, size_t slot, int kind, PyObject* tensor, const Geometry& geometry,
                 const Tensors& tensors, uintptr_t key) {
  const CallSite* site = node->site;
  bool is_unfilled = !site->fills || std::count(site->workspaces.begin(), site->workspaces.end(),
                                                static_cast<Py_ssize_t>(slot));
  bool may_have_gaps = false;
  for (size_t i = 0; i < tensors.keys.size(); ++i) {
    if (tensors.keys[i] != key) continue;
    PyObject* memory = node->in_refs[i].get();
    if (kind == kAlias && !is_filled(node->sources[i].get(), memory)) is_unfilled = true;
    if (is_true(memory, ref_layout.is_unfilled) || is_true(memory, ref_layout.has_gaps))
      may_have_gaps = true;
  }
  bool has_gaps = false;
  if (kind == sonde::kWritten && may_have_gaps) {
    const Owned storage = sonde_tensor::call_method(tensor, sonde_tensor::strings.untyped_storage);
    const Owned all =
        storage ? Owned::take(PyObject_CallMethod(storage.get(), "nbytes", nullptr)) : Owned();
    long long bytes, own;
    if (!sonde_tensor::number_from(all, &bytes) ||
        !sonde_tensor::number_from(
            sonde_tensor::attribute(tensor, sonde_tensor::strings.nbytes), &own))
      return {};
    has_gaps = own < bytes;
  }
  Owned bytes = geometry.as_bytes();
  if (!bytes) return {};
  return make_ref(static_cast<Py_ssize_t>(slot), std::move(bytes), is_unfilled, has_gaps);
}

}  // namespace

Made make_provisional(Matcher* self, CallSite* site, Node* cause, const Tensors& tensors,
                      PyObject* args, PyObject* kwargs, OwnedNode* made) {
  OwnedNode owned = OwnedNode::take(NodeType.tp_new(&NodeType, nullptr, nullptr));
  if (!owned) return Made::kError;
  Node* node = owned.get();
  // Without a record it is part of no cycle.
  PyObject_GC_UnTrack(owned.as_python());
  node->func = Owned::share(site->func.get());
  node->op = Owned::share(site->op.get());
  node->scope = Owned::share(site->scope.get());
  node->code = Owned::share(site->code.get());
  node->depth = site->depth;
  node->last = site->last;
  node->site = site;
  node->matcher = self;
  node->parent = self->at.get();
  node->cause = cause;
  node->in_refs.reserve(tensors.items.size());
  node->sources.reserve(tensors.items.size());
  node->in_geometries.reserve(tensors.items.size());
  node->tokens_in.reserve(tensors.items.size());
  for (size_t slot = 0; slot < tensors.items.size(); ++slot) {
    const Made added = add_input(self, site, tensors, slot, node);
    if (added != Made::kDone) return added;
  }
  keep_arguments(self, args, kwargs, node);
  node->generation = self->generation;
  node->wanted = 1;
  node->has_leaves = !node->leaves.empty();
  node->has_writes = !site->writes.empty();
  node->writes = site->writes;
  node->rearranges = site->rearranges;
  node->op_node = Owned::share(Py_None);
  node->screen = sonde::OwnedObject<Screen>::share(self->every_op.get());
  *made = std::move(owned);
  return Made::kDone;
}

Made add_outputs(Matcher* self, Node* node, const Tensors& tensors, PyObject* result,
                 std::vector<PyObject*>* results, std::vector<uintptr_t>* keys) {
  if (result != Py_None && flatten(self, result, *results) == Flat::kOdd) return Made::kNotHere;
  if (has_nested_list(result)) return Made::kNotHere;
  std::vector<uintptr_t> made, written, written_keys, changed;
  for (PyObject* tensor : *results) {
    made.push_back(0);
    if (!sonde_tensor::impl_of(tensor, &made.back())) return Made::kError;
  }
  for (Py_ssize_t slot : node->site->writes) {
    written.push_back(0);
    if (static_cast<size_t>(slot) >= tensors.items.size()) return Made::kNotHere;
    PyObject* tensor = tensors.items[static_cast<size_t>(slot)];
    if (!sonde_tensor::impl_of(tensor, &written.back())) return Made::kError;
    written_keys.push_back(tensors.keys[static_cast<size_t>(slot)]);
    if (std::find(made.begin(), made.end(), written.back()) != made.end()) continue;
    node->returned.push_back(slot);
    results->push_back(tensor);
  }
  for (size_t i = made.size(); i < results->size(); ++i) {
    uintptr_t impl;
    if (!sonde_tensor::impl_of((*results)[i], &impl)) return Made::kError;
    made.push_back(impl);
  }
  if (!add_keys(*results, *keys)) return Made::kNotHere;
  const auto contains = [](const std::vector<uintptr_t>& all, uintptr_t one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  for (size_t i = 0; i < results->size(); ++i) {
    const uintptr_t key = (*keys)[i];
    const bool is_known = contains(tensors.keys, key) || contains(changed, key) ||
                          self->current.count(key) != 0;
    const bool is_change =
        (contains(written, made[i]) || contains(written_keys, key)) && !contains(changed, key);
    const int kind = is_change ? sonde::kWritten : is_known ? kAlias : kFresh;
    changed.push_back(key);
    Geometry geometry;
    if (!read_geometry((*results)[i], &geometry)) return Made::kNotHere;
    Owned ref = output_ref(node, i, kind, (*results)[i], geometry, tensors, key);
    if (!ref) return Made::kError;
    node->tokens_out.push_back(
        Owned::share(is_true(ref.get(), ref_layout.is_unfilled) ? Py_False : ref.get()));
    node->outs.push_back({kind, std::move(ref)});
  }
  if (node->outs.size() == 1 && node->rearranges && !node->sources.empty() &&
      node->sources[0].get() != Py_None)
    set_ref_field(node->outs[0].ref.get(), ref_layout.values,
                  Py_NewRef(ref_field(node->sources[0].get(), ref_layout.values)));
  return Made::kDone;
}

bool keep_provisional(Matcher* self, OwnedNode node) {
  if (!note_leaves(self, node.get())) return false;
  ++self->provisional_count;
  ++self->waiting;
  for (const void* each : {static_cast<const void*>(node->site),
                           static_cast<const void*>(self->at->record ? self->at.get() : nullptr)})
    self->trail = (self->trail ^ reinterpret_cast<uintptr_t>(each)) * 1099511628211ULL ^
                  self->trail >> 29;
  self->at = OwnedNode::share(node.get());
  self->provisional.push_back(std::move(node));
  return true;
}

namespace {

// A tuple made by `item(i)` for each number below `count`; empty with an error set.
template <typename Item>
Owned tuple_of(size_t count, const Item& item) {
  Owned tuple = Owned::take(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; tuple && i < count; ++i) {
    Owned made = item(i);
    if (!made) return {};
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), made.release());
  }
  return tuple;
}

// Makes the record of a node whose parent has one. False with an error set.
bool complete(Node* node) {
  Matcher* self = node->matcher;
  const auto in_refs = tuple_of(node->in_refs.size(),
                                [&](size_t i) { return Owned::share(node->in_refs[i].get()); });
  const auto sources = tuple_of(node->sources.size(),
                                [&](size_t i) { return Owned::share(node->sources[i].get()); });
  const auto in_specs = tuple_of(node->in_geometries.size(),
                                 [&](size_t i) { return spec_from(node->in_geometries[i].get()); });
  const auto outs = tuple_of(node->outs.size(), [&](size_t i) {
    return Owned::take(Py_BuildValue("(iO)", node->outs[i].kind, node->outs[i].ref.get()));
  });
  const auto out_specs = tuple_of(node->outs.size(), [&](size_t i) {
    return spec_from(ref_field(node->outs[i].ref.get(), ref_layout.geometry));
  });
  const auto returned = tuple_of(node->returned.size(), [&](size_t i) {
    return Owned::take(PyLong_FromSsize_t(node->returned[i]));
  });
  const auto leaves = tuple_of(node->leaves.size(), [&](size_t i) {
    return Owned::take(Py_BuildValue("(nO)", node->leaf_slots[i], node->leaves[i].get()));
  });
  const Owned arguments = arguments_of(node);
  if (!in_refs || !sources || !in_specs || !outs || !out_specs || !returned || !leaves ||
      !arguments)
    return false;
  PyObject* cause = node->cause ? node->cause->record.get() : Py_None;
  if (!cause) cause = Py_None;
  node->record = Owned::take(PyObject_CallFunctionObjArgs(
      self->complete_node.get(), static_cast<PyObject*>(node), node->site->description.get(),
      node->parent->record.get(), cause, arguments.get(), in_refs.get(), sources.get(),
      in_specs.get(), outs.get(), out_specs.get(), returned.get(), leaves.get(), nullptr));
  if (!node->record) return false;
  node->arguments.clear();
  node->in_geometries.clear();
  PyObject_GC_Track(static_cast<PyObject*>(node));
  for (const Out& out : node->outs) PyObject_GC_Track(out.ref.get());
  return true;
}

}  // namespace

PyObject* record_of(Node* node) {
  if (node->record) return node->record.get();
  if (!node->matcher) {
    PyErr_SetString(PyExc_RuntimeError, "the step of this node has ended");
    return nullptr;
  }
  Matcher* self = node->matcher;
  if (self->is_completing) {
    PyErr_SetString(PyExc_RuntimeError, "an op ran while the record of another was made");
    return nullptr;
  }
  self->is_completing = true;
  // Thousands of records that all stay would set off the collector again and again.
  const int was_collecting = PyGC_Disable();
  std::vector<Node*> waiting;
  for (Node* each = node; each && !each->record; each = each->parent) waiting.push_back(each);
  while (!waiting.empty() && complete(waiting.back())) {
    --self->waiting;
    waiting.pop_back();
  }
  if (was_collecting) PyGC_Enable();
  self->is_completing = false;
  return node->record.get();
}

void drop_provisional(Matcher* self) {
  std::vector<OwnedNode> nodes;
  nodes.swap(self->provisional);
  self->waiting = 0;
  self->trail = 0;
  std::vector<Owned> refs;
  refs.reserve(nodes.size());
  for (const OwnedNode& node : nodes) {
    node->matcher = nullptr;
    node->parent = nullptr;
    node->cause = nullptr;
    if (node->record) continue;
    for (const Out& out : node->outs) refs.push_back(Owned::share(out.ref.get()));
  }
  nodes.clear();
  // A reference refers to itself as its values.
  for (const Owned& ref : refs)
    set_ref_field(ref.get(), ref_layout.values, Py_NewRef(Py_None));
  for (Owned& ref : refs) reuse_ref(std::move(ref));
}

}  // namespace sonde_match
