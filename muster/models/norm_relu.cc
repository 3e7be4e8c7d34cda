#include "muster/models/norm_relu.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

// Every function below exists once for each instruction set. Those that vary by the width are
// inlined into them, and are compiled for each as well.
#if defined(__x86_64__)
#define MUSTER_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MUSTER_CLONES
#endif
#define MUSTER_INLINE [[gnu::always_inline]] inline

namespace muster::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// So many pixels are summed in f32 before they are added to sums in f64; their channels stay in the
// first cache meanwhile.
constexpr std::int64_t kTile = 64;

struct Image {
  std::int64_t pixels = 0;
  std::int64_t channels = 0;
};

// Calls `body` with a width and the first channel, so that all channels are covered. Each width is
// a constant: sums stay in registers.
template <class Body>
MUSTER_INLINE void for_channels(std::int64_t channels, const Body& body) {
  std::int64_t c = 0;
  for (; c + 16 <= channels; c += 16) body(std::integral_constant<int, 16>(), c);
  for (; c + 4 <= channels; c += 4) body(std::integral_constant<int, 4>(), c);
  for (; c < channels; ++c) body(std::integral_constant<int, 1>(), c);
}

template <class Body>
MUSTER_INLINE void for_tiles(const Image& image, const Body& body) {
  for (std::int64_t begin = 0; begin < image.pixels; begin += kTile) {
    const std::int64_t count = std::min(kTile, image.pixels - begin);
    for_channels(image.channels, [&](auto width, std::int64_t c) { body(width, begin, count, c); });
  }
}

// Of x - shift, by channel. With a shift near the mean no digits are lost.
MUSTER_CLONES
void sum_moments(const Image& image, const float* x, const float* shift, double* sums,
                 double* squares) {
  for_tiles(image, [&](auto width, std::int64_t begin, std::int64_t count, std::int64_t c) {
    constexpr int kWidth = decltype(width)::value;
    float sum[kWidth] = {}, square[kWidth] = {};
    for (std::int64_t p = begin; p < begin + count; ++p) {
      const float* at = x + p * image.channels + c;
      for (int i = 0; i < kWidth; ++i) {
        const float d = at[i] - shift[c + i];
        sum[i] += d;
        square[i] += d * d;
      }
    }
    for (int i = 0; i < kWidth; ++i) {
      sums[c + i] += double{sum[i]};
      squares[c + i] += double{square[i]};
    }
  });
}

// y = relu(x · scale + offset + skip). Written so that NaN stays NaN.
template <bool kSkips>
MUSTER_INLINE void apply_tiles(const Image& image, const float* x, const float* skip,
                               const float* scale, const float* offset, float* __restrict y) {
  for_tiles(image, [&](auto width, std::int64_t begin, std::int64_t count, std::int64_t c) {
    constexpr int kWidth = decltype(width)::value;
    for (std::int64_t p = begin; p < begin + count; ++p) {
      const std::int64_t at = p * image.channels + c;
      for (int i = 0; i < kWidth; ++i) {
        float value = x[at + i] * scale[c + i] + offset[c + i];
        if constexpr (kSkips) value += skip[at + i];
        y[at + i] = value < 0 ? 0 : value;
      }
    }
  });
}

MUSTER_CLONES
void scale_and_cut(const Image& image, const float* x, const float* skip, const float* scale,
                   const float* offset, float* y) {
  if (skip != nullptr)
    apply_tiles<true>(image, x, skip, scale, offset, y);
  else
    apply_tiles<false>(image, x, skip, scale, offset, y);
}

// Through the ReLU: d = dy where y is not cut off. The sums of d and of d · (x - mean), by channel.
template <bool kKeeps>
MUSTER_INLINE void sum_gradient_tiles(const Image& image, const float* dy, const float* y,
                                      const float* x, const float* mean, float* __restrict d,
                                      double* sums, double* products) {
  for_tiles(image, [&](auto width, std::int64_t begin, std::int64_t count, std::int64_t c) {
    constexpr int kWidth = decltype(width)::value;
    float sum[kWidth] = {}, product[kWidth] = {};
    for (std::int64_t p = begin; p < begin + count; ++p) {
      const std::int64_t at = p * image.channels + c;
      for (int i = 0; i < kWidth; ++i) {
        const float passed = y[at + i] <= 0 ? 0 : dy[at + i];
        sum[i] += passed;
        product[i] += passed * (x[at + i] - mean[c + i]);
        if constexpr (kKeeps) d[at + i] = passed;
      }
    }
    for (int i = 0; i < kWidth; ++i) {
      sums[c + i] += double{sum[i]};
      products[c + i] += double{product[i]};
    }
  });
}

// `d`: where it is wanted.
MUSTER_CLONES
void sum_gradients(const Image& image, const float* dy, const float* y, const float* x,
                   const float* mean, float* d, double* sums, double* products) {
  if (d != nullptr)
    sum_gradient_tiles<true>(image, dy, y, x, mean, d, sums, products);
  else
    sum_gradient_tiles<false>(image, dy, y, x, mean, d, sums, products);
}

// dx = d · scale + x · slope + offset
MUSTER_CLONES
void apply_gradients(const Image& image, const float* dy, const float* y, const float* x,
                     const float* scale, const float* slope, const float* offset,
                     float* __restrict dx) {
  for_tiles(image, [&](auto width, std::int64_t begin, std::int64_t count, std::int64_t c) {
    constexpr int kWidth = decltype(width)::value;
    for (std::int64_t p = begin; p < begin + count; ++p) {
      const std::int64_t at = p * image.channels + c;
      for (int i = 0; i < kWidth; ++i) {
        const float passed = y[at + i] <= 0 ? 0 : dy[at + i];
        dx[at + i] = passed * scale[c + i] + (x[at + i] * slope[c + i] + offset[c + i]);
      }
    }
  });
}

Image image_of(const torch::Tensor& tensor) {
  return {tensor.numel() / tensor.size(1), tensor.size(1)};
}

bool is_channels_last(const torch::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == torch::kFloat32 && tensor.dim() == 4 &&
         tensor.is_contiguous(torch::MemoryFormat::ChannelsLast);
}

// The mean of some pixels from all over the image.
std::vector<float> near_mean(const Image& image, const float* x) {
  const std::int64_t samples = std::min(kTile, image.pixels);
  std::vector<float> mean(static_cast<std::size_t>(image.channels));
  for (std::int64_t s = 0; s < samples; ++s) {
    const float* at = x + image.pixels * s / samples * image.channels;
    for (float& sum : mean) sum += *at++;
  }
  for (float& sum : mean) sum /= static_cast<float>(samples);
  return mean;
}

// Writes mean and unbiased variance; returns 1 / the standard deviation, by channel.
torch::Tensor normalise_by(const NormRelu& of, const Image& image, const float* x) {
  const auto channels = static_cast<std::size_t>(image.channels);
  const std::vector<float> shift = near_mean(image, x);
  std::vector<double> sums(channels), squares(channels);
  sum_moments(image, x, shift.data(), sums.data(), squares.data());
  auto inverse = torch::empty_like(of.mean);
  const auto n = static_cast<double>(image.pixels);
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = sums[c] / n;
    double square = squares[c] - sums[c] * mean;
    if (square < 0) square = 0;  // by rounding; NaN stays
    of.mean.data_ptr<float>()[c] = static_cast<float>(double{shift[c]} + mean);
    of.variance.data_ptr<float>()[c] = static_cast<float>(square / (n - 1));
    inverse.data_ptr<float>()[c] = static_cast<float>(1 / std::sqrt(square / n + of.epsilon));
  }
  return inverse;
}

class Fused : public torch::autograd::Function<Fused> {
 public:
  // Tensors one by one, since what is inside another argument has no gradient.
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input,
                               const torch::Tensor& weight, const torch::Tensor& bias,
                               const std::optional<torch::Tensor>& skip, const NormRelu& of) {
    const Image image = image_of(input);
    const auto* x = input.const_data_ptr<float>();
    const torch::Tensor inverse = normalise_by(of, image, x);
    const torch::Tensor scale = weight * inverse;
    const torch::Tensor offset = bias - of.mean * scale;
    auto output = torch::empty_like(input);
    scale_and_cut(image, x, skip ? skip->const_data_ptr<float>() : nullptr,
                  scale.const_data_ptr<float>(), offset.const_data_ptr<float>(),
                  output.data_ptr<float>());
    context->save_for_backward({input, output, weight, of.mean, inverse});
    context->saved_data["skips"] = skip.has_value();
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const torch::Tensor &input = saved[0], &output = saved[1], &mean = saved[3],
                        &inverse = saved[4];
    const torch::Tensor gradient = gradients[0].contiguous(torch::MemoryFormat::ChannelsLast);
    const Image image = image_of(input);
    const auto channels = static_cast<std::size_t>(image.channels);
    const auto* dy = gradient.const_data_ptr<float>();
    const auto* y = output.const_data_ptr<float>();
    const auto* x = input.const_data_ptr<float>();
    torch::Tensor skip;
    if (context->saved_data["skips"].toBool() && context->needs_input_grad(3))
      skip = torch::empty_like(input);
    std::vector<double> sums(channels), products(channels);
    sum_gradients(image, dy, y, x, mean.const_data_ptr<float>(),
                  skip.defined() ? skip.data_ptr<float>() : nullptr, sums.data(), products.data());
    auto d_weight = torch::empty_like(mean), d_bias = torch::empty_like(mean);
    auto scale = saved[2] * inverse;
    auto slope = torch::empty_like(mean), offset = torch::empty_like(mean);
    const auto n = static_cast<double>(image.pixels);
    for (std::size_t c = 0; c < channels; ++c) {
      const double by = double{inverse.const_data_ptr<float>()[c]};
      const double factor = double{scale.const_data_ptr<float>()[c]};
      const double back = -factor * by * by * products[c] / n;
      d_weight.data_ptr<float>()[c] = static_cast<float>(products[c] * by);
      d_bias.data_ptr<float>()[c] = static_cast<float>(sums[c]);
      slope.data_ptr<float>()[c] = static_cast<float>(back);
      offset.data_ptr<float>()[c] = static_cast<float>(
          -factor * sums[c] / n - back * double{mean.const_data_ptr<float>()[c]});
    }
    torch::Tensor d_input;
    if (context->needs_input_grad(0)) {
      d_input = torch::empty_like(input);
      apply_gradients(image, dy, y, x, scale.const_data_ptr<float>(), slope.const_data_ptr<float>(),
                      offset.const_data_ptr<float>(), d_input.data_ptr<float>());
    }
    return {d_input, d_weight, d_bias, skip, torch::Tensor()};
  }
};

}  // namespace

// Fewer pixels than two have no unbiased variance.
bool can_fuse(const NormRelu& of) {
  return is_channels_last(of.input) && of.weight.scalar_type() == torch::kFloat32 &&
         image_of(of.input).pixels > 1 &&
         (!of.skip.defined() || (is_channels_last(of.skip) && of.skip.sizes() == of.input.sizes()));
}

torch::Tensor norm_relu(const NormRelu& of) {
  const auto skip = of.skip.defined() ? std::optional(of.skip) : std::nullopt;
  return Fused::apply(of.input, of.weight, of.bias, skip, of);
}

}  // namespace muster::models
