#pragma once
// Weights that a block uses and a block on another stage owns, as a language model's head uses the
// embedding: the borrower's gradients go to the owner, whose weights come back after every update.
// One thread.

#include <cstddef>
#include <string>
#include <vector>

#include "muster/base/result.h"
#include "muster/layout/partition.h"
#include "muster/models/model.h"
#include "muster/parallel/pipeline/chunk_places.h"
#include "muster/parallel/pipeline/stage_links.h"
#include "muster/parallel/pipeline/stage_model.h"

namespace muster::parallel {

class TiedWeights {
 public:
  // kUnsupported where an owner comes behind its borrower. `chunks`: of the blocks of `whole`.
  static Result<TiedWeights> find(const models::Model& whole, const layout::Partition& chunks,
                                  const ChunkPlaces& places);

  // Around this rank's backward pass of a chunk: before it, what others found for weights that it
  // owns; behind it, what it found for weights that it has borrowed.
  Status take(std::size_t chunk, std::size_t micro, StageModel& stage, StageLinks& links) const;
  void give(std::size_t chunk, std::size_t micro, StageModel& stage, StageLinks& links) const;
  // Whoever has borrowed gets the owner's weights. Until all is sent, nobody may write them.
  Status share(models::Model& part, StageLinks& links) const;

 private:
  struct Tie {
    std::string parameter;
    std::size_t owner = 0;  // both as chunks
    std::size_t borrower = 0;
    bool trained = true;
  };
  explicit TiedWeights(ChunkPlaces places) : places_(std::move(places)) {}

  ChunkPlaces places_;
  std::vector<Tie> ties_;  // of the whole model, alike on every rank
};

}  // namespace muster::parallel
