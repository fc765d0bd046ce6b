// Fuzzes the kernels without Python, for the sanitizers: random element types, shapes, strides,
// alignments and values on every path, against a loop that reads one element at a time.
//
// Memory is allocated to the byte, so that reading beyond a tensor is an error at once.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>

#include "../kernels/kernel.h"
#include "../kernels/number_text.h"

namespace {

using namespace sonde;

std::mt19937_64 generator(20240607);

std::int64_t between(std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(generator);
}

struct Tensor {
  DType dtype;
  std::vector<std::int64_t> shape, strides;  // strides in elements
  std::unique_ptr<char[]> memory;
  const char* first = nullptr;  // the element with index zero

  int itemsize() const { return kItemSize[static_cast<int>(dtype)]; }
};

// Finite bits of a random element; sometimes extreme ones.
std::uint64_t random_bits(DType dtype, bool only_finite) {
  for (;;) {
    std::uint64_t bits = generator();
    if (between(0, 9) == 0) bits = between(0, 1) != 0 ? 0 : ~std::uint64_t{0} >> between(0, 63);
    if (dtype == DType::Float32 && between(0, 1) != 0) {
      bits = bit_cast<std::uint32_t>(std::normal_distribution<float>()(generator));
    }
    if (dtype == DType::Float64 && between(0, 3) != 0) {
      bits = bit_cast<std::uint64_t>(std::normal_distribution<double>()(generator));
    }
    char element[8];
    std::memcpy(element, &bits, 8);
    if (!only_finite ||
        portable_path.non_finite[static_cast<int>(dtype)](element, 1) == 0) {
      return bits;
    }
  }
}

Tensor random_tensor() {
  Tensor tensor;
  tensor.dtype = static_cast<DType>(between(0, kDTypeCount - 1));
  const int dims = static_cast<int>(between(0, 4));
  const std::int64_t longest = dims <= 1 ? 9000 : dims == 2 ? 90 : 12;
  std::int64_t low = 0, high = 0, step = 1;
  for (int d = 0; d < dims; ++d) {
    const std::int64_t size = between(0, 15) == 0 ? between(0, 1) : between(1, longest);
    // Dense, with gaps, reversed, expanded, or anything, which may overlap.
    std::int64_t stride = step * between(1, between(0, 2) == 0 ? 3 : 1);
    if (between(0, 9) == 0) stride = 0;
    if (between(0, 9) == 0) stride = between(-5, 5);
    if (between(0, 5) == 0) stride = -stride;
    tensor.shape.push_back(size);
    tensor.strides.push_back(stride);
    const std::int64_t reach = (size > 0 ? size - 1 : 0) * stride;
    (reach < 0 ? low : high) += reach;
    step = high - low + 1;
  }
  for (int d = dims - 1; d > 0; --d) {
    const auto other = static_cast<std::size_t>(between(0, d));
    std::swap(tensor.shape[static_cast<std::size_t>(d)], tensor.shape[other]);
    std::swap(tensor.strides[static_cast<std::size_t>(d)], tensor.strides[other]);
  }
  const std::int64_t shift = between(0, 3) == 0 ? between(0, tensor.itemsize() - 1) : 0;
  const std::int64_t elements = high - low + 1;
  tensor.memory.reset(new char[static_cast<std::size_t>(shift + elements * tensor.itemsize())]);
  const bool only_finite = between(0, 1) != 0;
  char* out = tensor.memory.get() + shift;
  for (std::int64_t i = 0; i < elements; ++i) {
    const std::uint64_t bits = random_bits(tensor.dtype, only_finite);
    std::memcpy(out + i * tensor.itemsize(), &bits, static_cast<std::size_t>(tensor.itemsize()));
  }
  tensor.first = out - low * tensor.itemsize();
  return tensor;
}

long double value_at(const char* p, DType dtype) {
  const auto read = [p](auto sample) {
    std::memcpy(&sample, p, sizeof sample);
    return sample;
  };
  switch (dtype) {
    case DType::Bool:
      return *p != 0 ? 1 : 0;
    case DType::Int8:
      return read(std::int8_t{});
    case DType::Int16:
      return read(std::int16_t{});
    case DType::Int32:
      return read(std::int32_t{});
    case DType::Int64:
      return static_cast<double>(read(std::int64_t{}));
    case DType::UInt8:
      return read(std::uint8_t{});
    case DType::UInt16:
      return read(std::uint16_t{});
    case DType::UInt32:
      return read(std::uint32_t{});
    case DType::UInt64:
      return static_cast<double>(read(std::uint64_t{}));
    case DType::Float16:
      return to_float(read(Half{}));
    case DType::BFloat16:
      return to_float(read(Brain{}));
    case DType::Float32:
      return read(0.0f);
    case DType::Float64:
      return read(0.0);
    default:
      return eighth_table(dtype).value[static_cast<std::uint8_t>(*p)];
  }
}

// Every element in the order of the logical shape.
template <class Visit>
void each_element(const Tensor& tensor, Visit visit) {
  std::vector<std::int64_t> index(tensor.shape.size(), 0);
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= size;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * tensor.strides[d];
    visit(tensor.first + offset * tensor.itemsize());
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < tensor.shape[d]) break;
      index[d] = 0;
    }
  }
}

struct Naive {
  std::int64_t count = 0, nan = 0, positive_inf = 0, negative_inf = 0, zero = 0, negative = 0;
  long double max = -INFINITY, min = INFINITY, sum = 0, abs_sum = 0, square_sum = 0, m2 = 0;
};

Naive look(const Tensor& tensor) {
  Naive naive;
  each_element(tensor, [&](const char* p) {
    const long double x = value_at(p, tensor.dtype);
    ++naive.count;
    naive.zero += x == 0;
    naive.negative += x < 0;
    if (std::isfinite(x)) {
      naive.max = std::max(naive.max, x);
      naive.min = std::min(naive.min, x);
      naive.sum += x;
      naive.abs_sum += std::fabs(x);
      naive.square_sum += x * x;
    } else {
      naive.nan += std::isnan(x);
      naive.positive_inf += x > 0;
      naive.negative_inf += x < 0;
    }
  });
  const long double mean = naive.count > 0 ? naive.sum / static_cast<long double>(naive.count) : 0;
  each_element(tensor, [&](const char* p) {
    const long double distance = value_at(p, tensor.dtype) - mean;
    naive.m2 += distance * distance;
  });
  return naive;
}

[[noreturn]] void fail(const Tensor& tensor, const std::string& what, double found,
                       long double expected) {
  std::fprintf(stderr, "%s on path %s: %s is %.17g, expected %.17Lg; shape", __FILE__,
               current_path().name, what.c_str(), found, expected);
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    std::fprintf(stderr, " %lld/%lld", static_cast<long long>(tensor.shape[d]),
                 static_cast<long long>(tensor.strides[d]));
  }
  std::fprintf(stderr, " dtype %s\n", kDTypeNames[static_cast<int>(tensor.dtype)]);
  std::exit(1);
}

void expect(const Tensor& tensor, const char* what, double found, long double expected,
            long double tolerance) {
  if (std::isnan(expected) && std::isnan(found)) return;
  if (static_cast<long double>(found) == expected) return;
  if (std::fabs(static_cast<long double>(found) - expected) <= tolerance) return;
  fail(tensor, what, found, expected);
}

void check_sums(const Tensor& tensor, const Naive& naive, const double* row) {
  if (naive.nan + naive.positive_inf + naive.negative_inf > 0 || naive.count == 0) return;
  const auto count = static_cast<long double>(naive.count);
  const long double norm = std::sqrt(naive.square_sum), spread = std::sqrt(naive.m2 / count);
  if (norm > static_cast<long double>(std::numeric_limits<double>::max())) return;
  const long double magnitude = naive.abs_sum / count;
  expect(tensor, "avg", row[kAvg], naive.sum / count, magnitude * 1e-12L + 5e-324L);
  expect(tensor, "abs mean", row[kAbsMean], magnitude, magnitude * 1e-12L + 5e-324L);
  expect(tensor, "l2norm", row[kL2norm], norm, norm * 1e-12L + 5e-324L);
  // The long double loop itself loses digits of a spread far below the values.
  expect(tensor, "std", row[kStd], spread, spread * 1e-12L + magnitude * 1e-14L + 5e-324L);
}

void check_statistics(const Tensor& tensor, const Naive& naive) {
  const Layout layout = any_order(tensor.first, tensor.itemsize(), tensor.shape.data(),
                                  tensor.strides.data(), static_cast<int>(tensor.shape.size()));
  double row[kRowColumns], outline[kRowColumns];
  summarize(layout, tensor.dtype, Depth::Full, row);
  summarize(layout, tensor.dtype, Depth::Outline, outline);
  const long double counts[] = {
      static_cast<long double>(naive.count),        static_cast<long double>(naive.nan),
      static_cast<long double>(naive.positive_inf), static_cast<long double>(naive.negative_inf),
      static_cast<long double>(naive.zero),         static_cast<long double>(naive.negative)};
  for (int column = 0; column < 6; ++column) {
    expect(tensor, "a count", row[column], counts[column], 0);
  }
  const std::int64_t bad = naive.nan + naive.positive_inf + naive.negative_inf;
  if (naive.count > bad && !is_wide_integer(tensor.dtype)) {
    expect(tensor, "finite max", row[kFiniteMax], naive.max, 0);
    expect(tensor, "finite min", row[kFiniteMin], naive.min, 0);
  }
  if (naive.count > 0 && naive.nan == 0) {
    expect(tensor, "max", row[kMax], naive.positive_inf > 0 ? INFINITY : naive.max, 0);
    expect(tensor, "min", row[kMin], naive.negative_inf > 0 ? -INFINITY : naive.min, 0);
  }
  check_sums(tensor, naive, row);
  for (const int column : {kCount, kNanCount, kPositiveInfCount, kNegativeInfCount, kL2norm}) {
    expect(tensor, "an outline column", outline[column], static_cast<long double>(row[column]), 0);
  }
  expect(tensor, "non-finite count",
         static_cast<double>(count_non_finite(layout, tensor.dtype)),
         static_cast<long double>(bad), 0);
}

void check_copy(const Tensor& tensor, std::int64_t count) {
  const Layout layout =
      logical_order(tensor.first, tensor.itemsize(), tensor.shape.data(), tensor.strides.data(),
                    static_cast<int>(tensor.shape.size()));
  const std::int64_t begin = between(0, count), end = between(begin, count);
  const auto size = static_cast<std::size_t>((end - begin) * tensor.itemsize());
  std::unique_ptr<char[]> copy(new char[size]);
  copy_range(layout, begin, end, copy.get());
  std::int64_t i = 0;
  each_element(tensor, [&](const char* p) {
    const char* mine = copy.get() + (i - begin) * tensor.itemsize();
    if (i >= begin && i < end &&
        std::memcmp(mine, p, static_cast<std::size_t>(tensor.itemsize())) != 0) {
      fail(tensor, "a copied element", 0, 0);
    }
    ++i;
  });
}

// A tensor against its contiguous copy: equal, whatever the layouts.
void check_comparison(const Tensor& tensor, const Naive& naive) {
  std::vector<char> copy;
  each_element(tensor, [&](const char* p) { copy.insert(copy.end(), p, p + tensor.itemsize()); });
  std::vector<std::int64_t> dense(tensor.shape.size());
  std::int64_t step = 1;
  for (std::size_t d = dense.size(); d-- > 0;) {
    dense[d] = step;
    step *= tensor.shape[d];
  }
  const void* addresses[2] = {tensor.first, copy.data()};
  const int itemsizes[2] = {tensor.itemsize(), tensor.itemsize()};
  const std::int64_t* const strides[2] = {tensor.strides.data(), dense.data()};
  const PairLayout layout = any_pair_order(addresses, itemsizes, tensor.shape.data(), strides,
                                           static_cast<int>(tensor.shape.size()));
  double row[kPairColumns];
  compare(layout, tensor.dtype, tensor.dtype, row);
  const std::int64_t infinities = naive.positive_inf + naive.negative_inf;
  const std::int64_t finite = naive.count - naive.nan - infinities;
  expect(tensor, "pairs", row[kPairCount], static_cast<long double>(naive.count), 0);
  expect(tensor, "equal pairs", row[kPairEqualCount], static_cast<long double>(finite), 0);
  expect(tensor, "agreeing NaN", row[kPairNanAgreed], static_cast<long double>(naive.nan), 0);
  expect(tensor, "agreeing Inf", row[kPairInfAgreed], static_cast<long double>(infinities), 0);
  if (finite > 0) {
    expect(tensor, "max abs error", row[kPairMaxAbsError], 0, 0);
    expect(tensor, "cosine", row[kPairCosine], 1, 0);
  }
}

void check_numbers() {
  for (int k = 0; k < 20000; ++k) {
    const double value = bit_cast<double>(generator());
    char text[kNumberRoom];
    *write_double(text, value) = '\0';
    const double back = std::strtod(text, nullptr);
    if (std::isnan(value) ? !std::isnan(back) : back != value) {
      std::fprintf(stderr, "%.17g became %s\n", value, text);
      std::exit(1);
    }
  }
}

// More than one piece, so that threads start.
void check_threads() {
  std::vector<float> values(static_cast<std::size_t>(kPiece * 2 + 77), 1.0f);
  values.back() = 3.0f;
  set_thread_limit(3);
  double row[kRowColumns];
  summarize_run(values.data(), static_cast<std::int64_t>(values.size()), DType::Float32,
                Depth::Full, row);
  set_thread_limit(1);
  if (row[kMax] != 3 || row[kCount] != static_cast<double>(values.size())) {
    std::fprintf(stderr, "threads: max %g count %g\n", row[kMax], row[kCount]);
    std::exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 2000;
  for (int round = 0; round < rounds; ++round) {
    const Tensor tensor = random_tensor();
    const Naive naive = look(tensor);
    for (const Path* path : available_paths()) {
      choose_path(path->name);
      check_statistics(tensor, naive);
      check_comparison(tensor, naive);
    }
    check_copy(tensor, naive.count);
  }
  check_numbers();
  check_threads();
  std::printf("%d tensors on", rounds);
  for (const Path* path : available_paths()) std::printf(" %s", path->name);
  std::printf(": good\n");
  return 0;
}
