// Counts NaN and infinities: one comparison per element. Included after the lanes.
#pragma once

struct NotFinite64 {
  using Bits = std::uint64_t;
  static bool test(Bits bits) {
    return static_cast<std::int64_t>(bits & 0x7fffffffffffffffu) > 0x7fefffffffffffff;
  }
};
struct NotFinite32 {
  using Bits = std::uint32_t;
  static bool test(Bits bits) { return static_cast<std::int32_t>(bits & 0x7fffffffu) > 0x7f7fffff; }
};
struct NotFiniteHalf {
  using Bits = std::uint16_t;
  static bool test(Bits bits) { return static_cast<std::int16_t>(bits & 0x7fffu) > 0x7bff; }
};
struct NotFiniteBrain {
  using Bits = std::uint16_t;
  static bool test(Bits bits) { return static_cast<std::int16_t>(bits & 0x7fffu) > 0x7f7f; }
};
struct NotFiniteE5M2 {
  using Bits = std::uint8_t;
  static bool test(Bits bits) { return static_cast<std::int8_t>(bits & 0x7fu) > 0x7b; }
};
struct NotFiniteE4M3 {
  using Bits = std::uint8_t;
  static bool test(Bits bits) { return (bits & 0x7fu) == 0x7fu; }
};
template <std::uint8_t the_nan>
struct NotFiniteIs {
  using Bits = std::uint8_t;
  static bool test(Bits bits) { return bits == the_nan; }
};

template <class Test>
std::int64_t count_non_finite(const void* elements, std::size_t count) {
  using Bits = typename Test::Bits;
  constexpr std::size_t kReach = sizeof(Bits) == 1 ? 128 : kBlock;  // what a Bits can count
  const auto* p = static_cast<const Bits*>(elements);
  std::int64_t total = 0;
  for (std::size_t start = 0; start < count; start += kReach) {
    const std::size_t end = std::min(count, start + kReach);
    Bits found = 0;
    for (std::size_t i = start; i < end; ++i) found = static_cast<Bits>(found + Test::test(p[i]));
    total += static_cast<std::int64_t>(found);
  }
  return total;
}

inline std::int64_t none(const void*, std::size_t) { return 0; }
