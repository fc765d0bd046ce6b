// Python functions for watch conditions that need more than statistics.
#include "module.h"

namespace sonde {
namespace {

bool read_number(PyObject* object, double& number) {
  number = PyFloat_AsDouble(object);
  return number != -1.0 || PyErr_Occurred() == nullptr;
}

}  // namespace

// address, dtype code, shape, strides, low, high
PyObject* count_between(PyObject*, Arguments arguments, Py_ssize_t count) {
  void* address = nullptr;
  DType dtype;
  Geometry geometry;
  double low = 0, high = 0;
  if (!expect_arguments("count_between", count, 6) || !read_address(arguments[0], address) ||
      !read_dtype(arguments[1], dtype) || !read_geometry(arguments[2], arguments[3], geometry) ||
      !read_number(arguments[4], low) || !read_number(arguments[5], high)) {
    return nullptr;
  }
  const Layout layout = any_order(address, kItemSize[static_cast<int>(dtype)],
                                  geometry.shape.data(), geometry.strides.data(), geometry.dims);
  std::int64_t found = 0;
  without_gil(layout.count * layout.itemsize,
              [&] { found = count_between(layout, dtype, low, high); });
  return PyLong_FromLongLong(found);
}

// address, dtype code and strides of now and of before, shape, relative, absolute tolerance
PyObject* tally_change(PyObject*, Arguments arguments, Py_ssize_t count) {
  void* addresses[2];
  DType dtypes[2];
  Geometry now, before;
  double relative = 0, absolute = 0;
  if (!expect_arguments("tally_change", count, 9) || !read_address(arguments[0], addresses[0]) ||
      !read_dtype(arguments[1], dtypes[0]) || !read_geometry(arguments[6], arguments[2], now) ||
      !read_address(arguments[3], addresses[1]) || !read_dtype(arguments[4], dtypes[1]) ||
      !read_geometry(arguments[6], arguments[5], before) || !read_number(arguments[7], relative) ||
      !read_number(arguments[8], absolute)) {
    return nullptr;
  }
  const int itemsizes[2] = {kItemSize[static_cast<int>(dtypes[0])],
                            kItemSize[static_cast<int>(dtypes[1])]};
  const std::int64_t* const strides[2] = {now.strides.data(), before.strides.data()};
  const PairLayout layout =
      any_pair_order(addresses, itemsizes, now.shape.data(), strides, now.dims);
  ChangeTally tally;
  without_gil(layout.count * (itemsizes[0] + itemsizes[1]), [&] {
    tally = tally_change(layout, dtypes[0], dtypes[1], relative, absolute);
  });
  return Py_BuildValue("dL", tally.moved_sum, static_cast<long long>(tally.apart));
}

}  // namespace sonde
