// GCC 12 believes that a part of <regex> is not initialised, under AddressSanitizer.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "muster/base/units.h"
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
