#pragma once
// A folder of a test's own on the real disk, removed with everything in it.

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

namespace muster::testing {

class TempFolder {
 public:
  TempFolder() : path_(fresh_path()) { std::filesystem::create_directories(path_); }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  // Tests run in parallel, as processes.
  static std::filesystem::path fresh_path() {
    static std::atomic<int> count = 0;
    return std::filesystem::path(::testing::TempDir()) /
           ("muster-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
  }

  const std::filesystem::path path_;
};

}  // namespace muster::testing
