#include "muster/parallel/pipeline/tied_weights.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "muster/base/check.h"

namespace muster::parallel {
namespace {

// Streams of tensors beside those of pipeline.cc, by tie.
constexpr std::uint32_t kGradients = 0x8000;
constexpr std::uint32_t kWeights = 0xC000;

TensorKind gradients_of(std::size_t tie) { return {kGradients + static_cast<std::uint32_t>(tie)}; }
TensorKind weights_of(std::size_t tie) { return {kWeights + static_cast<std::uint32_t>(tie)}; }

std::size_t index_of(const std::string& parameter, const models::Model& part) {
  const auto& parameters = part.parameters();
  return static_cast<std::size_t>(
      std::ranges::find(parameters, parameter, &models::Parameter::name) - parameters.begin());
}

std::string gradient_name(const std::string& parameter, std::size_t micro) {
  return fmt::format("gradient of micro-batch {}, tied weight {}", micro, parameter);
}

at::Tensor tensor_of(const std::string& parameter, const models::Model& part) {
  for (const auto* parameters : {&part.parameters(), &part.frozen()})
    for (const models::Parameter& known : *parameters)
      if (known.name == parameter) return known.tensor;
  MUSTER_CHECK(false, parameter + " is not in this part of the model");
  return {};
}

}  // namespace

// All ranks number them alike.
Result<TiedWeights> TiedWeights::find(const models::Model& whole, const layout::Partition& chunks,
                                      const ChunkPlaces& places) {
  const auto chunk_of = [&](std::size_t block) {
    return static_cast<std::size_t>(layout::chunk_of(chunks, static_cast<std::int32_t>(block)));
  };
  std::map<std::pair<std::string, layout::Stage>, Tie> found;  // by parameter and borrowing stage
  for (std::size_t b = 0; b < whole.blocks().size(); ++b) {
    for (const models::BlockParameter& borrowed : whole.blocks()[b].block->borrowed()) {
      const std::size_t borrower = chunk_of(b);
      const auto owning =
          std::ranges::find(whole.blocks(), borrowed.owner, &models::NamedBlock::name);
      const std::size_t owner = chunk_of(static_cast<std::size_t>(owning - whole.blocks().begin()));
      if (places.stage_of.at(owner) == places.stage_of.at(borrower)) continue;
      if (owner > borrower)
        return fail(ErrorCode::kUnsupported,
                    fmt::format("[parallel/pipeline] block {} is tied to {}, which comes later",
                                whole.blocks()[b].name, borrowed.owner));
      const std::string name = borrowed.owner + "." + borrowed.name;
      const bool trained = std::ranges::find(whole.parameters(), name, &models::Parameter::name) !=
                           whole.parameters().end();
      found.try_emplace(
          {name, places.stage_of.at(borrower)},
          Tie{.parameter = name, .owner = owner, .borrower = borrower, .trained = trained});
    }
  }
  TiedWeights tied(places);
  for (auto& [key, tie] : found) tied.ties_.push_back(std::move(tie));
  return tied;
}

Status TiedWeights::take(std::size_t chunk, std::size_t micro, StageModel& stage,
                         StageLinks& links) const {
  for (std::size_t t = 0; t < ties_.size(); ++t) {
    const Tie& tie = ties_[t];
    if (tie.owner != chunk || !tie.trained) continue;
    MUSTER_ASSIGN(at::Tensor gradient, links.recv(places_.rank_of(tie.borrower), gradients_of(t),
                                                  gradient_name(tie.parameter, micro)));
    stage.add_to_owned(micro, index_of(tie.parameter, stage.model()), std::move(gradient));
  }
  return ok();
}

void TiedWeights::give(std::size_t chunk, std::size_t micro, StageModel& stage,
                       StageLinks& links) const {
  for (std::size_t t = 0; t < ties_.size(); ++t) {
    const Tie& tie = ties_[t];
    if (tie.borrower != chunk || !tie.trained) continue;
    links.send(places_.rank_of(tie.owner), gradients_of(t),
               stage.take_borrowed(micro, index_of(tie.parameter, stage.model())),
               gradient_name(tie.parameter, micro));
  }
}

Status TiedWeights::share(models::Model& part, StageLinks& links) const {
  for (std::size_t t = 0; t < ties_.size(); ++t) {
    if (!places_.is_mine(ties_[t].owner)) continue;
    links.send(places_.rank_of(ties_[t].borrower), weights_of(t),
               tensor_of(ties_[t].parameter, part).detach(), "tied weight " + ties_[t].parameter);
  }
  const at::NoGradGuard no_grad;
  for (std::size_t t = 0; t < ties_.size(); ++t) {
    if (!places_.is_mine(ties_[t].borrower)) continue;
    MUSTER_ASSIGN(const at::Tensor weights,
                  links.recv(places_.rank_of(ties_[t].owner), weights_of(t),
                             "tied weight " + ties_[t].parameter));
    tensor_of(ties_[t].parameter, part).copy_(weights);
  }
  return links.finish();  // before the next update writes them
}

}  // namespace muster::parallel
