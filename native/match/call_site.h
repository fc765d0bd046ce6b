// CallSite: what all runs of an op from one place of the program have in common.
//
// A step that does not repeat leaves the tree of learned nodes. Most of its ops have run before,
// from the same line of the program, in the same module, only at another place of a step: one more
// turn of a loop, another branch. Such an op gets a *draft* (draft.h): the call site has its name,
// scope and lines, and the tables of the step have its inputs. No Python code runs for it. Its node
// and record are made later, and only if something asks for them (complete_node).
#pragma once

#include "arguments.h"

namespace sonde_match {

// An op of a call site with its number in the step, for a sink that collects rows.
struct NamedOp {
  Owned op_node;  // an OpNode with the name
  // Apart: the op may have another number of inputs each time, such as one of a list of tensors.
  std::vector<RowLabel> inputs;
  std::vector<RowLabel> outputs;
};

struct CallSite {
  std::vector<uintptr_t> key;
  Owned description;  // a CallSite of sonde/adapters/torch/eager/call_sites.py
  Owned func;
  Owned op;
  Owned scope;
  Owned code;
  long depth = 0;
  long last = -1;
  bool fills = true;
  bool rearranges = false;
  int counts_writes = -1;  // as in a Node
  long group = -1;         // as in a Node
  long long round = 0;     // of the step in which it was learned, as the matcher counts
  std::unordered_map<long, NamedOp> named;  // by number
  std::vector<Py_ssize_t> writes;
  std::vector<Py_ssize_t> workspaces;
  std::vector<Owned> key_objects;  // keeps the addresses in the key from being used again
};

// The place that the op about to run is called from.
struct Place {
  SiteKey key;
  StepOp cause;  // in backward: the forward op
};

// Finds out where an op is called from. False, with or without an error set, where that cannot be
// said natively.
bool find_place(Matcher* self, PyObject* func, PyObject* args, PyObject* kwargs, Place* place);

// The call site of a place, or null.
CallSite* find_site(Matcher* self, const Place& place);

// Notes that the op that was just learned in Python, whose node is `self->at`, was called from
// `place`. False with an error set.
bool add_site(Matcher* self, const Place& place);

// Interns the attribute names that it reads; false with an error set.
bool make_site_names();

}  // namespace sonde_match
