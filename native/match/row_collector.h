// RowCollector: the fast path of a sink that wants a row of statistics of every tensor
// (`core.sink.RowPath`). It owns the rows of the running step, in order of execution, until the sink
// takes them. For the sink it is a `core.sink.RowBuffer`, to which the sink adds the tensors that do
// not take the fast path.
//
// Behaves as sonde/adapters/torch/tensors/emission.py with sonde/dump/sinks/statistic.py.
#pragma once

#include "fast_path.h"
#include "shared/constants.h"

#include <cstring>
#include <new>
#include <utility>
#include <vector>

namespace sonde_match {

// The sink's label of one tensor of one op, valid for one shape and dtype.
struct RowLabel {
  Owned label;
  PyObject* dtype = nullptr;  // borrowed, as in TensorInfo
  int dims = 0;
  int64_t shape[sonde_tensor::kMostDims] = {};

  bool fits(const TensorInfo& info) const {
    return label && dtype == info.dtype && dims >= 0 && dims == info.dims &&
           std::memcmp(shape, info.shape, static_cast<size_t>(dims) * sizeof(int64_t)) == 0;
  }
};

struct RowCollectorFields {
  Context context;
  Kernel summary;  // (row address, ...) -> None
  Owned label;     // (node, io, slot, tensor) -> the label
  Owned unusual;   // (node, io, slot, tensor, timestamp) -> None: what is not plain memory
  Owned now;       // () -> int: a timestamp
  int takes_inputs = 0;
  int takes_outputs = 0;

  Cache cache;               // results are numbers of rows
  std::vector<double> rows;  // kRowColumns each; may have room for more than `row_count`
  size_t row_count = 0;
  // One entry per tensor; several may share a row.
  std::vector<Owned> labels;
  std::vector<int64_t> timestamps;
  std::vector<int64_t> numbers;  // of rows
  int64_t timestamp = 0;         // of the op that runs now
};

// The fields are built in tp_new and destroyed in tp_dealloc.
struct RowCollector : PyObject, RowCollectorFields {
  // The memory of the row after the last; null with an error set.
  double* reserve() {
    constexpr size_t kFirstRows = 4096;
    constexpr size_t kColumns = static_cast<size_t>(sonde::kRowColumns);
    if (row_count * kColumns == rows.size()) {
      try {
        rows.resize(row_count ? 2 * rows.size() : kFirstRows * kColumns);
      } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return nullptr;
      }
    }
    return rows.data() + row_count * kColumns;
  }

  void add(Owned entry_label, int64_t entry_timestamp, int64_t number) {
    labels.push_back(std::move(entry_label));
    timestamps.push_back(entry_timestamp);
    numbers.push_back(number);
  }

  // Removes the entries after the first `size`: those of an op that raised.
  void truncate(size_t size) {
    labels.resize(size);
    timestamps.resize(size);
    numbers.resize(size);
  }

  void begin_step() {
    truncate(0);
    row_count = 0;
    cache.measured.clear();
  }
};

// The timestamp of what is collected from here on; false with an error set.
bool begin_op(RowCollector* collector);

// Adds one tensor of one op. `known` becomes what is known under its token from here on, unless it
// is null. False with an error set.
bool collect(RowCollector* collector, RowLabel* label, const TensorUse& use,
             const Provenance& provenance, const Measured** known = nullptr);

extern PyTypeObject RowCollectorType;
bool make_row_collector_type();

}  // namespace sonde_match
