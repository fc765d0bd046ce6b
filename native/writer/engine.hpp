// The writer's queue and threads. Does not use Python: a job holds an opaque token, which
// its owner gets back, from `collect` or `submit`, when the job is done.
//
// All public functions may be called from any thread. In a forked child an engine is inert (its
// threads are gone and its lock may be held for ever): the owner asks `inert()` before any call,
// and never deletes it.

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "files.hpp"

namespace sonde {

using Token = void*;
using JobNumber = std::uint64_t;  // from 1, in the order of submission
using Slice = std::chrono::milliseconds;

// Links may name one of this many latest jobs: what a done job needs to be found again is its
// name, and names must not pile up over a long run.
constexpr std::size_t kLinkableJobs = 65536;
// Jobs cost memory even when they write no byte.
constexpr std::size_t kPendingJobs = 65536;

// A directory, under the name it had when a job was submitted. A rename gives it a successor, so
// that files written before are found under their present name.
struct Directory {
    std::string path;
    std::shared_ptr<const Directory> moved_to;

    const std::string& current() const {
        const Directory* last = this;
        while (last->moved_to) last = last->moved_to.get();
        return last->path;
    }
};

struct Target {
    std::shared_ptr<const Directory> directory;
    std::pmr::string name;

    explicit Target(std::pmr::memory_resource* memory) : name(memory) {}
    std::string path() const { return directory->current() + "/" + std::string(name); }
};

// Whole pages of the system. What is kept over many steps is not taken from the heap: small blocks
// would come to lie in the large ones that the program has freed, which could then not be used
// again, and a program with a limit of memory would reach it.
class Pages : public std::pmr::memory_resource {
    void* do_allocate(std::size_t bytes, std::size_t alignment) override;
    void do_deallocate(void* place, std::size_t bytes, std::size_t alignment) override;
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
        return this == &other;
    }
};

struct Move {
    std::shared_ptr<Directory> from;
    std::shared_ptr<const Directory> to;
};

enum class Kind : std::uint8_t { file, link, rename, remove };

struct Job {
    Kind kind;
    JobNumber number = 0;
    std::shared_ptr<const Target> target;  // of a file or a link
    std::size_t path_hash = 0;

    std::string head;  // of a file: owned by the job
    Span body;         // of a file: alive as long as the token, or the copy
    Token keep = nullptr;
    std::unique_ptr<char[]> copy;  // of the body, if its owner wanted it back
    bool is_running = false;

    JobNumber source = 0;  // of a link
    std::shared_ptr<const Target> source_target;

    std::string from, to;  // of a rename; `from` also of a removal
    std::vector<Move> moves;

    std::vector<Job*> after;  // wait for this one
    unsigned waits_for = 0;

    // A barrier runs alone: after all that was submitted before it, before all after it.
    bool is_barrier() const { return kind == Kind::rename || kind == Kind::remove; }
    std::size_t bytes() const { return head.size() + body.size; }
};

struct Counts {
    std::size_t pending_jobs = 0;
    std::size_t pending_bytes = 0;
    std::size_t written_bytes = 0;
};

struct Failure {
    int error = 0;
    std::string path;
};

enum class Linked { queued, too_old, no_room };

// Who owns the memory of a job's body: the engine (or it is not needed any more), the submitter, or
// the submitter while a thread reads it.
enum class Body { owned, lent, in_use };

class Engine {
public:
    Engine(unsigned threads, std::size_t budget_bytes, bool anonymous_files);
    ~Engine();  // of an engine that is closed
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // True in a forked child.
    bool inert() const;

    // Queues a file and gives its number; 0 if there is no room for it now, and then `job` is
    // untouched. `finished` receives tokens to release; so it does below.
    JobNumber submit(std::unique_ptr<Job>& job, std::string_view path,
                     std::vector<Token>& finished);
    Linked submit_link(JobNumber source, std::string_view path, std::vector<Token>& finished);
    bool submit_rename(std::string_view from, std::string_view to, std::vector<Token>& finished);
    bool submit_remove(std::string_view directory, std::vector<Token>& finished);

    // Waits at most for the slice, so that the caller can handle signals; true if the condition has
    // become true.
    bool wait_for_room(std::size_t bytes, Slice slice);
    bool wait_for(JobNumber number, Slice slice);
    bool wait_for_all(Slice slice);

    // The state of a job's body; `where` is set if it is lent.
    Body body(JobNumber number, Span& where);
    // Replaces a lent body by a copy of it; false if it is not only lent any more.
    bool replace_body(JobNumber number, std::unique_ptr<char[]> copy,
                      std::vector<Token>& finished);

    bool knows(JobNumber number);
    Counts counts();
    Failure failure();
    void collect(std::vector<Token>& finished);

    // Ends the threads; nothing may be pending.
    void join();

private:
    struct Slot {
        Job* job = nullptr;  // while it is pending
        std::shared_ptr<const Target> target;
    };

    bool has_room(std::size_t bytes) const;
    void place(std::string_view path, Job& job);
    std::shared_ptr<Directory> directory_at(std::string_view path);
    std::vector<std::shared_ptr<Directory>> forget_below(std::string_view path);
    void prune_directories();
    JobNumber enqueue(std::unique_ptr<Job> job);
    template <typename Done>
    bool wait(Slice slice, Done&& done);

    void work();
    Job* next();
    bool park(Job* job);
    Failure run(const Job& job, const FileMaker& maker);
    void complete(Job* job);
    Body body(JobNumber number);
    Slot* slot(JobNumber number);
    void advance();

    Pages pages_;
    std::pmr::synchronized_pool_resource kept_{&pages_};  // of targets and slots

    const std::size_t budget_;
    const unsigned forks_at_birth_;
    std::atomic<bool> anonymous_;

    std::mutex mutex_;  // guards all below
    std::condition_variable work_;
    std::condition_variable changed_;
    unsigned idle_ = 0;
    unsigned waiters_ = 0;
    bool stopping_ = false;
    bool is_barrier_running_ = false;

    std::deque<Job*> queue_;     // in order of submission; not examined yet
    std::deque<Job*> released_;  // waited for another job, and need not any more
    std::unordered_map<std::size_t, Job*> started_;  // the last one of each path
    std::pmr::deque<Slot> slots_{&kept_};  // of the jobs first_number_, first_number_ + 1, ...
    JobNumber first_number_ = 1;
    JobNumber oldest_pending_ = 1;
    std::vector<Token> finished_;

    std::map<std::string, std::shared_ptr<Directory>, std::less<>> directories_;
    std::size_t prune_above_ = 64;
    std::shared_ptr<Directory> last_directory_;

    Counts counts_;
    Failure failure_;
    std::vector<std::thread> threads_;
};

}  // namespace sonde
