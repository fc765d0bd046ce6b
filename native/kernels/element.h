// The element types the kernels read, and how each becomes a float one element at a time.
//
// The order of DType is the order of sonde.kernels.codes.DTYPES, which a test checks.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace sonde {

enum class DType : int {
  Bool,
  Int8,
  Int16,
  Int32,
  Int64,
  UInt8,
  UInt16,
  UInt32,
  UInt64,
  Float16,
  BFloat16,
  Float32,
  Float64,
  Float8E4M3FN,
  Float8E4M3FNUZ,
  Float8E5M2,
  Float8E5M2FNUZ,
  Float8E8M0FNU,
};

inline constexpr int kDTypeCount = 18;

inline constexpr const char* kDTypeNames[kDTypeCount] = {
    "bool",          "int8",            "int16",       "int32",           "int64",
    "uint8",         "uint16",          "uint32",      "uint64",          "float16",
    "bfloat16",      "float32",         "float64",     "float8_e4m3fn",   "float8_e4m3fnuz",
    "float8_e5m2",   "float8_e5m2fnuz", "float8_e8m0fnu",
};

inline constexpr int kItemSize[kDTypeCount] = {1, 1, 2, 4, 8, 1, 2, 4, 8,
                                               2, 2, 4, 8, 1, 1, 1, 1, 1};

inline bool is_wide_integer(DType dtype) {
  return dtype == DType::Int64 || dtype == DType::UInt64;
}

inline bool is_integer(DType dtype) { return static_cast<int>(dtype) <= 8; }

// Storage types that C++ has no arithmetic for.
struct Boolean {
  std::uint8_t bits;
};
struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};
template <DType the_kind>
struct Eighth {
  static constexpr DType kind = the_kind;
  std::uint8_t bits;
};

template <class To, class From>
inline To bit_cast(From value) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  To result;
  std::memcpy(&result, &value, sizeof result);
  return result;
}

inline float to_float(Brain value) {
  return bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

// Exact for every float16; a signalling NaN stays a NaN.
inline float to_float(Half value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    return bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  }
  if (magnitude < 0x400u) {  // zero and subnormal: an integer times 2^-24
    const float value_of_bits = static_cast<float>(magnitude) * 0x1p-24f;
    return bit_cast<float>(sign | bit_cast<std::uint32_t>(value_of_bits));
  }
  return bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
}

// The 256 values of one eight-bit floating type.
struct EighthTable {
  float value[256];
};

// Built once, on first use.
const EighthTable& eighth_table(DType kind);

template <DType kind>
inline float to_float(Eighth<kind> value) {
  return eighth_table(kind).value[value.bits];
}

inline float to_float(float value) { return value; }

}  // namespace sonde
