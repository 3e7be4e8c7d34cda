#pragma once
// Numbers as people read them, on the console and in the report. Pure.

#include <cstdint>
#include <string>

#include "muster/observe/metric.h"

namespace muster::observe {

std::string grouped(std::int64_t number);   // "1,234,567"
std::string clock_text(Duration duration);  // "0:48", "12:03", "1:02:03"

struct MetricText {
  std::string name;   // "accuracy"
  std::string value;  // "85.21 %"
};
MetricText metric_text(const Metric& metric);
MetricText result_text(const Metric& metric);  // its name says of what: "validation accuracy"

}  // namespace muster::observe
