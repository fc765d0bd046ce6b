#include "layout.h"

#include <algorithm>

namespace sonde {
namespace {

struct Dimension {
  std::int64_t size;
  std::int64_t stride;
};

// Makes one dimension of two where the outer goes on where the inner ends.
void set_dimensions(Layout& layout, const Dimension* dimensions, int dims) {
  layout.dims = 0;
  layout.count = 1;
  for (int d = 0; d < dims; ++d) {
    layout.count *= dimensions[d].size;
    if (layout.dims > 0) {
      const auto outer = static_cast<std::size_t>(layout.dims - 1);
      if (layout.strides[outer] == dimensions[d].stride * dimensions[d].size) {
        layout.sizes[outer] *= dimensions[d].size;
        layout.strides[outer] = dimensions[d].stride;
        continue;
      }
    }
    const auto next = static_cast<std::size_t>(layout.dims++);
    layout.sizes[next] = dimensions[d].size;
    layout.strides[next] = dimensions[d].stride;
  }
  if (layout.dims == 0) {  // a single element
    layout.dims = 1;
    layout.sizes[0] = 1;
    layout.strides[0] = layout.itemsize;
  }
}

template <class T>
void gather_as(char* out, const char* p, std::int64_t length, std::int64_t stride) {
  for (std::int64_t i = 0; i < length; ++i) {
    std::memcpy(out + i * static_cast<std::int64_t>(sizeof(T)), p + i * stride, sizeof(T));
  }
}

}  // namespace

Layout any_order(const void* address, int itemsize, const std::int64_t* shape,
                 const std::int64_t* strides, int dims) {
  Layout layout;
  layout.base = static_cast<const char*>(address);
  layout.itemsize = itemsize;
  std::array<Dimension, kMaxDims> kept;
  int count = 0;
  for (int d = 0; d < dims; ++d) {
    if (shape[d] == 0) return layout;
    if (shape[d] == 1) continue;
    std::int64_t stride = strides[d] * itemsize;
    if (stride == 0) {
      layout.copies *= shape[d];
      continue;
    }
    if (stride < 0) {
      layout.base += stride * (shape[d] - 1);
      stride = -stride;
    }
    kept[static_cast<std::size_t>(count++)] = {shape[d], stride};
  }
  std::stable_sort(kept.begin(), kept.begin() + count,
                   [](const Dimension& a, const Dimension& b) { return a.stride > b.stride; });
  set_dimensions(layout, kept.data(), count);
  return layout;
}

Layout logical_order(const void* address, int itemsize, const std::int64_t* shape,
                     const std::int64_t* strides, int dims) {
  Layout layout;
  layout.base = static_cast<const char*>(address);
  layout.itemsize = itemsize;
  std::array<Dimension, kMaxDims> kept;
  int count = 0;
  for (int d = 0; d < dims; ++d) {
    if (shape[d] == 0) return layout;
    if (shape[d] != 1) kept[static_cast<std::size_t>(count++)] = {shape[d], strides[d] * itemsize};
  }
  set_dimensions(layout, kept.data(), count);
  return layout;
}

PairLayout any_pair_order(const void* const* addresses, const int* itemsizes,
                          const std::int64_t* shape, const std::int64_t* const* strides,
                          int dims) {
  struct Both {
    std::int64_t size;
    std::int64_t stride[2];
  };
  PairLayout layout;
  for (int side = 0; side < 2; ++side) {
    layout.base[side] = static_cast<const char*>(addresses[side]);
    layout.itemsize[side] = itemsizes[side];
  }
  std::array<Both, kMaxDims> kept;
  int count = 0;
  for (int d = 0; d < dims; ++d) {
    if (shape[d] == 0) return layout;
    if (shape[d] == 1) continue;
    Both both{shape[d], {strides[0][d] * itemsizes[0], strides[1][d] * itemsizes[1]}};
    if (both.stride[0] == 0 && both.stride[1] == 0) {
      layout.copies *= shape[d];
      continue;
    }
    if (both.stride[0] < 0) {
      for (int side = 0; side < 2; ++side) {
        layout.base[side] += both.stride[side] * (shape[d] - 1);
        both.stride[side] = -both.stride[side];
      }
    }
    kept[static_cast<std::size_t>(count++)] = both;
  }
  std::stable_sort(kept.begin(), kept.begin() + count,
                   [](const Both& a, const Both& b) { return a.stride[0] > b.stride[0]; });
  layout.count = 1;
  for (int k = 0; k < count; ++k) {
    const Both& next = kept[static_cast<std::size_t>(k)];
    layout.count *= next.size;
    const auto outer = static_cast<std::size_t>(layout.dims - 1);
    const bool follows = layout.dims > 0 &&
                         layout.strides[0][outer] == next.stride[0] * next.size &&
                         layout.strides[1][outer] == next.stride[1] * next.size;
    const auto place = follows ? outer : static_cast<std::size_t>(layout.dims++);
    layout.sizes[place] = follows ? layout.sizes[place] * next.size : next.size;
    for (int side = 0; side < 2; ++side) layout.strides[side][place] = next.stride[side];
  }
  if (layout.dims == 0) {  // a single pair
    layout.dims = 1;
    layout.sizes[0] = 1;
    for (int side = 0; side < 2; ++side) layout.strides[side][0] = itemsizes[side];
  }
  return layout;
}

void gather(char* out, const char* p, std::int64_t length, std::int64_t stride, int itemsize) {
  if (stride == itemsize) {
    std::memcpy(out, p, static_cast<std::size_t>(length * itemsize));
    return;
  }
  switch (itemsize) {
    case 1:
      return gather_as<std::uint8_t>(out, p, length, stride);
    case 2:
      return gather_as<std::uint16_t>(out, p, length, stride);
    case 4:
      return gather_as<std::uint32_t>(out, p, length, stride);
    case 8:
      return gather_as<std::uint64_t>(out, p, length, stride);
    default:
      for (std::int64_t i = 0; i < length; ++i) {
        std::memcpy(out + i * itemsize, p + i * stride, static_cast<std::size_t>(itemsize));
      }
  }
}

}  // namespace sonde
