// Scans for watch conditions that need more than statistics. Included after scan_pairs.h, by each
// path inside its own namespace.
#pragma once

// Elements of low <= x <= high; a NaN is not between.
template <class T>
std::int64_t count_between_plain(const T* p, std::size_t n, T low, T high) {
  std::int64_t total = 0;
  for (std::size_t start = 0; start < n; start += kBlock) {
    const std::size_t end = std::min(n, start + kBlock);
    std::uint32_t found = 0;
    for (std::size_t i = start; i < end; ++i) {
      found += static_cast<std::uint32_t>(p[i] >= low) & static_cast<std::uint32_t>(p[i] <= high);
    }
    total += found;
  }
  return total;
}

// The nearest floats inside the bounds: a float is between the bounds iff it is between these.
inline float float_from(double low) {
  const auto near = static_cast<float>(low);
  return static_cast<double>(near) < low
             ? std::nextafterf(near, std::numeric_limits<float>::infinity())
             : near;
}
inline float float_to(double high) {
  const auto near = static_cast<float>(high);
  return static_cast<double>(near) > high
             ? std::nextafterf(near, -std::numeric_limits<float>::infinity())
             : near;
}

template <class T>
std::int64_t count_between(const void* elements, std::size_t n, double low, double high) {
  if constexpr (std::is_same_v<T, float>) {
    return count_between_plain(static_cast<const float*>(elements), n, float_from(low),
                               float_to(high));
  } else if constexpr (std::is_same_v<T, double>) {
    return count_between_plain(static_cast<const double*>(elements), n, low, high);
  } else {
    alignas(64) double wide[1024];
    const auto* p = static_cast<const T*>(elements);
    std::int64_t total = 0;
    for (std::size_t start = 0; start < n; start += 1024) {
      const std::size_t count = std::min<std::size_t>(1024, n - start);
      widen_block<T>(p + start, count, wide);
      total += count_between_plain(wide, count, low, high);
    }
    return total;
  }
}

// Pairs as float64, in buffers with room for three more: how far they moved, and how many moved
// by more than absolute + relative * |before|. A pair with a NaN, or of unequal infinities, moved.
inline void change_block(double* now, double* before, std::size_t n, double relative,
                         double absolute_part, ChangeTally& tally) {
  const std::size_t padded = (n + 3) & ~std::size_t{3};
  for (std::size_t i = n; i < padded; ++i) now[i] = before[i] = 0.0;
  const D4 rtol = fill(relative), atol = fill(absolute_part);
  D4 moved = zeros();
  std::int64_t close = 0;
  for (std::size_t i = 0; i < padded; i += 4) {
    const D4 x = widen(now + i), p = widen(before + i);
    const D4 distance = absolute(minus(x, p));
    moved = plus(moved, distance);
    close += count_at_most(distance, plus(atol, times(rtol, absolute(p))));
  }
  tally.moved_sum += add_four(moved);
  tally.apart += static_cast<std::int64_t>(padded) - close;
}
