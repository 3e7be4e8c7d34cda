#pragma once
// Bytes in, whole lines out, in whatever pieces a process writes them. Keeps the last ones.

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::cluster {

inline constexpr std::size_t kLongestLine = 64 * 1024;  // longer ones are broken here
inline constexpr std::size_t kLastLines = 20;

class LineCollector {  // one thread at a time
 public:
  using OnLine = std::function<void(std::string_view line)>;
  explicit LineCollector(OnLine on_line) : on_line_(std::move(on_line)) {}

  void add(std::string_view bytes);
  void end();  // what is left without a newline is a line too

 private:
  void emit(std::string_view line);
  OnLine on_line_;
  std::string rest_;
};

class LastLines {  // one thread at a time
 public:
  void add(std::string_view line);
  std::vector<std::string> take() const { return {lines_.begin(), lines_.end()}; }

 private:
  std::deque<std::string> lines_;
};

}  // namespace muster::cluster
