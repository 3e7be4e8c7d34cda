#include "muster/parallel/pipeline/stage_totals.h"

#include <algorithm>
#include <span>

#include "muster/base/tensor_view.h"

namespace muster::parallel {
namespace {

constexpr std::size_t kTotalLoss = 0, kTotalAccuracy = 1, kTotalAhead = 2, kTotalFlags = 3;
constexpr std::size_t kTotalSquares = kTotalFlags + Flags::size();

}  // namespace

StageTotals::StageTotals(std::size_t parameters, std::size_t parts)
    : parts_(parts),
      numbers_(std::make_shared<std::vector<double>>(kTotalSquares + parameters * parts)) {}

void StageTotals::put_loss(const StepReport& report) {
  (*numbers_)[kTotalLoss] = report.loss;
  (*numbers_)[kTotalAccuracy] = report.accuracy;
}

void StageTotals::put_flags(const StepReport& report) {
  std::copy_n(report.flags.data(), Flags::size(), numbers_->begin() + kTotalFlags);
}

// Of a tensor that is cut each part has a place of its own.
void StageTotals::put_square(std::size_t parameter, std::size_t part, double square) {
  (*numbers_)[kTotalSquares + parameter * parts_ + part] = square;
}

void StageTotals::put_ahead() { (*numbers_)[kTotalAhead] = 1; }

comm::Work StageTotals::sum(comm::Communicator& communicator, const comm::OpOptions& op) const {
  const comm::AllReduce sum{.buffer = view_of(std::span(*numbers_))};
  comm::Work work = communicator.submit(sum, op);
  work.on_done([numbers = numbers_](const Status&) {});  // hastens it, and keeps the memory
  return work;
}

void StageTotals::read(StepReport& report) const {
  report.loss = (*numbers_)[kTotalLoss];
  report.accuracy = (*numbers_)[kTotalAccuracy];
  std::copy_n(numbers_->begin() + kTotalFlags, Flags::size(), report.flags.data());
}

std::int32_t StageTotals::ahead() const {
  return static_cast<std::int32_t>((*numbers_)[kTotalAhead]);
}

std::vector<double> StageTotals::squares() const {
  std::vector<double> squares((numbers_->size() - kTotalSquares) / parts_);
  for (std::size_t i = 0; i < squares.size() * parts_; ++i)
    squares[i / parts_] += (*numbers_)[kTotalSquares + i];
  return squares;
}

}  // namespace muster::parallel
