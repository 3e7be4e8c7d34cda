// Convolutions of every small number of channels, whatever the layout in memory.

#include <gtest/gtest.h>
#include <torch/types.h>

#include "muster/models/create.h"
#include "muster/models/layers.h"

namespace muster::models {
namespace {

class ConvolutionBlock final : public Block {
 public:
  explicit ConvolutionBlock(const ConvolutionOptions& options)
      : convolution_(*this, "convolution", options) {}
  torch::Tensor forward(torch::Tensor input, PassContext&) override { return convolution_(input); }

 private:
  Convolution convolution_;
};

struct Gradients {
  torch::Tensor input;
  torch::Tensor weight;
};

Gradients gradients_of(const ConvolutionOptions& options, torch::MemoryFormat layout) {
  Model model("convolution", [&] {
    return std::vector<NamedBlock>{{"a", std::make_shared<ConvolutionBlock>(options)}};
  });
  model.initialize(1);
  const auto input = torch::sin(torch::arange(3 * options.in * 14 * 14, torch::kFloat32))
                         .view({3, options.in, 14, 14})
                         .contiguous(layout)
                         .requires_grad_();
  PassContext context{.random = RandomStream(1, "test")};
  model.forward(input, context).square().sum().backward();
  return {input.grad(), model.parameters().front().tensor.grad()};
}

TEST(Convolution, HasTheSameGradientsInEitherLayout) {
  for (const std::int64_t kernel : {1, 3})
    for (const std::int64_t stride : {1, 2})
      for (std::int64_t in = 1; in <= 17; ++in) {
        const ConvolutionOptions options{.in = in, .out = 8, .kernel = kernel, .stride = stride};
        const auto rows = gradients_of(options, torch::MemoryFormat::Contiguous);
        const auto last = gradients_of(options, torch::MemoryFormat::ChannelsLast);
        EXPECT_TRUE(torch::allclose(rows.input, last.input, 1e-4, 1e-4)) << in << " channels";
        EXPECT_TRUE(torch::allclose(rows.weight, last.weight, 1e-4, 1e-2)) << in << " channels";
      }
}

}  // namespace
}  // namespace muster::models
