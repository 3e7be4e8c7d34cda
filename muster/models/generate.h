#pragma once
// Text from a trained language model.

#include <cstdint>
#include <string>
#include <string_view>

#include "muster/base/random.h"
#include "muster/base/result.h"
#include "muster/models/model.h"

namespace muster::models {

struct GenerateOptions {
  std::int64_t length = 200;   // bytes to add
  double temperature = 0.8;    // 0: always the likeliest byte
  std::int64_t context = 128;  // the model's; older bytes are forgotten
};

// `prompt` continued by `length` bytes of a byte-level language model; byte i is drawn from
// `random` element i, so the text is a function of weights, prompt and stream. An empty prompt
// starts with a newline, which is not returned.
Result<std::string> generate_text(Model& model, std::string_view prompt,
                                  const GenerateOptions& options, const RandomStream& random);

}  // namespace muster::models
