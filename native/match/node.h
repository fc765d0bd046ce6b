// Node: one learned op, the native form of an OpRecord of sonde/adapters/torch/eager/op_tree.py.
#pragma once

#include "row_collector.h"
#include "screen.h"
#include "shared/constants.h"
#include "shared/python_allocator.h"

namespace sonde_match {

using sonde::Owned;
using sonde::kAlias;
using sonde::kFresh;
using sonde::LastingVector;

struct Out {
  int kind;
  Owned ref;
};

// An input of the step that is met first by this op, and emitted with it.
struct FastLeaf {
  Py_ssize_t slot;
  Owned token;
  Owned node;
  RowLabel label;
};

// One argument of an op that has a provisional node: `...` in place of one with tensors.
struct Argument {
  Owned name;  // of a keyword argument
  Owned value;
};

struct CallSite;
struct Matcher;
struct Node;
using OwnedNode = sonde::OwnedObject<Node>;

struct NodeFields {
  Owned record;
  Owned func;
  Owned op;
  Owned scope;
  Owned code;
  long last = 0;
  long depth = 0;
  long generation = -1;
  int wanted = 0;
  int leaves_wanted = 0;
  bool has_leaves = false;
  bool has_writes = false;
  bool is_collective = false;
  bool rearranges = false;  // only with a fast path
  LastingVector<Owned> in_refs;
  LastingVector<Owned> sources;  // None where the exact tensor is not known
  LastingVector<Out> outs;
  LastingVector<Py_ssize_t> returned;
  LastingVector<OwnedNode> next;
  // The fast path of the only sink that wants this op: at most one of the two is set.
  sonde::OwnedObject<RowCollector> rows;
  sonde::OwnedObject<Screen> screen;
  Owned op_node;  // the OpNode; this and the following only with a fast path
  LastingVector<Py_ssize_t> writes;  // the slots of inputs the op writes to
  LastingVector<Owned> tokens_in;    // empty where the contents are not known
  LastingVector<Owned> tokens_out;
  LastingVector<RowLabel> labels;  // inputs, then outputs
  LastingVector<FastLeaf> fast_leaves;

  CallSite* site = nullptr;  // where it is called from, as far as known; the matcher owns it
  LastingVector<Owned> leaves;  // the StepInputs that it is the first in the step to read
  // Only in a provisional node (call_site.h), which has no record yet.
  Matcher* matcher = nullptr;
  Node* parent = nullptr;              // the op before it in the step
  Node* cause = nullptr;               // in backward: the forward op
  LastingVector<Owned> in_geometries;    // bytes
  LastingVector<Py_ssize_t> leaf_slots;  // of `leaves`
  LastingVector<Argument> arguments;

  bool has_fast_path() const { return rows || screen; }
};

// The fields are built in Node_new and destroyed in Node_dealloc; Python makes and frees the rest.
struct Node : PyObject, NodeFields {};
// Python's own allocator takes blocks of at most 512 bytes, with the collector's 16. A larger one would
// lie between the tensors of the program.
static_assert(sizeof(Node) + 16 <= 512);

// Frees what only the fast path of a sink needs.
void forget_fast_path(Node* node);

extern PyTypeObject NodeType;
bool make_node_type();

}  // namespace sonde_match
