#pragma once
// Optimizers that multiply the rate of each tensor by a trust ratio, a function of norms of the
// whole tensor. Norms are summed over cells (cells.h) in double, cell after cell, so who holds a
// part of a tensor, cut between cells, and knows the other parts' sums comes to the same bits.
//
// update() is a whole step for whole tensors. For parts: measure(), then the cells of all parts
// summed tensor by tensor, then finish(). Threads: as update().

#include <memory>
#include <span>
#include <vector>

#include "muster/optim/optimizer.h"

namespace muster::optim {

// Sums of squares over a cell or a tensor.
struct NormSquares {
  double weights = 0;
  double direction = 0;  // the gradient, or what the optimizer has made of it
};

class NormScaled : public Optimizer {
 public:
  NormScaled* norm_scaled() noexcept override { return this; }

  // As update(), but the weights stay as they are, and `gradients` hold directions afterwards.
  void measure(ParameterRange range, std::span<const torch::Tensor> gradients, double divisor = 1);
  // After measure(): by cell of the parameter.
  std::span<const NormSquares> squares(std::size_t parameter) const { return squares_[parameter]; }
  // `wholes`: of each parameter of the range; `gradients` as measure() left them.
  void finish(ParameterRange range, std::span<const torch::Tensor> gradients,
              std::span<const NormSquares> wholes);

 protected:
  NormScaled(std::vector<OptimizedParameter> parameters, double weight_decay,
             bool scale_norms_and_biases, std::shared_ptr<OffloadedState> offloaded);

  // Whether a parameter has a trust ratio.
  bool scales(std::size_t parameter) const noexcept {
    return parameters()[parameter].decays || scale_norms_and_biases_;
  }

 private:
  void update_group(const Group& group) override;
  void measure_group(const Group& group);
  double trust_of(std::size_t parameter, const NormSquares& whole) const;

  // Turns the gradient into the direction whose norm counts.
  virtual void direct(std::size_t parameter, torch::Tensor& gradient) = 0;
  // Both above 0.
  virtual double trust_ratio(std::size_t parameter, double weight_norm,
                             double direction_norm) const = 0;
  virtual void move(std::size_t parameter, const torch::Tensor& direction, double trust) = 0;

  const bool scale_norms_and_biases_;
  std::vector<std::vector<NormSquares>> squares_;  // by parameter, by cell
};

}  // namespace muster::optim
