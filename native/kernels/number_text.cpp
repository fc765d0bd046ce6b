#include "number_text.h"

#include <charconv>
#include <cmath>
#include <cstring>

// libc++ has the conversion since version 14, without the feature macro; Apple's only on newer systems.
#if defined(__cpp_lib_to_chars)
#define SONDE_SHORTEST_TEXT 1
#elif defined(_LIBCPP_VERSION) && _LIBCPP_VERSION >= 140000 && !defined(__APPLE__)
#define SONDE_SHORTEST_TEXT 1
#else
#define SONDE_SHORTEST_TEXT 0
#include <Python.h>
#endif

namespace sonde {
namespace {

char* write_word(char* out, const char* word) {
  const std::size_t length = std::strlen(word);
  std::memcpy(out, word, length);
  return out + length;
}

#if SONDE_SHORTEST_TEXT

// Decimal point after `point` digits; scientific outside 1e-4 .. 1e16, as Python does.
char* lay_out(char* out, const char* digits, int count, int point) {
  if (point > 16 || point < -3) {
    *out++ = digits[0];
    if (count > 1) {
      *out++ = '.';
      std::memcpy(out, digits + 1, static_cast<std::size_t>(count - 1));
      out += count - 1;
    }
    int exponent = point - 1;
    *out++ = 'e';
    *out++ = exponent < 0 ? '-' : '+';
    exponent = exponent < 0 ? -exponent : exponent;
    if (exponent < 10) *out++ = '0';
    return write_integer(out, exponent);
  }
  if (point <= 0) {
    *out++ = '0';
    *out++ = '.';
    for (int k = point; k < 0; ++k) *out++ = '0';
    std::memcpy(out, digits, static_cast<std::size_t>(count));
    return out + count;
  }
  for (int k = 0; k < point; ++k) *out++ = k < count ? digits[k] : '0';
  *out++ = '.';
  if (count <= point) {
    *out++ = '0';
    return out;
  }
  std::memcpy(out, digits + point, static_cast<std::size_t>(count - point));
  return out + (count - point);
}

char* write_finite(char* out, double value) {
  char text[kNumberRoom];  // d.ddde-xxx, the shortest digits that read back as `value`
  const auto written =
      std::to_chars(text, text + sizeof text, value, std::chars_format::scientific);
  char digits[kNumberRoom];
  int count = 0;
  const char* p = text;
  for (; *p != 'e'; ++p) {
    if (*p != '.') digits[count++] = *p;
  }
  ++p;
  if (*p == '+') ++p;
  int exponent = 0;
  std::from_chars(p, written.ptr, exponent);
  return lay_out(out, digits, count, exponent + 1);
}

#else

// A C++ library without shortest conversion: Python's own, slower. Needs the GIL, which the
// caller of every function here holds.
char* write_finite(char* out, double value) {
  char* text = PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, nullptr);
  if (text == nullptr) {
    PyErr_Clear();
    return write_word(out, "nan");
  }
  out = write_word(out, text);
  PyMem_Free(text);
  return out;
}

#endif

}  // namespace

char* write_integer(char* out, std::int64_t value) {
  return std::to_chars(out, out + kNumberRoom, value).ptr;
}

char* write_unsigned(char* out, std::uint64_t value) {
  return std::to_chars(out, out + kNumberRoom, value).ptr;
}

char* write_double(char* out, double value) {
  if (std::isnan(value)) return write_word(out, "nan");
  if (std::signbit(value)) {
    *out++ = '-';
    value = -value;
  }
  if (std::isinf(value)) return write_word(out, "inf");
  if (value == 0) return write_word(out, "0.0");
  return write_finite(out, value);
}

}  // namespace sonde
