// File operations of the writer: whole files, links, directories. No threads, no Python.
//
// Every function returns 0 or the errno of the call that failed, and leaves no partial file
// under a final name: a file is either absent, or unchanged, or complete.

#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sonde {

// How the elements of a tensor lie in memory: strides in bytes, any of them 0 or negative.
struct Layout {
    std::size_t itemsize = 1;
    std::vector<std::ptrdiff_t> shape;
    std::vector<std::ptrdiff_t> strides;
};

// Bytes in memory. With a layout `data` is the first element and `size` counts the elements' bytes
// in the order of the shape, as `gather` puts them.
struct Span {
    const char* data = nullptr;
    std::size_t size = 0;
    std::shared_ptr<const Layout> layout = nullptr;
};

// The bytes of a span that has a layout, in the order of its shape, to `out`.
void gather(const Span& span, char* out);

// Makes files appear whole.
//
// Where the file system can, the file has no name at all until it is whole (O_TMPFILE and linkat:
// one change of the directory instead of three, and a killed process leaves no file behind). Elsewhere
// it is written under a partial name and renamed. `anonymous` says which; it is shared by the
// threads of one writer and cleared by the first whose file system refuses.
class FileMaker {
public:
    explicit FileMaker(std::atomic<bool>& anonymous) : anonymous_(anonymous) {}

    // The file `directory/name` with the contents head, body. Replaces a file of that name.
    int write(const std::string& directory, const std::string& name, Span head, Span body) const;

    // Another name for the file `source`; a copy of it where the file system cannot link.
    int link(const std::string& source, const std::string& directory,
             const std::string& name) const;

private:
    template <typename Fill>
    int make(const std::string& directory, const std::string& name, Fill&& fill) const;
    int copy(const std::string& source, const std::string& directory,
             const std::string& name) const;

    std::atomic<bool>& anonymous_;
};

// Renames a directory, making the parents of the new name. If the new one exists, what is in the
// old one moves into it (replacing files of the same name) and the old one is removed.
int move_directory(const std::string& from, const std::string& to);

// Removes a directory with all in it, as far as that is possible. Links are not followed.
void remove_directory(const std::string& path);

}  // namespace sonde
