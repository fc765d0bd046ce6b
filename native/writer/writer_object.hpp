// The Python object around an engine, and how its methods wait: never holding the GIL.

#pragma once

#include "arguments.hpp"

#include <vector>

#include "engine.hpp"

namespace sonde {

// How long Ctrl-C may take to be noticed.
constexpr Slice kSlice{50};

struct Writer {
    PyObject_HEAD
    Engine* engine;
    bool closed;
};

inline Writer* cast(PyObject* self) { return reinterpret_cast<Writer*>(self); }

// Tokens are references that the engine owned and returns. Releasing them may run any Python code,
// including calls of this module.
inline void release(std::vector<Token>& finished) {
    for (Token token : finished) Owned::take(static_cast<PyObject*>(token));
    finished.clear();
}

inline void release_finished(Engine& engine) {
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

inline bool check_open(const Writer* writer) {
    if (!writer->closed) return true;
    PyErr_SetString(PyExc_ValueError, "the writer is closed");
    return false;
}

inline bool check_known(Engine& engine, JobNumber number) {
    if (engine.knows(number)) return true;
    PyErr_Format(PyExc_ValueError, "there is no job %llu",
                 static_cast<unsigned long long>(number));
    return false;
}

// Waits for room for a job. False if it must not be queued any more: with an exception set, or
// because this is a forked child now.
inline bool wait_for_room(const Writer* writer, std::size_t bytes) {
    Engine& engine = *writer->engine;
    return wait_interruptibly(
               engine, [&](Slice slice) { return engine.wait_for_room(bytes, slice); }) &&
           !engine.inert() && check_open(writer);
}

// queueing.cpp: functions that put jobs into the queue
PyObject* writer_write(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* writer_write_strided(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* writer_write_text(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* writer_link(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* writer_barrier_rename(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* writer_barrier_remove(PyObject* self, PyObject* const* args, Py_ssize_t count);

// waiting.cpp: functions that wait for jobs in the queue
PyObject* writer_own(PyObject* self, PyObject* value);
PyObject* writer_wait(PyObject* self, PyObject* value);
PyObject* writer_wait_all(PyObject* self, PyObject* args, PyObject* keywords);
PyObject* writer_close(PyObject* self, PyObject*);

}  // namespace sonde
