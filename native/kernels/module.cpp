// The Python module sonde.kernels._native.
#include "module.h"

namespace sonde {
namespace {

struct Tensor {
  void* address = nullptr;
  DType dtype = DType::Bool;
  Layout layout;

  std::int64_t bytes() const { return layout.count * layout.itemsize; }
};

// address, dtype code, element count
bool read_run(Arguments arguments, Tensor& tensor) {
  std::int64_t count = 0;
  if (!read_address(arguments[0], tensor.address) || !read_dtype(arguments[1], tensor.dtype) ||
      !read_count(arguments[2], count)) {
    return false;
  }
  tensor.layout =
      single_run(tensor.address, count, kItemSize[static_cast<int>(tensor.dtype)]);
  return true;
}

// address, dtype code, shape, strides
bool read_strided(Arguments arguments, Tensor& tensor) {
  Geometry geometry;
  if (!read_address(arguments[0], tensor.address) || !read_dtype(arguments[1], tensor.dtype) ||
      !read_geometry(arguments[2], arguments[3], geometry)) {
    return false;
  }
  tensor.layout = any_order(tensor.address, kItemSize[static_cast<int>(tensor.dtype)],
                            geometry.shape.data(), geometry.strides.data(), geometry.dims);
  return true;
}

void fill_row(const Tensor& tensor, Depth depth, double* row) {
  without_gil(tensor.bytes(), [&] { summarize(tensor.layout, tensor.dtype, depth, row); });
}

template <Depth depth>
PyObject* run_into(PyObject*, Arguments arguments, Py_ssize_t count) {
  void* row = nullptr;
  Tensor tensor;
  if (!expect_arguments("summarize_into", count, 4) || !read_address(arguments[0], row) ||
      !read_run(arguments + 1, tensor)) {
    return nullptr;
  }
  fill_row(tensor, depth, static_cast<double*>(row));
  Py_RETURN_NONE;
}

template <Depth depth>
PyObject* strided_into(PyObject*, Arguments arguments, Py_ssize_t count) {
  void* row = nullptr;
  Tensor tensor;
  if (!expect_arguments("summarize_strided_into", count, 5) ||
      !read_address(arguments[0], row) || !read_strided(arguments + 1, tensor)) {
    return nullptr;
  }
  fill_row(tensor, depth, static_cast<double*>(row));
  Py_RETURN_NONE;
}

PyObject* extreme_object(const double* row, int column, DType dtype) {
  if (!is_integer(dtype) || row[kCount] == 0) return PyFloat_FromDouble(row[column]);
  if (!is_wide_integer(dtype)) return PyLong_FromDouble(row[column]);
  const bool is_max = column == kMax || column == kFiniteMax;
  std::uint64_t bits;
  std::memcpy(&bits, row + (is_max ? kFiniteMax : kFiniteMin), sizeof bits);
  return dtype == DType::UInt64 ? PyLong_FromUnsignedLongLong(bits)
                                : PyLong_FromLongLong(static_cast<std::int64_t>(bits));
}

// The row as the fields of Statistics: counts and integer extremes as int, the rest as float.
PyObject* row_as_fields(const double* row, DType dtype) {
  Owned fields = Owned::take(PyTuple_New(kDtype));
  if (!fields) return nullptr;
  for (int column = 0; column < kDtype; ++column) {
    PyObject* value = column <= kPositiveCount ? PyLong_FromDouble(row[column])
                      : column <= kFiniteMin   ? extreme_object(row, column, dtype)
                                               : PyFloat_FromDouble(row[column]);
    if (value == nullptr) return nullptr;
    PyTuple_SET_ITEM(fields.get(), column, value);
  }
  return fields.release();
}

PyObject* summarize_fields(PyObject*, Arguments arguments, Py_ssize_t count) {
  Tensor tensor;
  if (!expect_arguments("summarize_fields", count, 4) || !read_strided(arguments, tensor)) {
    return nullptr;
  }
  double row[kRowColumns];
  fill_row(tensor, Depth::Full, row);
  return row_as_fields(row, tensor.dtype);
}

PyObject* count_of(const Tensor& tensor) {
  std::int64_t found = 0;
  without_gil(tensor.bytes(), [&] { found = count_non_finite(tensor.layout, tensor.dtype); });
  return PyLong_FromLongLong(found);
}

PyObject* non_finite(PyObject*, Arguments arguments, Py_ssize_t count) {
  Tensor tensor;
  if (!expect_arguments("non_finite", count, 3) || !read_run(arguments, tensor)) return nullptr;
  return count_of(tensor);
}

PyObject* non_finite_strided(PyObject*, Arguments arguments, Py_ssize_t count) {
  Tensor tensor;
  if (!expect_arguments("non_finite_strided", count, 4) || !read_strided(arguments, tensor)) {
    return nullptr;
  }
  return count_of(tensor);
}

// out address, address, itemsize, shape, strides, begin, end
PyObject* copy_range_into(PyObject*, Arguments arguments, Py_ssize_t count) {
  void* out = nullptr;
  void* address = nullptr;
  std::int64_t itemsize = 0, begin = 0, end = 0;
  Geometry geometry;
  if (!expect_arguments("copy_range_into", count, 7) || !read_address(arguments[0], out) ||
      !read_address(arguments[1], address) || !read_count(arguments[2], itemsize) ||
      !read_geometry(arguments[3], arguments[4], geometry) || !read_count(arguments[5], begin) ||
      !read_count(arguments[6], end)) {
    return nullptr;
  }
  const Layout layout = logical_order(address, static_cast<int>(itemsize), geometry.shape.data(),
                                      geometry.strides.data(), geometry.dims);
  if (end > layout.count) {
    PyErr_SetString(PyExc_ValueError, "copy_range_into: the range ends beyond the tensor");
    return nullptr;
  }
  without_gil((end - begin) * itemsize,
              [&] { copy_range(layout, begin, end, static_cast<char*>(out)); });
  Py_RETURN_NONE;
}

PyObject* thread_limit(PyObject*, PyObject* limit) {
  const long value = PyLong_AsLong(limit);
  if (value == -1 && PyErr_Occurred() != nullptr) return nullptr;
  if (value < 1 || value > 4096) {
    PyErr_SetString(PyExc_ValueError, "thread_limit: between 1 and 4096");
    return nullptr;
  }
  return PyLong_FromLong(set_thread_limit(static_cast<int>(value)));
}

PyObject* paths(PyObject*, PyObject*) {
  Owned names = Owned::take(PyList_New(0));
  if (!names) return nullptr;
  for (const Path* path : available_paths()) {
    const Owned name = Owned::take(PyUnicode_FromString(path->name));
    if (!name || PyList_Append(names.get(), name.get()) != 0) return nullptr;
  }
  return names.release();
}

PyObject* path(PyObject*, PyObject*) { return PyUnicode_FromString(current_path().name); }

PyObject* use_path(PyObject*, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return nullptr;
  if (choose_path(text)) Py_RETURN_NONE;
  PyErr_Format(PyExc_ValueError, "this processor has no path %R", name);
  return nullptr;
}

PyObject* dtype_names(PyObject*, PyObject*) {
  Owned names = Owned::take(PyTuple_New(kDTypeCount));
  if (!names) return nullptr;
  for (int code = 0; code < kDTypeCount; ++code) {
    PyObject* name = PyUnicode_FromString(kDTypeNames[code]);
    if (name == nullptr) return nullptr;
    PyTuple_SET_ITEM(names.get(), code, name);
  }
  return names.release();
}

PyObject* read_bytes(PyObject*, Arguments arguments, Py_ssize_t count) {
  void* address = nullptr;
  std::int64_t size = 0;
  if (!expect_arguments("read_bytes", count, 2) || !read_address(arguments[0], address) ||
      !read_count(arguments[1], size)) {
    return nullptr;
  }
  double total = 0;
  without_gil(size, [&] {
    total = current_path().read_all(static_cast<const char*>(address),
                                    static_cast<std::size_t>(size));
  });
  return PyFloat_FromDouble(total);
}

using Fast = PyObject* (*)(PyObject*, Arguments, Py_ssize_t);

PyCFunction as_function(Fast function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"summarize_into", as_function(run_into<Depth::Full>), METH_FASTCALL,
     "summarize_into(out_address, address, dtype_code, numel)"},
    {"summarize_strided_into", as_function(strided_into<Depth::Full>), METH_FASTCALL,
     "summarize_strided_into(out_address, address, dtype_code, shape, strides)"},
    {"outline_into", as_function(run_into<Depth::Outline>), METH_FASTCALL,
     "outline_into(out_address, address, dtype_code, numel)"},
    {"outline_strided_into", as_function(strided_into<Depth::Outline>), METH_FASTCALL,
     "outline_strided_into(out_address, address, dtype_code, shape, strides)"},
    {"summarize_fields", as_function(summarize_fields), METH_FASTCALL,
     "summarize_fields(address, dtype_code, shape, strides)"},
    {"non_finite", as_function(non_finite), METH_FASTCALL,
     "non_finite(address, dtype_code, numel)"},
    {"non_finite_strided", as_function(non_finite_strided), METH_FASTCALL,
     "non_finite_strided(address, dtype_code, shape, strides)"},
    {"compare_strided_into", as_function(compare_strided_into), METH_FASTCALL,
     "compare_strided_into(out_address, address_a, code_a, strides_a, address_b, code_b, "
     "strides_b, shape)"},
    {"count_between", as_function(count_between), METH_FASTCALL,
     "count_between(address, dtype_code, shape, strides, low, high)"},
    {"tally_change", as_function(tally_change), METH_FASTCALL,
     "tally_change(address_a, code_a, strides_a, address_b, code_b, strides_b, shape, rtol, atol)"},
    {"copy_range_into", as_function(copy_range_into), METH_FASTCALL,
     "copy_range_into(out_address, address, itemsize, shape, strides, begin, end)"},
    {"format_rows", as_function(format_rows), METH_FASTCALL,
     "format_rows(heads, tails, timestamps_address, rows_address, row_count, columns, texts)"},
    {"thread_limit", thread_limit, METH_O, "thread_limit(limit)"},
    {"paths", paths, METH_NOARGS, "paths()"},
    {"path", path, METH_NOARGS, "path()"},
    {"use_path", use_path, METH_O, "use_path(name)"},
    {"dtype_names", dtype_names, METH_NOARGS, "dtype_names()"},
    {"read_bytes", as_function(read_bytes), METH_FASTCALL, "read_bytes(address, size)"},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef_Slot slots[] = {
#if defined(Py_GIL_DISABLED)
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "sonde.kernels._native", nullptr, 0, methods, slots,
    nullptr,               nullptr,                 nullptr,
};

}  // namespace
}  // namespace sonde

PyMODINIT_FUNC PyInit__native() { return PyModuleDef_Init(&sonde::definition); }
