#pragma once
// Rows of metrics that wait to be sent, within a limit. One thread.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "muster/observe/metric.h"

namespace muster::observe {

class Backlog {
 public:
  explicit Backlog(std::size_t limit) : limit_(limit) {}

  // At the limit every second row of steps goes, so the curves keep their shape; only where none
  // is left to go – evaluations stay – this row does.
  void add(const Metrics& row);
  // The oldest rows that together have at most so many numbers; of a row with more, its first.
  std::vector<Metrics> take(std::size_t numbers);

  bool empty() const noexcept { return rows_.empty(); }
  std::size_t numbers() const noexcept { return numbers_; }      // that wait
  std::uint64_t left_out() const noexcept { return left_out_; }  // numbers, since the beginning

 private:
  struct Number {
    const std::string* name = nullptr;  // one of names_
    double value = 0;
  };
  struct Row {
    Step step;
    WallTime time;
    bool is_evaluation;
    std::vector<Number> values;
  };
  void thin_out();
  static Metrics unpacked(const Row& row);

  const std::size_t limit_;
  std::set<std::string, std::less<>> names_;  // few, and each many times
  std::deque<Row> rows_;
  std::size_t numbers_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace muster::observe
