#include "muster/observe/sinks/mlflow/backlog.h"

#include <algorithm>
#include <utility>

namespace muster::observe {

void Backlog::add(const Metrics& row) {
  const std::size_t count = row.values.size();
  if (numbers_ + count > limit_) thin_out();
  if (numbers_ + count > limit_) {
    left_out_ += count;
    return;
  }
  Row packed{row.step, row.time, row.is_evaluation(), {}};
  packed.values.reserve(count);
  for (const Metric& metric : row.values)
    packed.values.push_back({&*names_.insert(metric.name).first, metric.value});
  rows_.push_back(std::move(packed));
  numbers_ += count;
}

void Backlog::thin_out() {
  bool goes = false;
  std::erase_if(rows_, [&](const Row& row) {
    if (row.is_evaluation) return false;
    goes = !goes;
    if (!goes) return false;
    numbers_ -= row.values.size();
    left_out_ += row.values.size();
    return true;
  });
}

Metrics Backlog::unpacked(const Row& row) {
  Metrics metrics;
  metrics.step = row.step;
  metrics.time = row.time;
  for (const Number& number : row.values) metrics.values.push_back({*number.name, number.value});
  return metrics;
}

std::vector<Metrics> Backlog::take(std::size_t numbers) {
  std::vector<Metrics> taken;
  while (!rows_.empty() && numbers > 0) {
    std::vector<Number>& values = rows_.front().values;
    if (values.size() > numbers && !taken.empty()) break;
    Row part = rows_.front();
    part.values.resize(std::min(values.size(), numbers), {});
    numbers -= part.values.size();
    numbers_ -= part.values.size();
    values.erase(values.begin(), values.begin() + std::ssize(part.values));
    if (values.empty()) rows_.pop_front();
    taken.push_back(unpacked(part));
  }
  return taken;
}

}  // namespace muster::observe
