// How much of the time a training takes is ours: counted where somebody asks for it.
#pragma once

#include <chrono>

namespace sonde_match {

struct OwnTime {
  int is_counted;
  long long spent;   // nanoseconds, up to `since`
  long long since;   // work of ours began then; 0: none goes on
  long long visits;  // ops that came to us

  static long long now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  // With the work that goes on.
  double seconds() const {
    return 1e-9 * static_cast<double>(spent + (since ? now() - since : 0));
  }

  // False: it goes on already, or nobody counts.
  bool begin() {
    if (!is_counted || since) return false;
    since = now();
    return true;
  }

  void end() {
    if (since) spent += now() - since;
    since = 0;
  }
};

// What is done in this block is our work.
class Ours {
 public:
  explicit Ours(OwnTime* time) : time_(time), has_begun_(time->begin()) {}
  ~Ours() {
    if (has_begun_) time_->end();
  }
  Ours(const Ours&) = delete;
  Ours& operator=(const Ours&) = delete;

 private:
  OwnTime* time_;
  bool has_begun_;
};

// What is done in this block, inside one of ours, is the training's work.
class Theirs {
 public:
  explicit Theirs(OwnTime* time) : time_(time), was_ours_(time->since != 0) {
    if (was_ours_) time->end();
  }
  ~Theirs() {
    if (was_ours_) time_->begin();
  }
  Theirs(const Theirs&) = delete;
  Theirs& operator=(const Theirs&) = delete;

 private:
  OwnTime* time_;
  bool was_ours_;
};

}  // namespace sonde_match
