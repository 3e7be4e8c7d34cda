// GCC 12 believes that a part of <regex> is not initialised, under AddressSanitizer.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "muster/base/units.h"
#include "muster/job/load.h"
#include "muster/job/name.h"
#include "muster/job/reference.h"

namespace muster::job {
namespace {

using Json = nlohmann::json;

bool loader_takes(const Field& field, const std::string& text) {
  std::vector<Diagnostic> errors;
  const auto source = std::make_shared<Source>(Source{"", text, 0});
  JobSpec spec;
  const auto node = read_yaml_value(source, 0, errors);
  return errors.empty() && field.read(node, spec).empty();
}

Json schema_of(const Json& root, const Field& field) {
  std::string place = "/properties/" + field.name;
  for (auto dot = place.find('.'); dot != place.npos; dot = place.find('.'))
    place.replace(dot, 1, "/properties/");
  return root.at(Json::json_pointer(place));
}

TEST(Schema, TakesTheIntervalsThatTheLoaderTakes) {
  const Json root = Json::parse(json_schema(*muster_fields()));
  for (const Field& field : muster_fields()->all()) {
    if (field.type != FieldType::kInterval) continue;
    const std::regex pattern(schema_of(root, field).at("pattern").get<std::string>());
    for (const std::string text :
         {"end",       "never",     "1 step",    "20steps",    "0 steps",    "1.5 steps",
          "2.0 steps", "1 epoch",   "0 epochs",  "0.0 epochs", "0.5 epochs", "5%",
          "100%",      "150%",      "5 min",     "90s",        "20 us",      "0 s",
          "10",        "steps",     "ends",      "2 sec",      "3m",         "1e1 epochs",
          ".5 epochs", "010 steps", "05 epochs", "007%",       "7.%",        "05 min",
          "1e1s",      "0.5 h",     "5 parsec",  "-1 epoch",   "1 steps 2",  "1e3 steps"}) {
      EXPECT_EQ(std::regex_match(text, pattern), loader_takes(field, text))
          << field.name << ": " << text;
    }
  }
}

// Limits other than 0 are the loader's.
TEST(Schema, TakesTheDurationsAndSizesThatTheLoaderTakes) {
  const Json root = Json::parse(json_schema(*muster_fields()));
  int seen = 0;
  for (Field field : muster_fields()->all()) {
    const bool is_time = field.type == FieldType::kDuration;
    if (!is_time && field.type != FieldType::kBytes) continue;
    ++seen;
    Json schema = schema_of(root, field);
    if (schema.contains("anyOf")) schema = schema["anyOf"][0];
    const std::regex pattern(schema.at("pattern").get<std::string>());
    for (const std::string number : {"1", "1.5", "1.", ".5", "1e1", "1E+1", "010", "00", "-1", "+1",
                                     "0x1", "1 2", "", "1,5", "e1"}) {
      for (const std::string unit :
           {"ns",  "us", "µs", "ms",  "s",   "sec",  "min", "m",  "h",   "d",
            "B",   "kB", "KB", "kiB", "KiB", "MB",   "MiB", "GB", "GiB", "TB",
            "TiB", "",   "b",  "kb",  "mib", "secs", "S",   "PB"}) {
        for (const std::string& text : {number + unit, number + " " + unit}) {
          const bool taken = is_time ? parse_duration(text).has_value()
                                     : !unit.empty() && parse_bytes(text).has_value();
          EXPECT_EQ(std::regex_match(text, pattern), taken) << field.name << ": " << text;
        }
      }
    }
    const std::string nothing = is_time ? "0 s" : "0 B";
    EXPECT_EQ(std::regex_match(nothing, pattern), loader_takes(field, nothing)) << field.name;
  }
  EXPECT_GE(seen, 4);
}

TEST(Schema, TakesTheSharesThatTheLoaderTakes) {
  const Json root = Json::parse(json_schema(*muster_fields()));
  int seen = 0;
  for (const Field& field : muster_fields()->all()) {
    if (field.rules.unit != kShare) continue;
    ++seen;
    const Json schema = schema_of(root, field);
    const std::regex pattern(schema.at("anyOf").at(1).at("pattern").get<std::string>());
    for (const std::string text : {"0%", "5%", "99.9%", "100%", "100.0%", "101%", "250%", "007%",
                                   "7.%", ".5%", "1e1%", "-5%", "+5%", "%", "5 %", "5"}) {
      EXPECT_EQ(std::regex_match(text, pattern), loader_takes(field, text))
          << field.name << ": " << text;
    }
  }
  EXPECT_GE(seen, 4);
}

TEST(Schema, TakesTheNamesThatTheLoaderTakes) {
  const Json root = Json::parse(json_schema(*muster_fields()));
  const std::regex pattern(
      schema_of(root, *muster_fields()->find("name")).at("pattern").get<std::string>());
  for (const std::string& text : std::vector<std::string>{
           "a", "1", "_x", "größe", "a-b_c+d.e", "../x", "a/b", "", ".a", "-a", "+a", "a b", "a:b",
           "a\tb", std::string(200, 'a'), std::string(201, 'a')}) {
    EXPECT_EQ(std::regex_match(text, pattern), is_name(text)) << text;
  }
}

TEST(Schema, TakesANumberForText) {
  const Json root = Json::parse(json_schema(*muster_fields()));
  const Json either = Json::array({"string", "number"});
  EXPECT_EQ(schema_of(root, *muster_fields()->find("name")).at("type"), either);
  EXPECT_TRUE(loader_takes(*muster_fields()->find("name"), "1"));
  EXPECT_EQ(schema_of(root, *muster_fields()->find("data.ignore")).at("anyOf").at(0).at("type"),
            either);
  EXPECT_TRUE(loader_takes(*muster_fields()->find("data.ignore"), "[1, 2]"));
}

bool job_takes(const std::string& group, const std::string& value) {
  const std::string job = "model: {type: mlp}\ndata: {type: idx, path: /data}\n";
  return check_job(job + group + value + "}\n", "job.yaml", {}).job.has_value();
}

TEST(Schema, TakesTheAddressesThatTheLoaderTakes) {
  const Json root = Json::parse(json_schema(*muster_fields()));
  const std::vector<std::string> addresses = {
      "",     "http://10.0.0.5:80/x", "https://a.example/", "ftp://a.example/", "a.example",
      "9464", "10.0.0.5:29400",       "node7:29400",        "10.0.0.5:port",    "[fe80::1]:29400"};
  for (const auto& [field, group] : std::vector<std::pair<std::string, std::string>>{
           {"preemption.url", "preemption: {url: "},
           {"mlflow.tracking_uri", "mlflow: {tracking_uri: "},
           {"workers.listen", "workers: {listen: "},
           {"prometheus.listen", "prometheus: {token_file: /t, listen: "}}) {
    const bool is_guarded = field == "prometheus.listen";  // a guard needs something to guard
    const std::regex pattern(
        schema_of(root, *muster_fields()->find(field)).at("pattern").get<std::string>());
    for (const std::string& text : addresses)
      EXPECT_EQ(std::regex_search(text, pattern) && !(text.empty() && is_guarded),
                job_takes(group, '"' + text + '"'))
          << field << ": " << text;
  }
}

TEST(Schema, TakesTheDelimitersThatTheLoaderTakes) {
  const Json root = Json::parse(json_schema(*muster_fields()));
  const std::regex pattern(
      schema_of(root, *muster_fields()->find("data.delimiter")).at("pattern").get<std::string>());
  for (const std::string text : {"", ",", ";", "\\t", "|", " ", "\\\"", "::", "ä", "\\n"}) {
    const std::string job =
        "model: {type: mlp}\ndata: {type: csv, path: /d.csv, delimiter: \"" + text + "\"}\n";
    const std::string plain = Json::parse('"' + text + '"').get<std::string>();
    EXPECT_EQ(std::regex_search(plain, pattern), check_job(job, "job.yaml", {}).job.has_value())
        << text;
  }
}

TEST(Schema, WantsAnEntryWhereTheLoaderDoes) {
  const Json root = Json::parse(json_schema(*muster_fields()));
  EXPECT_EQ(schema_of(root, *muster_fields()->find("model.channels")).at("minItems"), 1);
  EXPECT_FALSE(schema_of(root, *muster_fields()->find("model.hidden_sizes")).contains("minItems"));
  EXPECT_EQ(schema_of(root, *muster_fields()->find("optimizer.groups"))
                .at("/items/properties/match/anyOf/1/minItems"_json_pointer),
            1);
  EXPECT_FALSE(job_takes("optimizer: {groups: [{match: ", "[]}]"));
  EXPECT_FALSE(job_takes("lora: {rank: 2, target_modules: ", "[]"));
}

TEST(Schema, SaysWhichNumberWithinTheLimitsIsNone) {
  const Json root = Json::parse(json_schema(*muster_fields()));
  EXPECT_EQ(schema_of(root, *muster_fields()->find("strategy.mesh.shard")).at("not").at("const"),
            0);
  EXPECT_FALSE(job_takes("workers: {count: 2}\nstrategy: {mesh: {shard: ", "0}"));
  EXPECT_TRUE(job_takes("workers: {count: 2}\nstrategy: {mesh: {shard: ", "-1}"));
}

TEST(Schema, TellsTheLeastAndTheMostOfQuantities) {
  const Json root = Json::parse(json_schema(*muster_fields()));
  EXPECT_THAT(schema_of(root, *muster_fields()->find("communication.timeout"))
                  .at("description")
                  .get<std::string>(),
              ::testing::EndsWith(
                  "Expected: a duration such as `30s` or `5 min`, at least 100 ms and at most "
                  "24 h."));
}

// The condition of the schema under which the field is refused.
const Json* refusing(const Json& root, const Field& field, const OnlyWith& condition) {
  const auto place_of = [](std::string name) {
    std::string place = "/properties/" + name;
    for (auto dot = place.find('.'); dot != place.npos; dot = place.find('.'))
      place.replace(dot, 1, "/properties/");
    return Json::json_pointer(place);
  };
  for (const Json& one : root.at("allOf")) {
    const Json& refused = one.at("else");
    if (refused.contains(place_of(field.name)) && refused.at(place_of(field.name)) == false &&
        one.at("if").contains(place_of(std::string(condition.field))) &&
        one.at("if").at(place_of(std::string(condition.field))).at("enum") ==
            Json(condition.values))
      return &one;
  }
  return nullptr;
}

TEST(Schema, RefusesFieldsThatAreForAnotherType) {
  const Json root = Json::parse(json_schema(*muster_fields()));
  int seen = 0;
  for (const Field& field : muster_fields()->all()) {
    for (const OnlyWith* condition : conditions(field.rules)) {
      if (condition->field.empty()) continue;
      ++seen;
      EXPECT_TRUE(refusing(root, field, *condition)) << field.name;
    }
  }
  EXPECT_GE(seen, 40);
}

TEST(Schema, QuickTakesWhatTheFieldItselfTakes) {
  const Json root = Json::parse(json_schema(*muster_fields()));
  for (const Field& field : muster_fields()->all()) {
    Json plain = schema_of(root, field);
    plain.erase("description");
    plain.erase("default");
    EXPECT_EQ(root.at("properties").at("quick").at("properties").at(field.name), plain);
    if (field.rules.unset.empty()) continue;
    EXPECT_EQ(plain.at("anyOf").at(1).at("const"), std::string(field.rules.unset)) << field.name;
  }
}

}  // namespace
}  // namespace muster::job
