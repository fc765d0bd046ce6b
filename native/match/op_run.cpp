#include "op_run.h"

#include "provisional.h"
#include "tables.h"

#include <cstring>
#include <new>

namespace sonde_match {

namespace {

// Whether a leaf of this op is still to be emitted in this step: 1, 0, or -1 with an error set. An
// op that raised may have emitted it (take_back_inputs).
int is_leaf_due(const Context& context, const FastLeaf& leaf, const Tensors& tensors) {
  if (static_cast<size_t>(leaf.slot) >= tensors.items.size()) return 0;
  if (!leaf.token || !PySet_GET_SIZE(context.met.get())) return 1;
  int met = PySet_Contains(context.met.get(), leaf.token.get());
  return met < 0 ? -1 : !met;
}

TensorUse use_of_leaf(const FastLeaf& leaf, const Tensors& tensors) {
  const size_t slot = static_cast<size_t>(leaf.slot);
  return {leaf.node.get(),    io_names.output,    0,
          tensors.items[slot], tensors.keys[slot], leaf.token.get()};
}

TensorUse use_of_input(const Node* node, const Tensors& tensors, size_t i) {
  return {node->op_node.get(), io_names.input,  static_cast<Py_ssize_t>(i),
          tensors.items[i],    tensors.keys[i], node->tokens_in[i].get()};
}

// Where only outputs are taken: what is known of the tensor that the op rearranges.
bool recall_arranged(const Context& context, const Cache& cache, const Node* node,
                     const Tensors& tensors, OpRun* run) {
  return recall(context, cache, tensors.items[0], tensors.keys[0], node->tokens_in[0].get(),
                &run->arranged);
}

bool collect_inputs(Node* node, const Tensors& tensors, OpRun* run) {
  RowCollector* rows = node->rows.get();
  if (!begin_op(rows)) return false;
  Provenance output;
  output.is_output = true;
  for (FastLeaf& leaf : node->fast_leaves) {
    if (!rows->takes_outputs) break;
    int due = is_leaf_due(rows->context, leaf, tensors);
    if (due < 0 || (due && !collect(rows, &leaf.label, use_of_leaf(leaf, tensors), output)))
      return false;
  }
  run->entries = rows->labels.size();
  const bool rearranges = node->rearranges && !tensors.items.empty();
  if (!rows->takes_inputs)
    return !rearranges || recall_arranged(rows->context, rows->cache, node, tensors, run);
  for (size_t i = 0; i < tensors.items.size(); ++i)
    if (!collect(rows, &node->labels[i], use_of_input(node, tensors, i), {},
                 rearranges && i == 0 ? &run->arranged : nullptr))
      return false;
  return true;
}

bool screen_inputs(Node* node, const Tensors& tensors, OpRun* run) {
  Screen* screen = node->screen.get();
  const Context& context = screen->screening->context;
  Provenance output;
  output.is_output = true;
  for (FastLeaf& leaf : node->fast_leaves) {
    int due = is_leaf_due(context, leaf, tensors);
    if (due < 0 ||
        (due && !screen_tensor(screen, use_of_leaf(leaf, tensors), output, &run->is_wanted)))
      return false;
  }
  const bool rearranges = node->rearranges && !tensors.items.empty();
  if (!screen->takes_inputs)
    return !rearranges || recall_arranged(context, screen->screening->cache, node, tensors, run);
  for (size_t i = 0; i < tensors.items.size(); ++i)
    if (!screen_tensor(screen, use_of_input(node, tensors, i), {}, &run->is_wanted,
                       rearranges && i == 0 ? &run->arranged : nullptr))
      return false;
  return true;
}

// Hands the outputs to the fast path; false with an error set.
bool take_outputs(Node* node, const std::vector<PyObject*>& results,
                  const std::vector<uintptr_t>& keys, OpRun* run) {
  if (node->rows && !node->rows->takes_outputs) return true;
  const size_t inputs = node->in_refs.size();
  Provenance provenance;
  provenance.is_output = true;
  provenance.arranged = results.size() == 1 ? run->arranged : nullptr;
  for (size_t i = 0; i < results.size(); ++i) {
    provenance.is_fresh = node->outs[i].kind == kFresh;
    const TensorUse use = {node->op_node.get(), io_names.output, static_cast<Py_ssize_t>(i),
                           results[i],          keys[i],         node->tokens_out[i].get()};
    const bool ok =
        node->rows ? collect(node->rows.get(), &node->labels[inputs + i], use, provenance)
                   : screen_tensor(node->screen.get(), use, provenance, &run->is_wanted);
    if (!ok) return false;
  }
  return true;
}

// Copies what the op writes to: all of it, or nothing where a tensor is not plain.
Copied copy_written(Node* node, const Tensors& tensors, OpRun* run) {
  Screening* screening = node->screen->screening.get();
  std::vector<Copy>& copies = run->copies;
  size_t needed = 0;
  for (size_t i = 0; i < tensors.items.size(); ++i) {
    bool is_written = false;
    for (Py_ssize_t slot : node->writes)
      is_written |= tensors.keys[static_cast<size_t>(slot)] == tensors.keys[i];
    if (!is_written) continue;
    copies.emplace_back();
    copies.back().slot = static_cast<Py_ssize_t>(i);
    copies.back().offset = needed;
    Copied planned = plan_copy(screening->context, tensors.items[i], &copies.back());
    if (planned != Copied::kDone) {
      copies.clear();
      return planned;
    }
    needed += (copies.back().size + 63) / 64 * 64;
  }
  std::vector<char>& arena = screening->arena;
  if (arena.size() < needed) {
    try {
      arena.resize(needed);
    } catch (const std::bad_alloc&) {
      PyErr_NoMemory();
      return Copied::kError;
    }
  }
  for (const Copy& copy : copies) copy.write(arena.data() + copy.offset);
  return Copied::kDone;
}

}  // namespace

bool take_back_inputs(Node* node, const OpRun& run) {
  if (!node->has_fast_path()) return true;
  const Context& context = node->rows ? node->rows->context : node->screen->screening->context;
  for (const FastLeaf& leaf : node->fast_leaves)
    if (leaf.token && PySet_Add(context.met.get(), leaf.token.get()) < 0) return false;
  if (node->rows) node->rows->truncate(run.entries);
  return true;
}

bool restore_written(Matcher* self, Node* node, const Tensors& tensors, OpRun* run) {
  if (run->inputs_before || run->copies.empty() || !node->screen) return true;
  const Owned list = list_of(tensors.items);
  const Owned copies = Owned::take(PyList_New(0));
  if (!list || !copies) return false;
  for (const Copy& copy : run->copies) {
    const Owned bytes = Owned::take(
        PyByteArray_FromStringAndSize(node->screen->screening->arena.data() + copy.offset,
                                      static_cast<Py_ssize_t>(copy.size)));
    if (!bytes) return false;
    const Owned item = Owned::take(Py_BuildValue("(nOOO)", copy.slot, bytes.get(),
                                                 copy.dtype.get(), copy.shape.get()));
    if (!item || PyList_Append(copies.get(), item.get()) < 0) return false;
  }
  run->inputs_before = Owned::take(PyObject_CallFunctionObjArgs(
      self->restore_written.get(), list.get(), copies.get(), nullptr));
  return static_cast<bool>(run->inputs_before);
}

bool before_op(Matcher* self, Node* node, const Tensors& tensors, OpRun* run) {
  if (node->generation != self->generation &&
      !Owned::take(PyObject_CallOneArg(self->find_wants.get(), node->record.get())))
    return false;
  if (node->rows && !collect_inputs(node, tensors, run)) return false;
  if (node->screen && !screen_inputs(node, tensors, run)) return false;
  const bool emits_leaves =
      node->leaves_wanted && (!node->has_fast_path() || (node->screen && run->is_wanted));
  bool keeps_written =
      node->has_writes && ((node->wanted && !node->rows) || self->lends);
  if (keeps_written && node->screen && !self->lends) {
    Copied copied = copy_written(node, tensors, run);
    if (copied == Copied::kError) return false;
    keeps_written = copied == Copied::kNotPlain;
  }
  if (!emits_leaves && !keeps_written) return true;
  const Owned list = list_of(tensors.items);
  if (!list) return false;
  if (emits_leaves &&
      !Owned::take(PyObject_CallFunctionObjArgs(self->emit_leaves.get(), node->record.get(),
                                                list.get(), nullptr)))
    return false;
  if (!keeps_written) return true;
  const Owned keys = list_of_keys(tensors.keys);
  if (!keys) return false;
  run->inputs_before = Owned::take(PyObject_CallFunctionObjArgs(
      self->keep_written.get(), node->record.get(), list.get(), keys.get(), nullptr));
  return static_cast<bool>(run->inputs_before);
}

Copied before_provisional(Matcher* self, Node* node, const Tensors& tensors, OpRun* run) {
  if (!screen_inputs(node, tensors, run)) return Copied::kError;
  if (run->is_wanted || (node->has_writes && self->lends)) return Copied::kNotPlain;
  return node->has_writes ? copy_written(node, tensors, run) : Copied::kDone;
}

Owned begun_tuple(Node* node, const Tensors& tensors, const Owned& inputs_before) {
  const Owned list = list_of(tensors.items);
  const Owned keys = list_of_keys(tensors.keys);
  if (!list || !keys || !record_of(node)) return {};
  return Owned::take(PyTuple_Pack(4, node->record.get(), list.get(), keys.get(),
                                  inputs_before ? inputs_before.get() : list.get()));
}

bool has_nested_list(PyObject* result) {
  const bool is_tuple = PyTuple_CheckExact(result);
  if (!is_tuple && !PyList_CheckExact(result)) return false;
  const Py_ssize_t size = is_tuple ? PyTuple_GET_SIZE(result) : PyList_GET_SIZE(result);
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = is_tuple ? PyTuple_GET_ITEM(result, i) : PyList_GET_ITEM(result, i);
    if (PyTuple_CheckExact(item) || PyList_CheckExact(item)) return true;
  }
  return false;
}

namespace {

// Whether the result's tensors are as the node expects; fills `results` (borrowed).
bool read_results(Matcher* self, Node* node, PyObject* result, const Tensors& tensors,
                  std::vector<PyObject*>& results) {
  if (result != Py_None && flatten(self, result, results) == Flat::kOdd) return false;
  // A list inside the result is not flattened here: leave it to the slow path.
  if (has_nested_list(result)) return false;
  for (Py_ssize_t slot : node->returned) {
    if (static_cast<size_t>(slot) >= tensors.items.size()) return false;
    results.push_back(tensors.items[static_cast<size_t>(slot)]);
  }
  return results.size() == node->outs.size();
}

bool emit(Matcher* self, Node* node, const Tensors& tensors, const Owned& inputs_before,
          const std::vector<PyObject*>& results, PyObject* args, PyObject* kwargs) {
  const Owned inputs =
      inputs_before ? Owned::share(inputs_before.get()) : list_of(tensors.items);
  const Owned outputs = list_of(results);
  return inputs && outputs && record_of(node) &&
         Owned::take(PyObject_CallFunctionObjArgs(self->emit_op.get(), node->record.get(),
                                                  inputs.get(), outputs.get(), args,
                                                  kwargs ? kwargs : Py_None, nullptr));
}

// Lets Python handle the whole op. The entries that the fast path made of its inputs are removed
// first: Python would add them again.
bool after_in_python(Matcher* self, Node* node, const Tensors& tensors, OpRun* run,
                     PyObject* result, PyObject* args, PyObject* kwargs) {
  if (node->rows) node->rows->truncate(run->entries);
  if (!restore_written(self, node, tensors, run)) return false;
  const Owned begun = begun_tuple(node, tensors, run->inputs_before);
  return begun &&
         Owned::take(PyObject_CallFunctionObjArgs(self->after_op.get(), begun.get(), result, args,
                                                  kwargs ? kwargs : Py_None, nullptr));
}

}  // namespace

bool after_op(Matcher* self, Node* node, const Tensors& tensors, OpRun* run, PyObject* result,
              PyObject* args, PyObject* kwargs) {
  std::vector<PyObject*> results;
  std::vector<uintptr_t> keys;
  if (node->is_collective || !read_results(self, node, result, tensors, results) ||
      !add_keys(results, keys))
    return after_in_python(self, node, tensors, run, result, args, kwargs);
  self->at = OwnedNode::share(node);
  return note_leaves(self, node) &&
         finish_op(self, node, tensors, run, results, keys, args, kwargs);
}

bool finish_op(Matcher* self, Node* node, const Tensors& tensors, OpRun* run,
               const std::vector<PyObject*>& results, const std::vector<uintptr_t>& keys,
               PyObject* args, PyObject* kwargs) {
  for (size_t i = 0; i < results.size(); ++i)
    if (!register_output(self, node->outs[i], results[i], keys[i])) return false;
  if (!note_sequence(self, node)) return false;
  if (node->has_fast_path()) {
    if (!take_outputs(node, results, keys, run)) return false;
    if (!run->is_wanted) return true;
    if (!restore_written(self, node, tensors, run)) return false;
  }
  return !node->wanted ||
         emit(self, node, tensors, run->inputs_before, results, args, kwargs);
}

}  // namespace sonde_match
