// Numbers as text, exactly as Python's repr() writes them.
#pragma once

#include <cstdint>

namespace sonde {

inline constexpr int kNumberRoom = 32;  // characters the longest number needs, with some to spare

// Each writes at `out` and gives the end. Not finite: nan, inf, -inf.
char* write_integer(char* out, std::int64_t value);
char* write_unsigned(char* out, std::uint64_t value);
char* write_double(char* out, double value);

}  // namespace sonde
