#include "drafting.h"

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
  for (size_t i = entry.size(); i-- > 0;)
    if (geometry.equals(ref_field(entry[i], ref_layout.geometry))) return entry[i];
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

// Whether an op of this step has read a step input: 1, 0, or -1 with an error set.
int is_met(Matcher* self, const Draft& draft, PyObject* leaf) {
  for (const DraftLeaf& other : draft.leaves)
    if (other.leaf == leaf) return 1;
  return PySet_Contains(self->met_leaves.get(), leaf);
}

Made add_input(Matcher* self, const Tensors& tensors, size_t slot, Draft* draft) {
  PyObject* tensor = tensors.items[slot];
  auto entry = self->current.find(tensors.keys[slot]);
  if (entry == self->current.end()) {
    const Made met = meet_input(self, draft->site, slot, tensors);
    if (met != Made::kDone) return met;
    entry = self->current.find(tensors.keys[slot]);
    if (entry == self->current.end() || draft->is_gone()) return Made::kNotHere;
  }
  Geometry geometry;
  if (!read_geometry(tensor, &geometry)) return Made::kNotHere;
  PyObject* memory = entry->second[0];
  PyObject* source = exact_ref(self, tensor, geometry, entry->second);
  if (PyObject* leaf = leaf_of_ref(memory)) {
    const int met = is_met(self, *draft, leaf);
    if (met < 0) return Made::kError;
    if (!met) draft->leaves.push_back({static_cast<Py_ssize_t>(slot), leaf});
  }
  PyObject* known = source == Py_None ? nullptr : ref_field(source, ref_layout.geometry);
  Owned bytes =
      known && geometry.equals(known) ? Owned::share(known) : geometry.as_bytes();
  if (!bytes) return Made::kError;
  draft->inputs.push_back({memory, source, bytes.release()});
  return Made::kDone;
}

// Keeps the arguments without tensors, for the attributes of the op. False with an error set.
bool keep_arguments(Matcher* self, PyObject* args, PyObject* kwargs, Draft* draft) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    PyObject* value = PyTuple_GET_ITEM(args, i);
    draft->arguments.push_back(count_tensors(self, value) ? nullptr : Py_NewRef(value));
  }
  if (!kwargs) return true;
  draft->named_arguments = Owned::take(PyDict_New());
  if (!draft->named_arguments) return false;
  PyObject *name, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(kwargs, &position, &name, &value))
    if (PyDict_SetItem(draft->named_arguments.get(), name,
                       count_tensors(self, value) ? Py_Ellipsis : value) < 0)
      return false;
  return true;
}

// The reference of one output; empty with an error set. The same as output_ref in op_outputs.py.
Owned output_ref(RefPool* refs, const Draft& draft, size_t slot, int kind, PyObject* tensor,
                 const Geometry& geometry, const Tensors& tensors, uintptr_t key) {
  const CallSite* site = draft.site;
  bool is_unfilled = !site->fills || std::count(site->workspaces.begin(), site->workspaces.end(),
                                                static_cast<Py_ssize_t>(slot));
  bool may_have_gaps = false;
  for (size_t i = 0; i < tensors.keys.size(); ++i) {
    if (tensors.keys[i] != key) continue;
    PyObject* memory = draft.inputs[i].memory;
    if (kind == kAlias && !is_filled(draft.inputs[i].source, memory)) is_unfilled = true;
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
  return refs->make(static_cast<Py_ssize_t>(slot), std::move(bytes), is_unfilled, has_gaps);
}

}  // namespace

PyObject* token_of(const DraftInput& input) {
  if (!is_filled(input.source, input.memory)) return Py_False;
  return input.source == Py_None ? nullptr : input.source;
}

Made begin_draft(Matcher* self, CallSite* site, const StepOp& cause, const Tensors& tensors,
                 PyObject* args, PyObject* kwargs, Draft* draft) {
  draft->site = site;
  draft->before = self->tip ? StepOp{nullptr, self->tip} : StepOp{self->at.get(), nullptr};
  draft->cause = cause;
  for (size_t slot = 0; slot < tensors.items.size(); ++slot) {
    const Made added = add_input(self, tensors, slot, draft);
    if (added != Made::kDone) return added;
  }
  return keep_arguments(self, args, kwargs, draft) ? Made::kDone : Made::kError;
}

Made add_outputs(Matcher* self, Draft* draft, const Tensors& tensors, PyObject* result,
                 Items* results, Keys* keys) {
  if (result != Py_None && flatten(self, result, *results) == Flat::kOdd) return Made::kNotHere;
  if (has_nested_list(result)) return Made::kNotHere;
  Keys made, written, written_keys, changed;
  for (PyObject* tensor : *results) {
    made.push_back(0);
    if (!sonde_tensor::impl_of(tensor, &made.back())) return Made::kError;
  }
  const auto contains = [](const Keys& all, uintptr_t one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  const size_t returned = made.size();
  for (Py_ssize_t slot : draft->site->writes) {
    written.push_back(0);
    if (static_cast<size_t>(slot) >= tensors.items.size()) return Made::kNotHere;
    PyObject* tensor = tensors.items[static_cast<size_t>(slot)];
    if (!sonde_tensor::impl_of(tensor, &written.back())) return Made::kError;
    written_keys.push_back(tensors.keys[static_cast<size_t>(slot)]);
    if (std::find(made.begin(), made.begin() + returned, written.back()) !=
        made.begin() + returned)
      continue;
    draft->returned.push_back(slot);
    results->push_back(tensor);
    made.push_back(written.back());
  }
  if (!add_keys(*results, *keys)) return Made::kNotHere;
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
    Owned ref = output_ref(&self->drafts.refs, *draft, i, kind, (*results)[i], geometry, tensors, key);
    if (!ref) return Made::kError;
    draft->outs.push_back({kind, ref.release()});
  }
  if (draft->outs.size() == 1 && draft->site->rearranges && !draft->inputs.empty() &&
      draft->inputs[0].source != Py_None)
    set_ref_field(draft->outs[0].ref, ref_layout.values,
                  Py_NewRef(ref_field(draft->inputs[0].source, ref_layout.values)));
  return Made::kDone;
}

bool keep_draft(Matcher* self, Draft* draft) {
  for (const DraftLeaf& each : draft->leaves)
    if (PySet_Add(self->met_leaves.get(), each.leaf) < 0) return false;
  ++self->draft_count;
  count_op(self, draft->site->group);
  self->tip = draft;
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

// The node of a draft, without its record; empty with an error set.
OwnedNode node_of(const Draft& draft) {
  OwnedNode owned = OwnedNode::take(NodeType.tp_new(&NodeType, nullptr, nullptr));
  if (!owned) return owned;
  Node* node = owned.get();
  CallSite* site = draft.site;
  node->func = Owned::share(site->func.get());
  node->op = Owned::share(site->op.get());
  node->scope = Owned::share(site->scope.get());
  node->code = Owned::share(site->code.get());
  node->depth = site->depth;
  node->last = site->last;
  node->site = site;
  node->group = site->group;
  node->has_leaves = !draft.leaves.empty();
  node->has_writes = !site->writes.empty();
  for (const DraftInput& input : draft.inputs) {
    node->in_refs.push_back(Owned::share(input.memory));
    node->sources.push_back(Owned::share(input.source));
  }
  for (const DraftOutput& out : draft.outs) {
    node->outs.push_back({out.kind, Owned::share(out.ref)});
    if (!PyObject_GC_IsTracked(out.ref)) PyObject_GC_Track(out.ref);
  }
  for (const DraftLeaf& each : draft.leaves) node->leaves.push_back(Owned::share(each.leaf));
  node->returned.assign(draft.returned.begin(), draft.returned.end());
  return owned;
}

bool set_gone() {
  PyErr_SetString(PyExc_RuntimeError, "the step ended while its records were made");
  return false;
}

// Makes the node and the record of a draft; the op before it has both. False with an error set.
bool complete(Matcher* self, Draft* draft) {
  if (draft->is_gone()) return set_gone();
  const auto& inputs = draft->inputs;
  const auto& outs = draft->outs;
  const auto in_refs =
      tuple_of(inputs.size(), [&](size_t i) { return Owned::share(inputs[i].memory); });
  const auto sources =
      tuple_of(inputs.size(), [&](size_t i) { return Owned::share(inputs[i].source); });
  const auto in_specs =
      tuple_of(inputs.size(), [&](size_t i) { return spec_from(inputs[i].geometry); });
  const auto kinds = tuple_of(outs.size(), [&](size_t i) {
    return Owned::take(Py_BuildValue("(iO)", outs[i].kind, outs[i].ref));
  });
  const auto out_specs = tuple_of(outs.size(), [&](size_t i) {
    return spec_from(ref_field(outs[i].ref, ref_layout.geometry));
  });
  const auto returned = tuple_of(draft->returned.size(), [&](size_t i) {
    return Owned::take(PyLong_FromSsize_t(draft->returned[i]));
  });
  const auto leaves = tuple_of(draft->leaves.size(), [&](size_t i) {
    return Owned::take(Py_BuildValue("(nO)", draft->leaves[i].slot, draft->leaves[i].leaf));
  });
  const auto plain = tuple_of(draft->arguments.size(), [&](size_t i) {
    return Owned::share(draft->arguments[i] ? draft->arguments[i] : Py_Ellipsis);
  });
  PyObject* named = draft->named_arguments ? draft->named_arguments.get() : Py_None;
  const Owned arguments = plain ? Owned::take(PyTuple_Pack(2, plain.get(), named)) : Owned();
  if (!in_refs || !sources || !in_specs || !kinds || !out_specs || !returned || !leaves ||
      !arguments)
    return false;
  OwnedNode node = node_of(*draft);
  if (!node) return false;
  const Node* before = draft->before.known_node();
  if (!before || !before->record) {
    PyErr_SetString(PyExc_RuntimeError, "the op before this one has no record");
    return false;
  }
  const Node* caused_by = draft->cause.known_node();
  PyObject* cause = caused_by && caused_by->record ? caused_by->record.get() : Py_None;
  node->record = Owned::take(PyObject_CallFunctionObjArgs(
      self->complete_node.get(), node.as_python(), draft->site->description.get(),
      before->record.get(), cause, arguments.get(), in_refs.get(), sources.get(),
      in_specs.get(), kinds.get(), out_specs.get(), returned.get(), leaves.get(), nullptr));
  if (!node->record) return false;
  if (draft->is_gone()) return set_gone();
  draft->node = std::move(node);
  return true;
}

}  // namespace

PyObject* record_of(Matcher* self, const StepOp& op) {
  std::vector<Draft*> waiting;
  for (StepOp each = op; !each.known_node(); each = each.draft->before) {
    if (!each.draft || each.draft->is_gone()) {
      set_gone();
      return nullptr;
    }
    waiting.push_back(each.draft);
  }
  while (!waiting.empty()) {
    if (!complete(self, waiting.back())) return nullptr;
    waiting.pop_back();
  }
  Node* node = op.known_node();
  if (!node) set_gone();
  return node ? node->record.get() : nullptr;
}

Node* last_node(Matcher* self) {
  if (self->tip) {
    Draft* tip = self->tip;
    if (!record_of(self, {nullptr, tip}) || self->tip != tip) return nullptr;
    self->at = OwnedNode::share(self->tip->node.get());
    self->tip = nullptr;
  }
  return self->at.get();
}

void drop_drafts(Matcher* self) {
  self->tip = nullptr;
  self->drafts.clear();
}

}  // namespace sonde_match
