// The single pass over bool and integers. Included after scan.h.
//
// Loops are plain: integer reductions may be reordered, so the compiler vectorises them.
#pragma once

inline std::uint8_t value_of(Boolean x) { return x.bits != 0; }
template <class T>
inline T value_of(T x) {
  return x;
}

template <class Value>
struct IntegerExtremes {
  Value max, min;
  std::int64_t zero = 0, negative = 0;
};

template <class T>
auto survey_integers(const T* p, std::size_t n) {
  using Value = decltype(value_of(p[0]));
  using Counter = std::make_unsigned_t<Value>;  // as wide as the elements: no widening per element
  constexpr std::size_t kReach = sizeof(Value) == 1 ? 128 : kBlock;
  IntegerExtremes<Value> found{value_of(p[0]), value_of(p[0])};
  for (std::size_t start = 0; start < n; start += kReach) {
    const std::size_t end = std::min(n, start + kReach);
    Value top = found.max, bottom = found.min;
    Counter zero = 0, negative = 0;
    for (std::size_t i = start; i < end; ++i) {
      const Value x = value_of(p[i]);
      top = x > top ? x : top;
      bottom = x < bottom ? x : bottom;
      zero = static_cast<Counter>(zero + (x == 0));
      if constexpr (std::is_signed_v<Value>) negative = static_cast<Counter>(negative + (x < 0));
    }
    found.max = top;
    found.min = bottom;
    found.zero += static_cast<std::int64_t>(zero);
    found.negative += static_cast<std::int64_t>(negative);
  }
  return found;
}

// Up to 16 bits: every sum of a block is exact in an integer.
template <class T>
void sum_narrow(const T* p, std::size_t n, Tally& block) {
  using Value = decltype(value_of(p[0]));
  using Square = std::conditional_t<sizeof(Value) == 1, std::uint32_t, std::uint64_t>;
  std::int32_t sum = 0, abs_sum = 0;
  Square square_sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t x = value_of(p[i]);
    const std::int32_t magnitude = x < 0 ? -x : x;
    sum += x;
    abs_sum += magnitude;
    square_sum += static_cast<std::uint32_t>(magnitude) * static_cast<std::uint32_t>(magnitude);
  }
  const auto count = static_cast<std::int64_t>(n);
  const std::int64_t spread_times_count =
      count * static_cast<std::int64_t>(square_sum) - std::int64_t{sum} * sum;
  block.sum = sum;
  block.abs_sum = abs_sum;
  block.square_sum = static_cast<double>(square_sum);
  block.m2 = static_cast<double>(spread_times_count) / static_cast<double>(count);
}

template <class T>
void sum_wide(const T* p, std::size_t n, Tally& block) {
  Sums<true> sums;
  const std::size_t whole = n & ~std::size_t{15};
  sums.template take<false>(p, whole);
  Totals totals = sums.finish();
  for (std::size_t i = whole; i < n; ++i) totals.take(p[i], i & 15);
  set_sums<true>([p] { return p; }, n, totals, block);
}

template <class Value>
std::uint64_t unsigned_key(Value x) {
  const auto bits = static_cast<std::uint64_t>(x);
  return std::is_signed_v<Value> ? bits ^ (std::uint64_t{1} << 63) : bits;
}

template <class T>
void integer_block(const T* p, std::size_t n, Tally& block) {
  const auto found = survey_integers(p, n);
  block.count = static_cast<std::int64_t>(n);
  block.zero = found.zero;
  block.negative = found.negative;
  block.max = static_cast<double>(found.max);
  block.min = static_cast<double>(found.min);
  if constexpr (sizeof(T) <= 2) {
    sum_narrow(p, n, block);
  } else {
    block.wide_max = unsigned_key(found.max);
    block.wide_min = unsigned_key(found.min);
    sum_wide(p, n, block);
  }
}

template <class T>
void scan_integers(const void* elements, std::size_t count, Tally& total) {
  const auto* p = static_cast<const T*>(elements);
  for (std::size_t i = 0; i < count; i += kBlock) {
    Tally block;
    integer_block(p + i, std::min(kBlock, count - i), block);
    merge(total, block);
  }
}
