#include "screen.h"

#include <cmath>
#include <cstring>
#include <new>

namespace sonde_match {

namespace {

constexpr size_t kColumns = static_cast<size_t>(sonde::kRowColumns);

// Calling a kernel takes longer than reading this many elements.
constexpr int64_t kFewElements = 256;

template <typename Number>
bool are_finite(uintptr_t address, int64_t count) {
  const auto* numbers = reinterpret_cast<const Number*>(address);
  for (int64_t i = 0; i < count; ++i)
    if (!std::isfinite(numbers[i])) return false;
  return true;
}

// Reads a small tensor of a common dtype: 1 if all is finite, 0 if not, -1 where a kernel must read it.
int is_small_finite(const Measured& measured) {
  using sonde_tensor::torch;
  if (!measured.is_contiguous || measured.numel > kFewElements) return -1;
  if (measured.dtype == torch.dtypes[sonde_tensor::kFloat32])
    return are_finite<float>(measured.address, measured.numel);
  if (measured.dtype == torch.dtypes[sonde_tensor::kFloat64])
    return are_finite<double>(measured.address, measured.numel);
  return measured.dtype == torch.dtypes[sonde_tensor::kInt64] ? 1 : -1;
}

// Counts what is not finite; false with an error set.
bool count_non_finite(Screening* screening, const TensorUse& use, PyObject* code,
                      Measured* measured) {
  const int is_finite = is_small_finite(*measured);
  if (is_finite >= 0) {
    measured->result = is_finite ? 0 : kNotFinite;
    return true;
  }
  long long count;
  if (!sonde_tensor::number_from(
          screening->non_finite.call(nullptr, use.tensor, code, *measured), &count))
    return false;
  measured->result = count > 0 ? kNotFinite : 0;
  return true;
}

// Computes the row that tests are made of; false with an error set.
bool summarize(Screen* screen, const TensorUse& use, PyObject* code, Measured* measured) {
  std::vector<double>& rows = screen->screening->rows;
  const size_t start = rows.size();
  rows.resize(start + kColumns);
  if (!screen->summary.call(rows.data() + start, use.tensor, code, *measured)) {
    rows.resize(start);
    return false;
  }
  const auto number = static_cast<Py_ssize_t>(start / kColumns) + 1;
  measured->result = number * 2 + (is_finite(rows.data() + start) ? 0 : kNotFinite);
  return true;
}

bool has_row(const Measured& measured) { return measured.result >= 2; }

bool passes_tests(const Screen* screen, const Measured& measured) {
  const auto row = static_cast<size_t>((measured.result >> 1) - 1) * kColumns;
  return passes(screen->tests, screen->screening->rows.data() + row);
}

// 1, 0, or -1 with an error set.
int ask_about_unusual(Screening* screening, const TensorUse& use, bool is_tested) {
  const Owned slot = Owned::take(PyLong_FromSsize_t(use.slot));
  if (!slot) return -1;
  return sonde_tensor::truth_from(Owned::take(PyObject_CallFunctionObjArgs(
      screening->unusual.get(), use.node, use.io, slot.get(), use.tensor,
      is_tested ? Py_True : Py_False, nullptr)));
}

}  // namespace

bool screen_tensor(Screen* screen, const TensorUse& use, const Provenance& provenance,
                   bool* is_wanted, const Measured** known) {
  if (use.token == Py_False) return true;
  Screening* screening = screen->screening.get();
  const bool is_tested = !screen->tests.empty() && use.io == io_names.output;
  Measured found;
  Measured* entry = nullptr;
  const auto compute = [&](PyObject* code, Measured* measured) {
    return is_tested ? summarize(screen, use, code, measured)
                     : count_non_finite(screening, use, code, measured);
  };
  Outcome outcome = measure(screening->context, &screening->cache, use, provenance, &found, &entry,
                            compute);
  if (outcome == Outcome::kDone && is_tested && !has_row(found)) {
    // Read before by a screen that only looked for NaN and Inf.
    PyObject* code = PyDict_GetItemWithError(screening->context.codes.get(), found.dtype);
    if (!code || !is_readable(found)) {
      outcome = Outcome::kNotPlain;
    } else {
      if (!summarize(screen, use, code, &found)) return false;
      if (entry) entry->result = found.result;
    }
  }
  if (outcome == Outcome::kError) return false;
  if (outcome == Outcome::kNotPlain) {
    const int truth = ask_about_unusual(screening, use, is_tested);
    if (truth > 0) *is_wanted = true;
    return truth >= 0;
  }
  if (known && entry) *known = entry;
  if ((found.result & kNotFinite) && (screen->takes_inputs || !is_tested)) *is_wanted = true;
  if (is_tested && !passes_tests(screen, found)) *is_wanted = true;
  return true;
}

Copied plan_copy(const Context& context, PyObject* tensor, Copy* copy) {
  TensorInfo info;
  if (!sonde_tensor::read_info(tensor, &info)) return Copied::kNotPlain;
  PyObject* code = PyDict_GetItemWithError(context.codes.get(), info.dtype);
  if (!code && PyErr_Occurred()) return Copied::kError;
  if (!code || !is_readable(info) || info.dims < 0) return Copied::kNotPlain;
  long long size;
  if (!sonde_tensor::number_from(
          sonde_tensor::attribute(tensor, sonde_tensor::strings.nbytes), &size))
    return Copied::kError;
  copy->shape = sonde_tensor::attribute(tensor, sonde_tensor::strings.shape);
  if (!copy->shape) return Copied::kError;
  copy->dtype = Owned::share(info.dtype);
  copy->address = info.address;
  copy->size = static_cast<size_t>(size);
  copy->info = info;
  return Copied::kDone;
}

void Copy::write(char* to) const {
  const char* from = reinterpret_cast<const char*>(address);
  if (!size) return;
  if (info.is_contiguous) {
    std::memcpy(to, from, size);
    return;
  }
  const size_t element = size / static_cast<size_t>(info.numel);
  int64_t at[sonde_tensor::kMostDims] = {};
  int64_t offset = 0;
  for (int64_t i = 0; i < info.numel; ++i, to += element) {
    std::memcpy(to, from + offset * static_cast<int64_t>(element), element);
    for (int dim = info.dims - 1; dim >= 0; --dim) {
      offset += info.stride[dim];
      if (++at[dim] < info.shape[dim]) break;
      offset -= at[dim] * info.stride[dim];
      at[dim] = 0;
    }
  }
}

namespace {

// ---------------------------------------------------------------------------- Screening

PyObject* Screening_new(PyTypeObject* type, PyObject*, PyObject*) {
  Screening* self = static_cast<Screening*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  new (static_cast<ScreeningFields*>(self)) ScreeningFields();
  ++living.paths;
  return self;
}

int Screening_init(Screening* self, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"codes",      "foreign", "met",    "contiguous",
                                   "strided", "unusual", nullptr};
  PyObject *codes, *foreign, *met, *contiguous, *strided, *unusual;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$O!O!O!OOO", const_cast<char**>(keywords),
                                   &PyDict_Type, &codes, &PySet_Type, &foreign, &PySet_Type, &met,
                                   &contiguous, &strided, &unusual))
    return -1;
  self->context = {Owned::share(codes), Owned::share(foreign), Owned::share(met)};
  self->non_finite = {Owned::share(contiguous), Owned::share(strided)};
  self->unusual = Owned::share(unusual);
  return 0;
}

int Screening_traverse(Screening* self, visitproc visit, void* arg) {
  for (const Owned* field :
       {&self->context.codes, &self->context.foreign, &self->context.met,
        &self->non_finite.contiguous, &self->non_finite.strided, &self->unusual})
    if (int stop = field->visit(visit, arg)) return stop;
  return 0;
}

int Screening_clear(Screening* self) {
  self->context = {};
  self->non_finite = {};
  self->unusual.reset();
  return 0;
}

void Screening_dealloc(Screening* self) {
  PyObject_GC_UnTrack(self);
  static_cast<ScreeningFields*>(self)->~ScreeningFields();
  --living.paths;
  Py_TYPE(self)->tp_free(self);
}

PyObject* Screening_begin_step(Screening* self, PyObject*) {
  self->cache.measured.clear();
  self->rows.clear();
  Py_RETURN_NONE;
}

PyMethodDef screening_methods[] = {
    {"begin_step", reinterpret_cast<PyCFunction>(Screening_begin_step), METH_NOARGS,
     "Forget the tensors of the step before."},
    {nullptr, nullptr, 0, nullptr}};

// ------------------------------------------------------------------------------- Screen

PyObject* Screen_new(PyTypeObject* type, PyObject*, PyObject*) {
  Screen* self = static_cast<Screen*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  new (static_cast<ScreenFields*>(self)) ScreenFields();
  ++living.paths;
  return self;
}

// Reads tests from `bytes`; false with an error set where they are not valid tests.
bool read_tests(const char* bytes, Py_ssize_t size, RowTests* tests) {
  const auto length = static_cast<size_t>(size);
  tests->resize(length / sizeof(double));
  if (length) std::memcpy(tests->data(), bytes, tests->size() * sizeof(double));
  if (length % sizeof(double) == 0 && (tests->empty() || is_valid(*tests))) return true;
  PyErr_SetString(PyExc_ValueError, "these bytes are not tests of a row");
  return false;
}

int Screen_init(Screen* self, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"screening", "contiguous", "strided", "takes_inputs", "tests",
                                   nullptr};
  PyObject *screening, *contiguous, *strided;
  const char* bytes;
  Py_ssize_t size;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$O!OOpy#", const_cast<char**>(keywords),
                                   &ScreeningType, &screening, &contiguous, &strided,
                                   &self->takes_inputs, &bytes, &size) ||
      !read_tests(bytes, size, &self->tests))
    return -1;
  self->screening = sonde::OwnedObject<Screening>::share(screening);
  self->summary = {Owned::share(contiguous), Owned::share(strided)};
  return 0;
}

int Screen_traverse(Screen* self, visitproc visit, void* arg) {
  if (int stop = self->screening.visit(visit, arg)) return stop;
  if (int stop = self->summary.contiguous.visit(visit, arg)) return stop;
  return self->summary.strided.visit(visit, arg);
}

int Screen_clear(Screen* self) {
  self->screening.reset();
  self->summary = {};
  return 0;
}

void Screen_dealloc(Screen* self) {
  PyObject_GC_UnTrack(self);
  static_cast<ScreenFields*>(self)->~ScreenFields();
  --living.paths;
  Py_TYPE(self)->tp_free(self);
}

// passes(tests, row): both bytes of float64.
PyObject* Screen_passes(PyObject*, PyObject* args) {
  const char *bytes, *row;
  Py_ssize_t size, row_size;
  if (!PyArg_ParseTuple(args, "y#y#", &bytes, &size, &row, &row_size)) return nullptr;
  RowTests tests;
  if (!read_tests(bytes, size, &tests)) return nullptr;
  if (tests.empty()) {
    PyErr_SetString(PyExc_ValueError, "no bytes are not tests of a row");
    return nullptr;
  }
  double columns[kColumns];
  if (row_size != sizeof columns) {
    PyErr_Format(PyExc_ValueError, "a row has %zu bytes (got %zd)", sizeof columns, row_size);
    return nullptr;
  }
  std::memcpy(columns, row, sizeof columns);
  return PyBool_FromLong(passes(tests, columns));
}

PyMethodDef screen_methods[] = {
    {"passes", reinterpret_cast<PyCFunction>(Screen_passes), METH_VARARGS | METH_STATIC,
     "Whether a row passes the tests."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyTypeObject ScreeningType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject ScreenType = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool make_screen_types() {
  ScreeningType.tp_name = "sonde.adapters.torch.eager._match.Screening";
  ScreeningType.tp_basicsize = sizeof(Screening);
  ScreeningType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
  ScreeningType.tp_doc = "The state that the screens of one sink share.";
  ScreeningType.tp_new = Screening_new;
  ScreeningType.tp_init = reinterpret_cast<initproc>(Screening_init);
  ScreeningType.tp_dealloc = reinterpret_cast<destructor>(Screening_dealloc);
  ScreeningType.tp_traverse = reinterpret_cast<traverseproc>(Screening_traverse);
  ScreeningType.tp_clear = reinterpret_cast<inquiry>(Screening_clear);
  ScreeningType.tp_methods = screening_methods;
  ScreenType.tp_name = "sonde.adapters.torch.eager._match.Screen";
  ScreenType.tp_basicsize = sizeof(Screen);
  ScreenType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
  ScreenType.tp_doc = "The fast path of a sink that wants only some runs of an op.";
  ScreenType.tp_new = Screen_new;
  ScreenType.tp_init = reinterpret_cast<initproc>(Screen_init);
  ScreenType.tp_dealloc = reinterpret_cast<destructor>(Screen_dealloc);
  ScreenType.tp_traverse = reinterpret_cast<traverseproc>(Screen_traverse);
  ScreenType.tp_clear = reinterpret_cast<inquiry>(Screen_clear);
  ScreenType.tp_methods = screen_methods;
  return PyType_Ready(&ScreeningType) == 0 && PyType_Ready(&ScreenType) == 0;
}

}  // namespace sonde_match
