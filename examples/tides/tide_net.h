#pragma once
// The model: any torch::nn::Module with Tensor forward(Tensor).

#include <muster/app.h>
#include <torch/nn.h>

#include <cstdint>
#include <memory>

namespace tides {

class TideNet final : public torch::nn::Module {
 public:
  TideNet(std::int64_t hours, std::int64_t width)
      : hidden_(register_module("hidden", torch::nn::Linear(hours, width))),
        head_(register_module("head", torch::nn::Linear(width, 1))) {}

  torch::Tensor forward(torch::Tensor levels) { return head_(torch::tanh(hidden_(levels))); }

 private:
  torch::nn::Linear hidden_, head_;
};

inline std::shared_ptr<TideNet> make_net(const muster::ModelRequest& request) {
  return std::make_shared<TideNet>(request.shape_of("input")[0], request.options.integer("width"));
}

}  // namespace tides
