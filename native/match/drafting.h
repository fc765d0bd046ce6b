// Makes drafts: ops that run from a known call site at a new place of a step; see call_site.h.
#pragma once

#include "call_site.h"
#include "op_run.h"

namespace sonde_match {

enum class Made { kDone, kNotHere, kError };

// Fills the draft of an op about to run, with its inputs. kNotHere: Python has to learn this op.
Made begin_draft(Matcher* self, CallSite* site, const StepOp& cause, const Tensors& tensors,
                 PyObject* args, PyObject* kwargs, Draft* draft);

// Adds what the op returned. kNotHere, without an error: the result is unusual.
Made add_outputs(Matcher* self, Draft* draft, const Tensors& tensors, PyObject* result,
                 Items* results, Keys* keys);

// Makes the op, which has run, the last one of the step. False with an error set.
bool keep_draft(Matcher* self, Draft* draft);

// The token of an input (TensorUse in fast_path.h), borrowed.
PyObject* token_of(const DraftInput& input);

// The record of an op, borrowed. That of a draft is made now, with its node and with the records of
// the drafts before it; the nodes become part of the tree. Null with an error set.
PyObject* record_of(Matcher* self, const StepOp& op);

// The node of the op that ran last in this step, made if it is a draft; null with an error set.
Node* last_node(Matcher* self);

// At the end of a step: drafts that something asked for live on as nodes.
void drop_drafts(Matcher* self);

}  // namespace sonde_match
