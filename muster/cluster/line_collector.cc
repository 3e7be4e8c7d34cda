#include "muster/cluster/line_collector.h"

namespace muster::cluster {

void LineCollector::add(std::string_view bytes) {
  for (;;) {
    const auto newline = bytes.find('\n');
    rest_ += bytes.substr(0, newline);
    while (rest_.size() > kLongestLine) {
      emit(std::string_view(rest_).substr(0, kLongestLine));
      rest_.erase(0, kLongestLine);
    }
    if (newline == std::string_view::npos) return;
    emit(rest_);
    rest_.clear();
    bytes.remove_prefix(newline + 1);
  }
}

void LineCollector::end() {
  if (!rest_.empty()) emit(rest_);
  rest_.clear();
}

void LineCollector::emit(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  on_line_(line);
}

void LastLines::add(std::string_view line) {
  if (lines_.size() == kLastLines) lines_.pop_front();
  lines_.emplace_back(line);
}

}  // namespace muster::cluster
