#include "row_collector.h"

#include <new>
#include <utility>

namespace sonde_match {

bool begin_op(RowCollector* collector) {
  long long timestamp;
  if (!sonde_tensor::number_from(Owned::take(PyObject_CallNoArgs(collector->now.get())),
                                 &timestamp))
    return false;
  collector->timestamp = timestamp;
  return true;
}

namespace {

// Asks the sink for the label of a tensor whose shape or dtype is new; false with an error set.
bool renew(RowCollector* collector, RowLabel* label, const TensorUse& use,
           const TensorInfo& info) {
  const Owned slot = Owned::take(PyLong_FromSsize_t(use.slot));
  if (!slot) return false;
  label->label = Owned::take(PyObject_CallFunctionObjArgs(
      collector->label.get(), use.node, use.io, slot.get(), use.tensor, nullptr));
  label->dtype = info.dtype;
  label->dims = info.dims;
  std::memcpy(label->shape, info.shape, sizeof(label->shape));
  return static_cast<bool>(label->label);
}

bool hand_over_unusual(RowCollector* collector, const TensorUse& use) {
  const Owned slot = Owned::take(PyLong_FromSsize_t(use.slot));
  const Owned timestamp = Owned::take(PyLong_FromLongLong(collector->timestamp));
  return slot && timestamp &&
         Owned::take(PyObject_CallFunctionObjArgs(collector->unusual.get(), use.node, use.io,
                                                  slot.get(), use.tensor, timestamp.get(),
                                                  nullptr));
}

}  // namespace

bool collect(RowCollector* collector, RowLabel* label, const TensorUse& given,
             const Provenance& provenance, const Measured** known) {
  TensorUse use = given;
  if (use.token == Py_False) use.token = nullptr;
  Measured found;
  Measured* entry = nullptr;
  const auto summarize = [&](PyObject* code, Measured* measured) {
    double* row = collector->reserve();
    if (!row || !collector->summary.call(row, use.tensor, code, *measured)) return false;
    measured->result = static_cast<Py_ssize_t>(collector->row_count++);
    return true;
  };
  switch (measure(collector->context, &collector->cache, use, provenance, &found, &entry,
                  summarize)) {
    case Outcome::kError:
      return false;
    case Outcome::kNotPlain:
      return hand_over_unusual(collector, use);
    case Outcome::kDone:
      break;
  }
  if (known && entry) *known = entry;
  if (!label->fits(found) && !renew(collector, label, use, found)) return false;
  collector->add(Owned::share(label->label.get()), collector->timestamp, found.result);
  return true;
}

namespace {

PyObject* RowCollector_new(PyTypeObject* type, PyObject*, PyObject*) {
  RowCollector* self = static_cast<RowCollector*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  new (static_cast<RowCollectorFields*>(self)) RowCollectorFields();
  ++living.paths;
  return self;
}

int RowCollector_init(RowCollector* self, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"codes",  "foreign",      "met",           "contiguous",
                                   "strided", "label",        "unusual",       "now",
                                   "takes_inputs", "takes_outputs", nullptr};
  PyObject *codes, *foreign, *met, *contiguous, *strided, *label, *unusual, *now;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$O!O!O!OOOOOpp", const_cast<char**>(keywords),
                                   &PyDict_Type, &codes, &PySet_Type, &foreign, &PySet_Type, &met,
                                   &contiguous, &strided, &label, &unusual, &now,
                                   &self->takes_inputs, &self->takes_outputs))
    return -1;
  self->context = {Owned::share(codes), Owned::share(foreign), Owned::share(met)};
  self->summary = {Owned::share(contiguous), Owned::share(strided)};
  self->label = Owned::share(label);
  self->unusual = Owned::share(unusual);
  self->now = Owned::share(now);
  return 0;
}

int RowCollector_traverse(RowCollector* self, visitproc visit, void* arg) {
  for (const Owned* field :
       {&self->context.codes, &self->context.foreign, &self->context.met,
        &self->summary.contiguous, &self->summary.strided, &self->label, &self->unusual,
        &self->now})
    if (int stop = field->visit(visit, arg)) return stop;
  for (const Owned& label : self->labels)
    if (int stop = label.visit(visit, arg)) return stop;
  return 0;
}

int RowCollector_clear(RowCollector* self) {
  self->context = {};
  self->summary = {};
  self->label.reset();
  self->unusual.reset();
  self->now.reset();
  std::vector<Owned> labels;
  labels.swap(self->labels);
  self->begin_step();
  return 0;
}

void RowCollector_dealloc(RowCollector* self) {
  PyObject_GC_UnTrack(self);
  static_cast<RowCollectorFields*>(self)->~RowCollectorFields();
  --living.paths;
  Py_TYPE(self)->tp_free(self);
}

PyObject* RowCollector_begin_step(RowCollector* self, PyObject*) {
  self->begin_step();
  Py_RETURN_NONE;
}

PyObject* RowCollector_reserve(RowCollector* self, PyObject*) {
  double* row = self->reserve();
  return row ? PyLong_FromVoidPtr(row) : nullptr;
}

PyObject* RowCollector_keep(RowCollector* self, PyObject*) {
  return PyLong_FromSize_t(self->row_count++);
}

// add(label, timestamp, row number)
PyObject* RowCollector_add(RowCollector* self, PyObject* args) {
  PyObject* label;
  long long timestamp, number;
  if (!PyArg_ParseTuple(args, "OLL", &label, &timestamp, &number)) return nullptr;
  if (number < 0 || static_cast<size_t>(number) >= self->row_count) {
    PyErr_Format(PyExc_IndexError, "there is no row %lld", number);
    return nullptr;
  }
  self->add(Owned::share(label), timestamp, number);
  Py_RETURN_NONE;
}

// take() -> (labels, timestamps as bytes of int64, rows as bytes of float64)
PyObject* RowCollector_take(RowCollector* self, PyObject*) {
  const size_t count = self->labels.size();
  const size_t row_bytes = static_cast<size_t>(sonde::kRowColumns) * sizeof(double);
  const Owned timestamps = Owned::take(
      PyBytes_FromStringAndSize(reinterpret_cast<const char*>(self->timestamps.data()),
                                static_cast<Py_ssize_t>(count * sizeof(int64_t))));
  const Owned rows = Owned::take(
      PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(count * row_bytes)));
  const Owned labels = Owned::take(PyList_New(static_cast<Py_ssize_t>(count)));
  if (!timestamps || !rows || !labels) return nullptr;
  const char* from = reinterpret_cast<const char*>(self->rows.data());
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(PyBytes_AS_STRING(rows.get()) + i * row_bytes,
                from + static_cast<size_t>(self->numbers[i]) * row_bytes, row_bytes);
    PyList_SET_ITEM(labels.get(), static_cast<Py_ssize_t>(i), self->labels[i].release());
  }
  self->begin_step();
  return PyTuple_Pack(3, labels.get(), timestamps.get(), rows.get());
}

PyMethodDef methods[] = {
    {"begin_step", reinterpret_cast<PyCFunction>(RowCollector_begin_step), METH_NOARGS,
     "Forget the rows of the step before."},
    {"reserve", reinterpret_cast<PyCFunction>(RowCollector_reserve), METH_NOARGS,
     "The address of the next row."},
    {"keep", reinterpret_cast<PyCFunction>(RowCollector_keep), METH_NOARGS,
     "Make it one of the rows; its number."},
    {"add", reinterpret_cast<PyCFunction>(RowCollector_add), METH_VARARGS,
     "Add a tensor: label, timestamp, number of its row."},
    {"take", reinterpret_cast<PyCFunction>(RowCollector_take), METH_NOARGS,
     "Hand over what was collected: labels, timestamps, a row for each."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyTypeObject RowCollectorType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool make_row_collector_type() {
  RowCollectorType.tp_name = "sonde.adapters.torch.eager._match.RowCollector";
  RowCollectorType.tp_basicsize = sizeof(RowCollector);
  RowCollectorType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
  RowCollectorType.tp_doc = "The fast path for a row of statistics of every tensor.";
  RowCollectorType.tp_new = RowCollector_new;
  RowCollectorType.tp_init = reinterpret_cast<initproc>(RowCollector_init);
  RowCollectorType.tp_dealloc = reinterpret_cast<destructor>(RowCollector_dealloc);
  RowCollectorType.tp_traverse = reinterpret_cast<traverseproc>(RowCollector_traverse);
  RowCollectorType.tp_clear = reinterpret_cast<inquiry>(RowCollector_clear);
  RowCollectorType.tp_methods = methods;
  return PyType_Ready(&RowCollectorType) == 0;
}

}  // namespace sonde_match
