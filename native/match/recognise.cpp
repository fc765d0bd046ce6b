#include "recognise.h"

namespace sonde_match {

namespace {

struct Names {
  PyObject* f_code;
  PyObject* f_lasti;
};
Names names;

// 1: stands where it was learned; 0: elsewhere; -1: error.
int stands_there(Matcher* self, Node* node) {
  PyObject* depth = PyLong_FromLong(node->depth - 1);
  if (!depth) return -1;
  PyObject* frame = PyObject_CallOneArg(self->getframe, depth);
  Py_DECREF(depth);
  if (!frame) {
    if (!PyErr_ExceptionMatches(PyExc_ValueError)) return -1;
    PyErr_Clear();
    return 0;
  }
  int same = 0;
  PyObject* code = PyObject_GetAttr(frame, names.f_code);
  if (code) {
    if (code == node->code) {
      PyObject* last = PyObject_GetAttr(frame, names.f_lasti);
      same = last && PyLong_AsLong(last) == node->last;
      Py_XDECREF(last);
    }
    Py_DECREF(code);
  }
  Py_DECREF(frame);
  return PyErr_Occurred() ? -1 : same;
}

// Asks Python a yes/no question about a node and the tensors at hand: 1, 0, or -1 with an error.
int ask_about(PyObject* question, Node* node, const Tensors& tensors) {
  PyObject* list = list_of(tensors.items);
  PyObject* keys = list_of_keys(tensors.keys);
  PyObject* answer = list && keys ? PyObject_CallFunctionObjArgs(question, node->record, list,
                                                                 keys, nullptr)
                                  : nullptr;
  Py_XDECREF(list);
  Py_XDECREF(keys);
  if (!answer) return -1;
  int yes = PyObject_IsTrue(answer);
  Py_DECREF(answer);
  return yes;
}

enum class Inputs { kOthers, kSame, kNew, kError };

// Whether the memory of the inputs holds what the node expects. kNew: some of it is met for the
// first time in this step. An input that is perhaps another view of its memory is asked about.
Inputs compare_inputs(Matcher* self, Node* node, const Tensors& tensors) {
  bool is_new = false, is_doubtful = false;
  for (size_t i = 0; i < tensors.keys.size(); ++i) {
    auto entry = self->current->find(tensors.keys[i]);
    if (entry == self->current->end()) {
      is_new = true;
      continue;
    }
    if (entry->second[0] != (*node->in_refs)[i]) return Inputs::kOthers;
    PyObject* source = (*node->sources)[i];
    if (entry->second.size() > 1 && source != Py_None && !is_doubtful) {
      uintptr_t impl;
      if (!sonde_tensor::impl_of(tensors.items[i], &impl)) return Inputs::kError;
      auto known = self->impl->find(impl);
      is_doubtful = known != self->impl->end() && known->second != source;
    }
  }
  if (is_doubtful) {
    int exact = ask_about(self->exact, node, tensors);
    if (exact < 0) return Inputs::kError;
    if (!exact) return Inputs::kOthers;
  }
  return is_new ? Inputs::kNew : Inputs::kSame;
}

}  // namespace

Node* find(Matcher* self, PyObject* func, Tensors& tensors) {
  for (size_t position = 0; position < self->at->next->size(); ++position) {
    Node* node = (*self->at->next)[position];
    if (node->func != func || node->in_refs->size() != tensors.keys.size()) continue;
    if (node->depth) {
      if (node->scope != self->scope) continue;
      int there = stands_there(self, node);
      if (there < 0) return nullptr;
      if (!there) continue;
    }
    Inputs inputs = compare_inputs(self, node, tensors);
    if (inputs == Inputs::kError) return nullptr;
    if (inputs == Inputs::kOthers) continue;
    if (inputs == Inputs::kNew) {
      int bound = ask_about(self->bind, node, tensors);
      if (bound < 0) return nullptr;
      if (!bound) continue;
    }
    return node;
  }
  return nullptr;
}

bool make_frame_names() {
  names.f_code = PyUnicode_InternFromString("f_code");
  names.f_lasti = PyUnicode_InternFromString("f_lasti");
  return names.f_code && names.f_lasti;
}

}  // namespace sonde_match
