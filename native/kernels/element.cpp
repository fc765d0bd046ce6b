#include "element.h"

namespace sonde {
namespace {

struct EighthFormat {
  int mantissa_bits;
  int bias;
  bool negative_zero_is_nan;  // the "uz" types: one zero, one NaN at 0x80, no infinity
  bool has_infinity;
  bool top_is_nan;  // e4m3fn: only all ones is NaN
};

float decode(std::uint8_t bits, const EighthFormat& format) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const int mantissa_size = 1 << format.mantissa_bits;
  const int exponent_top = (1 << (7 - format.mantissa_bits)) - 1;
  const int exponent = (bits & 0x7f) >> format.mantissa_bits;
  const int mantissa = bits & (mantissa_size - 1);
  const float sign = (bits & 0x80) != 0 ? -1.0f : 1.0f;
  if (format.negative_zero_is_nan && bits == 0x80) return nan;
  if (format.has_infinity && exponent == exponent_top) {
    return mantissa == 0 ? sign * std::numeric_limits<float>::infinity() : nan;
  }
  if (format.top_is_nan && (bits & 0x7f) == 0x7f) return nan;
  const int whole = exponent == 0 ? mantissa : mantissa + mantissa_size;
  const int power = (exponent == 0 ? 1 : exponent) - format.bias - format.mantissa_bits;
  return sign * std::ldexp(static_cast<float>(whole), power);
}

EighthTable fill(DType kind) {
  EighthTable table;
  for (int bits = 0; bits < 256; ++bits) {
    const auto byte = static_cast<std::uint8_t>(bits);
    float value = 0.0f;
    switch (kind) {
      case DType::Float8E4M3FN:
        value = decode(byte, {3, 7, false, false, true});
        break;
      case DType::Float8E4M3FNUZ:
        value = decode(byte, {3, 8, true, false, false});
        break;
      case DType::Float8E5M2:
        value = decode(byte, {2, 15, false, true, false});
        break;
      case DType::Float8E5M2FNUZ:
        value = decode(byte, {2, 16, true, false, false});
        break;
      default:  // float8_e8m0fnu: a bare power of two, no sign, no zero
        value = bits == 0xff ? std::numeric_limits<float>::quiet_NaN()
                             : std::ldexp(1.0f, bits - 127);
    }
    table.value[bits] = value;
  }
  return table;
}

}  // namespace

const EighthTable& eighth_table(DType kind) {
  static const EighthTable tables[] = {
      fill(DType::Float8E4M3FN),   fill(DType::Float8E4M3FNUZ), fill(DType::Float8E5M2),
      fill(DType::Float8E5M2FNUZ), fill(DType::Float8E8M0FNU),
  };
  return tables[static_cast<int>(kind) - static_cast<int>(DType::Float8E4M3FN)];
}

}  // namespace sonde
