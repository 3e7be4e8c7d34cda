#include "muster/models/flop_rate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <algorithm>

#include "muster/base/units.h"
#include "muster/models/flop_counter.h"

namespace muster::models {
namespace {

constexpr int kRounds = 6;
constexpr std::int64_t kHostRows = 512;  // three of them fit into a core's cache
constexpr std::int64_t kDeviceRows = 4096;

}  // namespace

double measure_flop_rate(Precision precision, c10::Device device, const Clock& clock) {
  const at::NoGradGuard no_graph;
  const Autocast autocast(precision, device.type());
  const std::int64_t rows = device.is_cpu() ? kHostRows : kDeviceRows;
  const at::Tensor matrix = at::ones({rows, rows}, at::TensorOptions(device));
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const FlopCounter counter;
    const TimePoint began = clock.now();
    at::mm(matrix, matrix).select(0, 0).select(0, 0).item();  // waits for a device as well
    best = std::max(best, counter.counted() / to_seconds(clock.now() - began));
  }
  return best;
}

}  // namespace muster::models
