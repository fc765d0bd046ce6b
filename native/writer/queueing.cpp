#include "writer_object.hpp"

#include <memory>

namespace sonde {

namespace {

// A file that begins with `head`, which is bytes.
std::unique_ptr<Job> file_of(PyObject* head) {
    auto job = std::make_unique<Job>();
    job->kind = Kind::file;
    job->head.assign(PyBytes_AS_STRING(head), static_cast<std::size_t>(PyBytes_GET_SIZE(head)));
    return job;
}

PyObject* submit(const Writer* writer, std::unique_ptr<Job> job, const Path& path) {
    const std::size_t bytes = job->bytes();
    // The engine's reference, which it hands back when the job is done: see release().
    Owned keep = Owned::share(static_cast<PyObject*>(job->keep));
    for (;;) {
        std::vector<Token> finished;
        const JobNumber number = writer->engine->submit(job, path.get(), finished);
        if (number != 0) static_cast<void>(keep.release());
        release(finished);
        if (number != 0) return PyLong_FromUnsignedLongLong(number);
        if (wait_for_room(writer, bytes)) continue;
        return PyErr_Occurred() ? nullptr : PyLong_FromLong(0);
    }
}

// What the arguments of a tensor's file begin with: path, header, address. False with an error set.
bool read_tensor(PyObject* const* args, Path& path, void*& address) {
    if (!path.set_file(args[0])) return false;
    if (!PyBytes_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "header must be bytes");
        return false;
    }
    address = PyLong_AsVoidPtr(args[2]);
    return address != nullptr || !PyErr_Occurred();
}

// Sizes or strides of a tensor; false with an error set.
bool read_numbers(PyObject* values, const char* what, std::vector<std::ptrdiff_t>& out) {
    const Owned fast = Owned::take(PySequence_Fast(values, what));
    if (!fast) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i) {
        const Py_ssize_t number = PyLong_AsSsize_t(PySequence_Fast_GET_ITEM(fast.get(), i));
        if (number == -1 && PyErr_Occurred()) return false;
        out.push_back(number);
    }
    return true;
}

// The layout of a tensor and its size in bytes; nullptr with an error set.
std::shared_ptr<Layout> read_layout(PyObject* itemsize, PyObject* shape, PyObject* strides,
                                    std::size_t& bytes) {
    auto layout = std::make_shared<Layout>();
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

}  // namespace

PyObject* writer_write(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Writer* writer = cast(self);
    if (!check_count("write", count, 5) || !check_open(writer)) return nullptr;
    Path path;
    void* address = nullptr;
    if (!read_tensor(args, path, address)) return nullptr;
    const Py_ssize_t nbytes = PyLong_AsSsize_t(args[3]);
    if (nbytes < 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "nbytes must not be negative");
        return nullptr;
    }
    if (writer->engine->inert()) return PyLong_FromLong(0);
    std::unique_ptr<Job> job = file_of(args[1]);
    job->body = {static_cast<const char*>(address), static_cast<std::size_t>(nbytes)};
    job->keep = args[4];
    return submit(writer, std::move(job), path);
}

PyObject* writer_write_strided(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Writer* writer = cast(self);
    if (!check_count("write_strided", count, 7) || !check_open(writer)) return nullptr;
    Path path;
    void* address = nullptr;
    if (!read_tensor(args, path, address)) return nullptr;
    std::size_t bytes = 0;
    std::shared_ptr<Layout> layout = read_layout(args[3], args[4], args[5], bytes);
    if (!layout) return nullptr;
    if (writer->engine->inert()) return PyLong_FromLong(0);
    std::unique_ptr<Job> job = file_of(args[1]);
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
    return submit(writer, file_of(args[1]), path);
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
        const Linked linked = engine.submit_link(number, path.get(), finished);
        release(finished);
        if (linked != Linked::no_room) {
            return PyBool_FromLong(linked == Linked::queued);
        }
        if (wait_for_room(writer, 0)) continue;
        return PyErr_Occurred() ? nullptr : PyBool_FromLong(1);
    }
}

// Queues a barrier, waiting for room; null with an exception set if a signal handler raised.
template <typename Submit>
PyObject* queue_barrier(const Writer* writer, Submit&& submit) {
    Engine& engine = *writer->engine;
    while (!engine.inert()) {
        std::vector<Token> finished;
        const bool queued = submit(engine, finished);
        release(finished);
        if (queued) break;
        if (!wait_for_room(writer, 0) && PyErr_Occurred()) return nullptr;
    }
    Py_RETURN_NONE;
}

PyObject* writer_barrier_rename(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Writer* writer = cast(self);
    if (!check_count("barrier_rename", count, 2) || !check_open(writer)) return nullptr;
    Path from;
    Path to;
    if (!from.set(args[0]) || !to.set(args[1])) return nullptr;
    return queue_barrier(writer, [&](Engine& engine, std::vector<Token>& finished) {
        return engine.submit_rename(from.get(), to.get(), finished);
    });
}

PyObject* writer_barrier_remove(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Writer* writer = cast(self);
    if (!check_count("barrier_remove", count, 1) || !check_open(writer)) return nullptr;
    Path directory;
    if (!directory.set(args[0])) return nullptr;
    return queue_barrier(writer, [&](Engine& engine, std::vector<Token>& finished) {
        return engine.submit_remove(directory.get(), finished);
    });
}

}  // namespace sonde
