#include "muster/app/page/run_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "muster/app/debug/live_report.h"
#include "muster/base/units.h"
#include "muster/observe/chart.h"
#include "muster/observe/number_text.h"
#include "muster/observe/page.h"
#include "muster/observe/report.h"
#include "muster/observe/run_list.h"
#include "muster/observe/table_text.h"

namespace muster::app {
namespace {

using observe::escape_html;
using observe::RunFolder;
using observe::RunInfo;
using observe::RunState;

constexpr std::string_view kHtml = "text/html; charset=utf-8";
constexpr std::string_view kRunPath = "/run/";
constexpr std::size_t kLogBytes = 8192;

std::string place_of(const Path& root, const Path& runs) {
  return root.lexically_relative(runs).generic_string();
}

// As a link has it: names of jobs may hold what means something there.
std::string in_a_link(std::string_view place) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~/";
  std::string link;
  for (const char c : place) {
    if (kPlain.find(c) != kPlain.npos)
      link += c;
    else
      link += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return link;
}

std::string number_cell(const std::string& text) { return "<td class=number>" + text; }

std::string loss_of(const RunInfo& run) {
  const auto& row = run.outline.last_step;
  const auto loss = row ? row->find(observe::metric::kTrainLoss) : std::nullopt;
  return loss ? fmt::format("{:.4g}", *loss) : std::string(observe::kNothing);
}

std::string list_row(const RunInfo& run, const Path& runs) {
  const auto best = observe::best_evaluation(run.outline);
  const bool bad = run.state == RunState::kFailed;
  return fmt::format("<tr><td><a href=\"{}{}\">{} {}</a><td class=key>{}<td{}>{}", kRunPath,
                     in_a_link(place_of(run.root, runs)), escape_html(run.name.job),
                     escape_html(run.name.id), run.name.began, bad ? " class=bad" : "",
                     to_string(run.state)) +
         number_cell(observe::grouped(to_int(last_step(run.outline)))) + number_cell(loss_of(run)) +
         number_cell(best ? observe::metric_text(*best).value : std::string(observe::kNothing)) +
         number_cell(observe::clock_text(run.outline.took));
}

// Two neighbours of the page's colours never touch: the last is the quiet one.
std::string activity_bar(const LiveWorker& worker) {
  std::string parts;
  for (std::size_t i = 0; i < kActivities; ++i) {
    const bool other = i + 1 == kActivities;
    parts += fmt::format(
        "<span title=\"{0} {1:.0f} %\" style=\"width:{1:.2f}%;background:var("
        "--series-{2})\"></span>",
        kActivityNames[i], 100 * worker.shares[i], other ? 7 : i + 1);
  }
  return "<div class=bar>" + parts + "</div>";
}

std::string activity_legend() {
  std::string items;
  for (std::size_t i = 0; i < kActivities; ++i) {
    items += fmt::format("<li><i style=\"background:var(--series-{})\"></i>{}",
                         i + 1 == kActivities ? 7 : i + 1, kActivityNames[i]);
  }
  return "<ul class=legend>" + items + "</ul>";
}

std::string worker_row(const LiveWorker& worker) {
  return fmt::format("<tr><td>{}<td>{}<td class=key>{} {}", worker.rank, worker.worker,
                     escape_html(worker.host), worker.pid) +
         number_cell(observe::grouped(worker.step)) +
         number_cell(worker.resident > 0 ? format_bytes(worker.resident)
                                         : std::string(observe::kNothing)) +
         "<td class=length>" + activity_bar(worker) + "<td class=key>" + escape_html(worker.phase);
}

std::string workers_card(std::vector<LiveWorker> workers) {
  if (workers.empty()) return {};
  std::ranges::sort(workers, {}, &LiveWorker::rank);
  std::string rows =
      "<tr><th>rank<th>worker<th>process<th class=number>step<th class=number>memory<th>its time "
      "of late<th>now";
  for (const LiveWorker& worker : workers) rows += worker_row(worker);
  return observe::card(
      "Workers", activity_legend() + "<div class=scroll><table>" + rows + "</table></div>", "wide");
}

std::string notices_card(const std::vector<observe::Notice>& notices) {
  std::string rows;
  for (auto notice = notices.rbegin(); notice != notices.rend(); ++notice) {
    const bool bad = notice->severity != observe::Severity::kNote;
    rows += fmt::format("<tr><td{}>{}", bad ? " class=bad" : "", escape_html(notice->text));
  }
  if (rows.empty()) return rows;
  return observe::card("What happened, the last first",
                       "<div class=scroll><table>" + rows + "</table></div>", "wide");
}

// The end of the first worker's log, whole lines.
std::string log_card(Files& files, const RunFolder& run) {
  const Path path = run.log(Rank{0});
  const std::uint64_t size = files.size(path).value_or(0);
  if (size == 0) return {};
  std::string text(std::min<std::uint64_t>(size, kLogBytes), '\0');
  const auto read =
      files.read_at(path, size - text.size(), std::as_writable_bytes(std::span(text)));
  text.resize(read ? *read : 0);
  if (text.size() < size) text.erase(0, text.find('\n') + 1);
  return fmt::format(
      "<section class=\"card wide\"><details><summary>Log of worker 0</summary>"
      "<pre>{}</pre></details></section>\n",
      escape_html(text));
}

// One of which nothing was recorded yet is empty, and comes.
std::string run_page(Files& files, const RunFolder& run) {
  const RunInfo info = look_at(files, run);
  auto input = observe::read_run(files, run).value_or(observe::ReportInput{});
  if (input.started.name.empty()) input.started.name = info.name.job;
  std::vector<LiveWorker> workers;
  const auto live = files.read(run.live());
  if (live && info.state == RunState::kRunning)
    workers = live_workers_from_json(*live).value_or(std::vector<LiveWorker>{});
  return render_live_report(
      input, info.state,
      workers_card(std::move(workers)) + notices_card(input.notices) + log_card(files, run));
}

}  // namespace

std::string RunPages::list() const {
  std::string rows =
      "<tr><th>run<th>began<th>state<th class=number>steps<th class=number>loss<th "
      "class=number>best<th class=number>time";
  const auto runs = observe::find_runs(files_, runs_);
  for (const RunFolder& run : runs) rows += list_row(look_at(files_, run), runs_);
  if (runs.empty()) rows += "<tr><td colspan=7 class=key>none yet: muster train JOB makes one";
  const std::string head =
      fmt::format("<header><h1>Runs</h1><p>{}</p></header>\n", escape_html(runs_.native()));
  return observe::live_page(
      "Runs", head,
      observe::card("", "<div class=scroll><table>" + rows + "</table></div>", "wide"));
}

std::optional<HttpAnswer> RunPages::answer(std::string_view path) const {
  if (path == "/") return HttpAnswer{std::string(kHtml), list()};
  if (!path.starts_with(kRunPath)) return std::nullopt;
  for (const RunFolder& run : observe::find_runs(files_, runs_)) {
    if (place_of(run.root(), runs_) == path.substr(kRunPath.size()))
      return HttpAnswer{std::string(kHtml), run_page(files_, run)};
  }
  return std::nullopt;
}

}  // namespace muster::app
