// sonde.adapters.torch._match: the module.

#include "dispatch.h"
#include "matcher.h"
#include "recognise.h"

namespace {

// Torch asks a function in Python, for every op under a mode, whether somebody has registered a
// rule for that op and that kind of mode. Nobody does for ours: the answer is given here.

// find_rule(op, mode class); `self` is a pair: torch's own function, our mode
PyObject* find_rule(PyObject* self, PyObject* const* values, Py_ssize_t count) {
  PyObject* ours = PyTuple_GET_ITEM(self, 1);
  if (count == 2 && PyType_Check(values[1]) &&
      PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(values[1]),
                       reinterpret_cast<PyTypeObject*>(ours)))
    Py_RETURN_NONE;
  return PyObject_Vectorcall(PyTuple_GET_ITEM(self, 0), values, static_cast<size_t>(count),
                             nullptr);
}

// rule_finder(original, mode class) -> the function to put in its place
PyMethodDef find_rule_method = {
    "find_torch_dispatch_rule",
    reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)(void)>(find_rule)), METH_FASTCALL,
    "Torch's own, with an answer at once for Sonde's mode."};

PyObject* rule_finder(PyObject*, PyObject* args) {
  PyObject *original, *mode;
  if (!PyArg_ParseTuple(args, "OO!", &original, &PyType_Type, &mode)) return nullptr;
  return PyCFunction_New(&find_rule_method, args);
}

PyMethodDef module_methods[] = {
    {"probe", sonde_tensor::probe, METH_VARARGS,
     "Find the short way to what tensors are; see tensor.h."},
    {"rule_finder", rule_finder, METH_VARARGS, "Answers torch for our mode; see find_rule."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef module_definition = {PyModuleDef_HEAD_INIT, "sonde.adapters.torch._match",
                                 "The hot path of eager capture.", -1, module_methods, nullptr,
                                 nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__match(void) {
  using sonde_lane::LaneType;
  using sonde_match::MatcherType;
  using sonde_match::NodeType;
  if (!sonde_match::make_node_type() || !sonde_match::make_matcher_type() ||
      !sonde_lane::make_lane_type() || !sonde_lane::make_strings() ||
      !sonde_match::make_op_name() || !sonde_match::make_frame_names())
    return nullptr;
  PyObject* module = PyModule_Create(&module_definition);
  if (!module) return nullptr;
  // Counted up with every change of what Python sees of this module: matcher.py must agree.
  constexpr int kInterface = 1;
  if (PyModule_AddIntConstant(module, "INTERFACE", kInterface) < 0 ||
      PyModule_AddObjectRef(module, "Node", reinterpret_cast<PyObject*>(&NodeType)) < 0 ||
      PyModule_AddObjectRef(module, "Matcher", reinterpret_cast<PyObject*>(&MatcherType)) < 0 ||
      PyModule_AddObjectRef(module, "Lane", reinterpret_cast<PyObject*>(&LaneType)) < 0) {
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
