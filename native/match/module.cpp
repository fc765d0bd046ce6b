// sonde.adapters.torch.eager._match: the module.

#include "call_site.h"
#include "dispatch.h"
#include "find_node.h"
#include "guard_pair.h"
#include "matcher.h"
#include "tensor_ref.h"

namespace {

// For every op under a mode, torch calls a Python function that searches a registry for a rule of
// that op and that class of mode. There are none for Sonde's mode: this function answers at once.

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

// living() -> (matchers, nodes, fast paths)
PyObject* living_objects(PyObject*, PyObject*) {
  const sonde_match::Living& living = sonde_match::living;
  return Py_BuildValue("(nnn)", living.matchers, living.nodes, living.paths);
}

PyMethodDef module_methods[] = {
    {"probe", sonde_tensor::probe, METH_VARARGS,
     "Find out how to read tensors directly; see tensor.h."},
    {"learn_ref_layout", sonde_match::learn_ref_layout, METH_VARARGS,
     "Find the fields of TensorRef and StepInput; see tensor_ref.h."},
    {"living", living_objects, METH_NOARGS,
     "How many matchers, nodes and fast paths exist; for tests."},
    {"rule_finder", rule_finder, METH_VARARGS, "Answers torch for our mode; see find_rule."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef module_definition = {PyModuleDef_HEAD_INIT, "sonde.adapters.torch.eager._match",
                                 "The hot path of eager capture.", -1, module_methods, nullptr,
                                 nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__match(void) {
  using namespace sonde_match;
  if (!make_guard_pair_type() || !make_node_type() || !make_matcher_type() || !make_row_collector_type() ||
      !make_screen_types() || !sonde_tensor::make_strings() || !make_io_names() ||
      !make_op_name() || !make_site_names())
    return nullptr;
  sonde::Owned module = sonde::Owned::take(PyModule_Create(&module_definition));
  if (!module) return nullptr;
  if (PyModule_AddIntConstant(module.get(), "INTERFACE", sonde::kInterface) < 0 ||
      PyModule_AddType(module.get(), &GuardPairType) < 0 ||
      PyModule_AddType(module.get(), &NodeType) < 0 ||
      PyModule_AddType(module.get(), &MatcherType) < 0 ||
      PyModule_AddType(module.get(), &RowCollectorType) < 0 ||
      PyModule_AddType(module.get(), &ScreeningType) < 0 ||
      PyModule_AddType(module.get(), &ScreenType) < 0)
    return nullptr;
  return module.release();
}
