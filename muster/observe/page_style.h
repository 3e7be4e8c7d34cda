#pragma once
// The style sheet of the pages. Colours: Okabe and Ito's, told apart by colour-blind eyes, on
// light and on dark ground.

#include <string_view>

namespace muster::observe {

inline constexpr std::string_view kPageStyle = R"css(
:root { color-scheme: light dark; --ground: #fbfaf8; --card: #ffffff; --ink: #1d2126;
  --muted: #69717c; --grid: #e6e4df; --good: #13795b; --bad: #b3261e; --series-1: #0072b2;
  --series-2: #d55e00; --series-3: #009e73; --series-4: #cc79a7; --series-5: #e69f00;
  --series-6: #56b4e9; --series-7: #b9b6ae; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171a; --card: #1c2024; --ink: #e8e6e1;
  --muted: #98a0aa; --grid: #2f353b; --good: #4fc39a; --bad: #ff8a80; --series-1: #5ab4f0;
  --series-2: #ff9a52; --series-3: #3fcf9f; --series-4: #e39cc4; --series-5: #f2c14e;
  --series-6: #9bd3f5; --series-7: #565d64; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", "Helvetica Neue", "DejaVu Sans", sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 40px 24px 64px; }
h1 { font-size: 30px; letter-spacing: -.01em; margin: 0; line-height: 1.2; }
h2 { font-size: 15px; font-weight: 600; margin: 0 0 12px; }
header { margin-bottom: 28px; }
header p { color: var(--muted); margin: 6px 0 0; }
.state { font-size: 13px; font-weight: 600; vertical-align: 5px; margin-left: 12px; padding: 2px 10px;
  border: 1px solid; border-radius: 99px; letter-spacing: 0; }
.good { color: var(--good); } .bad { color: var(--bad); }
.numbers { display: flex; flex-wrap: wrap; gap: 1px;
  margin: 0 0 28px; background: var(--grid); border: 1px solid var(--grid); border-radius: 12px;
  overflow: hidden; }
.numbers div { background: var(--card); padding: 14px 18px; flex: 1 1 120px; }
.numbers dt { color: var(--muted); font-size: 13px; }
.numbers dd { margin: 2px 0 0; font-size: 22px; font-weight: 600; letter-spacing: -.01em; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
.cards { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 20px; }
.card { background: var(--card); border: 1px solid var(--grid); border-radius: 12px;
  padding: 18px 20px; min-width: 0; }
.wide { grid-column: 1 / -1; }
@media (max-width: 760px) { .cards { grid-template-columns: minmax(0, 1fr); } }
figure { margin: 0; } svg { display: block; width: 100%; height: auto; overflow: visible; }
@media (max-width: 760px) { .wide figure { overflow-x: auto; } .wide svg { min-width: 640px; } }
.grid { stroke: var(--grid); } .axis { stroke: var(--muted); }
.tick { fill: var(--muted); font-size: 12px; font-variant-numeric: tabular-nums; }
.label { fill: var(--muted); font-size: 12px; }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.faint { opacity: .3; stroke-width: 1; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 0 0 8px; padding: 0;
  font-size: 13px; color: var(--muted); }
i { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 8px; }
.bar { display: flex; gap: 2px; height: 26px; border-radius: 6px; overflow: hidden;
  margin: 4px 0 14px; }
.length { width: 100%; } .length span { display: block; height: 18px; border-radius: 4px; margin-top: 2px; }
a { color: inherit; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
td, th { padding: 5px 12px 5px 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--grid); }
tr:last-child td { border-bottom: 0; } th { color: var(--muted); font-weight: 500; }
td:last-child { padding-right: 0; } .key { color: var(--muted); white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.scroll { overflow-x: auto; }
pre { margin: 0; overflow-x: auto; font: 13px/1.55 ui-monospace, "DejaVu Sans Mono", Menlo, monospace; }
details summary { cursor: pointer; font-weight: 600; }
details[open] summary { margin-bottom: 12px; }
footer { color: var(--muted); font-size: 13px; margin-top: 28px; }
)css";

}  // namespace muster::observe
