// CallSite: what all runs of an op from one place of the program have in common.
//
// A step that does not repeat leaves the tree of learned nodes. Most of its ops have run before,
// from the same line of the program, in the same module, only at another place of a step: one more
// turn of a loop, another branch. Such an op gets a *provisional node*: the call site has its name,
// scope and lines, and the tables of the step have its inputs. No Python code runs for it. Its
// record is made later, and only if something asks for it (complete_node).
#pragma once

#include "arguments.h"

namespace sonde_match {

struct CallSite {
  static void* operator new(size_t size) { return sonde::PythonAllocator<char>().allocate(size); }
  static void operator delete(void* memory) noexcept { PyObject_Free(memory); }

  Owned description;  // a CallSite of sonde/adapters/torch/eager/call_sites.py
  Owned func;
  Owned op;
  Owned scope;
  Owned code;
  long depth = 0;
  long last = -1;
  bool fills = true;
  bool rearranges = false;
  LastingVector<Py_ssize_t> writes;
  LastingVector<Py_ssize_t> workspaces;
  LastingVector<Owned> key_objects;  // keeps the addresses in the key from being used again
};

// The place that the op about to run is called from.
struct Place {
  SiteKey key;
  Node* cause = nullptr;  // in backward: the forward op, borrowed
};

// Finds out where an op is called from. False, with or without an error set, where that cannot be
// said natively.
bool find_place(Matcher* self, PyObject* func, PyObject* args, PyObject* kwargs, Place* place);

// The call site with this key, or null.
CallSite* find_site(Matcher* self, const SiteKey& key);

// Notes that the op that was just learned in Python, whose node is `self->at`, was called from
// `place`. False with an error set.
bool add_site(Matcher* self, const Place& place);

// Makes the call site of an op about to run from a new place, without a record of it. Null, with or
// without an error set, where the op has to be learned.
CallSite* describe_new(Matcher* self, const Place& place, PyObject* func, PyObject* args,
                       PyObject* kwargs);

// Interns the attribute names that it reads; false with an error set.
bool make_site_names();

}  // namespace sonde_match
