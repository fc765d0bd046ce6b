// One run of an op that was told by its call site: as op_run.h, for a draft.
#pragma once

#include "op_run.h"

namespace sonde_match {

// Does the work before the op of a draft runs. kNotPlain: Python has to handle this op, and nothing
// was done.
Copied before_draft(Matcher* self, const Draft& draft, const Tensors& tensors, OpRun* run);

// Takes back what was collected of the inputs of a draft that Python handles after all. False with an
// error set.
bool take_back_draft(const Draft& draft, OpRun* run);

// After the op of a draft, to which its outputs were added: enters them into the tables and hands them
// to the sink. False with an error set.
bool finish_draft(Matcher* self, Draft* draft, const Tensors& tensors, OpRun* run,
                  const Items& results, const Keys& keys, PyObject* args, PyObject* kwargs);

}  // namespace sonde_match
