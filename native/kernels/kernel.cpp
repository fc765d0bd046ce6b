#include "kernel.h"

#include <atomic>
#include <system_error>
#include <thread>

namespace sonde {
namespace {

std::atomic<const Path*> chosen_path{nullptr};
std::atomic<int> thread_limit{1};

// Runs at least this long are read where they are; shorter ones are gathered first, because
// summing up a block has a fixed cost.
constexpr std::int64_t kLongRun = 2048;

// Feeds the elements begin <= i < end to scan(elements, count), aligned and without gaps.
template <class Scan>
void feed(const Layout& layout, std::int64_t begin, std::int64_t end, Scan scan) {
  const int itemsize = layout.itemsize;
  const std::int64_t stride = layout.strides[static_cast<std::size_t>(layout.dims - 1)];
  const bool readable = stride == itemsize && layout.is_aligned();
  if (readable && layout.dims == 1) {
    scan(layout.base + begin * itemsize, end - begin);
    return;
  }
  constexpr auto kRoom = static_cast<std::int64_t>(kBlock);
  alignas(64) char buffer[kBlock * 8];
  std::int64_t filled = 0;
  each_run(layout, begin, end, [&](const char* p, std::int64_t length) {
    if (readable && length >= kLongRun) {
      scan(p, length);
      return;
    }
    while (length > 0) {
      const std::int64_t taken = std::min(length, kRoom - filled);
      gather(buffer + filled * itemsize, p, taken, stride, itemsize);
      p += taken * stride;
      length -= taken;
      filled += taken;
      if (filled == kRoom) {
        scan(buffer, filled);
        filled = 0;
      }
    }
  });
  if (filled > 0) scan(buffer, filled);
}

// Calls work(piece) for every piece of `count` elements, on up to thread_limit threads.
template <class Work>
void each_piece(std::int64_t count, Work work) {
  const std::int64_t pieces = (count + kPiece - 1) / kPiece;
  const std::int64_t workers = std::min<std::int64_t>(thread_limit.load(), pieces);
  const auto share = [&](std::int64_t worker) {
    const std::int64_t last = pieces * (worker + 1) / workers;
    for (std::int64_t piece = pieces * worker / workers; piece < last; ++piece) work(piece);
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(workers));
  std::int64_t started = 0;
  try {
    for (; started < workers - 1; ++started) threads.emplace_back(share, started);
  } catch (const std::system_error&) {
    // No more threads to be had: this one does the rest.
  }
  for (std::int64_t worker = started; worker < workers; ++worker) share(worker);
  for (std::thread& thread : threads) thread.join();
}

// The tally of `count` elements, from pieces that do not depend on the number of threads.
template <class Part, class Scan, class Join>
Part in_pieces(std::int64_t count, Scan scan, Join join) {
  Part total{};
  if (count == 0) return total;
  if (count <= kPiece) {
    scan(0, count, total);
    return total;
  }
  std::vector<Part> parts(static_cast<std::size_t>((count + kPiece - 1) / kPiece));
  each_piece(count, [&](std::int64_t piece) {
    const std::int64_t begin = piece * kPiece;
    scan(begin, std::min(count, begin + kPiece), parts[static_cast<std::size_t>(piece)]);
  });
  for (const Part& part : parts) join(total, part);
  return total;
}

// Pairs on their way from memory to consume(raw a, raw b, a, b, count): as they are and as float64.
template <class Consume>
class PairFeed {
 public:
  PairFeed(const Path& path, DType first, DType second, Consume consume)
      : path_(path), dtype_{first, second}, consume_(consume) {}

  void take(const PairLayout& layout, const char* first, const char* second,
            std::int64_t length) {
    const auto last = static_cast<std::size_t>(layout.dims - 1);
    const char* p[2] = {first, second};
    while (length > 0) {
      const auto room = static_cast<std::int64_t>(kRoom) - filled_;
      const std::int64_t taken = std::min(length, room);
      for (int side = 0; side < 2; ++side) {
        const std::int64_t stride = layout.strides[side][last];
        const int itemsize = layout.itemsize[side];
        gather(raw_[side] + filled_ * itemsize, p[side], taken, stride, itemsize);
        p[side] += taken * stride;
      }
      filled_ += taken;
      length -= taken;
      if (filled_ == static_cast<std::int64_t>(kRoom)) flush();
    }
  }

  void flush() {
    if (filled_ == 0) return;
    const auto count = static_cast<std::size_t>(filled_);
    for (int side = 0; side < 2; ++side) {
      path_.widen[static_cast<std::size_t>(dtype_[side])](raw_[side], count, wide_[side]);
    }
    consume_(raw_[0], raw_[1], wide_[0], wide_[1], count);
    filled_ = 0;
  }

 private:
  static constexpr std::size_t kRoom = 1024;  // both sides, raw and widened, fit the first cache

  const Path& path_;
  const DType dtype_[2];
  Consume consume_;
  std::int64_t filled_ = 0;
  alignas(64) char raw_[2][kRoom * 8];
  alignas(64) double wide_[2][kRoom + 4];
};

}  // namespace

const std::vector<const Path*>& available_paths() {
  static const std::vector<const Path*> paths = [] {
    std::vector<const Path*> found;
#if defined(__x86_64__)
    for (const Path* path : {&avx512_path, &avx2_path, &portable_path}) {
#elif defined(__aarch64__)
    for (const Path* path : {&neon_path, &portable_path}) {
#else
    for (const Path* path : {&portable_path}) {
#endif
      if (path->runs_here()) found.push_back(path);
    }
    return found;
  }();
  return paths;
}

const Path& current_path() {
  const Path* path = chosen_path.load(std::memory_order_relaxed);
  if (path == nullptr) {
    path = available_paths().front();
    chosen_path.store(path);
  }
  return *path;
}

bool choose_path(const char* name) {
  for (const Path* path : available_paths()) {
    if (std::strcmp(path->name, name) == 0) {
      chosen_path.store(path);
      return true;
    }
  }
  return false;
}

int set_thread_limit(int limit) { return thread_limit.exchange(limit); }

Layout single_run(const void* address, std::int64_t count, int itemsize) {
  Layout layout;
  layout.base = static_cast<const char*>(address);
  layout.itemsize = itemsize;
  layout.dims = 1;
  layout.sizes[0] = count;
  layout.strides[0] = itemsize;
  layout.count = count;
  return layout;
}

void summarize(const Layout& layout, DType dtype, Depth depth, double* row) {
  const Path& path = current_path();
  const auto code = static_cast<std::size_t>(dtype);
  const Path::Scan scan = depth == Depth::Full ? path.full[code] : path.outline[code];
  const auto scan_range = [&](std::int64_t begin, std::int64_t end, Tally& tally) {
    feed(layout, begin, end, [&](const char* elements, std::int64_t count) {
      scan(elements, static_cast<std::size_t>(count), tally);
    });
  };
  const Tally total = in_pieces<Tally>(layout.count, scan_range, merge);
  write_row(total, layout.copies, dtype, depth, row);
}

void summarize_run(const void* address, std::int64_t count, DType dtype, Depth depth,
                   double* row) {
  summarize(single_run(address, count, kItemSize[static_cast<int>(dtype)]), dtype, depth, row);
}

std::int64_t count_non_finite(const Layout& layout, DType dtype) {
  if (is_integer(dtype)) return 0;
  const Path::Counter counter = current_path().non_finite[static_cast<std::size_t>(dtype)];
  const auto count_range = [&](std::int64_t begin, std::int64_t end, std::int64_t& found) {
    feed(layout, begin, end, [&](const char* elements, std::int64_t count) {
      found += counter(elements, static_cast<std::size_t>(count));
    });
  };
  const auto add = [](std::int64_t& total, std::int64_t part) { total += part; };
  return in_pieces<std::int64_t>(layout.count, count_range, add) * layout.copies;
}

void compare(const PairLayout& layout, DType first, DType second, double* row) {
  double scale = 1.0;
  const auto compare_range = [&](std::int64_t begin, std::int64_t end, PairTally& tally) {
    const Path& path = current_path();
    const Path::Ulp ulp =
        first == second ? path.max_ulp[static_cast<std::size_t>(first)] : nullptr;
    PairFeed feed(path, first, second,
                  [&](const char* raw_a, const char* raw_b, double* a, double* b,
                      std::size_t count) {
                    PairTally part;
                    if (ulp != nullptr) part.max_ulp = ulp(raw_a, raw_b, count);
                    path.compare(a, b, count, scale, part);
                    merge_pairs(tally, part);
                  });
    each_pair_run(layout, begin, end, [&](const char* a, const char* b, std::int64_t length) {
      feed.take(layout, a, b, length);
    });
    feed.flush();
  };
  PairTally total = in_pieces<PairTally>(layout.count, compare_range, merge_pairs);
  if (const double better = better_scale(total); better != 0) {
    scale = better;
    total = in_pieces<PairTally>(layout.count, compare_range, merge_pairs);
  }
  const bool has_ulp = first == second && !is_integer(first);
  write_pair_row(total, scale, layout.copies, has_ulp, row);
}

std::int64_t count_between(const Layout& layout, DType dtype, double low, double high) {
  const Path::Between counter = current_path().between[static_cast<std::size_t>(dtype)];
  const auto count_range = [&](std::int64_t begin, std::int64_t end, std::int64_t& found) {
    feed(layout, begin, end, [&](const char* elements, std::int64_t count) {
      found += counter(elements, static_cast<std::size_t>(count), low, high);
    });
  };
  const auto add = [](std::int64_t& total, std::int64_t part) { total += part; };
  return in_pieces<std::int64_t>(layout.count, count_range, add) * layout.copies;
}

ChangeTally tally_change(const PairLayout& layout, DType now, DType before, double relative,
                         double absolute) {
  const auto change_range = [&](std::int64_t begin, std::int64_t end, ChangeTally& tally) {
    const Path& path = current_path();
    PairFeed feed(path, now, before,
                  [&](const char*, const char*, double* a, double* b, std::size_t count) {
                    path.change(a, b, count, relative, absolute, tally);
                  });
    each_pair_run(layout, begin, end, [&](const char* a, const char* b, std::int64_t length) {
      feed.take(layout, a, b, length);
    });
    feed.flush();
  };
  const auto add = [](ChangeTally& total, const ChangeTally& part) {
    total.moved_sum += part.moved_sum;
    total.apart += part.apart;
  };
  ChangeTally total = in_pieces<ChangeTally>(layout.count, change_range, add);
  total.moved_sum *= static_cast<double>(layout.copies);
  total.apart *= layout.copies;
  return total;
}

void copy_range(const Layout& layout, std::int64_t begin, std::int64_t end, char* out) {
  if (begin >= end) return;
  const std::int64_t stride = layout.strides[static_cast<std::size_t>(layout.dims - 1)];
  each_run(layout, begin, end, [&](const char* p, std::int64_t length) {
    gather(out, p, length, stride, layout.itemsize);
    out += length * layout.itemsize;
  });
}

}  // namespace sonde
