// Runs the engine hard without Python, for ThreadSanitizer and AddressSanitizer; see race_check.sh.
// Several threads submit files, links and renames, take memory back, wait and ask; then all files
// are read.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "engine.hpp"

namespace fs = std::filesystem;
using namespace sonde;

namespace {

constexpr int kSubmitters = 3;
constexpr int kSteps = 20;
constexpr int kFiles = 25;
constexpr std::size_t kBytes = 3000;
constexpr Slice kSlice{20};

std::atomic<long> kept{0};

void fail(const std::string& what) {
    std::fprintf(stderr, "race_check: %s\n", what.c_str());
    std::exit(1);
}

struct Memory {
    std::vector<char> bytes;
};

void release(std::vector<Token>& finished) {
    for (Token token : finished) {
        delete static_cast<Memory*>(token);
        kept.fetch_sub(1);
    }
    finished.clear();
}

JobNumber write(Engine& engine, const std::string& path, char value) {
    auto* memory = new Memory{std::vector<char>(kBytes, value)};
    kept.fetch_add(1);
    auto job = std::make_unique<Job>();
    job->kind = Kind::file;
    job->head = "head";
    job->body = {memory->bytes.data(), memory->bytes.size()};
    job->keep = memory;
    const std::size_t bytes = job->bytes();
    for (;;) {
        std::vector<Token> finished;
        const JobNumber number = engine.submit(job, path, finished);
        release(finished);
        if (number != 0) return number;
        engine.wait_for_room(bytes, kSlice);
    }
}

// Another thread may release the memory at any time, as the module's GIL forbids it to do: so only
// the states are asked for here, and memory of our own replaces the job's.
void take_back(Engine& engine, JobNumber number, char value) {
    Span lent;
    if (engine.body(number, lent) != Body::lent) return;
    std::unique_ptr<char[]> copy(new char[kBytes]);
    std::fill_n(copy.get(), kBytes, value);
    std::vector<Token> finished;
    engine.replace_body(number, std::move(copy), finished);
    release(finished);
}

void submit_steps(Engine& engine, const std::string& root, int submitter) {
    std::vector<Token> finished;
    const char value = static_cast<char>('a' + submitter);
    for (int step = 0; step < kSteps; ++step) {
        const std::string name = std::to_string(submitter) + "-" + std::to_string(step);
        const std::string growing = root + "/growing-" + name;
        const std::string place = root + "/done/" + name;
        fs::create_directories(growing);
        JobNumber number = 0;
        for (int file = 0; file < kFiles; ++file) {
            number = write(engine, growing + "/" + std::to_string(file), value);
            if (file % 3 == 0) take_back(engine, number, value);
            engine.submit_link(number, growing + "/link" + std::to_string(file), finished);
            release(finished);
            write(engine, root + "/same", value);
            engine.counts();
        }
        engine.submit_rename(growing, place, finished);
        release(finished);
        engine.submit_link(number, place + "/late", finished);
        release(finished);
        const std::string dropped = root + "/dropped-" + name;
        fs::create_directories(dropped);
        write(engine, dropped + "/file", value);
        engine.submit_remove(dropped, finished);
        release(finished);
        if (step % 5 == 0) engine.wait_for(number, kSlice);
    }
}

void check(const std::string& root) {
    std::size_t files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
        if (!entry.is_regular_file()) continue;
        std::ifstream stream(entry.path(), std::ios::binary);
        const std::string text{std::istreambuf_iterator<char>(stream), {}};
        const bool whole = text.size() == kBytes + 4 && text.compare(0, 4, "head") == 0 &&
                           std::set<char>(text.begin() + 4, text.end()).size() == 1;
        if (!whole) fail("not whole: " + entry.path().string());
        ++files;
    }
    const std::size_t expected = kSubmitters * kSteps * (2 * kFiles + 1) + 1;
    if (files != expected) fail("files: " + std::to_string(files));
}

void run(const std::string& root, unsigned threads, std::size_t budget, bool anonymous) {
    fs::create_directories(root);
    {
        Engine engine(threads, budget, anonymous);
        std::vector<std::thread> submitters;
        for (int each = 0; each < kSubmitters; ++each) {
            submitters.emplace_back([&, each] { submit_steps(engine, root, each); });
        }
        for (std::thread& submitter : submitters) submitter.join();
        while (!engine.wait_for_all(kSlice)) {
        }
        if (engine.failure().error != 0) fail("failure at " + engine.failure().path);
        engine.join();
        std::vector<Token> finished;
        engine.collect(finished);
        release(finished);
    }
    if (kept.load() != 0) fail("kept: " + std::to_string(kept.load()));
    check(root);
    fs::remove_all(root);
}

}  // namespace

int main(int, char** arguments) {
    const std::string root = arguments[1];
    run(root + "/roomy", 3, 1 << 30, true);
    run(root + "/tight", 2, 2 * kBytes, true);
    run(root + "/named", 3, 10 * kBytes, false);
    std::puts("race_check: ok");
}
