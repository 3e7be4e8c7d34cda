#include "muster/job/fields.h"

#include <gtest/gtest.h>

#include <set>

#include "muster/job/reference.h"

namespace muster::job {
namespace {

// The field's value in `spec` as the job file writes it, read into another spec.
Complaints copy(const Field& field, const JobSpec& from, JobSpec& to) {
  std::vector<Diagnostic> errors;
  const auto source = std::make_shared<Source>(Source{"", to_yaml(field.print(from)), 0});
  const auto node = read_yaml_value(source, 0, errors);
  EXPECT_TRUE(errors.empty()) << field.name;
  return field.read(node, to);
}

TEST(Fields, EveryDefaultIsAllowed) {
  for (const auto& field : muster_fields()->all()) {
    JobSpec spec;
    for (const Diagnostic& wrong : copy(field, JobSpec{}, spec))
      ADD_FAILURE() << field.name << ": " << wrong.message;
  }
}

TEST(Fields, NamesAndVariablesAreUnique) {
  std::set<std::string> names;
  std::set<std::string> variables;
  for (const auto& field : muster_fields()->all()) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    EXPECT_TRUE(variables.insert(field.variable()).second) << field.variable();
  }
}

TEST(Fields, AreWholeAndDocumented) {
  for (const auto& field : muster_fields()->all()) {
    EXPECT_TRUE(field.rules.doc.ends_with('.')) << field.name;
    EXPECT_TRUE(muster_fields()->find_section(field.section()))
        << field.name << " is in no section";
    EXPECT_EQ(muster_fields()->find(field.name), &field);
    for (const OnlyWith* condition : conditions(field.rules))
      EXPECT_TRUE(condition->field.empty() || muster_fields()->find(condition->field))
          << field.name;
    EXPECT_EQ(field.type == FieldType::kInterval, !field.rules.units.empty()) << field.name;
  }
}

// Two fields bound to the same member would read each other's values.
TEST(Fields, EachHasItsOwnMember) {
  for (const auto& field : muster_fields()->all()) {
    if (field.type != FieldType::kInteger && field.type != FieldType::kNumber) continue;
    std::vector<Diagnostic> errors;
    const auto source = std::make_shared<Source>(Source{"", "0.75", 0});
    const auto whole = std::make_shared<Source>(Source{"", "300", 0});
    const auto& text = field.type == FieldType::kNumber ? source : whole;
    JobSpec changed;
    if (!field.read(read_yaml_value(text, 0, errors), changed).empty()) continue;  // out of range
    for (const auto& other : muster_fields()->all()) {
      const bool same = other.print(changed).text == other.print(JobSpec{}).text;
      EXPECT_TRUE(same || other.name == field.name) << field.name << " changes " << other.name;
    }
  }
}

TEST(Fields, HelpNamesEveryField) {
  const auto help = help_all(*muster_fields());
  const auto page = markdown(*muster_fields());
  for (const auto& field : muster_fields()->all()) {
    EXPECT_NE(help.find(field.name), std::string::npos) << field.name;
    EXPECT_NE(page.find("`" + std::string(field.key()) + "`"), std::string::npos) << field.name;
  }
}

}  // namespace
}  // namespace muster::job
