// The hot path of eager capture: recognises ops that were learned before.
//
// Behaves as sonde/adapters/torch/memory.py and the slow path of eager.py, which are its twin and
// are used where this module could not be built. It knows torch only through Python objects: it
// does not link against it.
//
// Everything runs under the GIL, on the training thread. References to Ref and Record objects in
// the tables of a step are borrowed: the tree of records owns them, and changes only between steps
// or by growing.

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "lane.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <new>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace {

enum Kind : int { kFresh = 0, kAlias = 1, kWritten = 2 };

struct Names {
  PyObject* op;
  PyObject* f_code;
  PyObject* f_lasti;
};
Names names;

// ------------------------------------------------------------------------------------- Node

struct Out {
  int kind;
  PyObject* ref;
};

struct LaneLeaf {
  Py_ssize_t slot;
  PyObject* ref;
  PyObject* node;
  sonde_lane::Slot text;
};

struct Node {
  PyObject_HEAD
  PyObject* record;
  PyObject* func;
  PyObject* op;
  PyObject* scope;
  PyObject* code;
  long last;
  long depth;
  long generation;
  int wanted;
  int leaves_wanted;
  int has_leaves;
  int has_writes;
  int is_collective;
  std::vector<PyObject*>* in_refs;
  std::vector<PyObject*>* sources;  // None where the very tensor is not known
  std::vector<Out>* outs;
  std::vector<Py_ssize_t>* returned;
  std::vector<Node*>* next;
  sonde_lane::Lane* lane;  // the shortcut this op takes, or null
  PyObject* lane_node;     // the OpNode
  int rearranges;
  std::vector<Py_ssize_t>* writes;     // the slots of inputs the op writes to
  std::vector<PyObject*>* tokens_in;   // null where nobody knows the contents
  std::vector<PyObject*>* tokens_out;
  std::vector<sonde_lane::Slot>* slots;  // inputs, then outputs
  std::vector<LaneLeaf>* lane_leaves;
};

void leave_lane(Node* node) {
  Py_CLEAR(node->lane);
  Py_CLEAR(node->lane_node);
  node->writes->clear();
  for (PyObject* token : *node->tokens_in) Py_XDECREF(token);
  node->tokens_in->clear();
  for (PyObject* token : *node->tokens_out) Py_XDECREF(token);
  node->tokens_out->clear();
  for (sonde_lane::Slot& slot : *node->slots) slot.clear();
  node->slots->clear();
  for (LaneLeaf& leaf : *node->lane_leaves) {
    Py_XDECREF(leaf.ref);
    Py_XDECREF(leaf.node);
    leaf.text.clear();
  }
  node->lane_leaves->clear();
}

int Node_traverse(Node* self, visitproc visit, void* arg) {
  Py_VISIT(self->record);
  Py_VISIT(self->func);
  Py_VISIT(self->op);
  Py_VISIT(self->scope);
  Py_VISIT(self->code);
  Py_VISIT(reinterpret_cast<PyObject*>(self->lane));
  Py_VISIT(self->lane_node);
  if (self->in_refs) for (PyObject* ref : *self->in_refs) Py_VISIT(ref);
  if (self->sources) for (PyObject* ref : *self->sources) Py_VISIT(ref);
  if (self->outs) for (Out& out : *self->outs) Py_VISIT(out.ref);
  if (self->next) for (Node* node : *self->next) Py_VISIT(reinterpret_cast<PyObject*>(node));
  return 0;
}

int Node_clear(Node* self) {
  if (self->lane_leaves) leave_lane(self);
  Py_CLEAR(self->record);
  Py_CLEAR(self->func);
  Py_CLEAR(self->op);
  Py_CLEAR(self->scope);
  Py_CLEAR(self->code);
  if (self->in_refs) {
    std::vector<PyObject*> refs;
    refs.swap(*self->in_refs);
    for (PyObject* ref : refs) Py_DECREF(ref);
  }
  if (self->sources) {
    std::vector<PyObject*> refs;
    refs.swap(*self->sources);
    for (PyObject* ref : refs) Py_DECREF(ref);
  }
  if (self->outs) {
    std::vector<Out> outs;
    outs.swap(*self->outs);
    for (Out& out : outs) Py_DECREF(out.ref);
  }
  // A long chain of nodes is taken apart with a list, not by recursion.
  if (self->next && !self->next->empty()) {
    std::vector<Node*> waiting;
    waiting.swap(*self->next);
    while (!waiting.empty()) {
      Node* node = waiting.back();
      waiting.pop_back();
      if (Py_REFCNT(node) == 1 && node->next) {
        waiting.insert(waiting.end(), node->next->begin(), node->next->end());
        node->next->clear();
      }
      Py_DECREF(node);
    }
  }
  return 0;
}

void Node_dealloc(Node* self) {
  PyObject_GC_UnTrack(self);
  Node_clear(self);
  delete self->in_refs;
  delete self->sources;
  delete self->outs;
  delete self->returned;
  delete self->next;
  delete self->writes;
  delete self->tokens_in;
  delete self->tokens_out;
  delete self->slots;
  delete self->lane_leaves;
  Py_TYPE(self)->tp_free(reinterpret_cast<PyObject*>(self));
}

PyObject* Node_new(PyTypeObject* type, PyObject*, PyObject*) {
  Node* self = reinterpret_cast<Node*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->in_refs = new std::vector<PyObject*>();
  self->sources = new std::vector<PyObject*>();
  self->outs = new std::vector<Out>();
  self->returned = new std::vector<Py_ssize_t>();
  self->next = new std::vector<Node*>();
  self->writes = new std::vector<Py_ssize_t>();
  self->tokens_in = new std::vector<PyObject*>();
  self->tokens_out = new std::vector<PyObject*>();
  self->slots = new std::vector<sonde_lane::Slot>();
  self->lane_leaves = new std::vector<LaneLeaf>();
  self->generation = -1;
  return reinterpret_cast<PyObject*>(self);
}

// Node(record, func, op, scope, depth, code, last, in_refs, sources, outs, returned, flags)
int Node_init(Node* self, PyObject* args, PyObject*) {
  PyObject *record, *func, *op, *scope, *code, *in_refs, *sources, *outs, *returned;
  long depth, last;
  int leaves, writes, collective;
  if (!PyArg_ParseTuple(args, "OOOOlOlO!O!O!O!ppp", &record, &func, &op, &scope, &depth, &code,
                        &last, &PyTuple_Type, &in_refs, &PyTuple_Type, &sources, &PyTuple_Type,
                        &outs, &PyTuple_Type, &returned, &leaves, &writes, &collective))
    return -1;
  if (self->record) {
    PyErr_SetString(PyExc_RuntimeError, "a Node is made once");
    return -1;
  }
  if (PyTuple_GET_SIZE(sources) != PyTuple_GET_SIZE(in_refs)) {
    PyErr_SetString(PyExc_ValueError, "as many sources as inputs");
    return -1;
  }
  self->record = Py_NewRef(record);
  self->func = Py_NewRef(func);
  self->op = Py_NewRef(op);
  self->scope = Py_NewRef(scope);
  self->code = Py_NewRef(code);
  self->depth = depth;
  self->last = last;
  self->has_leaves = leaves;
  self->has_writes = writes;
  self->is_collective = collective;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(in_refs); ++i)
    self->in_refs->push_back(Py_NewRef(PyTuple_GET_ITEM(in_refs, i)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sources); ++i)
    self->sources->push_back(Py_NewRef(PyTuple_GET_ITEM(sources, i)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outs); ++i) {
    int kind;
    PyObject* ref;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(outs, i), "iO", &kind, &ref)) return -1;
    self->outs->push_back({kind, Py_NewRef(ref)});
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(returned); ++i) {
    Py_ssize_t slot = PyLong_AsSsize_t(PyTuple_GET_ITEM(returned, i));
    if (slot < 0) return -1;
    self->returned->push_back(slot);
  }
  return 0;
}

extern PyTypeObject NodeType;

PyObject* Node_add(Node* self, PyObject* child) {
  if (!PyObject_TypeCheck(child, &NodeType)) {
    PyErr_SetString(PyExc_TypeError, "add() takes a Node");
    return nullptr;
  }
  self->next->push_back(reinterpret_cast<Node*>(Py_NewRef(child)));
  Py_RETURN_NONE;
}

// asked(generation, wanted, leaves_wanted)
PyObject* Node_asked(Node* self, PyObject* args) {
  if (!PyArg_ParseTuple(args, "lpp", &self->generation, &self->wanted, &self->leaves_wanted))
    return nullptr;
  leave_lane(self);
  Py_RETURN_NONE;
}

extern PyTypeObject LaneType;

bool add_tokens(PyObject* tokens, std::vector<PyObject*>* out) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tokens); ++i) {
    PyObject* token = PyTuple_GET_ITEM(tokens, i);
    out->push_back(token == Py_None ? nullptr : Py_NewRef(token));
  }
  return true;
}

// take_lane(lane, node, tokens_in, tokens_out, rearranges, leaves, writes): leaves are
// (slot, ref, node), writes slots of inputs
PyObject* Node_take_lane(Node* self, PyObject* args) {
  PyObject *lane, *node, *tokens_in, *tokens_out, *leaves, *writes;
  int rearranges;
  if (!PyArg_ParseTuple(args, "O!OO!O!pO!O!", &LaneType, &lane, &node, &PyTuple_Type, &tokens_in,
                        &PyTuple_Type, &tokens_out, &rearranges, &PyTuple_Type, &leaves,
                        &PyTuple_Type, &writes))
    return nullptr;
  leave_lane(self);
  if (static_cast<size_t>(PyTuple_GET_SIZE(tokens_in)) != self->in_refs->size() ||
      static_cast<size_t>(PyTuple_GET_SIZE(tokens_out)) != self->outs->size()) {
    PyErr_SetString(PyExc_ValueError, "take_lane: a token for each input and output");
    return nullptr;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(leaves); ++i) {
    Py_ssize_t slot;
    PyObject *ref, *leaf;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(leaves, i), "nOO", &slot, &ref, &leaf)) {
      leave_lane(self);
      return nullptr;
    }
    self->lane_leaves->push_back(
        {slot, ref == Py_None ? nullptr : Py_NewRef(ref), Py_NewRef(leaf), {}});
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(writes); ++i) {
    Py_ssize_t slot = PyLong_AsSsize_t(PyTuple_GET_ITEM(writes, i));
    if (slot < 0 || static_cast<size_t>(slot) >= self->in_refs->size()) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "take_lane: no such input");
      leave_lane(self);
      return nullptr;
    }
    self->writes->push_back(slot);
  }
  add_tokens(tokens_in, self->tokens_in);
  add_tokens(tokens_out, self->tokens_out);
  self->slots->resize(self->in_refs->size() + self->outs->size());
  self->rearranges = rearranges;
  self->lane_node = Py_NewRef(node);
  self->lane = reinterpret_cast<sonde_lane::Lane*>(Py_NewRef(lane));
  Py_RETURN_NONE;
}

PyMemberDef Node_members[] = {
    {"record", T_OBJECT, offsetof(Node, record), READONLY, "The Record this is the native face of."},
    {nullptr, 0, 0, 0, nullptr}};

PyMethodDef Node_methods[] = {
    {"add", reinterpret_cast<PyCFunction>(Node_add), METH_O, "Add a node that may come next."},
    {"asked", reinterpret_cast<PyCFunction>(Node_asked), METH_VARARGS,
     "Store who wants it: generation, wanted, leaves wanted."},
    {"take_lane", reinterpret_cast<PyCFunction>(Node_take_lane), METH_VARARGS,
     "Take the shortcut: lane, node, tokens in, tokens out, rearranges, leaves, writes."},
    {nullptr, nullptr, 0, nullptr}};

PyTypeObject NodeType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject LaneType = {PyVarObject_HEAD_INIT(nullptr, 0)};

// ---------------------------------------------------------------------------------- Matcher

using Refs = std::pmr::vector<PyObject*>;

struct Matcher {
  PyObject_HEAD
  PyObject* tensor_type;
  PyObject* parameter_type;
  PyObject* overload_type;
  PyObject* untyped_storage;
  PyObject* sequence_number;
  PyObject* getframe;
  PyObject* look;     // (func, args, kwargs) -> seen or None: an op that is not known
  PyObject* bind;     // (record, tensors, keys) -> bool: tensors new in this step
  PyObject* exact;    // (record, tensors, keys) -> bool: tensors that may be other views
  PyObject* ask;      // (record) -> None: calls node.asked
  PyObject* leaves;   // (record, tensors) -> None
  PyObject* kept;     // (record, tensors, keys) -> list: before a write
  PyObject* restored; // (tensors, copies) -> list: the same, from the lane's memory, after it
  PyObject* raised;   // (seen, args, kwargs, error) -> None
  PyObject* after;    // (seen, result, args, kwargs) -> None: the whole of it, in Python
  PyObject* emit;     // (record, before, results, args, kwargs) -> None
  PyObject* failed;   // (error) -> None
  PyObject* set_eval_frame;  // (compiler or None) -> the compiler that was set
  PyObject* scope;
  long generation;
  int started;
  int lends;
  long long stamp;  // the latest timestamp, microseconds
  Node* at;
  // Memory of the tables, kept from step to step: small pieces taken anew in each step would lie
  // between the program's tensors and keep it from using that memory again.
  std::pmr::unsynchronized_pool_resource* pool;
  std::pmr::unordered_map<uintptr_t, Refs>* current;
  std::pmr::unordered_map<uintptr_t, PyObject*>* impl;
  std::pmr::unordered_map<long long, PyObject*>* sequence;
  std::pmr::unordered_set<uintptr_t>* fresh;
  // Weak references, owned, to the storages (or tensors) that numbers in the tables stand for; the
  // tables forget a number when its object dies, before it can be used again.
  std::pmr::unordered_map<PyObject*, uintptr_t>* watchers;
  std::pmr::unordered_set<uintptr_t>* watched;
  PyObject* gone;  // what weak references call
};

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

void stop_watching(Matcher* self) {
  std::vector<PyObject*> watchers;
  for (auto& watcher : *self->watchers) watchers.push_back(watcher.first);
  self->watchers->clear();
  self->watched->clear();
  for (PyObject* watcher : watchers) Py_DECREF(watcher);
}

// Forget `key` when `object` dies. False with an error set.
bool watch(Matcher* self, PyObject* object, uintptr_t key) {
  if (!self->watched->insert(key).second) return true;
  PyObject* watcher = PyWeakref_NewRef(object, self->gone);
  if (!watcher) {
    self->watched->erase(key);
    return false;
  }
  self->watchers->emplace(watcher, key);
  return true;
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

// The storage object of a plain tensor, or nullptr with an error set.
inline PyObject* storage_of(Matcher* self, PyObject* tensor) {
  return PyObject_Vectorcall(self->untyped_storage, &tensor, 1, nullptr);
}

enum class Flat { kOk, kOdd };

struct Tensors {
  std::vector<PyObject*> items;  // borrowed
  std::vector<uintptr_t> keys;
};

inline Flat add_tensor(Matcher* self, PyObject* value, std::vector<PyObject*>& items) {
  PyTypeObject* type = Py_TYPE(value);
  if (type == reinterpret_cast<PyTypeObject*>(self->tensor_type) ||
      type == reinterpret_cast<PyTypeObject*>(self->parameter_type)) {
    items.push_back(value);
  } else if (PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(self->tensor_type))) {
    return Flat::kOdd;
  }
  return Flat::kOk;
}

Flat flatten(Matcher* self, PyObject* value, std::vector<PyObject*>& items) {
  if (PyList_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); ++i)
      if (add_tensor(self, PyList_GET_ITEM(value, i), items) == Flat::kOdd) return Flat::kOdd;
    return Flat::kOk;
  }
  if (PyTuple_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
      if (add_tensor(self, PyTuple_GET_ITEM(value, i), items) == Flat::kOdd) return Flat::kOdd;
    return Flat::kOk;
  }
  return add_tensor(self, value, items);
}

bool keys_of(Tensors& tensors) {
  for (PyObject* tensor : tensors.items) {
    uintptr_t key;
    if (!sonde_tensor::storage_key(tensor, &key)) return false;
    tensors.keys.push_back(key);
  }
  return true;
}

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

template <typename Items>
PyObject* list_of(const Items& items) {
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(items.size()));
  if (!list) return nullptr;
  for (size_t i = 0; i < items.size(); ++i)
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), Py_NewRef(items[i]));
  return list;
}

PyObject* list_of_keys(const std::vector<uintptr_t>& keys) {
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(keys.size()));
  if (!list) return nullptr;
  for (size_t i = 0; i < keys.size(); ++i) {
    PyObject* number = PyLong_FromVoidPtr(reinterpret_cast<void*>(keys[i]));
    if (!number) {
      Py_DECREF(list);
      return nullptr;
    }
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), number);
  }
  return list;
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

// The node that matches, borrowed; nullptr with or without an error set.
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

// Takes the pending Python exception to `failed`, which must not raise. Exceptions that are not
// ours to swallow (KeyboardInterrupt, SystemExit) stay set and -1 is returned.
int report_failure(Matcher* self) {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) PyException_SetTraceback(value, trace);
  PyObject* done = PyObject_CallOneArg(self->failed, value);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  if (!done) return -1;
  Py_DECREF(done);
  return 0;
}

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

// The storages of the results; false where a tensor has none.
bool keys_of_results(const std::vector<PyObject*>& results, std::vector<uintptr_t>& keys) {
  for (PyObject* tensor : results) {
    uintptr_t key;
    if (!sonde_tensor::storage_key(tensor, &key)) {
      PyErr_Clear();
      return false;
    }
    keys.push_back(key);
  }
  return true;
}

bool register_output(Matcher* self, const Out& out, PyObject* tensor, uintptr_t key) {
  if (out.kind == kFresh && self->fresh->insert(key).second) {
    PyObject* storage = storage_of(self, tensor);
    bool ok = storage && watch(self, storage, key);
    Py_XDECREF(storage);
    if (!ok) return false;
  }
  uintptr_t impl;
  if (!sonde_tensor::impl_of(tensor, &impl)) return false;
  Refs& entry = (*self->current)[key];
  if (out.kind != kAlias) entry.clear();
  entry.push_back(out.ref);
  (*self->impl)[impl] = out.ref;
  return true;
}

bool note_sequence(Matcher* self, PyObject* record) {
  PyObject* number = PyObject_CallNoArgs(self->sequence_number);
  if (!number) return false;
  long long value = PyLong_AsLongLong(number);
  Py_DECREF(number);
  if (value == -1 && PyErr_Occurred()) return false;
  self->sequence->emplace(value, record);
  return true;
}

// What the shortcut has to know between the start of an op and its end.
struct Passage {
  PyObject* kept = nullptr;   // the inputs as they were, where the op writes to them
  Py_ssize_t rows = 0;        // rows the sink had before this op, its leaves included
  bool is_bad = false;        // a watched tensor is not finite
  const sonde_lane::Judged* like = nullptr;  // of the tensor the op rearranges
  std::vector<sonde_lane::Copy> copies;  // of what the op writes to, in the lane's memory

  ~Passage() {
    Py_XDECREF(kept);
    for (sonde_lane::Copy& copy : copies) copy.clear();
  }
};

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

// An op raised: its leaves have been handed over, its inputs are taken back.
bool lane_raised(Node* node, const Passage& passage) {
  for (LaneLeaf& leaf : *node->lane_leaves)
    if (leaf.ref && PySet_Add(node->lane->met, leaf.ref) < 0) return false;
  return sonde_lane::truncate(node->lane, passage.rows);
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

// The inputs as they were before the op, for who is told of it; false with an error set.
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

// What has to be done before the op runs; false with an error set.
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

PyObject* seen_tuple(Node* node, const Tensors& tensors, PyObject* kept) {
  PyObject* list = list_of(tensors.items);
  PyObject* keys = list_of_keys(tensors.keys);
  PyObject* seen = list && keys ? PyTuple_Pack(4, node->record, list, keys, kept ? kept : list)
                                : nullptr;
  Py_XDECREF(list);
  Py_XDECREF(keys);
  return seen;
}

// What has to be done after the op ran; false with an error set.
bool after(Matcher* self, Node* node, const Tensors& tensors, Passage* passage, PyObject* result,
           PyObject* args, PyObject* kwargs) {
  std::vector<PyObject*> results;
  std::vector<uintptr_t> keys;
  if (node->is_collective || !collect(self, node, result, tensors, results) ||
      !keys_of_results(results, keys)) {
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

PyObject* call_op(PyObject* op, PyObject* args, PyObject* kwargs) {
  return PyObject_Call(op, args, kwargs);
}

// An op raised: tell who asked for it, keep the exception as it was.
void tell_raised(Matcher* self, PyObject* seen, PyObject* args, PyObject* kwargs) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) PyException_SetTraceback(value, trace);
  PyObject* done = seen ? PyObject_CallFunctionObjArgs(self->raised, seen, args,
                                                       kwargs ? kwargs : Py_None, value, nullptr)
                        : nullptr;
  Py_XDECREF(done);
  PyErr_Clear();
  PyErr_Restore(type, value, trace);
}

// Calls an op as torch does; of an OpOverload the function inside, which has no Python frame.
// Others run Python, of which nothing shall be compiled in here.
PyObject* call_func(Matcher* self, PyObject* func, PyObject* args, PyObject* kwargs) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(func)) != self->overload_type) {
    PyObject* compiler = PyObject_CallOneArg(self->set_eval_frame, Py_None);
    if (!compiler) return nullptr;
    PyObject* result = call_op(func, args, kwargs);
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject* done = PyObject_CallOneArg(self->set_eval_frame, compiler);
    Py_DECREF(compiler);
    if (!done) PyErr_Clear();
    Py_XDECREF(done);
    PyErr_Restore(type, value, trace);
    return result;
  }
  PyObject* op = PyObject_GetAttr(func, names.op);
  if (!op) return nullptr;
  PyObject* result = call_op(op, args, kwargs);
  Py_DECREF(op);
  return result;
}

// An op that is not recognised here: looked at in Python, run from here, so that the traceback of
// an op that raises has no frame of ours.
PyObject* call_slow(Matcher* self, PyObject* func, PyObject* args, PyObject* kwargs) {
  PyObject* given = kwargs ? kwargs : Py_None;
  PyObject* seen = PyObject_CallFunctionObjArgs(self->look, func, args, given, nullptr);
  if (!seen) {
    if (report_failure(self) < 0) return nullptr;
    seen = Py_NewRef(Py_None);
  }
  PyObject* result = call_func(self, func, args, kwargs);
  if (seen != Py_None) {
    if (!result) {
      tell_raised(self, seen, args, kwargs);
    } else {
      PyObject* done = PyObject_CallFunctionObjArgs(self->after, seen, result, args, given, nullptr);
      if (!done && report_failure(self) < 0) Py_CLEAR(result);
      Py_XDECREF(done);
    }
  }
  Py_DECREF(seen);
  return result;
}

// Whether no tensor is of a class with ways of its own. Torch names plain tensors too, where
// autograd keeps the output of an op for its backward.
bool are_plain(Matcher* self, PyObject* types) {
  if (!PyTuple_CheckExact(types)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(types); ++i) {
    PyObject* type = PyTuple_GET_ITEM(types, i);
    if (type != self->tensor_type && type != self->parameter_type) return false;
  }
  return true;
}

// dispatch(mode, func, types, args, kwargs=None): torch wants a method bound to the mode itself,
// so the mode comes first and is not looked at.
PyObject* Matcher_dispatch(Matcher* self, PyObject* const* values, Py_ssize_t count) {
  if (count < 4) {
    PyErr_SetString(PyExc_TypeError, "dispatch(mode, func, types, args, kwargs=None)");
    return nullptr;
  }
  PyObject* func = values[1];
  PyObject* types = values[2];
  PyObject* args = values[3];
  PyObject* kwargs = count > 4 && values[4] != Py_None ? values[4] : nullptr;
  if (kwargs && PyDict_GET_SIZE(kwargs) == 0) kwargs = nullptr;
  if (!self->look) {
    PyErr_SetString(PyExc_RuntimeError, "connect() comes first");
    return nullptr;
  }
  if (!self->started || !self->at || !PyTuple_CheckExact(args) || !are_plain(self, types))
    return call_slow(self, func, args, kwargs);
  Tensors tensors;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
    if (flatten(self, PyTuple_GET_ITEM(args, i), tensors.items) == Flat::kOdd)
      return call_slow(self, func, args, kwargs);
  if (kwargs) {
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(kwargs, &position, &name, &value))
      if (flatten(self, value, tensors.items) == Flat::kOdd)
        return call_slow(self, func, args, kwargs);
  }
  if (!keys_of(tensors)) {
    PyErr_Clear();
    return call_slow(self, func, args, kwargs);
  }
  Node* node = find(self, func, tensors);
  if (!node) {
    if (PyErr_Occurred() && report_failure(self) < 0) return nullptr;
    return call_slow(self, func, args, kwargs);
  }
  Py_INCREF(node);
  Passage passage;
  bool known = before(self, node, tensors, &passage);
  if (!known && report_failure(self) < 0) {
    Py_DECREF(node);
    return nullptr;
  }
  PyObject* result = call_op(node->op, args, kwargs);
  if (!result) {
    if (known && node->wanted) {
      PyObject *type, *value, *trace;
      PyErr_Fetch(&type, &value, &trace);
      if (node->lane && !lane_raised(node, passage)) PyErr_Clear();
      if (!restore(self, node, tensors, &passage)) PyErr_Clear();
      PyObject* seen = seen_tuple(node, tensors, passage.kept);
      PyErr_Clear();
      PyErr_Restore(type, value, trace);
      if (seen) tell_raised(self, seen, args, kwargs);
      Py_XDECREF(seen);
    }
  } else if (known && !after(self, node, tensors, &passage, result, args, kwargs)) {
    if (report_failure(self) < 0) Py_CLEAR(result);
  }
  Py_DECREF(node);
  return result;
}

// ------------------------------------------------------------------- torch's question of every op

// Torch asks a function in Python, for every op under a mode, whether somebody has registered a
// rule for that op and that kind of mode. Nobody does for ours: the answer is given here.

// find_rule(op, mode class); `self` is a pair: torch's own function, our mode
PyObject* find_rule(PyObject* self, PyObject* const* values, Py_ssize_t count) {
  PyObject* ours = PyTuple_GET_ITEM(self, 1);
  if (count == 2 && PyType_Check(values[1]) &&
      PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(values[1]),
                       reinterpret_cast<PyTypeObject*>(ours)))
    Py_RETURN_NONE;
  return PyObject_Vectorcall(PyTuple_GET_ITEM(self, 0), values, static_cast<size_t>(count),
                             nullptr);
}

// rule_finder(original, mode class) -> the function to put in its place
PyMethodDef find_rule_method = {
    "find_torch_dispatch_rule",
    reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)(void)>(find_rule)), METH_FASTCALL,
    "Torch's own, with an answer at once for Sonde's mode."};

PyObject* rule_finder(PyObject*, PyObject* args) {
  PyObject *original, *mode;
  if (!PyArg_ParseTuple(args, "OO!", &original, &PyType_Type, &mode)) return nullptr;
  return PyCFunction_New(&find_rule_method, args);
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

void forget_key(Matcher* self, uintptr_t key) {
  self->current->erase(key);
  self->fresh->erase(key);
  self->watched->erase(key);
}

// gone(watcher): the object of a weak reference has died
PyObject* Matcher_gone(Matcher* self, PyObject* watcher) {
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
    {"add_fresh", reinterpret_cast<PyCFunction>(Matcher_add_fresh), METH_O, "It was made in this step."},
    {"watch", reinterpret_cast<PyCFunction>(Matcher_watch), METH_VARARGS, "Forget with it."},
    {"gone", reinterpret_cast<PyCFunction>(Matcher_gone), METH_O, "A watched object died."},
    {"drop", reinterpret_cast<PyCFunction>(Matcher_drop), METH_O, "Forget a storage."},
    {"now", reinterpret_cast<PyCFunction>(Matcher_now), METH_NOARGS, "A timestamp, later than the last."},
    {"forget", reinterpret_cast<PyCFunction>(Matcher_forget), METH_NOARGS, "End of a step."},
    {nullptr, nullptr, 0, nullptr}};

PyTypeObject MatcherType = {PyVarObject_HEAD_INIT(nullptr, 0)};

PyMethodDef module_methods[] = {
    {"probe", sonde_tensor::probe, METH_VARARGS,
     "Find the short way to what tensors are; see tensor.h."},
    {"rule_finder", rule_finder, METH_VARARGS, "Answers torch for our mode; see find_rule."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef module_definition = {PyModuleDef_HEAD_INIT, "sonde.adapters.torch._match",
                                 "The hot path of eager capture.", -1, module_methods, nullptr,
                                 nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__match(void) {
  NodeType.tp_name = "sonde.adapters.torch._match.Node";
  NodeType.tp_basicsize = sizeof(Node);
  NodeType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
  NodeType.tp_doc = "One learned op.";
  NodeType.tp_new = Node_new;
  NodeType.tp_init = reinterpret_cast<initproc>(Node_init);
  NodeType.tp_dealloc = reinterpret_cast<destructor>(Node_dealloc);
  NodeType.tp_traverse = reinterpret_cast<traverseproc>(Node_traverse);
  NodeType.tp_clear = reinterpret_cast<inquiry>(Node_clear);
  NodeType.tp_methods = Node_methods;
  NodeType.tp_members = Node_members;
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
  LaneType.tp_name = "sonde.adapters.torch._match.Lane";
  LaneType.tp_basicsize = sizeof(sonde_lane::Lane);
  LaneType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
  LaneType.tp_doc = "The shortcut for numbers of every tensor.";
  LaneType.tp_new = sonde_lane::Lane_new;
  LaneType.tp_init = reinterpret_cast<initproc>(sonde_lane::Lane_init);
  LaneType.tp_dealloc = reinterpret_cast<destructor>(sonde_lane::Lane_dealloc);
  LaneType.tp_traverse = reinterpret_cast<traverseproc>(sonde_lane::Lane_traverse);
  LaneType.tp_clear = reinterpret_cast<inquiry>(sonde_lane::Lane_clear);
  LaneType.tp_methods = sonde_lane::Lane_methods;
  LaneType.tp_members = sonde_lane::Lane_members;
  if (PyType_Ready(&NodeType) < 0 || PyType_Ready(&MatcherType) < 0 ||
      PyType_Ready(&LaneType) < 0 || !sonde_lane::make_strings())
    return nullptr;
  names.op = PyUnicode_InternFromString("_op");
  names.f_code = PyUnicode_InternFromString("f_code");
  names.f_lasti = PyUnicode_InternFromString("f_lasti");
  PyObject* module = PyModule_Create(&module_definition);
  if (!module) return nullptr;
  if (PyModule_AddObjectRef(module, "Node", reinterpret_cast<PyObject*>(&NodeType)) < 0 ||
      PyModule_AddObjectRef(module, "Matcher", reinterpret_cast<PyObject*>(&MatcherType)) < 0 ||
      PyModule_AddObjectRef(module, "Lane", reinterpret_cast<PyObject*>(&LaneType)) < 0) {
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
