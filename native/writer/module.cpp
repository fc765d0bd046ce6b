// sonde.dump._writer: the Python face of the engine. The contract is the protocol `Writer` of
// sonde/dump/writer.py. Only this file holds the GIL, and never while it waits.

#include "arguments.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <system_error>
#include <vector>

#include "engine.hpp"

namespace {

using sonde::Engine;
using sonde::JobNumber;
using sonde::Path;
using sonde::Slice;
using sonde::Token;
using sonde::check_count;
using sonde::parse_number;
using Clock = std::chrono::steady_clock;

// How long Ctrl-C may take to be noticed.
constexpr Slice kSlice{50};

struct Writer {
    PyObject_HEAD
    Engine* engine;
    bool closed;
};

Writer* cast(PyObject* self) { return reinterpret_cast<Writer*>(self); }

// Tokens are references: dropping them may run any Python code, this module's included.
void release(std::vector<Token>& finished) {
    for (Token token : finished) Py_DECREF(static_cast<PyObject*>(token));
    finished.clear();
}

void release_finished(Engine& engine) {
    std::vector<Token> finished;
    engine.collect(finished);
    release(finished);
}

// Waits without the GIL until `done(slice)` is true. False with an exception set if a signal
// handler raised.
template <typename Done>
bool wait_interruptibly(Engine& engine, Done&& done) {
    for (;;) {
        bool came = false;
        Py_BEGIN_ALLOW_THREADS
        came = done(kSlice);
        Py_END_ALLOW_THREADS
        release_finished(engine);
        if (came) return true;
        if (PyErr_CheckSignals() != 0) return false;
        // A handler may have forked.
        if (engine.inert()) return true;
    }
}

bool check_open(const Writer* writer) {
    if (!writer->closed) return true;
    PyErr_SetString(PyExc_ValueError, "the writer is closed");
    return false;
}

bool check_known(Engine& engine, JobNumber number) {
    if (engine.knows(number)) return true;
    PyErr_Format(PyExc_ValueError, "there is no job %llu",
                 static_cast<unsigned long long>(number));
    return false;
}

// Waits for room for a job. False if it must not be queued any more: with an exception set, or
// because this is a forked child now.
bool wait_for_room(const Writer* writer, std::size_t bytes) {
    Engine& engine = *writer->engine;
    return wait_interruptibly(
               engine, [&](Slice slice) { return engine.wait_for_room(bytes, slice); }) &&
           !engine.inert() && check_open(writer);
}

PyObject* submit(const Writer* writer, std::unique_ptr<sonde::Job> job, const Path& path) {
    const std::size_t bytes = job->bytes();
    // The reference is the engine's from now on; taken back if the job is never queued.
    PyObject* keep = static_cast<PyObject*>(job->keep);
    Py_XINCREF(keep);
    for (;;) {
        std::vector<Token> finished;
        const JobNumber number = writer->engine->submit(job, path.get(), finished);
        release(finished);
        if (number != 0) return PyLong_FromUnsignedLongLong(number);
        if (wait_for_room(writer, bytes)) continue;
        Py_XDECREF(keep);
        return PyErr_Occurred() ? nullptr : PyLong_FromLong(0);
    }
}

PyObject* writer_write(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Writer* writer = cast(self);
    if (!check_count("write", count, 5) || !check_open(writer)) return nullptr;
    Path path;
    if (!path.set_file(args[0])) return nullptr;
    if (!PyBytes_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "header must be bytes");
        return nullptr;
    }
    void* address = PyLong_AsVoidPtr(args[2]);
    if (address == nullptr && PyErr_Occurred()) return nullptr;
    const Py_ssize_t nbytes = PyLong_AsSsize_t(args[3]);
    if (nbytes < 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "nbytes must not be negative");
        return nullptr;
    }
    if (writer->engine->inert()) return PyLong_FromLong(0);
    auto job = std::make_unique<sonde::Job>();
    job->kind = sonde::Kind::file;
    job->head.assign(PyBytes_AS_STRING(args[1]),
                     static_cast<std::size_t>(PyBytes_GET_SIZE(args[1])));
    job->body = {static_cast<const char*>(address), static_cast<std::size_t>(nbytes)};
    job->keep = args[4];
    return submit(writer, std::move(job), path);
}

// Sizes or strides of a tensor; false with an error set.
bool read_numbers(PyObject* values, const char* what, std::vector<std::ptrdiff_t>& out) {
    PyObject* fast = PySequence_Fast(values, what);
    if (fast == nullptr) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast); ++i) {
        const Py_ssize_t number = PyLong_AsSsize_t(PySequence_Fast_GET_ITEM(fast, i));
        if (number == -1 && PyErr_Occurred()) {
            Py_DECREF(fast);
            return false;
        }
        out.push_back(number);
    }
    Py_DECREF(fast);
    return true;
}

// The layout of a tensor and its size in bytes; nullptr with an error set.
std::shared_ptr<sonde::Layout> read_layout(PyObject* itemsize, PyObject* shape, PyObject* strides,
                                           std::size_t& bytes) {
    auto layout = std::make_shared<sonde::Layout>();
    const Py_ssize_t size = PyLong_AsSsize_t(itemsize);
    if (size == -1 && PyErr_Occurred()) return nullptr;
    if (!read_numbers(shape, "shape must be a sequence", layout->shape) ||
        !read_numbers(strides, "strides must be a sequence", layout->strides)) {
        return nullptr;
    }
    bool valid = size > 0 && layout->shape.size() == layout->strides.size();
    layout->itemsize = static_cast<std::size_t>(size);
    bytes = layout->itemsize;
    for (std::size_t i = 0; valid && i < layout->shape.size(); ++i) {
        valid = layout->shape[i] >= 0 &&
                !__builtin_mul_overflow(bytes, static_cast<std::size_t>(layout->shape[i]), &bytes);
        layout->strides[i] *= size;
    }
    if (valid) return layout;
    PyErr_SetString(PyExc_ValueError, "itemsize, shape and strides do not fit together");
    return nullptr;
}

PyObject* writer_write_strided(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Writer* writer = cast(self);
    if (!check_count("write_strided", count, 7) || !check_open(writer)) return nullptr;
    Path path;
    if (!path.set_file(args[0])) return nullptr;
    if (!PyBytes_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "header must be bytes");
        return nullptr;
    }
    void* address = PyLong_AsVoidPtr(args[2]);
    if (address == nullptr && PyErr_Occurred()) return nullptr;
    std::size_t bytes = 0;
    std::shared_ptr<sonde::Layout> layout = read_layout(args[3], args[4], args[5], bytes);
    if (!layout) return nullptr;
    if (writer->engine->inert()) return PyLong_FromLong(0);
    auto job = std::make_unique<sonde::Job>();
    job->kind = sonde::Kind::file;
    job->head.assign(PyBytes_AS_STRING(args[1]),
                     static_cast<std::size_t>(PyBytes_GET_SIZE(args[1])));
    job->body = {static_cast<const char*>(address), bytes, std::move(layout)};
    job->keep = args[6];
    return submit(writer, std::move(job), path);
}

PyObject* writer_write_text(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Writer* writer = cast(self);
    if (!check_count("write_text", count, 2) || !check_open(writer)) return nullptr;
    Path path;
    if (!path.set_file(args[0])) return nullptr;
    if (!PyBytes_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "data must be bytes");
        return nullptr;
    }
    if (writer->engine->inert()) return PyLong_FromLong(0);
    auto job = std::make_unique<sonde::Job>();
    job->kind = sonde::Kind::file;
    job->head.assign(PyBytes_AS_STRING(args[1]),
                     static_cast<std::size_t>(PyBytes_GET_SIZE(args[1])));
    return submit(writer, std::move(job), path);
}

PyObject* writer_link(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Writer* writer = cast(self);
    if (!check_count("link", count, 2) || !check_open(writer)) return nullptr;
    JobNumber number = 0;
    Path path;
    if (!parse_number(args[0], number) || !path.set_file(args[1])) return nullptr;
    Engine& engine = *writer->engine;
    if (engine.inert()) Py_RETURN_TRUE;
    if (!check_known(engine, number)) return nullptr;
    for (;;) {
        std::vector<Token> finished;
        const sonde::Linked linked = engine.submit_link(number, path.get(), finished);
        release(finished);
        if (linked != sonde::Linked::no_room) {
            return PyBool_FromLong(linked == sonde::Linked::queued);
        }
        if (wait_for_room(writer, 0)) continue;
        return PyErr_Occurred() ? nullptr : PyBool_FromLong(1);
    }
}

PyObject* writer_barrier_rename(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Writer* writer = cast(self);
    if (!check_count("barrier_rename", count, 2) || !check_open(writer)) return nullptr;
    Path from;
    Path to;
    if (!from.set(args[0]) || !to.set(args[1])) return nullptr;
    Engine& engine = *writer->engine;
    while (!engine.inert()) {
        std::vector<Token> finished;
        const bool queued = engine.submit_rename(from.get(), to.get(), finished);
        release(finished);
        if (queued) break;
        if (!wait_for_room(writer, 0) && PyErr_Occurred()) return nullptr;
    }
    Py_RETURN_NONE;
}

// A copy of lent memory; null if there is no memory for it, and then the file must be waited for.
std::unique_ptr<char[]> copy_of(sonde::Span lent) {
    std::unique_ptr<char[]> copy(new (std::nothrow) char[lent.size]);
    Py_BEGIN_ALLOW_THREADS
    if (copy && lent.layout) {
        sonde::gather(lent, copy.get());
    } else if (copy) {
        std::memcpy(copy.get(), lent.data, lent.size);
    }
    Py_END_ALLOW_THREADS
    return copy;
}

PyObject* writer_own(PyObject* self, PyObject* value) {
    JobNumber number = 0;
    if (!parse_number(value, number)) return nullptr;
    Engine& engine = *cast(self)->engine;
    if (engine.inert()) Py_RETURN_NONE;
    if (!check_known(engine, number)) return nullptr;
    sonde::Span lent;
    sonde::Body body = engine.body(number, lent);
    if (body == sonde::Body::lent) {
        // A thread may start to write it meanwhile: reading it twice does no harm.
        std::unique_ptr<char[]> copy = copy_of(lent);
        std::vector<Token> finished;
        if (copy && engine.replace_body(number, std::move(copy), finished)) {
            body = sonde::Body::owned;
        }
        release(finished);
    }
    const auto done = [&](Slice slice) { return engine.wait_for(number, slice); };
    if (body != sonde::Body::owned && !wait_interruptibly(engine, done)) return nullptr;
    Py_RETURN_NONE;
}

PyObject* writer_is_pending(PyObject* self, PyObject* value) {
    JobNumber number = 0;
    if (!parse_number(value, number)) return nullptr;
    Engine& engine = *cast(self)->engine;
    if (engine.inert()) Py_RETURN_FALSE;
    release_finished(engine);
    return PyBool_FromLong(engine.is_pending(number));
}

PyObject* writer_wait(PyObject* self, PyObject* value) {
    JobNumber number = 0;
    if (!parse_number(value, number)) return nullptr;
    Engine& engine = *cast(self)->engine;
    if (engine.inert()) Py_RETURN_NONE;
    if (!check_known(engine, number)) return nullptr;
    if (!wait_interruptibly(engine,
                            [&](Slice slice) { return engine.wait_for(number, slice); })) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

bool report(Engine& engine, PyObject* progress) {
    const sonde::Counts now = engine.counts();
    PyObject* answer = PyObject_CallFunction(progress, "KK",
                                             static_cast<unsigned long long>(now.pending_jobs),
                                             static_cast<unsigned long long>(now.pending_bytes));
    Py_XDECREF(answer);
    return answer != nullptr;
}

bool wait_for_all(Engine& engine, PyObject* progress, double interval_seconds) {
    const auto interval = std::chrono::duration<double>(interval_seconds);
    for (;;) {
        const auto since = Clock::now();
        bool all = false;
        // Ends when everything is done or it is time to report.
        const auto done = [&](Slice slice) {
            if (progress != nullptr) {
                const auto left = std::chrono::ceil<Slice>(interval - (Clock::now() - since));
                slice = std::clamp(left, Slice{0}, slice);
            }
            all = engine.wait_for_all(slice);
            return all || (progress != nullptr && Clock::now() - since >= interval);
        };
        if (!wait_interruptibly(engine, done)) return false;
        if (all || engine.inert()) return true;
        if (!report(engine, progress)) return false;
    }
}

PyObject* writer_wait_all(PyObject* self, PyObject* args, PyObject* keywords) {
    static const char* names[] = {"progress", "interval_seconds", nullptr};
    PyObject* progress = Py_None;
    double interval_seconds = 0.5;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|Od", const_cast<char**>(names), &progress,
                                     &interval_seconds)) {
        return nullptr;
    }
    if (!(interval_seconds > 0.0 && interval_seconds <= 1e6)) {
        PyErr_SetString(PyExc_ValueError, "interval_seconds must be above 0 and at most 1e6");
        return nullptr;
    }
    Engine& engine = *cast(self)->engine;
    if (engine.inert()) Py_RETURN_NONE;
    if (!wait_for_all(engine, progress == Py_None ? nullptr : progress, interval_seconds)) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

PyObject* writer_release(PyObject* self, PyObject*) {
    Engine& engine = *cast(self)->engine;
    if (!engine.inert()) release_finished(engine);
    Py_RETURN_NONE;
}

PyObject* writer_close(PyObject* self, PyObject*) {
    Writer* writer = cast(self);
    Engine& engine = *writer->engine;
    if (writer->closed || engine.inert()) Py_RETURN_NONE;
    if (!wait_for_all(engine, nullptr, 1.0)) return nullptr;
    // Releasing in there may have run code that closed it, or that queued something.
    if (writer->closed || engine.inert()) Py_RETURN_NONE;
    writer->closed = true;
    Py_BEGIN_ALLOW_THREADS
    while (!engine.wait_for_all(kSlice)) {
    }
    engine.join();
    Py_END_ALLOW_THREADS
    release_finished(engine);
    Py_RETURN_NONE;
}

sonde::Counts counts(PyObject* self) {
    Engine& engine = *cast(self)->engine;
    if (engine.inert()) return {};
    release_finished(engine);
    return engine.counts();
}

PyObject* writer_pending_bytes(PyObject* self, void*) {
    return PyLong_FromSize_t(counts(self).pending_bytes);
}

PyObject* writer_pending_jobs(PyObject* self, void*) {
    return PyLong_FromSize_t(counts(self).pending_jobs);
}

PyObject* writer_written_bytes(PyObject* self, void*) {
    return PyLong_FromSize_t(counts(self).written_bytes);
}

PyObject* writer_written_files(PyObject* self, void*) {
    return PyLong_FromSize_t(counts(self).written_files);
}

PyObject* writer_error(PyObject* self, void*) {
    Engine& engine = *cast(self)->engine;
    if (engine.inert()) Py_RETURN_NONE;
    release_finished(engine);
    const sonde::Failure failure = engine.failure();
    if (failure.error == 0) Py_RETURN_NONE;
    PyObject* path = PyUnicode_DecodeFSDefaultAndSize(
        failure.path.data(), static_cast<Py_ssize_t>(failure.path.size()));
    if (path == nullptr) return nullptr;
    return PyObject_CallFunction(PyExc_OSError, "isN", failure.error,
                                 std::strerror(failure.error), path);
}

PyObject* writer_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
    static const char* names[] = {"threads", "budget_bytes", "anonymous_files", nullptr};
    Py_ssize_t threads = 0;
    Py_ssize_t budget_bytes = 0;
    int anonymous_files = 1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "nn|p", const_cast<char**>(names), &threads,
                                     &budget_bytes, &anonymous_files)) {
        return nullptr;
    }
    if (threads < 1 || threads > 256 || budget_bytes < 1) {
        PyErr_SetString(PyExc_ValueError, "threads must be 1 to 256, budget_bytes at least 1");
        return nullptr;
    }
    PyObject* self = type->tp_alloc(type, 0);
    if (self == nullptr) return nullptr;
    cast(self)->closed = false;
    cast(self)->engine = nullptr;
    try {
        cast(self)->engine = new Engine(static_cast<unsigned>(threads),
                                        static_cast<std::size_t>(budget_bytes),
                                        anonymous_files != 0);
    } catch (const std::system_error& error) {
        PyErr_Format(PyExc_RuntimeError, "cannot start a writer thread: %s", error.what());
        Py_DECREF(self);
        return nullptr;
    }
    return self;
}

bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
}

// A writer that is dropped finishes its work, like a file. At the interpreter's end it does not:
// the threads go on for as long as the process lives, and the engine must outlive them.
void writer_dealloc(PyObject* self) {
    Engine* engine = cast(self)->engine;
    PyTypeObject* type = Py_TYPE(self);
    if (engine != nullptr && !engine->inert() && (cast(self)->closed || !is_finalizing())) {
        Py_BEGIN_ALLOW_THREADS
        while (!engine->wait_for_all(kSlice)) {
        }
        engine->join();
        Py_END_ALLOW_THREADS
        release_finished(*engine);
        delete engine;
    }
    type->tp_free(self);
    Py_DECREF(type);
}

// The calls that copy what they are given may find no memory.
template <PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)>
PyObject* shielded(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    try {
        return function(self, args, count);
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

template <typename Function>
PyCFunction method(Function function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef writer_methods[] = {
    {"write", method(shielded<writer_write>), METH_FASTCALL,
     "write(path, header, address, nbytes, keep, /) -> int"},
    {"write_strided", method(shielded<writer_write_strided>), METH_FASTCALL,
     "write_strided(path, header, address, itemsize, shape, strides, keep) -> int"},
    {"write_text", method(shielded<writer_write_text>), METH_FASTCALL,
     "write_text(path, data, /) -> int"},
    {"link", method(shielded<writer_link>), METH_FASTCALL, "link(job, path, /) -> bool"},
    {"barrier_rename", method(shielded<writer_barrier_rename>), METH_FASTCALL,
     "barrier_rename(old_directory, new_directory, /) -> None"},
    {"own", writer_own, METH_O, "own(job, /) -> None"},
    {"is_pending", writer_is_pending, METH_O, "is_pending(job, /) -> bool"},
    {"wait", writer_wait, METH_O, "wait(job, /) -> None"},
    {"wait_all", method(writer_wait_all), METH_VARARGS | METH_KEYWORDS,
     "wait_all(progress=None, interval_seconds=0.5) -> None"},
    {"release", writer_release, METH_NOARGS, "release() -> None"},
    {"close", writer_close, METH_NOARGS, "close() -> None"},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef writer_properties[] = {
    {"pending_bytes", writer_pending_bytes, nullptr, nullptr, nullptr},
    {"pending_jobs", writer_pending_jobs, nullptr, nullptr, nullptr},
    {"written_bytes", writer_written_bytes, nullptr, nullptr, nullptr},
    {"written_files", writer_written_files, nullptr, nullptr, nullptr},
    {"error", writer_error, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot writer_slots[] = {
    {Py_tp_doc, const_cast<char*>("Writes files from threads that never take the GIL.")},
    {Py_tp_new, reinterpret_cast<void*>(writer_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(writer_dealloc)},
    {Py_tp_methods, writer_methods},
    {Py_tp_getset, writer_properties},
    {0, nullptr},
};

PyType_Spec writer_spec = {
    "sonde.dump._writer.Writer",
    sizeof(Writer),
    0,
    Py_TPFLAGS_DEFAULT,
    writer_slots,
};

int add_types(PyObject* module) {
    PyObject* type = PyType_FromModuleAndSpec(module, &writer_spec, nullptr);
    if (type == nullptr) return -1;
    const int failed = PyModule_AddType(module, reinterpret_cast<PyTypeObject*>(type));
    Py_DECREF(type);
    return failed;
}

PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(add_types)},
    {0, nullptr},
};

PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "_writer", nullptr, 0, nullptr, module_slots, nullptr, nullptr, nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__writer() { return PyModuleDef_Init(&module_definition); }
