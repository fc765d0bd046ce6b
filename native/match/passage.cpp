#include "passage.h"

#include "tables.h"

#include <cstring>
#include <new>

namespace sonde_match {

namespace {

bool lane_leaves(Node* node, const Tensors& tensors, Passage* passage) {
  sonde_lane::Lane* lane = node->lane;
  sonde_lane::Given given;
  given.is_made = true;
  for (LaneLeaf& leaf : *node->lane_leaves) {
    size_t slot = static_cast<size_t>(leaf.slot);
    if (slot >= tensors.items.size() || !lane->takes_outputs) continue;
    int met = PySet_GET_SIZE(lane->met) && leaf.ref ? PySet_Contains(lane->met, leaf.ref) : 0;
    if (met < 0) return false;
    if (met) continue;
    if (!sonde_lane::take(lane, &leaf.text, leaf.node, sonde_lane::strings.output, 0,
                          tensors.items[slot], tensors.keys[slot], leaf.ref, given,
                          &passage->is_bad))
      return false;
  }
  return true;
}

bool lane_inputs(Node* node, const Tensors& tensors, Passage* passage) {
  sonde_lane::Lane* lane = node->lane;
  if (!sonde_lane::set_stamp(lane) || !lane_leaves(node, tensors, passage)) return false;
  passage->rows = PyList_GET_SIZE(lane->heads);
  bool rearranges = node->rearranges && !tensors.items.empty();
  if (!lane->takes_inputs)
    return !rearranges || sonde_lane::recall(lane, tensors.items[0], tensors.keys[0],
                                             (*node->tokens_in)[0], &passage->like);
  for (size_t i = 0; i < tensors.items.size(); ++i)
    if (!sonde_lane::take(lane, &(*node->slots)[i], node->lane_node, sonde_lane::strings.input,
                          static_cast<Py_ssize_t>(i), tensors.items[i], tensors.keys[i],
                          (*node->tokens_in)[i], {}, &passage->is_bad,
                          rearranges && i == 0 ? &passage->like : nullptr))
      return false;
  return true;
}

bool lane_outputs(Node* node, const std::vector<PyObject*>& results,
                  const std::vector<uintptr_t>& keys, Passage* passage) {
  sonde_lane::Lane* lane = node->lane;
  if (!lane->takes_outputs) return true;
  size_t inputs = node->in_refs->size();
  sonde_lane::Given given;
  given.is_made = true;
  given.like = results.size() == 1 ? passage->like : nullptr;
  for (size_t i = 0; i < results.size(); ++i) {
    given.is_new = (*node->outs)[i].kind == kFresh;
    if (!sonde_lane::take(lane, &(*node->slots)[inputs + i], node->lane_node,
                          sonde_lane::strings.output, static_cast<Py_ssize_t>(i), results[i],
                          keys[i], (*node->tokens_out)[i], given, &passage->is_bad))
      return false;
  }
  return true;
}

// Copies what the op writes to: all of it, or nothing where a tensor is not plain.
sonde_lane::Copied lane_copies(Node* node, const Tensors& tensors, Passage* passage) {
  using sonde_lane::Copied;
  std::vector<sonde_lane::Copy>& copies = passage->copies;
  size_t needed = 0;
  for (size_t i = 0; i < tensors.items.size(); ++i) {
    bool is_written = false;
    for (Py_ssize_t slot : *node->writes)
      is_written |= tensors.keys[static_cast<size_t>(slot)] == tensors.keys[i];
    if (!is_written) continue;
    copies.emplace_back();
    copies.back().slot = static_cast<Py_ssize_t>(i);
    copies.back().offset = needed;
    Copied fit = sonde_lane::measure(node->lane, tensors.items[i], &copies.back());
    if (fit != Copied::kDone) {
      for (sonde_lane::Copy& copy : copies) copy.clear();
      copies.clear();
      return fit;
    }
    needed += (copies.back().size + 63) / 64 * 64;
  }
  std::vector<char>& arena = *node->lane->arena;
  if (arena.size() < needed) {
    try {
      arena.resize(needed);
    } catch (const std::bad_alloc&) {
      PyErr_NoMemory();
      return Copied::kError;
    }
  }
  for (sonde_lane::Copy& copy : copies)
    if (copy.size)
      std::memcpy(arena.data() + copy.offset, reinterpret_cast<void*>(copy.address), copy.size);
  return Copied::kDone;
}

}  // namespace

bool lane_raised(Node* node, const Passage& passage) {
  for (LaneLeaf& leaf : *node->lane_leaves)
    if (leaf.ref && PySet_Add(node->lane->met, leaf.ref) < 0) return false;
  return sonde_lane::truncate(node->lane, passage.rows);
}

bool restore(Matcher* self, Node* node, const Tensors& tensors, Passage* passage) {
  if (passage->kept || passage->copies.empty() || !node->lane) return true;
  PyObject* list = list_of(tensors.items);
  PyObject* copies = PyList_New(0);
  bool ok = list && copies;
  for (sonde_lane::Copy& copy : passage->copies) {
    PyObject* bytes = ok ? PyByteArray_FromStringAndSize(node->lane->arena->data() + copy.offset,
                                                         static_cast<Py_ssize_t>(copy.size))
                         : nullptr;
    PyObject* item = bytes ? Py_BuildValue("(nOOO)", copy.slot, bytes, copy.dtype, copy.shape)
                           : nullptr;
    ok = item && PyList_Append(copies, item) == 0;
    Py_XDECREF(item);
    Py_XDECREF(bytes);
  }
  if (ok) passage->kept = PyObject_CallFunctionObjArgs(self->restored, list, copies, nullptr);
  Py_XDECREF(list);
  Py_XDECREF(copies);
  return passage->kept != nullptr;
}

bool before(Matcher* self, Node* node, const Tensors& tensors, Passage* passage) {
  if (node->generation != self->generation) {
    PyObject* done = PyObject_CallOneArg(self->ask, node->record);
    if (!done) return false;
    Py_DECREF(done);
  }
  bool has_lane = node->lane != nullptr;
  bool is_watch = has_lane && node->lane->is_watch;
  if (has_lane && !lane_inputs(node, tensors, passage)) return false;
  bool leaves = node->leaves_wanted && (!has_lane || (is_watch && passage->is_bad));
  bool writes = node->has_writes && ((node->wanted && (!has_lane || is_watch)) || self->lends);
  if (writes && is_watch && !self->lends) {
    sonde_lane::Copied copied = lane_copies(node, tensors, passage);
    if (copied == sonde_lane::Copied::kError) return false;
    writes = copied == sonde_lane::Copied::kNot;
  }
  if (!leaves && !writes) return true;
  PyObject* list = list_of(tensors.items);
  if (!list) return false;
  if (leaves) {
    PyObject* done = PyObject_CallFunctionObjArgs(self->leaves, node->record, list, nullptr);
    if (!done) {
      Py_DECREF(list);
      return false;
    }
    Py_DECREF(done);
  }
  if (writes) {
    PyObject* keys = list_of_keys(tensors.keys);
    passage->kept =
        keys ? PyObject_CallFunctionObjArgs(self->kept, node->record, list, keys, nullptr)
             : nullptr;
    Py_XDECREF(keys);
  }
  Py_DECREF(list);
  return !writes || passage->kept;
}

PyObject* seen_tuple(Node* node, const Tensors& tensors, PyObject* kept) {
  PyObject* list = list_of(tensors.items);
  PyObject* keys = list_of_keys(tensors.keys);
  PyObject* seen = list && keys ? PyTuple_Pack(4, node->record, list, keys, kept ? kept : list)
                                : nullptr;
  Py_XDECREF(list);
  Py_XDECREF(keys);
  return seen;
}

namespace {

// Whether the result's tensors are as the node expects; fills `results` (borrowed).
bool collect(Matcher* self, Node* node, PyObject* result, const Tensors& tensors,
             std::vector<PyObject*>& results) {
  if (result != Py_None && flatten(self, result, results) == Flat::kOdd) return false;
  if (PyTuple_CheckExact(result) || PyList_CheckExact(result)) {
    // A list inside the result is not flattened here: leave it to the slow path.
    PyObject* fast = result;
    Py_ssize_t size = PyTuple_CheckExact(fast) ? PyTuple_GET_SIZE(fast) : PyList_GET_SIZE(fast);
    for (Py_ssize_t i = 0; i < size; ++i) {
      PyObject* item = PyTuple_CheckExact(fast) ? PyTuple_GET_ITEM(fast, i)
                                                : PyList_GET_ITEM(fast, i);
      if (PyTuple_CheckExact(item) || PyList_CheckExact(item)) return false;
    }
  }
  for (Py_ssize_t slot : *node->returned) {
    if (static_cast<size_t>(slot) >= tensors.items.size()) return false;
    results.push_back(tensors.items[static_cast<size_t>(slot)]);
  }
  return results.size() == node->outs->size();
}

bool emit(Matcher* self, Node* node, const Tensors& tensors, PyObject* kept,
          const std::vector<PyObject*>& results, PyObject* args, PyObject* kwargs) {
  PyObject* inputs = kept ? Py_NewRef(kept) : list_of(tensors.items);
  PyObject* outputs = list_of(results);
  PyObject* done = inputs && outputs
                       ? PyObject_CallFunctionObjArgs(self->emit, node->record, inputs, outputs,
                                                      args, kwargs ? kwargs : Py_None, nullptr)
                       : nullptr;
  Py_XDECREF(inputs);
  Py_XDECREF(outputs);
  Py_XDECREF(done);
  return done != nullptr;
}

}  // namespace

bool after(Matcher* self, Node* node, const Tensors& tensors, Passage* passage, PyObject* result,
           PyObject* args, PyObject* kwargs) {
  std::vector<PyObject*> results;
  std::vector<uintptr_t> keys;
  if (node->is_collective || !collect(self, node, result, tensors, results) ||
      !add_keys(results, keys)) {
    // Python does the whole of it: what the shortcut has written of the inputs would stand twice.
    if (node->lane && !sonde_lane::truncate(node->lane, passage->rows)) return false;
    if (!restore(self, node, tensors, passage)) return false;
    PyObject* seen = seen_tuple(node, tensors, passage->kept);
    PyObject* done = seen ? PyObject_CallFunctionObjArgs(self->after, seen, result, args,
                                                         kwargs ? kwargs : Py_None, nullptr)
                          : nullptr;
    Py_XDECREF(seen);
    Py_XDECREF(done);
    return done != nullptr;
  }
  for (size_t i = 0; i < results.size(); ++i)
    if (!register_output(self, (*node->outs)[i], results[i], keys[i])) return false;
  if (!note_sequence(self, node->record)) return false;
  Node* old = self->at;
  self->at = reinterpret_cast<Node*>(Py_NewRef(reinterpret_cast<PyObject*>(node)));
  Py_XDECREF(old);
  if (node->lane) {
    if (!lane_outputs(node, results, keys, passage)) return false;
    if (!passage->is_bad) return true;
    if (!restore(self, node, tensors, passage)) return false;
  }
  return !node->wanted || emit(self, node, tensors, passage->kept, results, args, kwargs);
}

}  // namespace sonde_match
