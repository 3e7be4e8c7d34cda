#pragma once
// Runs, of one job or of several, beside each other: what each measured, as a table, as JSON and as
// a page. Pure.

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/observe/report.h"

namespace muster::observe {

struct ComparedRun {
  std::string name;
  ReportInput run;      // as far as it came
  std::string folder;   // of the run; empty: it never began
  std::string weights;  // digest of the last checkpoint's; empty: none was saved
};

// What a run comes down to. Nothing: it did not measure that.
struct RunFigures {
  std::string name;
  std::optional<double> loss;               // of the last evaluation; without one, of the last step
  std::optional<double> samples_per_s;      // without the first steps, which warm up
  std::optional<double> tokens_per_s;       // the same
  std::optional<double> bytes_a_step;       // that the first worker sent, the mean
  std::optional<std::uint64_t> peak_bytes;  // of the worker that had the most resident
  Duration took{0};
  std::string weights;
  std::string failure;  // why it did not complete; empty: it did
};
RunFigures figures_of(const ComparedRun& run);

// A line a run, the rate against the first one's, in samples where not all have tokens, and which
// have the first one's weights to the last bit. As wide as 80 columns where names are short;
// `width` of the terminal as aligned() has it.
std::string comparison_text(const std::vector<RunFigures>& measured, std::size_t width = 0);
nlohmann::ordered_json comparison_json(const std::vector<RunFigures>& runs);

// The same with the loss against time and links to the runs' own reports, which `base` leads to:
// the folder that the page lies in. `more_cards`: HTML, after them.
std::string render_comparison(std::string_view title, const std::vector<ComparedRun>& runs,
                              const Path& base, std::string_view more_cards = {});

}  // namespace muster::observe
