// Provisional nodes: ops that run from a known call site at a new place of a step; see call_site.h.
#pragma once

#include "call_site.h"
#include "op_run.h"

namespace sonde_match {

enum class Made { kDone, kNotHere, kError };

// Makes the node of an op about to run, with its inputs. kNotHere: Python has to learn this op.
Made make_provisional(Matcher* self, CallSite* site, Node* cause, const Tensors& tensors,
                      PyObject* args, PyObject* kwargs, OwnedNode* made);

// Adds what the op returned. kNotHere, without an error: the result is unusual.
Made add_outputs(Matcher* self, Node* node, const Tensors& tensors, PyObject* result,
                 std::vector<PyObject*>* results, std::vector<uintptr_t>* keys);

// Makes the op, which has run, the last one of the step.
bool keep_provisional(Matcher* self, OwnedNode node);

// The record of a node, borrowed. That of a provisional node is made now, with the records of the
// provisional nodes before it; these nodes become part of the tree. Null with an error set.
PyObject* record_of(Node* node);

// At the end of a step: the provisional nodes that have no record are freed.
void drop_provisional(Matcher* self);

}  // namespace sonde_match
