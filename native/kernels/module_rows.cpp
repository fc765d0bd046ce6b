// Rows of statistics as lines of CSV.
#include <string>

#include "module.h"
#include "number_text.h"

namespace sonde {
namespace {

// A sequence as a list or tuple, released at the end of the scope.
class Items {
 public:
  explicit Items(PyObject* object)
      : fast_(Owned::take(PySequence_Fast(object, "expected a sequence"))) {}

  bool valid() const { return static_cast<bool>(fast_); }
  Py_ssize_t size() const { return PySequence_Fast_GET_SIZE(fast_.get()); }
  PyObject* operator[](Py_ssize_t i) const { return PySequence_Fast_GET_ITEM(fast_.get(), i); }

 private:
  Owned fast_;
};

bool is_counter(int column) { return column <= kPositiveCount; }
bool is_extreme(int column) { return column >= kMax && column <= kFiniteMin; }

char* write_integer_extreme(char* out, const double* row, int column, DType dtype) {
  if (row[kCount] == 0) return write_double(out, std::numeric_limits<double>::quiet_NaN());
  if (!is_wide_integer(dtype)) return write_integer(out, static_cast<std::int64_t>(row[column]));
  const bool is_max = column == kMax || column == kFiniteMax;
  std::uint64_t bits;
  std::memcpy(&bits, row + (is_max ? kFiniteMax : kFiniteMin), sizeof bits);
  return dtype == DType::UInt64 ? write_unsigned(out, bits)
                                : write_integer(out, static_cast<std::int64_t>(bits));
}

char* write_cell(char* out, const double* row, int column) {
  const double value = row[column];
  if (is_counter(column) && !std::isnan(value)) {
    return write_integer(out, static_cast<std::int64_t>(value));
  }
  const auto dtype = static_cast<DType>(static_cast<int>(row[kDtype]));
  if (is_extreme(column) && is_integer(dtype)) {
    return write_integer_extreme(out, row, column, dtype);
  }
  return write_double(out, value);
}

bool append_bytes(std::string& text, PyObject* object) {
  char* start = nullptr;
  Py_ssize_t length = 0;
  if (PyBytes_AsStringAndSize(object, &start, &length) != 0) return false;
  text.append(start, static_cast<std::size_t>(length));
  return true;
}

bool read_columns(const Items& items, Py_ssize_t text_count, std::vector<int>& columns) {
  for (Py_ssize_t k = 0; k < items.size(); ++k) {
    const long column = PyLong_AsLong(items[k]);
    if (column == -1 && PyErr_Occurred() != nullptr) return false;
    if (column < 0 || column >= kRowColumns + text_count) {
      PyErr_Format(PyExc_ValueError, "column %ld: there are %d and %zd texts", column,
                   kRowColumns, text_count);
      return false;
    }
    columns.push_back(static_cast<int>(column));
  }
  return true;
}

// The text of column k of row i, from texts[k - kRowColumns][i].
bool append_text(std::string& text, const Items& texts, int column, Py_ssize_t i) {
  const Owned cell = Owned::take(PySequence_GetItem(texts[column - kRowColumns], i));
  return cell && append_bytes(text, cell.get());
}

struct Table {
  const Items& heads;
  const Items& tails;
  const Items& texts;
  const std::int64_t* timestamps;
  const double* rows;
  std::vector<int> columns;
};

bool append_row(std::string& text, const Table& table, Py_ssize_t i) {
  char number[kNumberRoom];
  if (!append_bytes(text, table.heads[i])) return false;
  text.append(number, write_integer(number, table.timestamps[i]));
  if (!append_bytes(text, table.tails[i])) return false;
  bool first = true;
  for (const int column : table.columns) {
    if (!first) text.push_back(',');
    first = false;
    if (column >= kRowColumns) {
      if (!append_text(text, table.texts, column, i)) return false;
    } else {
      text.append(number, write_cell(number, table.rows + i * kRowColumns, column));
    }
  }
  text.push_back('\n');
  return true;
}

}  // namespace

PyObject* format_rows(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (!expect_arguments("format_rows", count, 7)) return nullptr;
  const Items heads(arguments[0]), tails(arguments[1]), columns(arguments[5]), texts(arguments[6]);
  void* timestamps = nullptr;
  void* rows = nullptr;
  std::int64_t row_count = 0;
  if (!heads.valid() || !tails.valid() || !columns.valid() || !texts.valid() ||
      !read_address(arguments[2], timestamps) || !read_address(arguments[3], rows) ||
      !read_count(arguments[4], row_count)) {
    return nullptr;
  }
  if (heads.size() < row_count || tails.size() < row_count) {
    PyErr_SetString(PyExc_ValueError, "format_rows: fewer heads or tails than rows");
    return nullptr;
  }
  Table table{heads, tails, texts, static_cast<const std::int64_t*>(timestamps),
              static_cast<const double*>(rows), {}};
  if (!read_columns(columns, texts.size(), table.columns)) return nullptr;
  std::string text;
  text.reserve(static_cast<std::size_t>(row_count) * (160 + 20 * table.columns.size()));
  for (Py_ssize_t i = 0; i < row_count; ++i) {
    if (heads[i] != Py_None && !append_row(text, table, i)) return nullptr;
  }
  return PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

}  // namespace sonde
