#include "writer_object.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>

namespace sonde {

namespace {

using Clock = std::chrono::steady_clock;

// A copy of lent memory; null if there is no memory for it, and then the file must be waited for.
std::unique_ptr<char[]> copy_of(Span lent) {
    std::unique_ptr<char[]> copy(new (std::nothrow) char[lent.size]);
    Py_BEGIN_ALLOW_THREADS
    if (copy && lent.layout) {
        gather(lent, copy.get());
    } else if (copy) {
        std::memcpy(copy.get(), lent.data, lent.size);
    }
    Py_END_ALLOW_THREADS
    return copy;
}

bool report(Engine& engine, PyObject* progress) {
    const Counts now = engine.counts();
    const Owned answer = Owned::take(PyObject_CallFunction(
        progress, "KK", static_cast<unsigned long long>(now.pending_jobs),
        static_cast<unsigned long long>(now.pending_bytes)));
    return static_cast<bool>(answer);
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

}  // namespace

PyObject* writer_own(PyObject* self, PyObject* value) {
    JobNumber number = 0;
    if (!parse_number(value, number)) return nullptr;
    Engine& engine = *cast(self)->engine;
    if (engine.inert()) Py_RETURN_NONE;
    if (!check_known(engine, number)) return nullptr;
    Span lent;
    Body body = engine.body(number, lent);
    if (body == Body::lent) {
        // A thread may start to write it meanwhile: reading it twice does no harm.
        std::unique_ptr<char[]> copy = copy_of(lent);
        std::vector<Token> finished;
        if (copy && engine.replace_body(number, std::move(copy), finished)) {
            body = Body::owned;
        }
        release(finished);
    }
    const auto done = [&](Slice slice) { return engine.wait_for(number, slice); };
    if (body != Body::owned && !wait_interruptibly(engine, done)) return nullptr;
    Py_RETURN_NONE;
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

}  // namespace sonde
