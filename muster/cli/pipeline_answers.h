#pragma once
// How `muster plan pipeline` shows what came of the simulations. Pure.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "muster/plan/question.h"

namespace muster::cli {

// Of every schedule: the answer, or why it is none.
struct PipelineAnswers {
  plan::PipelineQuestion question;
  std::vector<std::pair<layout::PipelineKind, Result<plan::PipelineAnswer>>> by_kind;
};

// A line a schedule: step, bubble, what the busiest stage holds and sends. Why there is no answer
// stands in lines of at most `width` columns; 0: in one.
std::string comparison_text(const PipelineAnswers& answers, std::size_t width = 0);
// Which stage has which blocks, a line a stage; empty where no blocks were given.
std::string partition_text(const plan::PipelineAnswer& answer);
nlohmann::ordered_json comparison_json(const PipelineAnswers& answers);

}  // namespace muster::cli
