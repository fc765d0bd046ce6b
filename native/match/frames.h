// The frames of the running Python code: code and instruction of each, from the innermost outwards.
//
// Python's functions for this make an object of every frame they reach, which the frame then has to
// free. For versions whose layout is known the frames are read directly. `probe_frames` compares the
// result with that of Python's functions first; if it differs, or for another version, Python's
// functions are used.
#pragma once

#include "shared/owned.h"

namespace sonde_match {

struct Frame {
  PyObject* code;  // borrowed: the running frame has it
  long last;       // the instruction, as `f_lasti`
};

inline bool reads_frames = false;  // directly; see probe_frames

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
#define SONDE_FRAMES_KNOWN 1
// As in pycore_frame.h of Python 3.11.
struct InterpreterFrame {
  PyObject* function;
  PyObject* globals;
  PyObject* builtins;
  PyObject* locals;
  PyCodeObject* code;
  PyFrameObject* object;
  InterpreterFrame* previous;
  _Py_CODEUNIT* instruction;
  int stack_top;
  bool is_entry;
  char owner;

  const _Py_CODEUNIT* start() const {
    return reinterpret_cast<const _Py_CODEUNIT*>(code->co_code_adaptive);
  }
  // A frame that has not begun yet.
  bool is_incomplete() const {
    constexpr char kOwnedByGenerator = 1;
    return owner != kOwnedByGenerator && instruction < start() + code->_co_firsttraceable;
  }
  PyObject* code_object() const { return reinterpret_cast<PyObject*>(code); }
  long last() const {
    return static_cast<long>(instruction - start()) * static_cast<long>(sizeof(_Py_CODEUNIT));
  }
};

inline const InterpreterFrame* innermost_frame() {
  return reinterpret_cast<const InterpreterFrame*>(PyThreadState_Get()->cframe->current_frame);
}
#endif

inline long last_instruction(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return PyFrame_GetLasti(frame);
#else
  static PyObject* const name = PyUnicode_InternFromString("f_lasti");
  const sonde::Owned last = sonde::Owned::take(
      PyObject_GetAttr(reinterpret_cast<PyObject*>(frame), name));
  const long number = last ? PyLong_AsLong(last.get()) : -1;
  PyErr_Clear();
  return number;
#endif
}

template <typename Visit>
void visit_frame_objects(const Visit& visit) {
  sonde::Owned frame = sonde::Owned::take(
      reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  while (frame) {
    auto* here = reinterpret_cast<PyFrameObject*>(frame.get());
    const sonde::Owned code =
        sonde::Owned::take(reinterpret_cast<PyObject*>(PyFrame_GetCode(here)));
    if (!visit(Frame{code.get(), last_instruction(here)})) return;
    frame = sonde::Owned::take(reinterpret_cast<PyObject*>(PyFrame_GetBack(here)));
  }
}

// Calls `visit(Frame)` for each frame until it returns false.
template <typename Visit>
void visit_frames(const Visit& visit) {
#ifdef SONDE_FRAMES_KNOWN
  if (reads_frames) {
    for (const InterpreterFrame* frame = innermost_frame(); frame; frame = frame->previous)
      if (!frame->is_incomplete() && !visit(Frame{frame->code_object(), frame->last()})) return;
    return;
  }
#endif
  visit_frame_objects(visit);
}

// Decides whether frames are read directly; called once, from Python code.
inline bool probe_frames() {
#ifdef SONDE_FRAMES_KNOWN
  constexpr size_t kMost = 64;
  Frame expected[kMost];
  size_t count = 0;
  visit_frame_objects([&](const Frame& frame) {
    expected[count++] = frame;
    return count < kMost;
  });
  const InterpreterFrame* frame = innermost_frame();
  size_t same = 0;
  for (; frame && same < count; frame = frame->previous) {
    if (frame->is_incomplete()) continue;
    if (frame->code_object() != expected[same].code || frame->last() != expected[same].last) break;
    ++same;
  }
  reads_frames = count > 0 && same == count && (count == kMost || !frame);
#endif
  return reads_frames;
}

}  // namespace sonde_match
