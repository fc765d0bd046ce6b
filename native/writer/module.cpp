// sonde.dump.writing._writer: the Python interface of the engine. The contract is the protocol `Writer`
// of sonde/dump/writing/writer.py. Only the files that include writer_object.hpp hold the GIL, and
// never while they wait.

#include "writer_object.hpp"

#include <cstring>
#include <new>
#include <system_error>

namespace sonde {

namespace {

Counts counts(PyObject* self) {
    Engine& engine = *cast(self)->engine;
    if (engine.inert()) return {};
    release_finished(engine);
    return engine.counts();
}

PyObject* writer_pending_bytes(PyObject* self, void*) {
    return PyLong_FromSize_t(counts(self).pending_bytes);
}

PyObject* writer_written_bytes(PyObject* self, void*) {
    return PyLong_FromSize_t(counts(self).written_bytes);
}

PyObject* writer_error(PyObject* self, void*) {
    Engine& engine = *cast(self)->engine;
    if (engine.inert()) Py_RETURN_NONE;
    release_finished(engine);
    const Failure failure = engine.failure();
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
    OwnedObject<Writer> self = OwnedObject<Writer>::take(type->tp_alloc(type, 0));
    if (!self) return nullptr;
    self->closed = false;
    self->engine = nullptr;
    try {
        self->engine = new Engine(static_cast<unsigned>(threads),
                                        static_cast<std::size_t>(budget_bytes),
                                        anonymous_files != 0);
    } catch (const std::system_error& error) {
        PyErr_Format(PyExc_RuntimeError, "cannot start a writer thread: %s", error.what());
        return nullptr;
    }
    return self.release();
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
    // The reference that an object of a heap type has to its type.
    const OwnedObject<PyTypeObject> type =
        OwnedObject<PyTypeObject>::take(reinterpret_cast<PyObject*>(Py_TYPE(self)));
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
}

// Calls that copy their arguments may run out of memory.
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
    {"barrier_remove", method(shielded<writer_barrier_remove>), METH_FASTCALL,
     "barrier_remove(directory, /) -> None"},
    {"own", writer_own, METH_O, "own(job, /) -> None"},
    {"wait", writer_wait, METH_O, "wait(job, /) -> None"},
    {"wait_all", method(writer_wait_all), METH_VARARGS | METH_KEYWORDS,
     "wait_all(progress=None, interval_seconds=0.5) -> None"},
    {"close", writer_close, METH_NOARGS, "close() -> None"},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef writer_properties[] = {
    {"pending_bytes", writer_pending_bytes, nullptr, nullptr, nullptr},
    {"written_bytes", writer_written_bytes, nullptr, nullptr, nullptr},
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
    "sonde.dump.writing._writer.Writer",
    sizeof(Writer),
    0,
    Py_TPFLAGS_DEFAULT,
    writer_slots,
};

int add_types(PyObject* module) {
    const auto type =
        OwnedObject<PyTypeObject>::take(PyType_FromModuleAndSpec(module, &writer_spec, nullptr));
    return type ? PyModule_AddType(module, type.get()) : -1;
}

PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(add_types)},
    {0, nullptr},
};

PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "_writer", nullptr, 0, nullptr, module_slots, nullptr, nullptr, nullptr,
};

}  // namespace

}  // namespace sonde

PyMODINIT_FUNC PyInit__writer() { return PyModuleDef_Init(&sonde::module_definition); }
