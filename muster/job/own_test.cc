#include "muster/job/own.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/job/load.h"
#include "muster/job/reference.h"

namespace muster::job {
namespace {

using ::testing::HasSubstr;

OwnComponents tides() {
  return {
      {OwnKind::kModel, "tide_net", "A net.", {{"width", std::int64_t{32}, "Units.", 1}}},
      {OwnKind::kLoss, "huber", "A loss.", {{"delta", 0.1, "Where it bends.", 0, 5}}},
      {OwnKind::kMetric, "miss", "A metric.", {}},
      {OwnKind::kMetric, "hits", "Another.", {}, true},
      {OwnKind::kData, "levels", "A file.", {{"names", std::vector<std::string>{"a"}, "Columns."}}},
      {OwnKind::kTransform, "jitter", "Noise.", {{"on", true, "Whether."}}},
  };
}

constexpr std::string_view kJob = R"(
model: {type: tide_net}
data: {type: levels, transforms: jitter}
training: {loss: huber}
evaluation: {metric: hits, metrics: [miss]}
options:
  tide_net: {width: 64}
)";

class Own : public ::testing::Test {
 protected:
  Result<Job> load(std::string_view text, std::vector<std::string> sets = {}) const {
    return parse_job(text, "tides.yaml", {.sets = std::move(sets), .fields = fields_});
  }
  std::string errors(std::string_view text, std::vector<std::string> sets = {}) const {
    const auto job = load(text, std::move(sets));
    return job ? "" : job.error().message;
  }
  const FieldsPtr fields_ = std::make_shared<const Fields>(tides());
};

std::string refusal(const OwnComponents& own) {
  const Status checked = check(own);
  return checked ? "" : checked.error().message;
}

TEST_F(Own, NamesAreWordsOfTheJobFile) {
  const auto job = load(kJob);
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->spec.model.type, ModelType::kOwn);
  EXPECT_EQ(job->spec.model.own, "tide_net");
  EXPECT_EQ(job->spec.data.own, "levels");
  EXPECT_EQ(job->spec.data.path, "");
  EXPECT_EQ(job->spec.training.loss, "huber");
  EXPECT_EQ(job->spec.data.transforms, std::vector<std::string>{"jitter"});
  EXPECT_EQ(job->spec.evaluation.metrics, (std::vector<std::string>{"miss", "hits"}));
  EXPECT_TRUE(job->spec.evaluation.higher_is_better());
  EXPECT_EQ(std::get<std::int64_t>(job->spec.options.at("options.tide_net.width")), 64);
}

TEST_F(Own, AResolvedJobIsReadBack) {
  const auto job = load(kJob, {"options.levels.names=[p, q]"});
  ASSERT_TRUE(job) << job.error().message;
  const std::string text = to_yaml(*job, true);
  EXPECT_THAT(text, HasSubstr("  huber:\n    delta: 0.1"));
  const auto again = load(text);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(to_yaml(*again, false), to_yaml(*job, false));
}

TEST_F(Own, OptionsOfWhatIsNotUsedAreNotShown) {
  const auto job = load("model: {type: mlp}\ndata: {type: idx, path: /data}\n");
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(to_yaml(*job, false).find("options"), std::string::npos);
}

TEST_F(Own, AMisspeltNameGetsTheNearestKnownOne) {
  EXPECT_THAT(
      errors("model: {type: tide_ner}\ndata: {type: level}\n"),
      ::testing::AllOf(HasSubstr("mlp, resnet, gpt, llama, moe, tide_net"),
                       HasSubstr("did you mean `tide_net`?"), HasSubstr("did you mean `levels`?")));
  EXPECT_THAT(errors(kJob, {"training.loss=hubber"}), HasSubstr("did you mean `huber`?"));
  EXPECT_THAT(errors(kJob, {"evaluation.metrics=[mis]"}), HasSubstr("did you mean `miss`?"));
  EXPECT_THAT(errors(kJob, {"data.transforms=jiter"}), HasSubstr("did you mean `jitter`?"));
}

TEST_F(Own, OptionsAreChecked) {
  EXPECT_THAT(errors(kJob, {"options.tide_net.widht=3"}), HasSubstr("did you mean"));
  EXPECT_THAT(errors(kJob, {"options.tide_net.width=0"}), HasSubstr("at least 1"));
  EXPECT_THAT(errors(kJob, {"options.tide_net.width=many"}), HasSubstr("a whole number"));
  EXPECT_THAT(errors(kJob, {"options.huber.delta=7"}), HasSubstr("at most 5"));
  EXPECT_THAT(errors("model: {type: tide_net}\ndata: {type: levels}\n", {"options.huber.delta=1"}),
              HasSubstr("`options.huber.delta` is for training.loss huber; here it is "
                        "cross_entropy"));
  EXPECT_THAT(errors("model: {type: tide_net}\ndata: {type: levels}\noptions: 3\n"),
              HasSubstr("`options` is a group of keys, not a value"));
}

TEST_F(Own, WhatIsOfCrossEntropyIsRefusedWithAnotherLoss) {
  EXPECT_THAT(errors(kJob, {"training.label_smoothing=0.1"}), HasSubstr("label_smoothing is for"));
  EXPECT_THAT(errors(kJob, {"evaluation.metric=accuracy"}), HasSubstr("accuracy is for"));
}

// They would see a part of the vocabulary, or of the positions.
TEST_F(Own, WhatNeedsAllOutputsIsRefusedWhereTheyAreCut) {
  constexpr std::string_view kGptJob =
      "model: {type: gpt, n_head: 2}\ndata: {type: text, path: x}\nworkers: {count: 2}\n";
  for (const std::string type : {"strategy.type=tensor", "strategy.type=context"}) {
    EXPECT_THAT(errors(kGptJob, {type, "evaluation.metrics=[miss]"}),
                HasSubstr("evaluation.metrics miss may need all of them"));
    EXPECT_THAT(errors(kGptJob, {type, "evaluation.metric=hits"}), HasSubstr("hits may need all"));
    EXPECT_THAT(errors(kGptJob, {type, "training.loss=huber"}), HasSubstr("huber may need all"));
  }
  EXPECT_EQ(errors(kGptJob, {"strategy.type=sharded", "evaluation.metrics=[miss]"}), "");
}

TEST_F(Own, HelpAndSchemaShowThem) {
  EXPECT_THAT(help_field(*fields_->find("model.type")), HasSubstr("moe, tide_net"));
  EXPECT_THAT(help_all(*fields_), HasSubstr("options.tide_net.width"));
  EXPECT_THAT(json_schema(*fields_), HasSubstr("\"tide_net\""));
}

TEST_F(Own, TheSchemaAsksForAPathWhereDataLiesSomewhere) {
  const auto data_of = [](const Fields& fields) {
    return nlohmann::json::parse(json_schema(fields)).at("/properties/data/required"_json_pointer);
  };
  EXPECT_EQ(data_of(*muster_fields()), (nlohmann::json{"type", "path"}));
  EXPECT_EQ(data_of(*fields_), nlohmann::json::array({"type"}));
  const auto conditions = nlohmann::json::parse(json_schema(*fields_)).at("allOf");
  EXPECT_EQ(conditions.back().at("if").at("/properties/data/properties/type/enum"_json_pointer),
            nlohmann::json::array({"levels"}));
  EXPECT_EQ(conditions.back().at("else").at("/properties/data/required"_json_pointer),
            nlohmann::json::array({"path"}));
}

TEST_F(Own, WithoutAProgramOfItsOwnThereAreNone) {
  const auto job = parse_job(kJob, "tides.yaml", {});
  ASSERT_FALSE(job);
  EXPECT_THAT(job.error().message, HasSubstr("unknown key `options`"));
}

TEST_F(Own, BadNamesAreRefused) {
  EXPECT_EQ(refusal(tides()), "");
  EXPECT_THAT(refusal({{OwnKind::kModel, "mlp"}}),
              HasSubstr("`mlp` cannot be added to model.type: it is muster's own word"));
  EXPECT_THAT(refusal({{OwnKind::kLoss, "cross_entropy"}}), HasSubstr("muster's own word"));
  EXPECT_THAT(refusal({{OwnKind::kMetric, "accuracy"}}), HasSubstr("muster's own word"));
  EXPECT_THAT(refusal({{OwnKind::kModel, "net"}, {OwnKind::kData, "net"}}),
              HasSubstr("`net` cannot be added to data.type: it has been added before"));
  EXPECT_THAT(refusal({{OwnKind::kModel, "Tide Net"}}), HasSubstr("small letters"));
  EXPECT_THAT(refusal({{OwnKind::kModel, "net", "", {{"a", true}, {"a", true}}}}),
              HasSubstr("two options `a`"));
  EXPECT_THAT(refusal({{OwnKind::kModel, "net", "", {{"a", 0.5, "", 1}}}}),
              HasSubstr("outside its limits"));
}

}  // namespace
}  // namespace muster::job
