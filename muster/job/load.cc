#include "muster/job/load.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/check.h"
#include "muster/job/draft.h"
#include "muster/job/fields.h"
#include "muster/job/variables.h"
#include "muster/job/yaml.h"

namespace muster::job {
namespace {

constexpr std::string_view kQuick = "quick";
constexpr std::string_view kMinimalJob =
    "a minimal job: model: {type: mlp}, data: {type: idx, path: FOLDER}";

// Puts the values of all sources into one draft, in order of precedence.
class Loader {
 public:
  Loader(std::string_view text, const Path& path, const LoadOptions& options)
      : path_(path), options_(options), fields_(*options.fields) {
    draft_.table = options.fields;
    draft_.file = std::make_shared<Source>(Source{path.string(), std::string(text), 0});
    draft_.top = {draft_.file, 1, 1, 1};
    if (const auto home = options.environment.find("HOME"); home != options.environment.end())
      draft_.home = home->second;
    draft_.started_by = options.started_by;
  }

  CheckedJob load() && {
    read_file();
    for (const auto& [name, value] : options_.environment) read_variable(name, value);
    for (const auto& set : options_.sets) read_set(set);
    for (const auto& flag : options_.flags) read_flag(flag);
    if (file_is_usable_) resolve(draft_, path_);
    sort_by_place(draft_.errors);
    if (!draft_.errors.empty()) return {std::nullopt, std::move(draft_.errors)};
    return {finished(), {}};
  }

 private:
  void read_file() {
    const auto before = draft_.errors.size();
    const auto root = read_yaml(draft_.file, draft_.errors);
    if (root.broken) {
      file_is_usable_ = false;
      if (root.kind == YamlNode::Kind::kMap) read_map(root, "");  // what could be understood
    } else if (root.kind != YamlNode::Kind::kMap) {
      file_is_usable_ = false;
      if (draft_.errors.size() > before) return;
      const bool empty = root.kind == YamlNode::Kind::kNull;
      report(empty ? draft_.top : root.place,
             empty ? "the job is empty" : "a job is a mapping of keys to values",
             std::string(kMinimalJob));
    } else {
      draft_.top = root.place;
      draft_.top.length = 1;
      read_map(root, "");
      if (quick_) read_quick(*quick_);
      if (options_.quick && !quick_) complain_of_quick();
    }
  }

  void read_map(const YamlNode& map, const std::string& section) {
    for (const auto& [key, value] : map.entries) {
      const auto name = section.empty() ? key.text : section + "." + key.text;
      if (section.empty() && key.text == kQuick) {
        quick_ = value;
      } else if (fields_.find_section(name) && !name.empty()) {
        read_section(key, value, name);
      } else if (const auto* field = fields_.find(name);
                 field && key.text.find('.') == std::string::npos) {
        assign(*field, value, {Origin::Kind::kFile, key.place.line, {}}, draft_.spec);
      } else if (value.kind == YamlNode::Kind::kNull && is_line_without_key(key, section)) {
        report_line_without_key(key);  // `{epochs 3}`
        excuse(section, first_word(key.text));
      } else {
        report(key.place,
               fmt::format("unknown key `{}`{}", excerpt(key.text),
                           section.empty() ? "" : fmt::format(" in `{}`", section)),
               fields_.suggestion(section, key.text));
        excuse(section, key.text);
      }
    }
    if (map.lacks_keys) excuse_all(section);
  }

  // What stands there in a way that is not read may have been any of the group's.
  void excuse_all(const std::string& section) {
    for (const auto& field : fields_.all()) {
      const bool below = section.empty() || field.name.starts_with(section + ".");
      if (below && !draft_.given(field.name)) draft_.faulty.insert(field.name);
    }
  }

  // What is missing because its key, or that of its group, was misspelt has been told.
  void excuse(const std::string& section, std::string_view key) {
    const auto near = fields_.near_key(section, key);
    std::string name = section.empty() ? "" : section + ".";
    name += near.empty() ? key : near;
    for (const auto& field : fields_.all()) {
      if (field.name == name || field.name.starts_with(name + "."))
        draft_.faulty.insert(field.name);
    }
  }

  void read_section(const YamlNode& key, const YamlNode& value, const std::string& name) {
    draft_.section_places[name] = key.place;
    if (!value.broken && value.kind == YamlNode::Kind::kMap) return read_map(value, name);
    for (const auto& field : fields_.all()) {
      if (field.section() == name) draft_.faulty.insert(field.name);
    }
    if (value.broken) return;
    if (value.place.line > key.place.line && is_line_without_key(value, name))
      return report_line_without_key(value);
    const auto first = fields_.first_of(name).name.substr(name.size() + 1);
    report(value.place, fmt::format("`{}` is a group of keys, not a value", name),
           fmt::format("put its keys below it, indented, such as `{}:`",
                       std::string_view(first).substr(0, first.find('.'))));
  }

  static std::string_view first_word(std::string_view text) {
    return text.substr(0, text.find_first_of(" :"));
  }

  // `epochs 3`, or `epochs:3`, below `training:`; not `gpt` below `model:`.
  bool is_line_without_key(const YamlNode& node, const std::string& section) const {
    if (node.kind != YamlNode::Kind::kScalar || node.quoted) return false;
    return node.text.find_first_of(" :") != std::string::npos ||
           fields_.find(section + "." + node.text);
  }

  void report_line_without_key(const YamlNode& line) {
    const std::string_view text = line.text;
    const auto word = first_word(text);
    Place place = line.place;
    place.length = static_cast<int>(word.size());
    const bool has_colon = text.substr(word.size()).starts_with(':');
    report(place,
           fmt::format("the {} `{}` is missing",
                       has_colon ? "space behind the colon of" : "colon behind", excerpt(word)),
           fmt::format("write `{}: ` and the value", excerpt(word)));
  }

  // Checked always, applied with --quick.
  void read_quick(const YamlNode& map) {
    if (map.broken) return;
    if (map.kind != YamlNode::Kind::kMap) {
      return report(map.place, "`quick` is a mapping of fields to their values with --quick",
                    "for example quick: {training.epochs: 2}");
    }
    JobSpec unused;
    for (const auto& [key, value] : map.entries) {
      const auto* field = fields_.find(key.text);
      if (!field) {
        report_no_field(key.place, key.text, " in `quick`");
      } else if (options_.quick) {
        assign(*field, value, {Origin::Kind::kQuick, key.place.line, {}}, draft_.spec);
      } else if (!value.broken) {
        add(*field, field->read(value, unused));
      }
    }
  }

  void complain_of_quick() {
    constexpr std::string_view kFlag = "--quick";
    report({one_line(std::string(kFlag)), 1, 1, static_cast<int>(kFlag.size())},
           "the job file has no `quick`",
           "leave --quick away, or say what it changes: quick: {training.epochs: 1}");
  }

  void read_variable(const std::string& name, const std::string& value) {
    if (!name.starts_with(kVariablePrefix)) return;
    const auto variable = normalised(name);
    const auto source = one_line(name + "=" + value);
    if (const auto* field = field_of_variable(fields_, variable)) {
      const auto node = value_of(*field, source, name.size() + 1);
      return assign(*field, node, {Origin::Kind::kEnvironment, 0, name}, draft_.spec);
    }
    const auto* section = section_of_variable(fields_, variable);
    if (!section) return;
    const auto near = near_variable(fields_, variable);
    std::string help = near.empty() ? near : fmt::format("did you mean {}?", near);
    if (variable == variable_name(section->name))
      help = fmt::format("`{}` is a group of fields; {} is its first", section->name,
                         fields_.first_of(section->name).variable());
    report({source, 1, 1, static_cast<int>(name.size())},
           fmt::format("no field of a job belongs to the variable {}", name), std::move(help));
  }

  void read_set(const std::string& set) {
    constexpr std::string_view kFlag = "--set ";
    const auto equals = set.find('=');
    const auto source = one_line(std::string(kFlag) + set);
    const auto name = set.substr(0, equals);
    const auto* field = fields_.find(name);
    const Place place{source, 1, static_cast<int>(kFlag.size()) + 1, static_cast<int>(name.size())};
    if (equals == std::string::npos) {
      return report(place, "expected --set FIELD=VALUE", "for example --set training.epochs=3");
    }
    if (name.empty()) {
      return report(place, "the name of the field is missing before the `=`",
                    "for example --set training.epochs=3");
    }
    if (!field) return report_no_field(place, name);
    const auto node = value_of(*field, source, kFlag.size() + equals + 1);
    assign(*field, node, {Origin::Kind::kSet, 0, {}}, draft_.spec);
  }

  void report_no_field(const Place& place, const std::string& name, std::string_view where = {}) {
    if (name.empty() || !fields_.find_section(name))
      return report(place, fmt::format("unknown field `{}`{}", excerpt(name), where),
                    near_field(name));
    report(place, fmt::format("`{}` is a group of fields, not a field{}", name, where),
           fmt::format("did you mean `{}`?", fields_.first_of(name).name));
  }

  void read_flag(const FlagValue& flag) {
    const auto* field = fields_.find(flag.field);
    MUSTER_CHECK(field, "no field " + flag.field);
    const auto source = one_line(flag.flag + " " + flag.value);
    auto node = flag.is_text ? text_at(source, flag.flag.size() + 1)
                             : value_of(*field, source, flag.flag.size() + 1);
    if (flag.meaning) node.text = flag.meaning(draft_.spec);  // its place stays that of the word
    assign(*field, node, {Origin::Kind::kFlag, 0, flag.flag}, draft_.spec);
  }

  // The address [::1]:0 means itself where a text is wanted; to YAML it is a list with more behind.
  YamlNode value_of(const Field& field, const std::shared_ptr<const Source>& source,
                    std::size_t offset) {
    const std::string_view word = std::string_view(source->text).substr(offset);
    const bool is_address = word.starts_with('[') && word.find("]:") != word.npos;
    if (is_address && field.type == FieldType::kText) return text_at(source, offset);
    return read_yaml_value(source, offset, draft_.errors);
  }

  static YamlNode text_at(const std::shared_ptr<const Source>& source, std::size_t offset) {
    YamlNode node;
    node.kind = YamlNode::Kind::kScalar;
    node.text = source->text.substr(offset);
    node.place = {source, 1, static_cast<int>(offset) + 1,
                  std::max(1, static_cast<int>(node.text.size()))};
    node.quoted = true;
    return node;
  }

  bool passed_over(const Field& field, const Origin& origin) const {
    if (origin.kind == Origin::Kind::kFlag) return false;
    return std::ranges::any_of(options_.flags_only, [&](const std::string& name) {
      return name.ends_with('.') ? field.name.starts_with(name) : field.name == name;
    });
  }

  void assign(const Field& field, const YamlNode& node, Origin origin, JobSpec& whole) {
    JobSpec unused;
    const bool drops = passed_over(field, origin);
    JobSpec& spec = drops ? unused : whole;
    if (node.broken) {
      draft_.faulty.insert(field.name);
    } else if (auto wrong = field.read(node, spec); !wrong.empty()) {
      draft_.faulty.insert(field.name);
      add(field, std::move(wrong));
    } else if (!drops) {
      draft_.assigned[field.name] = {std::move(origin), node.place};
    }
  }

  void add(const Field& field, Complaints wrong) {
    for (Diagnostic& complaint : wrong) {
      complaint.message = field.name + ": " + complaint.message;
      draft_.errors.push_back(std::move(complaint));
    }
  }

  void report(Place place, std::string message, std::string help) {
    draft_.errors.push_back({std::move(place), std::move(message), std::move(help)});
  }

  std::shared_ptr<const Source> one_line(std::string text) {
    return std::make_shared<Source>(Source{{}, std::move(text), ++sources_});
  }

  std::string near_field(std::string_view name) const {
    std::vector<std::string_view> known;
    for (const auto& field : fields_.all()) known.push_back(field.name);
    if (const auto near = near_word(name, known); !near.empty()) {
      return fmt::format("did you mean `{}`?", near);
    }
    const auto dot = name.rfind('.');
    const auto section = dot == std::string_view::npos ? "" : name.substr(0, dot);
    return fields_.suggestion(section, dot == std::string_view::npos ? name : name.substr(dot + 1));
  }

  Job finished() {
    Job job{path_, std::move(draft_.spec), {}, {}, draft_.file->text, draft_.table};
    for (const auto& field : fields_.all()) job.origins[field.name] = draft_.origin_of(field.name);
    for (auto& [name, given] : draft_.assigned) job.places[name] = std::move(given.place);
    return job;
  }

  const Path& path_;
  const LoadOptions& options_;
  const Fields& fields_;
  Draft draft_;
  std::optional<YamlNode> quick_;
  bool file_is_usable_ = true;
  int sources_ = 0;  // read after the file, in the order in which their errors are told
};

}  // namespace

std::string describe(const Origin& origin) {
  switch (origin.kind) {
    case Origin::Kind::kDefault:
      return "default";
    case Origin::Kind::kDerived:
      return "derived: " + origin.label;
    case Origin::Kind::kFile:
      return fmt::format("job file line {}", origin.line);
    case Origin::Kind::kQuick:
      return fmt::format("quick, job file line {}", origin.line);
    case Origin::Kind::kEnvironment:
      return origin.label;
    case Origin::Kind::kSet:
      return "--set";
    case Origin::Kind::kFlag:
      return origin.label;
  }
  return {};
}

CheckedJob check_job(std::string_view text, const Path& path, const LoadOptions& options) {
  return Loader(text, path, options).load();
}

std::string with_place(const Job& job, const std::string& message) {
  constexpr std::string_view kPart = "[job] ", kBesides = ", but ";
  std::size_t at = kPart.size();
  if (!message.starts_with(kPart)) {
    at = message.find(kBesides);
    if (at == message.npos) return message;
    at += kBesides.size();
  }
  const std::string_view rest = std::string_view(message).substr(at);
  const auto named = job.places.find(rest.substr(0, rest.find_first_of(": ")));
  if (named == job.places.end()) return message;
  std::string shown = render(
      {named->second, message.starts_with(kPart) ? message.substr(kPart.size()) : message, {}});
  shown.pop_back();  // the end of the line
  return shown;
}

Result<Job> parse_job(std::string_view text, const Path& path, const LoadOptions& options) {
  auto checked = check_job(text, path, options);
  if (!checked.job) return fail(ErrorCode::kInvalid, render(checked.errors));
  return std::move(*checked.job);
}

namespace {

// What to do about a job file that cannot be read, where that is known.
std::string way_out(Files& files, const Path& path, const Error& error) {
  if (error.code == ErrorCode::kNotFound)
    return "; check the path, or let `muster init DATA` write a job file for your data";
  const auto names = files.list(path);
  if (!names) return {};
  // JSON lies everywhere, and most of it is no job.
  const auto job = std::ranges::find_if(*names, [](const std::string& name) {
    return name.ends_with(".yaml") || name.ends_with(".yml");
  });
  return job == names->end()
             ? "; name a job file, or let `muster init DATA` write one for your data"
             : fmt::format("; name a job file in it, such as `{}`", (path / *job).string());
}

}  // namespace

Result<std::string> read_job_text(Files& files, const Path& path) {
  // One byte more shows that it is too long, whatever there is to come.
  auto text = files.read_up_to(path, kMaxJobBytes + 1);
  if (!text) {
    // Whatever keeps a job file from being read, the way out is another argument.
    return fail(ErrorCode::kInvalid,
                fmt::format("[job/load] cannot read the job file: {}{}", text.error().message,
                            way_out(files, path, text.error())));
  }
  return text;
}

Result<Job> load_job(Files& files, const Path& path, const LoadOptions& options) {
  MUSTER_ASSIGN(const auto text, read_job_text(files, path));
  return parse_job(text, path, options);
}

}  // namespace muster::job
