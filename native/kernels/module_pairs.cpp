// Comparing two tensors, for Python.
#include "module.h"

namespace sonde {
namespace {

PyObject* compare_pairs(const PairLayout& layout, DType first, DType second, void* row) {
  const std::int64_t bytes = layout.count * (layout.itemsize[0] + layout.itemsize[1]);
  without_gil(bytes, [&] { compare(layout, first, second, static_cast<double*>(row)); });
  Py_RETURN_NONE;
}

}  // namespace

// out address, then address, dtype code and strides of each side, shape
PyObject* compare_strided_into(PyObject*, Arguments arguments, Py_ssize_t count) {
  void* row = nullptr;
  void* addresses[2];
  DType dtypes[2];
  Geometry first, second;
  if (!expect_arguments("compare_strided_into", count, 8) || !read_address(arguments[0], row) ||
      !read_address(arguments[1], addresses[0]) || !read_dtype(arguments[2], dtypes[0]) ||
      !read_geometry(arguments[7], arguments[3], first) ||
      !read_address(arguments[4], addresses[1]) || !read_dtype(arguments[5], dtypes[1]) ||
      !read_geometry(arguments[7], arguments[6], second)) {
    return nullptr;
  }
  const int itemsizes[2] = {kItemSize[static_cast<int>(dtypes[0])],
                            kItemSize[static_cast<int>(dtypes[1])]};
  const std::int64_t* const strides[2] = {first.strides.data(), second.strides.data()};
  return compare_pairs(
      any_pair_order(addresses, itemsizes, first.shape.data(), strides, first.dims), dtypes[0],
      dtypes[1], row);
}

}  // namespace sonde
