// Frames of Python: where the program is.
#pragma once

#include "tensor.h"

namespace sonde_match {

using sonde::Owned;

// The offset of the instruction that a frame runs.
inline long last_instruction(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return PyFrame_GetLasti(frame);
#else
  long long last = -1;
  static PyObject* const name = PyUnicode_InternFromString("f_lasti");
  sonde_tensor::number_from(
      sonde_tensor::attribute(reinterpret_cast<PyObject*>(frame), name), &last);
  PyErr_Clear();
  return static_cast<long>(last);
#endif
}

// The frame of the Python function that runs now.
inline Owned innermost_frame() {
  return Owned::take(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
}

// The frame that called this one; empty if there is none.
inline Owned caller_of(const Owned& frame) {
  return Owned::take(reinterpret_cast<PyObject*>(
      PyFrame_GetBack(reinterpret_cast<PyFrameObject*>(frame.get()))));
}

// The frame that is `count` frames above the innermost one; empty if there are fewer.
inline Owned frame_above(long count) {
  Owned frame = innermost_frame();
  for (; frame && count > 0; --count) frame = caller_of(frame);
  return frame;
}

}  // namespace sonde_match
