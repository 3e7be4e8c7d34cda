#include "muster/models/generate.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "muster/models/torch_error.h"

namespace muster::models {
namespace {

// One index from unnormalised log-probabilities.
std::int64_t draw(const torch::Tensor& logits, double temperature, double uniform) {
  if (temperature == 0) return logits.argmax().item<std::int64_t>();
  const auto weights = torch::softmax(logits.to(torch::kFloat64) / temperature, 0).contiguous();
  const double* weight = weights.data_ptr<double>();
  const std::int64_t last = weights.numel() - 1;
  std::int64_t index = 0;
  for (double below = weight[0]; below <= uniform && index < last; below += weight[index]) ++index;
  return index;
}

// The logits after the last `context` bytes of `text`.
torch::Tensor next_logits(Model& model, const std::string& text, std::int64_t context) {
  const auto size = std::min<std::int64_t>(context, static_cast<std::int64_t>(text.size()));
  auto tokens = torch::empty({1, size}, torch::kUInt8);
  std::copy_n(text.end() - size, size, tokens.data_ptr<std::uint8_t>());
  PassContext pass{.training = false, .random = RandomStream(0, "generate")};
  return model.forward(tokens, pass)[0][size - 1].cpu();
}

}  // namespace

Result<std::string> generate_text(Model& model, std::string_view prompt,
                                  const GenerateOptions& options, const RandomStream& random) {
  if (options.length < 0 || options.context < 1 || !(options.temperature >= 0))
    return fail(ErrorCode::kInvalid,
                "[models/generate] length and temperature must be 0 or more, context 1 or more");
  const at::NoGradGuard no_grad;
  std::string text(prompt.empty() ? "\n" : prompt);
  const std::size_t returned_from = prompt.empty() ? 1 : 0;
  MUSTER_TRY(catch_torch("models/generate", [&] {
    for (std::int64_t i = 0; i < options.length; ++i) {
      const auto logits = next_logits(model, text, options.context);
      const double uniform = random.uniform(static_cast<std::uint64_t>(i));
      text.push_back(static_cast<char>(draw(logits, options.temperature, uniform)));
    }
  }));
  return text.substr(returned_from);
}

}  // namespace muster::models
