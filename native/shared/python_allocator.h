// PythonAllocator: memory of Python's own allocator, for small objects that live as long as a graph.
//
// The C heap also holds the tensors of the program. Small blocks that are made between them while a
// step is learned, and kept, would split the heap: torch could no longer use the memory of freed
// tensors again, and the program would need hundreds of megabytes more. Python's allocator keeps
// blocks of up to 512 bytes in arenas of its own. The GIL must be held, as for an Owned.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstddef>
#include <new>
#include <vector>

namespace sonde {

template <typename Item>
struct PythonAllocator {
  using value_type = Item;

  PythonAllocator() noexcept = default;
  template <typename Other>
  PythonAllocator(const PythonAllocator<Other>&) noexcept {}

  Item* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(PY_SSIZE_T_MAX) / sizeof(Item)) throw std::bad_alloc();
    void* memory = PyObject_Malloc(count * sizeof(Item));
    if (!memory) throw std::bad_alloc();
    return static_cast<Item*>(memory);
  }

  void deallocate(Item* memory, std::size_t) noexcept { PyObject_Free(memory); }

  template <typename Other>
  bool operator==(const PythonAllocator<Other>&) const noexcept {
    return true;
  }
  template <typename Other>
  bool operator!=(const PythonAllocator<Other>&) const noexcept {
    return false;
  }
};

// A vector that lives as long as the graph of a step.
template <typename Item>
using LastingVector = std::vector<Item, PythonAllocator<Item>>;

}  // namespace sonde
