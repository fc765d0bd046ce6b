#include "dispatch.h"

#include "find_node.h"
#include "op_run.h"
#include "provisional.h"

namespace sonde_match {

namespace {

PyObject* full_name;
PyObject* foreach_prefix;

// Passes the Python exception that is set to `failed`. An exception of the program, which `failed`
// raises again, stays set, as do KeyboardInterrupt and SystemExit, and -1 is returned.
int report_failure(Matcher* self) {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1;
  Owned error;
  {
    sonde::KeepException pending;
    error = Owned::share(pending.normalized());
    pending.drop();
  }
  return Owned::take(PyObject_CallOneArg(self->failed.get(), error.get())) ? 0 : -1;
}

// Calls `op_raised`; the exception of the op stays set, unless a signal handler of the program raised
// another one meanwhile.
void report_raised(Matcher* self, PyObject* begun, PyObject* args, PyObject* kwargs) {
  sonde::KeepException pending;
  const Owned done = Owned::take(PyObject_CallFunctionObjArgs(
      self->op_raised.get(), begun, args, kwargs ? kwargs : Py_None, pending.normalized(),
      nullptr));
  if (!done) pending.replace();
}

// Torch counts the writes of most ops after the dispatch, and those of `_foreach_` ops inside the op,
// where it does not count under a dispatch mode. They are counted here, or torch would not notice that
// a tensor that backward needs was changed.
class WriteCount {
 public:
  explicit WriteCount(Matcher* self) : self_(self) {}

  // Before the op; false with an exception of the program set.
  bool begin(PyObject* func, PyObject* args, PyObject* kwargs) {
    if (reinterpret_cast<PyObject*>(Py_TYPE(func)) != self_->overload_type.get()) return true;
    const Owned name = sonde_tensor::attribute(func, full_name);
    if (!name || !PyUnicode_Check(name.get())) {
      PyErr_Clear();
      return true;
    }
    if (!PyUnicode_Tailmatch(name.get(), foreach_prefix, 0, PY_SSIZE_T_MAX, -1)) return true;
    written_ = Owned::take(PyObject_CallFunctionObjArgs(self_->uncounted_writes.get(), func, args,
                                                        kwargs ? kwargs : Py_None, nullptr));
    return written_ || report_failure(self_) == 0;
  }

  // After an op that did not raise; false with an exception of the program set.
  bool end() {
    if (!written_) return true;
    return Owned::take(PyObject_CallOneArg(self_->count_writes.get(), written_.get())) ||
           report_failure(self_) == 0;
  }

 private:
  Matcher* self_;
  Owned written_;
};

// Calls an op as torch does; of an OpOverload the function inside, which has no Python frame for most.
// Other ops run Python code, which dynamo must not compile while they run here.
Owned call_func(Matcher* self, PyObject* func, PyObject* args, PyObject* kwargs) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(func)) != self->overload_type.get()) {
    const Owned compiler = Owned::take(PyObject_CallOneArg(self->set_eval_frame.get(), Py_None));
    if (!compiler) return {};
    Owned result = Owned::take(PyObject_Call(func, args, kwargs));
    sonde::KeepException pending;
    Owned::take(PyObject_CallOneArg(self->set_eval_frame.get(), compiler.get()));
    return result;
  }
  const Owned function = Owned::take(PyObject_CallOneArg(self->function_of.get(), func));
  return Owned::take(function ? PyObject_Call(function.get(), args, kwargs) : nullptr);
}

// An op that is not matched here: Python matches or learns it; it is run from here, so that the traceback of
// an op that raises has no frame of ours. `place`: where it is called from, if that is known.
PyObject* call_slow(Matcher* self, PyObject* func, PyObject* args, PyObject* kwargs,
                    const Place* place = nullptr) {
  PyObject* given = kwargs ? kwargs : Py_None;
  const Owned begun =
      Owned::take(PyObject_CallFunctionObjArgs(self->before_op.get(), func, args, given, nullptr));
  if (!begun && report_failure(self) < 0) return nullptr;
  WriteCount writes(self);
  if (!writes.begin(func, args, kwargs)) return nullptr;
  Owned result = call_func(self, func, args, kwargs);
  if (result && !writes.end()) return nullptr;
  if (!begun || begun.get() == Py_None) return result.release();
  if (!result) {
    report_raised(self, begun.get(), args, kwargs);
    return nullptr;
  }
  const Node* last = self->at.get();
  const Owned done = Owned::take(PyObject_CallFunctionObjArgs(self->after_op.get(), begun.get(),
                                                              result.get(), args, given, nullptr));
  if (!done && report_failure(self) < 0) return nullptr;
  if (done && place && self->at.get() != last && self->at->func.get() == func &&
      !add_site(self, *place) && report_failure(self) < 0)
    return nullptr;
  return result.release();
}

// The same for an op that was matched.
void report_raised_node(Matcher* self, Node* node, const Tensors& tensors, OpRun* run,
                        PyObject* args, PyObject* kwargs) {
  Owned begun;
  {
    sonde::KeepException pending;
    if (!take_back_inputs(node, *run) || !restore_written(self, node, tensors, run)) {
      if (report_failure(self) < 0) pending.replace();
      return;
    }
    begun = begun_tuple(node, tensors, run->inputs_before);
  }
  if (begun) report_raised(self, begun.get(), args, kwargs);
}

// Lets Python learn an op that has already run, or raised, with a provisional node: the tuple that
// Python gets for an op that has begun, with its inputs as they were before. Empty with an error set.
Owned begin_late(Matcher* self, Node* node, const Tensors& tensors, OpRun* run, PyObject* func,
                 PyObject* args, PyObject* kwargs) {
  if (!restore_written(self, node, tensors, run)) return {};
  const Owned begun = Owned::take(PyObject_CallFunctionObjArgs(
      self->before_op.get(), func, args, kwargs ? kwargs : Py_None, nullptr));
  if (!begun || !PyTuple_Check(begun.get()) || PyTuple_GET_SIZE(begun.get()) != 4 ||
      !run->inputs_before)
    return Owned::share(begun.get());
  return Owned::take(PyTuple_Pack(4, PyTuple_GET_ITEM(begun.get(), 0),
                                  PyTuple_GET_ITEM(begun.get(), 1),
                                  PyTuple_GET_ITEM(begun.get(), 2), run->inputs_before.get()));
}

// Runs an op with a provisional node. False: nothing was done, and Python has to handle it.
bool run_provisional(Matcher* self, const Place& place, PyObject* func, const Tensors& tensors,
                     PyObject* args, PyObject* kwargs, PyObject** returned) {
  CallSite* site = find_site(self, place.key);
  *returned = nullptr;
  // To learn it would make the records of all provisional nodes before it.
  if (!site && self->waiting) site = describe_new(self, place, func, args, kwargs);
  if (!site) return PyErr_Occurred() && report_failure(self) < 0;
  OwnedNode node;
  OpRun run;
  Made made = make_provisional(self, site, place.cause, tensors, args, kwargs, &node);
  if (made == Made::kDone) {
    const Copied begun = before_provisional(self, node.get(), tensors, &run);
    made = begun == Copied::kDone      ? Made::kDone
           : begun == Copied::kNotPlain ? Made::kNotHere
                                        : Made::kError;
  }
  if (made == Made::kError && report_failure(self) < 0) return true;
  if (made != Made::kDone) return false;
  WriteCount writes(self);
  if (node->has_writes && !writes.begin(func, args, kwargs)) return true;
  Owned result = Owned::take(PyObject_Call(site->op.get(), args, kwargs));
  if (result && !writes.end()) return true;
  if (!result) {
    Owned begun;
    {
      sonde::KeepException pending;
      begun = begin_late(self, node.get(), tensors, &run, func, args, kwargs);
      if (!begun && report_failure(self) < 0) pending.replace();
    }
    if (begun && begun.get() != Py_None) report_raised(self, begun.get(), args, kwargs);
    return true;
  }
  std::vector<PyObject*> results;
  std::vector<uintptr_t> keys;
  made = add_outputs(self, node.get(), tensors, result.get(), &results, &keys);
  bool ok = made != Made::kError;
  if (made == Made::kNotHere) {
    const Owned begun = begin_late(self, node.get(), tensors, &run, func, args, kwargs);
    ok = begun && (begun.get() == Py_None ||
                   Owned::take(PyObject_CallFunctionObjArgs(
                       self->after_op.get(), begun.get(), result.get(), args,
                       kwargs ? kwargs : Py_None, nullptr)));
  } else if (ok) {
    Node* kept = node.get();
    ok = keep_provisional(self, std::move(node)) &&
         finish_op(self, kept, tensors, &run, results, keys, args, kwargs);
    if (!kept->record) forget_fast_path(kept);
  }
  *returned = !ok && report_failure(self) < 0 ? nullptr : result.release();
  return true;
}

// Whether all classes in `types` are plain tensors. Torch lists plain tensors too, where autograd
// keeps the output of an op for its backward.
bool are_plain(Matcher* self, PyObject* types) {
  if (!PyTuple_CheckExact(types)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(types); ++i) {
    PyObject* type = PyTuple_GET_ITEM(types, i);
    if (type != self->tensor_type.get() && type != self->parameter_type.get()) return false;
  }
  return true;
}

}  // namespace

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
  if (!self->before_op) {
    PyErr_SetString(PyExc_RuntimeError, "connect() comes first");
    return nullptr;
  }
  ++self->op_count;
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
  if (!add_keys(tensors.items, tensors.keys)) return call_slow(self, func, args, kwargs);
  // Code that runs in between may replace the node.
  const OwnedNode owned = OwnedNode::share(find_node(self, func, tensors));
  Node* node = owned.get();
  if (!node) {
    if (PyErr_Occurred() && report_failure(self) < 0) return nullptr;
    Place place;
    if (!self->every_op || !find_place(self, func, args, kwargs, &place)) {
      if (PyErr_Occurred() && report_failure(self) < 0) return nullptr;
      return call_slow(self, func, args, kwargs);
    }
    PyObject* result;
    if (run_provisional(self, place, func, tensors, args, kwargs, &result)) return result;
    return call_slow(self, func, args, kwargs, &place);
  }
  OpRun run;
  bool known = before_op(self, node, tensors, &run);
  if (!known && report_failure(self) < 0) return nullptr;
  WriteCount writes(self);
  if (node->has_writes && !writes.begin(func, args, kwargs)) return nullptr;
  Owned result = Owned::take(PyObject_Call(node->op.get(), args, kwargs));
  if (result && !writes.end()) return nullptr;
  if (!result) {
    if (known && node->wanted) report_raised_node(self, node, tensors, &run, args, kwargs);
  } else if (known && !after_op(self, node, tensors, &run, result.get(), args, kwargs)) {
    if (report_failure(self) < 0) return nullptr;
  }
  return result.release();
}

bool make_op_name() {
  full_name = PyUnicode_InternFromString("_name");
  foreach_prefix = PyUnicode_InternFromString("aten::_foreach_");
  return full_name && foreach_prefix;
}

}  // namespace sonde_match
