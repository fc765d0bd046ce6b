#include "node.h"

#include <structmember.h>

namespace sonde_match {

namespace {

// Takes the node off its shortcut.
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

void add_tokens(PyObject* tokens, std::vector<PyObject*>* out) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tokens); ++i) {
    PyObject* token = PyTuple_GET_ITEM(tokens, i);
    out->push_back(token == Py_None ? nullptr : Py_NewRef(token));
  }
}

// take_lane(lane, node, tokens_in, tokens_out, rearranges, leaves, writes): leaves are
// (slot, ref, node), writes slots of inputs
PyObject* Node_take_lane(Node* self, PyObject* args) {
  PyObject *lane, *node, *tokens_in, *tokens_out, *leaves, *writes;
  int rearranges;
  if (!PyArg_ParseTuple(args, "O!OO!O!pO!O!", &sonde_lane::LaneType, &lane, &node, &PyTuple_Type,
                        &tokens_in, &PyTuple_Type, &tokens_out, &rearranges, &PyTuple_Type,
                        &leaves, &PyTuple_Type, &writes))
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
    {"record", T_OBJECT, offsetof(Node, record), READONLY,
     "The Record this is the native face of."},
    {nullptr, 0, 0, 0, nullptr}};

PyMethodDef Node_methods[] = {
    {"add", reinterpret_cast<PyCFunction>(Node_add), METH_O, "Add a node that may come next."},
    {"asked", reinterpret_cast<PyCFunction>(Node_asked), METH_VARARGS,
     "Store who wants it: generation, wanted, leaves wanted."},
    {"take_lane", reinterpret_cast<PyCFunction>(Node_take_lane), METH_VARARGS,
     "Take the shortcut: lane, node, tokens in, tokens out, rearranges, leaves, writes."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyTypeObject NodeType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool make_node_type() {
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
  return PyType_Ready(&NodeType) == 0;
}

}  // namespace sonde_match
