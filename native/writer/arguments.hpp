// Reads the arguments of the module's functions. On failure a Python exception is set.

#pragma once

#include "shared/owned.h"

#include <cstdint>
#include <string_view>

namespace sonde {

// A path as the system takes it: borrowed from the str in the common case.
class Path {
public:
    bool set(PyObject* text) {
        if (!PyUnicode_Check(text)) {
            PyErr_Format(PyExc_TypeError, "path must be str, not %.100s", Py_TYPE(text)->tp_name);
            return false;
        }
        Py_ssize_t size = 0;
        const char* data = nullptr;
        if (PyUnicode_IS_ASCII(text)) {
            data = PyUnicode_AsUTF8AndSize(text, &size);
        } else if ((encoded_ = Owned::take(PyUnicode_EncodeFSDefault(text)))) {
            data = PyBytes_AS_STRING(encoded_.get());
            size = PyBytes_GET_SIZE(encoded_.get());
        }
        if (data == nullptr) return false;
        value_ = {data, static_cast<std::size_t>(size)};
        if (value_.empty() || value_.front() != '/' || value_.find('\0') != value_.npos) {
            PyErr_Format(PyExc_ValueError, "path must be absolute, without NUL: %R", text);
            return false;
        }
        return true;
    }
    // A path whose last part names a file.
    bool set_file(PyObject* text) {
        if (!set(text)) return false;
        if (value_.back() != '/') return true;
        PyErr_Format(PyExc_ValueError, "path must name a file: %R", text);
        return false;
    }
    std::string_view get() const { return value_; }

private:
    Owned encoded_;
    std::string_view value_;
};

inline bool check_count(const char* method, Py_ssize_t given, Py_ssize_t wanted) {
    if (given == wanted) return true;
    PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments (%zd given)", method, wanted, given);
    return false;
}

inline bool parse_number(PyObject* value, std::uint64_t& number) {
    number = PyLong_AsUnsignedLongLong(value);
    return !(number == static_cast<std::uint64_t>(-1) && PyErr_Occurred());
}

}  // namespace sonde
