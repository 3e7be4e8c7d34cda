#include "muster/plan/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "muster/plan/question.h"

namespace muster::plan {
namespace {

using layout::PipelineKind;
using std::chrono::milliseconds;

PipelineSimulation simulation(PipelineKind kind, std::int32_t stages, std::int32_t micro_batches,
                              int forward = 10) {
  PipelineQuestion question;
  question.stages = stages;
  question.micro_batches = micro_batches;
  question.stage = {milliseconds(forward), milliseconds(10), milliseconds(10)};
  question.stage_memory.activations = 64;
  return answer(question, kind).value().simulation;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

std::ptrdiff_t count(const std::string& text, std::string_view what) {
  std::ptrdiff_t found = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(TimelineText, ShowsWhoComputesWhatWhen) {
  EXPECT_EQ(
      lines(timeline_text(simulation(PipelineKind::k1F1B, 2, 3), {.width = 60})),
      (std::vector<std::string>{"stage 0  F0  F1  ........B0      F2  B1      ....B2      ",
                                "stage 1  ....F0  B0      F1  B1      F2  B2      ........",
                                "         0                                         120 ms"}));
}

TEST(TimelineText, NamesTheChunksOfAStage) {
  const auto text = lines(timeline_text(simulation(PipelineKind::kZbV, 2, 2), {.width = 80}));
  EXPECT_EQ(text[0].substr(0, 33), "stage 0  F0a F1a ....F0b B0b F1b ");
  EXPECT_EQ(text[1].substr(0, 33), "stage 1  ....F0a F0b F1a F1b B0b ");
}

// What has no room is left away, and no line is longer than the terminal is wide.
TEST(TimelineText, FitsTheTerminal) {
  for (const PipelineKind kind : layout::kPipelineKinds) {
    for (const std::int32_t stages : {1, 3, 11}) {
      for (const std::int32_t micro_batches : {1, 7, 100}) {
        for (const int width : {40, 80, 133}) {
          const auto text =
              lines(timeline_text(simulation(kind, stages, micro_batches, 17), {.width = width}));
          EXPECT_EQ(std::ssize(text), stages + 1);
          for (const std::string& line : text) EXPECT_LE(std::ssize(line), width) << line;
        }
      }
    }
  }
  const auto narrow = lines(timeline_text(simulation(PipelineKind::k1F1B, 2, 6), {.width = 50}));
  EXPECT_EQ(narrow[0], "stage 0  FF..B FB FB FB FB .B ");
  const auto chunks = lines(timeline_text(simulation(PipelineKind::kZbV, 2, 6), {.width = 50}));
  EXPECT_EQ(chunks[1].substr(0, 16), "stage 1  .FfFfbw") << "small letters: the second chunk";
}

// A number without room is left away, not cut off: F1 is no name for micro-batch 10.
TEST(TimelineText, CutsNoNumbers) {
  const auto text = timeline_text(simulation(PipelineKind::k1F1B, 2, 11), {.width = 82});
  EXPECT_EQ(count(text, "F9"), 2) << text;
  EXPECT_EQ(count(text, "F1"), 2) << text;
  EXPECT_EQ(count(text, "F "), 2) << text;
}

TEST(TimelineText, ColoursTakeNoColumns) {
  const auto one = simulation(PipelineKind::kZbH1, 3, 4);
  std::string coloured = timeline_text(one, {.width = 80, .colour = true});
  EXPECT_NE(coloured.find("\x1b[48;5;25;97mF0"), std::string::npos);
  std::string plain;
  for (std::size_t at = 0; at < coloured.size(); ++at) {
    if (coloured[at] == '\x1b')
      at = coloured.find('m', at);
    else
      plain += coloured[at];
  }
  EXPECT_EQ(plain, timeline_text(one, {.width = 80}));
}

TEST(TimelineText, ShowsNothingForNothing) {
  PipelineQuestion question;
  question.stages = 2;
  const auto text =
      lines(timeline_text(answer(question, PipelineKind::k1F1B).value().simulation, {.width = 60}));
  EXPECT_EQ(text, (std::vector<std::string>{"stage 0  .", "stage 1  .", "         0 s"}));
}

TEST(TimelineSvg, HasEveryActionOfEveryPanel) {
  const std::vector all = {simulation(PipelineKind::k1F1B, 3, 4),
                           simulation(PipelineKind::kZbV, 3, 4)};
  const std::string svg = timeline_svg(all);
  EXPECT_EQ(count(svg, "class=\"title\""), 2);
  EXPECT_EQ(count(svg, "<rect class=\"f\""), 12 + 24 + 1) << "and one in the legend";
  EXPECT_EQ(count(svg, "<rect class=\"b\""), 12 + 24 + 1);
  EXPECT_EQ(count(svg, "<rect class=\"w\""), 24 + 1);
  EXPECT_EQ(count(svg, "<path class=\"held\""), 6);
  EXPECT_EQ(count(svg, "<svg "), 1);
  EXPECT_EQ(count(svg, "</svg>"), 1);
  EXPECT_EQ(count(svg, "<text"), count(svg, "</text>"));
  EXPECT_EQ(count(svg, "nan"), 0);
  EXPECT_EQ(count(svg, "http"), 1) << "nothing is loaded from elsewhere but for the name space";
}

TEST(TimelineSvg, DrawsNarrowActionsWithoutNumbers) {
  const std::vector one = {simulation(PipelineKind::k1F1B, 4, 200)};
  const std::string svg = timeline_svg(one);
  EXPECT_EQ(count(svg, "<rect class=\"f\""), 800 + 1);
  EXPECT_EQ(count(svg, "class=\"on"), 0);
}

TEST(TimelineTitle, SaysWhatItShows) {
  EXPECT_EQ(time_text(std::chrono::microseconds(25'500)), "25.5 ms");
  EXPECT_EQ(time_text(std::chrono::microseconds(199'512)), "199.5 ms");
  EXPECT_EQ(time_text(milliseconds(12'000)), "12 s");
  EXPECT_EQ(time_text(std::chrono::nanoseconds(1'200)), "1.2 µs");
  EXPECT_EQ(time_text(std::chrono::nanoseconds(12)), "12 ns");
  EXPECT_EQ(time_text(std::chrono::seconds(200)), "3 min 20 s");
  EXPECT_EQ(title_of(simulation(PipelineKind::kZbV, 3, 4)),
            "zb_v, 3 stages of 2 chunks, 4 micro-batches");
  EXPECT_EQ(title_of(simulation(PipelineKind::kGPipe, 1, 1)), "gpipe, 1 stage, 1 micro-batch");
}

}  // namespace
}  // namespace muster::plan
