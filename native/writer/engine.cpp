#include "engine.hpp"

#include <cerrno>
#include <functional>
#include <new>
#include <utility>

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

namespace sonde {
namespace {

std::atomic<unsigned> forks{0};

void count_fork() { forks.fetch_add(1, std::memory_order_relaxed); }

unsigned watch_forks() {
    static const int registered = ::pthread_atfork(nullptr, nullptr, count_fork);
    (void)registered;
    return forks.load(std::memory_order_relaxed);
}

std::string_view without_slash(std::string_view path) {
    while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
    return path;
}

// Signals go to the threads of the program, not to the writer's, which inherit the mask; faults of
// the writer's own code still end the process.
class SignalsBlocked {
public:
    SignalsBlocked() {
        sigset_t blocked;
        ::sigfillset(&blocked);
        for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::sigdelset(&blocked, fault);
        ::pthread_sigmask(SIG_SETMASK, &blocked, &before_);
    }
    ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
    sigset_t before_;
};

}  // namespace

void* Pages::do_allocate(std::size_t bytes, std::size_t) {
    void* place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) throw std::bad_alloc();
    return place;
}

void Pages::do_deallocate(void* place, std::size_t bytes, std::size_t) { ::munmap(place, bytes); }

Engine::Engine(unsigned threads, std::size_t budget_bytes, bool anonymous_files)
    : budget_(budget_bytes), forks_at_birth_(watch_forks()), anonymous_(anonymous_files) {
    const SignalsBlocked blocked;
    threads_.reserve(threads);
    try {
        for (unsigned worker = 0; worker < threads; ++worker) {
            threads_.emplace_back([this] { work(); });
        }
    } catch (...) {
        join();
        throw;
    }
}

Engine::~Engine() { join(); }

bool Engine::inert() const { return forks.load(std::memory_order_relaxed) != forks_at_birth_; }

void Engine::join() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        stopping_ = true;
        work_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
}

// ---------------------------------------------------------------- submission

bool Engine::has_room(std::size_t bytes) const {
    if (failure_.error != 0) return true;
    if (counts_.pending_jobs >= kPendingJobs) return false;
    return counts_.pending_bytes == 0 || bytes == 0 ||
           (counts_.pending_bytes <= budget_ && bytes <= budget_ - counts_.pending_bytes);
}

JobNumber Engine::submit(std::unique_ptr<Job>& job, std::string_view path,
                         std::vector<Token>& finished) {
    std::unique_lock<std::mutex> lock(mutex_);
    finished.swap(finished_);
    if (!has_room(job->bytes())) return 0;
    place(path, *job);
    const JobNumber number = enqueue(std::move(job));
    const bool wake = idle_ > 0;
    lock.unlock();
    if (wake) work_.notify_one();
    return number;
}

Linked Engine::submit_link(JobNumber source, std::string_view path,
                           std::vector<Token>& finished) {
    auto job = std::make_unique<Job>();
    job->kind = Kind::link;
    job->source = source;
    const std::lock_guard<std::mutex> lock(mutex_);
    finished.swap(finished_);
    if (failure_.error != 0) return Linked::queued;
    const Slot* earlier = slot(source);
    if (earlier == nullptr || !earlier->target) return Linked::too_old;
    if (!has_room(0)) return Linked::no_room;
    job->source_target = earlier->target;
    place(path, *job);
    enqueue(std::move(job));
    if (idle_ > 0) work_.notify_one();
    return Linked::queued;
}

bool Engine::submit_rename(std::string_view from, std::string_view to,
                           std::vector<Token>& finished) {
    from = without_slash(from);
    to = without_slash(to);
    auto job = std::make_unique<Job>();
    job->kind = Kind::rename;
    job->from = from;
    job->to = to;
    const std::lock_guard<std::mutex> lock(mutex_);
    finished.swap(finished_);
    if (!has_room(0)) return false;
    if (from != to) {
        // For jobs submitted from now on, the old path is whatever is there after the rename.
        std::vector<std::shared_ptr<Directory>> moved = forget_below(from);
        last_directory_.reset();
        for (const auto& directory : moved) {
            const std::string_view rest = std::string_view(directory->path).substr(from.size());
            job->moves.push_back({directory, directory_at(job->to + std::string(rest))});
        }
    }
    enqueue(std::move(job));
    if (idle_ > 0) work_.notify_one();
    return true;
}

bool Engine::submit_remove(std::string_view directory, std::vector<Token>& finished) {
    auto job = std::make_unique<Job>();
    job->kind = Kind::remove;
    job->from = without_slash(directory);
    const std::lock_guard<std::mutex> lock(mutex_);
    finished.swap(finished_);
    if (!has_room(0)) return false;
    // For jobs submitted from now on, the path is whatever is there after the removal.
    forget_below(job->from);
    last_directory_.reset();
    enqueue(std::move(job));
    if (idle_ > 0) work_.notify_one();
    return true;
}

void Engine::place(std::string_view path, Job& job) {
    const std::size_t slash = path.rfind('/');
    auto target = std::allocate_shared<Target>(
        std::pmr::polymorphic_allocator<Target>(&kept_), &kept_);
    target->directory = directory_at(path.substr(0, slash));
    target->name = path.substr(slash + 1);
    job.target = std::move(target);
    job.path_hash = std::hash<std::string_view>()(path);
}

std::shared_ptr<Directory> Engine::directory_at(std::string_view path) {
    if (last_directory_ && last_directory_->path == path) return last_directory_;
    auto entry = directories_.find(path);
    if (entry == directories_.end()) {
        prune_directories();
        auto directory = std::make_shared<Directory>();
        directory->path = path;
        entry = directories_.emplace(directory->path, std::move(directory)).first;
    }
    last_directory_ = entry->second;
    return last_directory_;
}

// Takes a directory and all below it out of the known ones. Only those are visited: thousands of
// finished steps may be known, as long as links may name their files.
std::vector<std::shared_ptr<Directory>> Engine::forget_below(std::string_view path) {
    std::vector<std::shared_ptr<Directory>> found;
    const auto take = [&](auto entry) {
        found.push_back(entry->second);
        return directories_.erase(entry);
    };
    if (const auto itself = directories_.find(path); itself != directories_.end()) take(itself);
    // Not one range with the directory itself: "a-b" is between "a" and "a/b".
    const std::string inside = std::string(path) + "/";
    auto entry = directories_.lower_bound(inside);
    while (entry != directories_.end() && entry->first.compare(0, inside.size(), inside) == 0) {
        entry = take(entry);
    }
    return found;
}

void Engine::prune_directories() {
    if (directories_.size() < prune_above_) return;
    for (auto entry = directories_.begin(); entry != directories_.end();) {
        entry = entry->second.use_count() == 1 ? directories_.erase(entry) : std::next(entry);
    }
    prune_above_ = directories_.size() + directories_.size() / 4 + 64;
}

JobNumber Engine::enqueue(std::unique_ptr<Job> job) {
    const JobNumber number = first_number_ + slots_.size();
    job->number = number;
    if (failure_.error != 0) {
        slots_.emplace_back();
        if (job->keep != nullptr) finished_.push_back(job->keep);
        advance();
        return number;
    }
    slots_.push_back({job.get(), job->kind == Kind::file ? job->target : nullptr});
    counts_.pending_jobs += 1;
    counts_.pending_bytes += job->bytes();
    queue_.push_back(job.release());
    return number;
}

// ---------------------------------------------------------------- lent memory

Body Engine::body(JobNumber number) {
    const Slot* held = slot(number);
    if (held == nullptr || held->job == nullptr) return Body::owned;
    const Job& job = *held->job;
    if (job.body.size == 0 || job.copy) return Body::owned;
    return job.is_running ? Body::in_use : Body::lent;
}

Body Engine::body(JobNumber number, Span& where) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Body now = body(number);
    if (now == Body::lent) where = slot(number)->job->body;
    return now;
}

bool Engine::replace_body(JobNumber number, std::unique_ptr<char[]> copy,
                          std::vector<Token>& finished) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (body(number) != Body::lent) return false;
    Job& job = *slot(number)->job;
    job.copy = std::move(copy);
    job.body.data = job.copy.get();
    job.body.layout = nullptr;
    if (job.keep != nullptr) finished_.push_back(std::exchange(job.keep, nullptr));
    finished.swap(finished_);
    return true;
}

// ---------------------------------------------------------------- questions and waits

Engine::Slot* Engine::slot(JobNumber number) {
    const bool held = number >= first_number_ && number - first_number_ < slots_.size();
    return held ? &slots_[number - first_number_] : nullptr;
}

bool Engine::knows(JobNumber number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return number >= 1 && number < first_number_ + slots_.size();
}

Counts Engine::counts() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return counts_;
}

Failure Engine::failure() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return failure_;
}

void Engine::collect(std::vector<Token>& finished) {
    const std::lock_guard<std::mutex> lock(mutex_);
    finished.swap(finished_);
}

template <typename Done>
bool Engine::wait(Slice slice, Done&& done) {
    std::unique_lock<std::mutex> lock(mutex_);
    ++waiters_;
    const bool came = changed_.wait_for(lock, slice, std::forward<Done>(done));
    --waiters_;
    return came;
}

bool Engine::wait_for_room(std::size_t bytes, Slice slice) {
    return wait(slice, [this, bytes] { return has_room(bytes); });
}

bool Engine::wait_for(JobNumber number, Slice slice) {
    return wait(slice, [this, number] {
        const Slot* held = slot(number);
        return held == nullptr || held->job == nullptr;
    });
}

bool Engine::wait_for_all(Slice slice) {
    return wait(slice, [this] { return counts_.pending_jobs == 0; });
}

// ---------------------------------------------------------------- the threads

void Engine::work() {
#ifdef __linux__
    ::pthread_setname_np(::pthread_self(), "sonde-writer");
#endif
    const FileMaker maker(anonymous_);
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        std::unique_ptr<Job> job(next());
        if (!job) {
            if (stopping_) return;
            ++idle_;
            work_.wait(lock);
            --idle_;
            continue;
        }
        // After a failure the rest of the queue is dropped without writing.
        if (failure_.error == 0) {
            job->is_running = true;
            lock.unlock();
            Failure failure = run(*job, maker);
            lock.lock();
            if (failure.error != 0 && failure_.error == 0) failure_ = std::move(failure);
            if (failure.error == 0 && job->kind == Kind::file) {
                counts_.written_bytes += job->bytes();
            }
        }
        complete(job.get());
        // Giving memory back may take long.
        lock.unlock();
        job.reset();
        lock.lock();
    }
}

// The next job that may run now, or null.
Job* Engine::next() {
    if (!released_.empty()) {
        Job* job = released_.front();
        released_.pop_front();
        return job;
    }
    while (!queue_.empty() && !is_barrier_running_) {
        Job* job = queue_.front();
        if (job->is_barrier()) {
            if (oldest_pending_ != job->number) return nullptr;
            queue_.pop_front();
            is_barrier_running_ = true;
            return job;
        }
        queue_.pop_front();
        if (!park(job)) return job;
    }
    return nullptr;
}

// Makes a job wait for the one it depends on: a link for its file, and any job for the one before
// it with the same path, so that the last one submitted is the one that stays. True if it waits.
// Two paths of equal hash wait for each other for nothing, which does no harm.
bool Engine::park(Job* job) {
    const auto wait_for = [job](Job* earlier) {
        earlier->after.push_back(job);
        ++job->waits_for;
    };
    if (job->kind == Kind::link) {
        const Slot* source = slot(job->source);
        if (source != nullptr && source->job != nullptr) wait_for(source->job);
    }
    const auto [last, first_of_path] = started_.try_emplace(job->path_hash, job);
    if (!first_of_path) {
        wait_for(last->second);
        last->second = job;
    }
    return job->waits_for > 0;
}

Failure Engine::run(const Job& job, const FileMaker& maker) {
    try {
        if (job.kind == Kind::rename) {
            const int error = move_directory(job.from, job.to);
            return error == 0 ? Failure{} : Failure{error, job.from};
        }
        if (job.kind == Kind::remove) {
            remove_directory(job.from);
            return {};
        }
        const std::string& directory = job.target->directory->current();
        const std::string name(job.target->name);
        Span body = job.body;
        std::unique_ptr<char[]> gathered;
        if (body.layout) {
            gathered.reset(new char[body.size]);
            gather(body, gathered.get());
            body = {gathered.get(), body.size};
        }
        const int error =
            job.kind == Kind::file
                ? maker.write(directory, name, {job.head.data(), job.head.size()}, body)
                : maker.link(job.source_target->path(), directory, name);
        return error == 0 ? Failure{} : Failure{error, job.target->path()};
    } catch (const std::bad_alloc&) {
        return {ENOMEM, job.target ? std::string() : job.from};
    }
}

void Engine::complete(Job* job) {
    for (Job* later : job->after) {
        if (--later->waits_for == 0) released_.push_back(later);
    }
    if (job->is_barrier()) {
        for (const Move& move : job->moves) move.from->moved_to = move.to;
        is_barrier_running_ = false;
        work_.notify_all();
    } else {
        const auto last = started_.find(job->path_hash);
        if (last != started_.end() && last->second == job) started_.erase(last);
    }
    counts_.pending_jobs -= 1;
    counts_.pending_bytes -= job->bytes();
    if (job->keep != nullptr) finished_.push_back(job->keep);
    slot(job->number)->job = nullptr;
    advance();
    if (waiters_ > 0) changed_.notify_all();
    // This thread takes the first of them itself.
    if (released_.size() > 1 && idle_ > 0) work_.notify_all();
}

void Engine::advance() {
    const JobNumber end = first_number_ + slots_.size();
    while (oldest_pending_ < end && slot(oldest_pending_)->job == nullptr) ++oldest_pending_;
    while (slots_.size() > kLinkableJobs && first_number_ < oldest_pending_) {
        slots_.pop_front();
        ++first_number_;
    }
}

}  // namespace sonde
