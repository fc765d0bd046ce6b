#include "draft_run.h"

#include "drafting.h"
#include "tables.h"
#include "tensor_ref.h"

namespace sonde_match {

namespace {

// A program may have step inputs, or ops in a step, without end.
constexpr size_t kMostLabels = 100000;

// The labels of an op of a draft; null with an error set.
NamedOp* named_op(Matcher* self, const Draft& draft) {
  auto& all = draft.site->named;
  const long number = ops_counted(self, draft.site->group);
  if (all.size() >= kMostLabels && !all.count(number)) all.clear();
  NamedOp& named = all[number];
  if (!named.op_node) {
    const Owned count = Owned::take(PyLong_FromLong(number));
    if (count)
      named.op_node = Owned::take(PyObject_CallFunctionObjArgs(
          self->name_op.get(), draft.site->description.get(), count.get(), nullptr));
  }
  return named.op_node ? &named : nullptr;
}

RowLabel* label_at(std::vector<RowLabel>* labels, size_t slot) {
  if (labels->size() <= slot) labels->resize(slot + 1);
  return &(*labels)[slot];
}

// The step has ended inside of an op, and another has begun, which has nothing yet but what was
// collected of this op since.
Copied drop_collected(RowCollector* rows) {
  rows->truncate(0);
  return Copied::kNotPlain;
}

// before_draft for a sink that collects rows.
Copied collect_draft(Matcher* self, const Draft& draft, const Tensors& tensors, OpRun* run) {
  if (!draft.site->writes.empty() && self->lends) return Copied::kNotPlain;
  run->rows = sonde::OwnedObject<RowCollector>::share(self->every_row.get());
  RowCollector* rows = run->rows.get();
  run->named = named_op(self, draft);
  if (!run->named || !begin_op(rows)) return Copied::kError;
  if (draft.is_gone()) return drop_collected(rows);
  Provenance output;
  output.is_output = true;
  for (const DraftLeaf& each : draft.leaves) {
    if (!rows->takes_outputs) break;
    const auto slot = static_cast<size_t>(each.slot);
    PyObject* token = draft.inputs[slot].memory;
    const int met = PySet_Contains(rows->context.met.get(), token);
    const TensorUse use = {ref_field(each.leaf, ref_layout.leaf_node), io_names.output, 0,
                           tensors.items[slot],  tensors.keys[slot], token};
    if (self->leaf_labels.size() >= kMostLabels) self->leaf_labels.clear();
    if (met < 0 || (!met && !collect(rows, &self->leaf_labels[each.leaf], use, output)))
      return Copied::kError;
    if (draft.is_gone()) return drop_collected(rows);
  }
  run->entries = rows->labels.size();
  const bool rearranges = draft.site->rearranges && !tensors.items.empty();
  if (!rows->takes_inputs) {
    const bool ok = !rearranges || recall(rows->context, rows->cache, tensors.items[0],
                                          tensors.keys[0], token_of(draft.inputs[0]),
                                          &run->arranged);
    return ok ? Copied::kDone : Copied::kError;
  }
  for (size_t i = 0; i < tensors.items.size(); ++i) {
    const TensorUse use = {run->named->op_node.get(), io_names.input,
                           static_cast<Py_ssize_t>(i), tensors.items[i],
                           tensors.keys[i],           token_of(draft.inputs[i])};
    if (!collect(rows, label_at(&run->named->inputs, i), use, {},
                 rearranges && i == 0 ? &run->arranged : nullptr))
      return Copied::kError;
    if (draft.is_gone()) return drop_collected(rows);
  }
  return Copied::kDone;
}

}  // namespace

bool take_back_draft(const Draft& draft, OpRun* run) {
  if (!run->rows) return true;
  for (const DraftLeaf& each : draft.leaves) {
    PyObject* token = draft.inputs[static_cast<size_t>(each.slot)].memory;
    if (PySet_Add(run->rows->context.met.get(), token) < 0) return false;
  }
  run->rows->truncate(run->entries);
  return true;
}

Copied before_draft(Matcher* self, const Draft& draft, const Tensors& tensors, OpRun* run) {
  if (self->every_row) return collect_draft(self, draft, tensors, run);
  run->screen = sonde::OwnedObject<Screen>::share(self->every_op.get());
  Screen* screen = run->screen.get();
  const Context& context = screen->screening->context;
  Provenance output;
  output.is_output = true;
  for (const DraftLeaf& each : draft.leaves) {
    const auto slot = static_cast<size_t>(each.slot);
    PyObject* token = draft.inputs[slot].memory;
    const int met =
        PySet_GET_SIZE(context.met.get()) ? PySet_Contains(context.met.get(), token) : 0;
    const TensorUse use = {ref_field(each.leaf, ref_layout.leaf_node), io_names.output, 0,
                           tensors.items[slot],  tensors.keys[slot], token};
    if (met < 0 || (!met && !screen_tensor(screen, use, output, &run->is_wanted)))
      return Copied::kError;
  }
  const bool rearranges = draft.site->rearranges && !tensors.items.empty();
  if (!screen->takes_inputs) {
    if (rearranges && !recall(context, screen->screening->cache, tensors.items[0],
                              tensors.keys[0], token_of(draft.inputs[0]), &run->arranged))
      return Copied::kError;
  } else {
    for (size_t i = 0; i < tensors.items.size(); ++i) {
      const TensorUse use = {Py_None,          io_names.input,  static_cast<Py_ssize_t>(i),
                             tensors.items[i], tensors.keys[i], token_of(draft.inputs[i])};
      if (!screen_tensor(screen, use, {}, &run->is_wanted,
                         rearranges && i == 0 ? &run->arranged : nullptr))
        return Copied::kError;
    }
  }
  const bool writes = !draft.site->writes.empty();
  if (run->is_wanted || (writes && self->lends)) return Copied::kNotPlain;
  return writes ? copy_written(screen, draft.site->writes, tensors, run) : Copied::kDone;
}

bool finish_draft(Matcher* self, Draft* draft, const Tensors& tensors, OpRun* run,
                  const Items& results, const Keys& keys, PyObject* args, PyObject* kwargs) {
  for (size_t i = 0; i < results.size(); ++i)
    if (!register_output(self, draft->outs[i].kind, draft->outs[i].ref, results[i], keys[i]))
      return false;
  if (!note_sequence(self, {nullptr, draft})) return false;
  if (run->rows && !run->rows->takes_outputs) return true;
  Provenance provenance;
  provenance.is_output = true;
  provenance.arranged = results.size() == 1 ? run->arranged : nullptr;
  for (size_t i = 0; i < results.size(); ++i) {
    const DraftOutput& out = draft->outs[i];
    provenance.is_fresh = out.kind == kFresh;
    const TensorUse use = {
        run->named ? run->named->op_node.get() : Py_None,
        io_names.output,
        static_cast<Py_ssize_t>(i),
        results[i],
        keys[i],
        is_true(out.ref, ref_layout.is_unfilled) ? Py_False : out.ref};
    const bool ok =
        run->rows ? collect(run->rows.get(), label_at(&run->named->outputs, i), use, provenance)
                  : screen_tensor(run->screen.get(), use, provenance, &run->is_wanted);
    if (!ok) return false;
    if (draft->is_gone()) return true;
  }
  if (!run->is_wanted) return true;
  PyObject* record = restore_written(self, tensors, run) ? record_of(self, {nullptr, draft}) : nullptr;
  if (!record) return false;
  return draft->is_gone() || !draft->node->wanted ||
         emit(self, record, tensors, run->inputs_before, results, args, kwargs);
}

}  // namespace sonde_match
