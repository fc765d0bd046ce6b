#include "node.h"

#include "provisional.h"

#include <new>
#include <utility>
#include <vector>

namespace sonde_match {

namespace {

// Empties a vector before what was in it is released, which may run any Python code.
template <typename Item>
void drop(LastingVector<Item>& items) {
  LastingVector<Item> dropped;
  dropped.swap(items);
}

}  // namespace

void forget_fast_path(Node* node) {
  node->rows.reset();
  node->screen.reset();
  node->op_node.reset();
  node->writes.clear();
  drop(node->tokens_in);
  drop(node->tokens_out);
  drop(node->labels);
  drop(node->fast_leaves);
}

namespace {

int Node_traverse(Node* self, visitproc visit, void* arg) {
  for (const Owned* field : {&self->record, &self->func, &self->op, &self->scope, &self->code,
                             &self->op_node})
    if (int stop = field->visit(visit, arg)) return stop;
  if (int stop = self->rows.visit(visit, arg)) return stop;
  if (int stop = self->screen.visit(visit, arg)) return stop;
  for (const Owned& ref : self->in_refs)
    if (int stop = ref.visit(visit, arg)) return stop;
  for (const Owned& ref : self->sources)
    if (int stop = ref.visit(visit, arg)) return stop;
  for (const Out& out : self->outs)
    if (int stop = out.ref.visit(visit, arg)) return stop;
  for (const Owned& leaf : self->leaves)
    if (int stop = leaf.visit(visit, arg)) return stop;
  for (const OwnedNode& node : self->next)
    if (int stop = node.visit(visit, arg)) return stop;
  // A token is a TensorRef, which refers to the record and so to this node.
  for (const LastingVector<Owned>* tokens : {&self->tokens_in, &self->tokens_out})
    for (const Owned& token : *tokens)
      if (int stop = token.visit(visit, arg)) return stop;
  for (const RowLabel& label : self->labels)
    if (int stop = label.label.visit(visit, arg)) return stop;
  for (const FastLeaf& leaf : self->fast_leaves)
    for (const Owned* field : {&leaf.token, &leaf.node, &leaf.label.label})
      if (int stop = field->visit(visit, arg)) return stop;
  for (const Argument& argument : self->arguments) {
    if (int stop = argument.name.visit(visit, arg)) return stop;
    if (int stop = argument.value.visit(visit, arg)) return stop;
  }
  return 0;
}

int Node_clear(Node* self) {
  forget_fast_path(self);
  for (Owned* field : {&self->record, &self->func, &self->op, &self->scope, &self->code})
    field->reset();
  drop(self->arguments);
  drop(self->leaves);
  drop(self->in_refs);
  drop(self->sources);
  drop(self->outs);
  // A long chain of nodes is taken apart with a list, not by recursion.
  LastingVector<OwnedNode> waiting;
  waiting.swap(self->next);
  while (!waiting.empty()) {
    OwnedNode node = std::move(waiting.back());
    waiting.pop_back();
    if (Py_REFCNT(node.as_python()) != 1) continue;
    for (OwnedNode& next : node->next) waiting.push_back(std::move(next));
    node->next.clear();
  }
  return 0;
}

// Memory of freed nodes, without fields. A step that does not repeat makes a node for each op and frees
// them all at its end. If Python allocated each, its collector would count them, and search all objects
// of the program again and again.
std::vector<Node*> spare_nodes;
constexpr size_t kMostSpareNodes = 16384;

void Node_dealloc(Node* self) {
  PyObject_GC_UnTrack(self);
  Node_clear(self);
  static_cast<NodeFields*>(self)->~NodeFields();
  --living.nodes;
  if (spare_nodes.size() < kMostSpareNodes)
    spare_nodes.push_back(self);
  else
    Py_TYPE(self)->tp_free(self);
}

PyObject* Node_new(PyTypeObject* type, PyObject*, PyObject*) {
  Node* self;
  if (spare_nodes.empty()) {
    self = static_cast<Node*>(type->tp_alloc(type, 0));
    if (!self) return nullptr;
  } else {
    self = spare_nodes.back();
    spare_nodes.pop_back();
    PyObject_Init(self, type);
    PyObject_GC_Track(self);
  }
  new (static_cast<NodeFields*>(self)) NodeFields();
  ++living.nodes;
  return self;
}

// Node(record, func, op, scope, depth, code, last, in_refs, sources, outs, returned, leaves, flags)
int Node_init(Node* self, PyObject* args, PyObject*) {
  PyObject *record, *func, *op, *scope, *code, *in_refs, *sources, *outs, *returned, *leaves;
  long depth, last;
  int writes, collective;
  if (!PyArg_ParseTuple(args, "OOOOlOlO!O!O!O!O!pp", &record, &func, &op, &scope, &depth, &code,
                        &last, &PyTuple_Type, &in_refs, &PyTuple_Type, &sources, &PyTuple_Type,
                        &outs, &PyTuple_Type, &returned, &PyTuple_Type, &leaves, &writes,
                        &collective))
    return -1;
  if (self->record) {
    PyErr_SetString(PyExc_RuntimeError, "a Node is made once");
    return -1;
  }
  if (PyTuple_GET_SIZE(sources) != PyTuple_GET_SIZE(in_refs)) {
    PyErr_SetString(PyExc_ValueError, "as many sources as inputs");
    return -1;
  }
  self->record = Owned::share(record);
  self->func = Owned::share(func);
  self->op = Owned::share(op);
  self->scope = Owned::share(scope);
  self->code = Owned::share(code);
  self->depth = depth;
  self->last = last;
  self->has_leaves = PyTuple_GET_SIZE(leaves) != 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(leaves); ++i)
    self->leaves.push_back(Owned::share(PyTuple_GET_ITEM(leaves, i)));
  self->has_writes = writes;
  self->is_collective = collective;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(in_refs); ++i)
    self->in_refs.push_back(Owned::share(PyTuple_GET_ITEM(in_refs, i)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sources); ++i)
    self->sources.push_back(Owned::share(PyTuple_GET_ITEM(sources, i)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outs); ++i) {
    int kind;
    PyObject* ref;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(outs, i), "iO", &kind, &ref)) return -1;
    self->outs.push_back({kind, Owned::share(ref)});
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(returned); ++i) {
    Py_ssize_t slot = PyLong_AsSsize_t(PyTuple_GET_ITEM(returned, i));
    if (slot < 0) return -1;
    self->returned.push_back(slot);
  }
  return 0;
}

PyObject* Node_add(Node* self, PyObject* child) {
  if (!PyObject_TypeCheck(child, &NodeType)) {
    PyErr_SetString(PyExc_TypeError, "add() takes a Node");
    return nullptr;
  }
  self->next.push_back(OwnedNode::share(child));
  Py_RETURN_NONE;
}

// set_wants(generation, wanted, leaves_wanted)
PyObject* Node_set_wants(Node* self, PyObject* args) {
  if (!PyArg_ParseTuple(args, "lpp", &self->generation, &self->wanted, &self->leaves_wanted))
    return nullptr;
  forget_fast_path(self);
  Py_RETURN_NONE;
}

Owned unless_none(PyObject* object) { return Owned::share(object == Py_None ? nullptr : object); }

void add_tokens(PyObject* tokens, LastingVector<Owned>* out) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tokens); ++i)
    out->push_back(unless_none(PyTuple_GET_ITEM(tokens, i)));
}

// Reads `leaves` ((slot, token, OpNode) each) and `writes` (slots); false with an error set.
bool read_leaves_and_writes(Node* self, PyObject* leaves, PyObject* writes) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(leaves); ++i) {
    Py_ssize_t slot;
    PyObject *token, *node;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(leaves, i), "nOO", &slot, &token, &node)) return false;
    self->fast_leaves.push_back({slot, unless_none(token), Owned::share(node), {}});
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(writes); ++i) {
    Py_ssize_t slot = PyLong_AsSsize_t(PyTuple_GET_ITEM(writes, i));
    if (slot < 0 || static_cast<size_t>(slot) >= self->in_refs.size()) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "use_fast_path: no such input");
      return false;
    }
    self->writes.push_back(slot);
  }
  return true;
}

// use_fast_path(path, node, tokens_in, tokens_out, rearranges, leaves, writes): path is a
// RowCollector or a Screen
PyObject* Node_use_fast_path(Node* self, PyObject* args) {
  PyObject *path, *node, *tokens_in, *tokens_out, *leaves, *writes;
  int rearranges;
  if (!PyArg_ParseTuple(args, "OOO!O!pO!O!", &path, &node, &PyTuple_Type, &tokens_in,
                        &PyTuple_Type, &tokens_out, &rearranges, &PyTuple_Type, &leaves,
                        &PyTuple_Type, &writes))
    return nullptr;
  forget_fast_path(self);
  const bool collects = PyObject_TypeCheck(path, &RowCollectorType);
  if (!collects && !PyObject_TypeCheck(path, &ScreenType)) {
    PyErr_SetString(PyExc_TypeError, "use_fast_path: a RowCollector or a Screen");
    return nullptr;
  }
  if (static_cast<size_t>(PyTuple_GET_SIZE(tokens_in)) != self->in_refs.size() ||
      static_cast<size_t>(PyTuple_GET_SIZE(tokens_out)) != self->outs.size()) {
    PyErr_SetString(PyExc_ValueError, "use_fast_path: a token for each input and output");
    return nullptr;
  }
  if (!read_leaves_and_writes(self, leaves, writes)) {
    forget_fast_path(self);
    return nullptr;
  }
  add_tokens(tokens_in, &self->tokens_in);
  add_tokens(tokens_out, &self->tokens_out);
  self->rearranges = rearranges;
  self->op_node = Owned::share(node);
  if (collects) {
    self->labels.resize(self->in_refs.size() + self->outs.size());
    self->rows = sonde::OwnedObject<RowCollector>::share(path);
  } else {
    self->screen = sonde::OwnedObject<Screen>::share(path);
  }
  Py_RETURN_NONE;
}

PyObject* Node_get_record(Node* self, void*) { return Py_XNewRef(record_of(self)); }

PyObject* Node_get_has_record(Node* self, void*) {
  return PyBool_FromLong(static_cast<bool>(self->record));
}

PyGetSetDef Node_getset[] = {
    {"has_record", reinterpret_cast<getter>(Node_get_has_record), nullptr,
     "Whether the op record has been made; a provisional node has none yet.", nullptr},
    {"record", reinterpret_cast<getter>(Node_get_record), nullptr,
     "The op record this is the native side of.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef Node_methods[] = {
    {"add", reinterpret_cast<PyCFunction>(Node_add), METH_O, "Add a node that may come next."},
    {"set_wants", reinterpret_cast<PyCFunction>(Node_set_wants), METH_VARARGS,
     "Whether a sink wants the op: generation, wanted, leaves wanted."},
    {"use_fast_path", reinterpret_cast<PyCFunction>(Node_use_fast_path), METH_VARARGS,
     "Go by a fast path: path, node, tokens in, tokens out, rearranges, leaves, writes."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyTypeObject NodeType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool make_node_type() {
  NodeType.tp_name = "sonde.adapters.torch.eager._match.Node";
  NodeType.tp_basicsize = sizeof(Node);
  NodeType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
  NodeType.tp_doc = "One learned op.";
  NodeType.tp_new = Node_new;
  NodeType.tp_init = reinterpret_cast<initproc>(Node_init);
  NodeType.tp_dealloc = reinterpret_cast<destructor>(Node_dealloc);
  NodeType.tp_traverse = reinterpret_cast<traverseproc>(Node_traverse);
  NodeType.tp_clear = reinterpret_cast<inquiry>(Node_clear);
  NodeType.tp_methods = Node_methods;
  NodeType.tp_getset = Node_getset;
  return PyType_Ready(&NodeType) == 0;
}

}  // namespace sonde_match
