#include "files.hpp"

#include <cstring>
#include <cstdint>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace sonde {
namespace {

constexpr mode_t kMode = 0666;  // less the umask, as for any file
constexpr std::size_t kNameTailBytes = 200;
constexpr std::size_t kCopyBytes = 256 * 1024;
// Allocating the blocks first is 20 to 50 % faster for big files on ext4, and slower for small.
constexpr std::size_t kPreallocateBytes = 128 * 1024;
// The most one call takes on Linux; other systems refuse more instead of writing a part.
constexpr std::size_t kWriteBytes = 0x7ffff000;

class Descriptor {
public:
    explicit Descriptor(int value) : value_(value) {}
    ~Descriptor() {
        if (value_ >= 0) ::close(value_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    explicit operator bool() const { return value_ >= 0; }
    int get() const { return value_; }
    // Some file systems report a failed write only here.
    int close() {
        const int value = value_;
        value_ = -1;
        return ::close(value) == 0 || errno == EINTR ? 0 : errno;
    }

private:
    int value_;
};

template <typename Call>
auto retry(Call&& call) {
    auto result = call();
    while (result < 0 && errno == EINTR) result = call();
    return result;
}

int preallocate(int fd, std::size_t size) {
#ifdef __linux__
    if (size < kPreallocateBytes) return 0;
    if (retry([&] { return ::fallocate(fd, 0, 0, static_cast<off_t>(size)); }) == 0) return 0;
    if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO) return errno;
#else
    (void)fd;
    (void)size;
#endif
    return 0;
}

int write_all(int fd, Span head, Span body) {
    while (head.size + body.size > 0) {
        const std::size_t of_head_now = std::min(head.size, kWriteBytes);
        const std::size_t of_body_now = std::min(body.size, kWriteBytes - of_head_now);
        iovec pieces[2] = {{const_cast<char*>(head.data), of_head_now},
                           {const_cast<char*>(body.data), of_body_now}};
        const ssize_t written = retry([&] { return ::writev(fd, pieces, 2); });
        if (written < 0) return errno;
        if (written == 0) return EIO;
        std::size_t rest = static_cast<std::size_t>(written);
        const std::size_t done_of_head = std::min(rest, head.size);
        head = {head.data + done_of_head, head.size - done_of_head};
        rest -= done_of_head;
        body = {body.data + rest, body.size - rest};
    }
    return 0;
}

// Hidden, so that no reader takes it for a whole file (sonde.dump.layout.is_partial). It keeps the
// end of a long name. The random part makes it differ from every other one, and keeps other users
// from creating it first.
std::string partial_path(const std::string& directory, const std::string& name) {
    unsigned chance[2];
    if (::getentropy(chance, sizeof chance) != 0) chance[0] = chance[1] = 0;  // O_EXCL remains
    char random[18];
    std::snprintf(random, sizeof random, ".%08x%08x", chance[0], chance[1]);
    std::string tail = name + random;
    if (tail.size() > kNameTailBytes) {
        std::size_t start = tail.size() - kNameTailBytes;
        while (start < tail.size() && (tail[start] & 0xC0) == 0x80) ++start;  // whole characters
        tail.erase(0, start);
    }
    return directory + "/." + tail + ".partial";
}

bool cannot_link(int error) {
    return error == EPERM || error == EMLINK || error == EXDEV || error == ENOTSUP ||
           error == EOPNOTSUPP || error == ENOSYS;
}

// The file `source` (a path, or a link to one in /proc) under one more name, replacing a file of
// that name.
int link_replacing(const char* source, int flags, const std::string& directory,
                   const std::string& name) {
    const std::string path = directory + "/" + name;
    if (::linkat(AT_FDCWD, source, AT_FDCWD, path.c_str(), flags) == 0) return 0;
    if (errno != EEXIST) return errno;
    const std::string partial = partial_path(directory, name);
    if (::linkat(AT_FDCWD, source, AT_FDCWD, partial.c_str(), flags) != 0) return errno;
    const int error = ::rename(partial.c_str(), path.c_str()) == 0 ? 0 : errno;
    // Renaming one name of a file to another name of the same file does nothing, by POSIX.
    ::unlink(partial.c_str());
    return error;
}

// What `make` returns when the file system has no files without a name.
constexpr int kNamedOnly = -1;

#ifdef O_TMPFILE
template <typename Fill>
int make_anonymous(const std::string& directory, const std::string& name, Fill&& fill) {
    Descriptor file(retry([&] {
        return ::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode);
    }));
    if (!file) {
        const bool unknown = errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL;
        return unknown ? kNamedOnly : errno;
    }
    if (const int error = fill(file.get())) return error;
    char itself[32];
    std::snprintf(itself, sizeof itself, "/proc/self/fd/%d", file.get());
    const int error = link_replacing(itself, AT_SYMLINK_FOLLOW, directory, name);
    // Without /proc the file cannot get a name; a directory that is gone says so again below.
    return error == ENOENT || cannot_link(error) ? kNamedOnly : error;
}
#endif

template <typename Fill>
int make_named(const std::string& directory, const std::string& name, Fill&& fill) {
    const std::string path = directory + "/" + name;
    const std::string partial = partial_path(directory, name);
    // A link that another user put there is refused, not followed.
    Descriptor file(retry([&] {
        const int flags = O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC;
        return ::open(partial.c_str(), flags, kMode);
    }));
    if (!file) return errno;
    int error = fill(file.get());
    const int close_error = file.close();
    if (error == 0) error = close_error;
    if (error == 0 && ::rename(partial.c_str(), path.c_str()) != 0) error = errno;
    if (error != 0) ::unlink(partial.c_str());
    return error;
}

}  // namespace

template <typename Fill>
int FileMaker::make(const std::string& directory, const std::string& name, Fill&& fill) const {
#ifdef O_TMPFILE
    if (anonymous_.load(std::memory_order_relaxed)) {
        const int error = make_anonymous(directory, name, fill);
        if (error != kNamedOnly) return error;
        anonymous_.store(false, std::memory_order_relaxed);
    }
#endif
    return make_named(directory, name, fill);
}

namespace {

template <typename Item>
void gather_line(const char* from, std::ptrdiff_t stride, std::ptrdiff_t count, char* out) {
    for (std::ptrdiff_t i = 0; i < count; ++i) {
        std::memcpy(out + i * static_cast<std::ptrdiff_t>(sizeof(Item)), from + i * stride,
                    sizeof(Item));
    }
}

void gather_line(std::size_t itemsize, const char* from, std::ptrdiff_t stride,
                 std::ptrdiff_t count, char* out) {
    if (stride == static_cast<std::ptrdiff_t>(itemsize)) {
        std::memcpy(out, from, itemsize * static_cast<std::size_t>(count));
        return;
    }
    switch (itemsize) {
        case 1: return gather_line<std::uint8_t>(from, stride, count, out);
        case 2: return gather_line<std::uint16_t>(from, stride, count, out);
        case 4: return gather_line<std::uint32_t>(from, stride, count, out);
        case 8: return gather_line<std::uint64_t>(from, stride, count, out);
        default:
            for (std::ptrdiff_t i = 0; i < count; ++i) {
                std::memcpy(out + static_cast<std::size_t>(i) * itemsize, from + i * stride,
                            itemsize);
            }
    }
}

}  // namespace

void gather(const Span& span, char* out) {
    const Layout& layout = *span.layout;
    if (span.size == 0) return;
    const std::size_t dimensions = layout.shape.size();
    if (dimensions == 0) {
        std::memcpy(out, span.data, layout.itemsize);
        return;
    }
    const std::ptrdiff_t line = layout.shape.back();
    std::vector<std::ptrdiff_t> at(dimensions, 0);
    const char* from = span.data;
    for (;;) {
        gather_line(layout.itemsize, from, layout.strides.back(), line, out);
        out += layout.itemsize * static_cast<std::size_t>(line);
        std::size_t dimension = dimensions - 1;
        while (dimension > 0) {
            --dimension;
            from += layout.strides[dimension];
            if (++at[dimension] < layout.shape[dimension]) break;
            from -= layout.strides[dimension] * layout.shape[dimension];
            at[dimension] = 0;
            if (dimension == 0) return;
        }
        if (dimensions == 1) return;
    }
}

int FileMaker::write(const std::string& directory, const std::string& name, Span head,
                     Span body) const {
    return make(directory, name, [&](int fd) {
        const int error = preallocate(fd, head.size + body.size);
        return error != 0 ? error : write_all(fd, head, body);
    });
}

int FileMaker::link(const std::string& source, const std::string& directory,
                    const std::string& name) const {
    const int error = link_replacing(source.c_str(), 0, directory, name);
    return cannot_link(error) ? copy(source, directory, name) : error;
}

int FileMaker::copy(const std::string& source, const std::string& directory,
                    const std::string& name) const {
    return make(directory, name, [&](int fd) {
        Descriptor from(retry([&] {
            return ::open(source.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        }));
        if (!from) return errno;
        std::vector<char> buffer(kCopyBytes);
        for (;;) {
            const ssize_t got =
                retry([&] { return ::read(from.get(), buffer.data(), buffer.size()); });
            if (got < 0) return errno;
            if (got == 0) return 0;
            const Span chunk{buffer.data(), static_cast<std::size_t>(got)};
            if (const int error = write_all(fd, chunk, {})) return error;
        }
    });
}

namespace {

namespace fs = std::filesystem;

int merge_directory(const fs::path& from, const fs::path& to) {
    std::error_code error;
    // Read all names first: a directory that is changed while it is read may repeat or skip some.
    std::vector<fs::path> names;
    fs::directory_iterator entries(from, error);
    for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
        names.push_back(entries->path().filename());
    }
    if (error) return error.value();
    for (const fs::path& name : names) {
        if (const int failed = move_directory((from / name).string(), (to / name).string())) {
            return failed;
        }
    }
    fs::remove(from, error);
    return error.value();
}

}  // namespace

int move_directory(const std::string& from, const std::string& to) {
    if (::rename(from.c_str(), to.c_str()) == 0) return 0;
    if (errno == ENOENT) {
        std::error_code error;
        fs::create_directories(fs::path(to).parent_path(), error);
        if (error) return error.value();
        if (::rename(from.c_str(), to.c_str()) == 0) return 0;
    }
    const bool occupied = errno == ENOTEMPTY || errno == EEXIST;
    return occupied ? merge_directory(from, to) : errno;
}

void remove_directory(const std::string& path) {
    std::error_code ignored;
    fs::remove_all(path, ignored);
}

}  // namespace sonde
