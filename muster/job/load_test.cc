#include "muster/job/load.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <sstream>

#include "muster/base/testing/sanitized.h"
#include "muster/base/text_width.h"
#include "muster/job/fields.h"

namespace muster::job {
namespace {

constexpr std::string_view kImages = R"(
model: {type: resnet, channels: [8, 16], norm: group}
data: {type: idx, path: /data, mean: [0.25], std: [0.5], augment: {crop_padding: 2, flip: true}}
training: {epochs: 3, global_batch_size: 100, virtual_workers: 7, lanes: 2}
optimizer: {type: sgd, learning_rate: 3e-4, nesterov: true}
schedule: {type: one_cycle, final_ratio: 1%}
)";

constexpr std::string_view kText = R"(
name: "on"
model: {type: gpt, n_layer: 2, tie_embeddings: false, dropout: 10%}
data: {type: text, path: "a: b # c.txt", context_length: 32}
training: {max_steps: 20, micro_batch_size: 2, gradient_accumulation_steps: 3, max_grad_norm: 0.5}
schedule: {type: cosine, warmup: 12.5%}
checkpoint: {every: 90 s}
communication: {timeout: 1.5 s, bucket_size: 1500 B, first_bucket_size: 1 KiB}
generate: {prompt: "line\n\"quoted\" – ünïcode\x7f\x9f\ud83d\ude00", length: 5, temperature: 0.1}
)";

constexpr std::string_view kLlama = R"(
model: {type: llama, n_head: 8, n_kv_head: 2, n_embd: 64, intermediate_size: 100, rope_theta: 5e5}
data: {type: text, path: text}
)";

constexpr std::string_view kMoe = R"(
model: {type: moe, body: gpt, num_experts: 4, expert_capacity_factor: 1.25, router_z_loss_coef: 0}
data: {type: text, path: text}
)";

Job loaded(std::string_view text, const LoadOptions& options = {}) {
  auto job = parse_job(text, "some/where.yaml", options);
  EXPECT_TRUE(job) << (job ? "" : job.error().message);
  return job.value_or(Job{});
}

void expect_equal(const JobSpec& a, const JobSpec& b) {
  for (const auto& field : muster_fields()->all()) {
    EXPECT_EQ(to_json(field.print(a)), to_json(field.print(b))) << field.name;
  }
}

TEST(Load, WhatTheWorkerFindsIsToldAtItsPlace) {
  const auto job = loaded(
      "model: {type: mlp, classes: 9}\ndata: {type: idx, path: /data}\ntraining: {freeze: [b]}\n",
      {.sets = {"training.recompute=[c]"}});
  EXPECT_EQ(with_place(job, "[job] training.freeze: no parameter is called `b`"),
            "some/where.yaml:3:20: training.freeze: no parameter is called `b`\n"
            "    3 | training: {freeze: [b]}\n"
            "      |                    ^");
  EXPECT_EQ(with_place(job, "[job] training.recompute leaves nothing"),
            "training.recompute leaves nothing\n"
            "      | --set training.recompute=[c]\n"
            "      |                          ^");
  EXPECT_EQ(with_place(job, "[data/idx] labels: label 9 at row 2, but model.classes is 9"),
            "some/where.yaml:1:29: [data/idx] labels: label 9 at row 2, but model.classes is 9\n"
            "    1 | model: {type: mlp, classes: 9}\n"
            "      |                             ^");
  for (const std::string other :
       {"[job] optimizer.groups: nobody gave it", "[job] the model has 2 blocks", "[job] ", "",
        "[data/idx] short, but", "[data/idx] label 9, but the file is whole"})
    EXPECT_EQ(with_place(job, other), other);
}

TEST(Load, OfALongLineWhatIsWrongIsShown) {
  const std::string text = "{model: {type: mlp}, data: {type: idx, path: /" +
                           std::string(300, 'x') + "}, training: {epochs: zero, lanes: 2}}\n";
  const std::string told = parse_job(text, "a.yaml", {}).error().message;
  const auto line = told.find(" | …");
  const auto marks = told.find("\n      | ", line);
  ASSERT_NE(marks, std::string::npos) << told;
  // The sign of what was cut off is three bytes wide, and one column.
  const auto column = told.find('^', marks) - marks - 1;
  EXPECT_EQ(told.substr(told.rfind('\n', line) + 1 + column + 2, 4), "zero") << told;
}

// Workers read the job as it was resolved, so what is derived must be allowed as well.
TEST(Load, WhateverIsAcceptedIsReadBackTheSame) {
  constexpr std::string_view kSteps[] = {"1",      "2",      "7",     "1000", "10000000", "1 KiB",
                                         "5000 B", "64 KiB", "1 MiB", "0.5",  "1 s",      "10 min"};
  int accepted = 0;
  std::size_t tried = 0;
  for (const auto& field : muster_fields()->all()) {
    for (const std::string_view value : kSteps) {
      for (const auto text : {kImages, kText}) {
        if (kSanitized && ++tried % 11 != 0) continue;  // a number that divides nothing here
        const std::string set = fmt::format("{}={}", field.name, value);
        const auto job = parse_job(text, "some/where.yaml", {.sets = {set}});
        if (!job) continue;
        const auto again = parse_job(to_yaml(*job, false), "resolved.yaml", {});
        ASSERT_TRUE(again) << set << ": " << again.error().message;
        expect_equal(again->spec, job->spec);
        ++accepted;
      }
    }
  }
  EXPECT_GT(accepted, kSanitized ? 27 : 300);
}

TEST(Load, WhatIsDerivedStaysInItsLimits) {
  const auto small = loaded(kImages, {.sets = {"communication.bucket_size=64 KiB"}});
  EXPECT_EQ(small.spec.communication.first_bucket_size.count, 64 << 10);
  const std::vector<std::string> large = {"training.global_batch_size=10000000"};
  EXPECT_NE(parse_job(kImages, "a.yaml", {.sets = large})
                .error()
                .message.find("a pass of 1428572 samples is more than 1048576"),
            std::string::npos);
}

TEST(Load, ResolvedJobIsReadBackTheSame) {
  for (const auto text : {kImages, kText, kLlama, kMoe}) {
    for (const bool with_origins : {false, true}) {
      const auto job = loaded(text);
      expect_equal(loaded(to_yaml(job, with_origins)).spec, job.spec);
    }
  }
}

TEST(Load, WhereFieldsAreFromFitsATerminal) {
  LoadOptions options{.environment = {{"MUSTER_COMMUNICATION_TIMEOUT", "3 min"}}};
  const auto job = loaded(kText, options);
  std::size_t above = 0;
  for (const std::size_t width : {80u, 40u}) {
    const auto yaml = to_yaml(job, true, width);
    expect_equal(loaded(yaml).spec, job.spec);
    std::istringstream lines(yaml);
    for (std::string line; std::getline(lines, line);) {
      const auto mark = line.find("# ");
      const bool alone = mark != std::string::npos && mark == line.find_first_not_of(' ');
      above += alone;
      const bool several = alone ? line.find(' ', mark + 2) != std::string::npos
                                 : line.find("  # ") != std::string::npos;
      EXPECT_TRUE(!several || display_width(line) <= width) << line;
    }
  }
  EXPECT_GT(above, 0u);
  EXPECT_EQ(to_yaml(job, true, 1000), to_yaml(job, true));
}

TEST(Load, ResolvedJobIsAStandardYamlFile) {
  const auto yaml = to_yaml(loaded(kText), false);
  EXPECT_NE(yaml.find("name: \"on\"\n"), std::string::npos) << yaml;
  EXPECT_NE(yaml.find("path: \"a: b # c.txt\"\n"), std::string::npos) << yaml;
}

TEST(Load, FlagsComeFirst) {
  LoadOptions options;
  options.flags = {{"--workers", "workers.count", "4"}};
  options.sets = {"workers.count=2"};
  options.environment = {{"MUSTER_WORKERS_COUNT", "3"}};
  const auto job = loaded(kImages, options);
  EXPECT_EQ(job.spec.workers.count, 4);
  EXPECT_EQ(describe(job.origins.at("workers.count")), "--workers");
}

TEST(Load, WhatOnlyFlagsMaySetNobodyElseDoes) {
  const std::string text = std::string(kImages) + "strategy: {type: pipeline, stages: 2}\n";
  LoadOptions options;
  options.sets = {"strategy.schedule=gpipe", "workers.count=2"};
  options.flags = {{"--way", "strategy.type", "sharded"}};
  EXPECT_FALSE(parse_job(text, "a.yaml", options)) << "stages are for pipelines";
  options.flags_only = {"strategy."};
  const Job job = loaded(text, options);
  EXPECT_EQ(job.spec.strategy.type, StrategyType::kSharded);
  EXPECT_EQ(job.spec.strategy.schedule, PipelineSchedule::k1F1B);
  EXPECT_EQ(job.spec.workers.count, 2);
  options.sets = {"strategy.schedule=wrong"};
  EXPECT_FALSE(parse_job(text, "a.yaml", options)) << "what is wrong is still told";
}

TEST(Load, WrongFlagShowsTheFlag) {
  LoadOptions options;
  options.flags = {{"--workers", "workers.count", "four"}};
  const auto job = parse_job(kImages, "job.yaml", options);
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().code, ErrorCode::kInvalid);
  EXPECT_NE(job.error().message.find("| --workers four\n      |           ^~~~"), std::string::npos)
      << job.error().message;
}

TEST(Load, AFlagsWordTakesItsMeaningFromTheRestOfTheJob) {
  LoadOptions options;
  options.sets = {"training.virtual_workers=5"};
  options.flags = {{"--workers", "workers.count", "auto", [](const JobSpec& job) {
                      return std::to_string(job.training.virtual_workers);
                    }}};
  EXPECT_EQ(loaded(kImages, options).spec.workers.count, 5);
  options.sets.emplace_back("workers.max_workers=4");
  const auto job = parse_job(kImages, "job.yaml", options);
  ASSERT_FALSE(job);
  EXPECT_NE(job.error().message.find("max_workers 4 is less than the 5"), std::string::npos)
      << job.error().message;
}

TEST(Load, WhatIsWrongWithAFlagsWordIsShownAtTheWord) {
  LoadOptions options;
  options.flags = {{"--workers", "workers.count", "auto", [](const JobSpec&) { return "9"; }}};
  const auto job = parse_job(kImages, "job.yaml", options);
  ASSERT_FALSE(job);
  EXPECT_NE(job.error().message.find("workers.count 9 (--workers) is more than"), std::string::npos)
      << job.error().message;
  EXPECT_NE(job.error().message.find("| --workers auto\n      |           ^~~~"), std::string::npos)
      << job.error().message;
}

TEST(Load, AFlagThatIsTextIsNoYaml) {
  const FlagValue hosts{
      .flag = "--hosts", .field = "workers.hosts", .value = "[fe80::1]:3,node7", .is_text = true};
  const Job job = loaded(kImages, {.flags = {hosts}});
  EXPECT_EQ(job.spec.workers.hosts, (std::vector<HostSlots>{{"fe80::1", 3}, {"node7", 1}}));
  EXPECT_EQ(job.spec.workers.count, 4);
  EXPECT_EQ(describe(job.origins.at("workers.count")), "--hosts");
  expect_equal(loaded(to_yaml(job, true)).spec, job.spec);
}

TEST(Load, HostsAreRefusedWhereSomebodyElseStartsWorkers) {
  LoadOptions options{.sets = {"workers.hosts=[node7:64]"}, .started_by = "Slurm"};
  const auto refused = parse_job(kImages, "job.yaml", options);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("are started by Slurm"), std::string::npos);
  EXPECT_EQ(refused.error().message.find("is more than"), std::string::npos)
      << "who is refused says nothing of the number: " << refused.error().message;
  options.sets = {"workers.hosts=localhost"};
  EXPECT_TRUE(parse_job(kImages, "job.yaml", options));
}

TEST(Load, NameFollowsTheFile) { EXPECT_EQ(loaded(kImages).spec.name, "where"); }

// Whatever the bytes: a job or errors, each with a place inside the text.
void expect_answer(const std::string& text) {
  const auto checked = check_job(text, "job.yaml", {});
  RC_ASSERT(checked.job.has_value() == checked.errors.empty());
  RC_ASSERT(!render(checked.errors).empty());
  for (const auto& error : checked.errors) {
    RC_ASSERT(error.place.line <= 1 + std::count(text.begin(), text.end(), '\n'));
  }
}

TEST(Load, AnswersAnyBytes) {
  EXPECT_TRUE(rc::check([](const std::string& text) { expect_answer(text); }));
}

TEST(Load, AnswersAnyDamage) {
  EXPECT_TRUE(rc::check([] {
    static constexpr std::string_view kPieces[] = {":", "{", "}",  "[",  "]",   "\"",   "'",  "|",
                                                   ">", "-", "\n", " ",  "#",   "&",    "*",  "!",
                                                   "%", "?", ",",  "\t", "010", "\xff", "\r", "<<"};
    std::string text(*rc::gen::element(kImages, kText));
    for (int change = *rc::gen::inRange(1, 6); change > 0; --change) {
      const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
      const auto& piece = kPieces[*rc::gen::inRange<std::size_t>(0, std::size(kPieces))];
      text.replace(at, *rc::gen::inRange<std::size_t>(0, 4), piece);
    }
    expect_answer(text);
  }));
}

}  // namespace
}  // namespace muster::job
