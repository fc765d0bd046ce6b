#include "dispatch.h"

#include "passage.h"
#include "recognise.h"

namespace sonde_match {

namespace {

PyObject* op_name;

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

PyObject* call_op(Matcher* self, PyObject* op, PyObject* args, PyObject* kwargs) {
  Theirs theirs(&self->own_time);
  return PyObject_Call(op, args, kwargs);
}

// Calls an op as torch does; of an OpOverload the function inside, which has no Python frame.
// Others run Python, of which nothing shall be compiled in here.
PyObject* call_func(Matcher* self, PyObject* func, PyObject* args, PyObject* kwargs) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(func)) != self->overload_type) {
    Theirs theirs(&self->own_time);
    PyObject* compiler = PyObject_CallOneArg(self->set_eval_frame, Py_None);
    if (!compiler) return nullptr;
    PyObject* result = PyObject_Call(func, args, kwargs);
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject* done = PyObject_CallOneArg(self->set_eval_frame, compiler);
    Py_DECREF(compiler);
    if (!done) PyErr_Clear();
    Py_XDECREF(done);
    PyErr_Restore(type, value, trace);
    return result;
  }
  PyObject* op = PyObject_GetAttr(func, op_name);
  if (!op) return nullptr;
  PyObject* result = call_op(self, op, args, kwargs);
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
      PyObject* done =
          PyObject_CallFunctionObjArgs(self->after, seen, result, args, given, nullptr);
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
  if (!self->look) {
    PyErr_SetString(PyExc_RuntimeError, "connect() comes first");
    return nullptr;
  }
  Ours ours(&self->own_time);
  ++self->own_time.visits;
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
  PyObject* result = call_op(self, node->op, args, kwargs);
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

bool make_op_name() {
  op_name = PyUnicode_InternFromString("_op");
  return op_name != nullptr;
}

}  // namespace sonde_match
