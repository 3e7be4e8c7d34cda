#pragma once
// How the tensors of a low-rank adapter (LoRA) are called: the name of the layer that they belong
// to, and one of these. What a model and its checkpoints have to agree on.

#include <optional>
#include <string_view>

namespace muster {

inline constexpr std::string_view kAdapterDown = ".lora_A.weight";  // [rank, in]
inline constexpr std::string_view kAdapterUp = ".lora_B.weight";    // [out, rank]
inline constexpr std::string_view kAdapterAlpha = ".lora_alpha";    // [1]

// The layer of a tensor called `<layer><suffix>`; none: of another name.
constexpr std::optional<std::string_view> layer_of(std::string_view name,
                                                   std::string_view suffix) noexcept {
  if (!name.ends_with(suffix)) return std::nullopt;
  return name.substr(0, name.size() - suffix.size());
}

constexpr bool is_trained_adapter(std::string_view name) noexcept {
  return name.ends_with(kAdapterDown) || name.ends_with(kAdapterUp);
}

constexpr bool is_adapter(std::string_view name) noexcept {
  return is_trained_adapter(name) || name.ends_with(kAdapterAlpha);
}

}  // namespace muster
