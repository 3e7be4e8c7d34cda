#include "muster/parallel/combine.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "muster/models/model.h"

namespace muster::parallel {

void EvaluationTotals::add(const models::LossSum& of_slice) {
  loss += of_slice.sum.item<double>();
  correct += of_slice.correct.item<double>();
  targets += static_cast<double>(of_slice.targets);
  measured.resize(of_slice.measured.size());
  std::ranges::transform(measured, of_slice.measured, measured.begin(), std::plus());
}

Result<EvaluationTotals> combine_totals(comm::Communicator& communicator,
                                        std::span<const EvaluationTotals> by_slice,
                                        std::size_t measures, comm::OpOptions op) {
  std::vector<double> flat;  // the sum over ranks is exact
  for (const EvaluationTotals& slice : by_slice) {
    flat.insert(flat.end(), {slice.loss, slice.correct, slice.targets});
    std::vector<double> measured = slice.measured;
    measured.resize(measures);
    flat.insert(flat.end(), measured.begin(), measured.end());
  }
  op.label = "evaluation";
  MUSTER_TRY(communicator.submit(comm::AllReduce{.buffer = view_of(std::span(flat))}, op).wait());
  EvaluationTotals total;
  total.measured.resize(measures);
  for (auto slice = flat.begin(); slice != flat.end();) {
    total.loss += *slice++;
    total.correct += *slice++;
    total.targets += *slice++;
    for (double& sum : total.measured) sum += *slice++;
  }
  return total;
}

Result<std::vector<observe::Metric>> combine_metrics(comm::Communicator& communicator,
                                                     const std::vector<std::string>& names,
                                                     std::span<const models::BlockMetric> own,
                                                     comm::OpOptions op) {
  std::vector<observe::Metric> metrics;
  if (names.empty()) return metrics;
  std::vector<double> values(names.size(), -std::numeric_limits<double>::infinity());
  for (const models::BlockMetric& metric : own) {
    const auto place = std::ranges::find(names, metric.name);
    values[static_cast<std::size_t>(place - names.begin())] = metric.value;
  }
  op.label = "metrics";
  const comm::AllReduce worst{.buffer = view_of(std::span(values)), .reduce = comm::Reduce::kMax};
  MUSTER_TRY(communicator.submit(worst, op).wait());
  for (std::size_t i = 0; i < values.size(); ++i) metrics.push_back({names[i], values[i]});
  return metrics;
}

}  // namespace muster::parallel
