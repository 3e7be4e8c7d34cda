#pragma once
// A disk that hangs: whoever calls it waits until it is let go. For tests.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/files.h"

namespace muster::train {

class HeldFiles final : public Files {
 public:
  explicit HeldFiles(Files& real) : real_(real) {}

  void let_go() { end(State::kFree); }
  void die() { end(State::kDead); }  // every call fails from then on

  Result<std::unique_ptr<WritableFile>> open(const Path& path, Open how) override {
    MUSTER_TRY(wait());
    return real_.open(path, how);
  }
  Result<std::unique_ptr<MappedFile>> map(const Path& path) override {
    MUSTER_TRY(wait());
    return real_.map(path);
  }
  Result<std::string> read(const Path& path) override {
    MUSTER_TRY(wait());
    return real_.read(path);
  }
  Result<std::string> read_up_to(const Path& path, std::size_t most) override {
    MUSTER_TRY(wait());
    return real_.read_up_to(path, most);
  }
  Result<std::size_t> read_at(const Path& path, std::uint64_t offset,
                              std::span<std::byte> into) override {
    MUSTER_TRY(wait());
    return real_.read_at(path, offset, into);
  }
  Result<std::vector<std::string>> list(const Path& folder) override {
    MUSTER_TRY(wait());
    return real_.list(folder);
  }
  Status create_folders(const Path& folder) override {
    MUSTER_TRY(wait());
    return real_.create_folders(folder);
  }
  Status rename(const Path& from, const Path& to) override {
    MUSTER_TRY(wait());
    return real_.rename(from, to);
  }
  Status link(const Path& target, const Path& at) override {
    MUSTER_TRY(wait());
    return real_.link(target, at);
  }
  Status remove_all(const Path& path) override {
    MUSTER_TRY(wait());
    return real_.remove_all(path);
  }
  Status sync_folder(const Path& folder) override {
    MUSTER_TRY(wait());
    return real_.sync_folder(folder);
  }
  Result<std::uint64_t> size(const Path& path) override {
    MUSTER_TRY(wait());
    return real_.size(path);
  }
  bool exists(const Path& path) override { return wait() && real_.exists(path); }
  Result<std::unique_ptr<FileLock>> lock(const Path& path) override {
    MUSTER_TRY(wait());
    return real_.lock(path);
  }

 private:
  enum class State : std::uint8_t { kHeld, kFree, kDead };

  Status wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return state_ != State::kHeld; });
    if (state_ == State::kFree) return ok();
    return fail(ErrorCode::kUnavailable, "the disk is gone");
  }
  void end(State state) {
    const std::lock_guard lock(mutex_);
    state_ = state;
    changed_.notify_all();
  }

  Files& real_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kHeld;
};

}  // namespace muster::train
