// Where the elements of a tensor lie, and walks over them.
#pragma once

#include <array>

#include "element.h"

namespace sonde {

inline constexpr int kMaxDims = 64;  // what torch and numpy allow

// A tensor as nested runs: dimension dims-1 is the innermost. Strides are in bytes.
struct Layout {
  const char* base = nullptr;
  int itemsize = 1;
  int dims = 0;
  std::array<std::int64_t, kMaxDims> sizes;
  std::array<std::int64_t, kMaxDims> strides;
  std::int64_t count = 0;   // elements a walk visits
  std::int64_t copies = 1;  // how many elements of the tensor each visited element counts for

  bool is_one_run() const { return dims == 1 && strides[0] == itemsize; }
  bool is_aligned() const {
    return reinterpret_cast<std::uintptr_t>(base) % static_cast<unsigned>(itemsize) == 0;
  }
};

// The same elements in whatever order reads memory best: dimensions sorted by stride, reversed
// ones turned round, expanded ones (stride 0) left out and counted in `copies`, and dimensions
// that follow each other without a gap made one. A permuted dense tensor becomes a single run.
Layout any_order(const void* address, int itemsize, const std::int64_t* shape,
                 const std::int64_t* strides, int dims);

// The elements in the order of the logical shape, last dimension fastest.
Layout logical_order(const void* address, int itemsize, const std::int64_t* shape,
                     const std::int64_t* strides, int dims);

// Calls visit(first, length) for each piece of innermost run with elements begin <= i < end.
template <class Visit>
void each_run(const Layout& layout, std::int64_t begin, std::int64_t end, Visit visit) {
  const int inner = layout.dims - 1;
  std::array<std::int64_t, kMaxDims> index;
  std::int64_t rest = begin;
  for (int d = inner; d >= 0; --d) {
    index[static_cast<std::size_t>(d)] = rest % layout.sizes[static_cast<std::size_t>(d)];
    rest /= layout.sizes[static_cast<std::size_t>(d)];
  }
  const char* p = layout.base;
  for (int d = 0; d <= inner; ++d) {
    p += index[static_cast<std::size_t>(d)] * layout.strides[static_cast<std::size_t>(d)];
  }
  const auto last = static_cast<std::size_t>(inner);
  for (std::int64_t i = begin; i < end;) {
    const std::int64_t run = layout.sizes[last] - index[last];
    const std::int64_t length = run < end - i ? run : end - i;
    visit(p, length);
    i += length;
    p -= index[last] * layout.strides[last];
    index[last] = 0;
    for (int d = inner - 1; d >= 0; --d) {  // carry
      const auto k = static_cast<std::size_t>(d);
      p += layout.strides[k];
      if (++index[k] < layout.sizes[k]) break;
      p -= index[k] * layout.strides[k];
      index[k] = 0;
    }
  }
}

// Two tensors of the same shape, walked together.
struct PairLayout {
  const char* base[2] = {nullptr, nullptr};
  int itemsize[2] = {1, 1};
  int dims = 0;
  std::array<std::int64_t, kMaxDims> sizes;
  std::array<std::int64_t, kMaxDims> strides[2];
  std::int64_t count = 0;
  std::int64_t copies = 1;
};

// Pairs of elements with the same index, in whatever order reads the first tensor best; dimensions
// expanded on both sides are left out and counted in `copies`.
PairLayout any_pair_order(const void* const* addresses, const int* itemsizes,
                          const std::int64_t* shape, const std::int64_t* const* strides, int dims);

// Calls visit(first, second, length) for each piece of innermost run with pairs begin <= i < end.
template <class Visit>
void each_pair_run(const PairLayout& layout, std::int64_t begin, std::int64_t end, Visit visit) {
  const auto last = static_cast<std::size_t>(layout.dims - 1);
  for (std::int64_t i = begin; i < end;) {
    const char* p[2] = {layout.base[0], layout.base[1]};
    std::int64_t rest = i;
    std::int64_t inner = 0;
    for (std::size_t d = last + 1; d-- > 0;) {
      const std::int64_t index = rest % layout.sizes[d];
      rest /= layout.sizes[d];
      if (d == last) inner = index;
      for (int side = 0; side < 2; ++side) p[side] += index * layout.strides[side][d];
    }
    const std::int64_t run = layout.sizes[last] - inner;
    const std::int64_t length = run < end - i ? run : end - i;
    visit(p[0], p[1], length);
    i += length;
  }
}

// Copies `length` elements that lie `stride` bytes apart.
void gather(char* out, const char* p, std::int64_t length, std::int64_t stride, int itemsize);

}  // namespace sonde
