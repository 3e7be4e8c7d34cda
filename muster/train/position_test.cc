#include "muster/train/position.h"

#include <gtest/gtest.h>

#include <limits>

namespace muster::train {
namespace {

Position sample() {
  Position position;
  position.progress.committed = Step{41};
  position.progress.cursor = {2, 7, 1234567890123};
  position.progress.best = Best{0.1 + 0.2, Step{40}};
  position.settled = false;
  position.flags.set(parallel::Flag::kEvaluate);
  position.next = Next::kStopEarly;
  position.evaluated = Step{40};
  position.losses = {.smoothed = 0.1 + 0.2, .steps_above = 3, .doubtful = true};
  position.owes_save = true;
  position.begun = BegunSave{Step{40}, Generation{3}};
  position.last_evaluation = {{"eval/loss", 1.0 / 3},
                              {"eval/own", -std::numeric_limits<double>::infinity()}};
  position.rows = {observe::Metrics{.step = Step{41},
                                    .epoch = 0.5,
                                    .samples_seen = 1,
                                    .time = {},
                                    .values = {{"train/loss", 2.5}}}};
  return position;
}

TEST(Position, TravelsWhole) {
  const Position position = decode_position(encode(sample())).value();
  EXPECT_EQ(position.progress.committed, Step{41});
  EXPECT_EQ(position.progress.cursor, sample().progress.cursor);
  EXPECT_EQ(position.progress.best->value, 0.1 + 0.2);
  EXPECT_FALSE(position.settled);
  EXPECT_TRUE(position.flags.has(parallel::Flag::kEvaluate));
  EXPECT_FALSE(position.flags.has(parallel::Flag::kStop));
  EXPECT_EQ(position.next, Next::kStopEarly);
  EXPECT_EQ(position.evaluated, Step{40});
  EXPECT_EQ(position.losses, sample().losses);
  EXPECT_TRUE(position.owes_save);
  EXPECT_EQ(position.begun, sample().begun);
  EXPECT_EQ(position.last_evaluation, sample().last_evaluation);
  EXPECT_EQ(position.rows, sample().rows);
}

TEST(Position, EveryTruncationIsRefused) {
  const std::string text = encode(sample());
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(decode_position(std::string_view(text).substr(0, size))) << size;
  }
}

// Else a newcomer's would differ from those of the others, who would all forget theirs.
TEST(Position, ACopyKnowsTheSamePaces) {
  Position position;
  position.paces = {{.worker = 3,
                     .lanes = 2,
                     .slice = 0.1,
                     .input = 0.2,
                     .waiting = 0.3,
                     .step = 0.7,
                     .link = 1e-3,
                     .stop = true}};
  const auto copy = decode_position(encode(position));
  ASSERT_TRUE(copy) << copy.error().message;
  EXPECT_EQ(copy->paces, position.paces);
  EXPECT_EQ(fingerprint(copy->paces), fingerprint(position.paces));
}

}  // namespace
}  // namespace muster::train
