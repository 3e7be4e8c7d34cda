#include "muster/models/flop_rate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <algorithm>

#include "muster/base/units.h"

namespace muster::models {
namespace {

constexpr int kRounds = 6;
constexpr std::chrono::milliseconds kEnough{20};
constexpr std::int64_t kHostRows = 512;  // three of them fit into a core's cache
constexpr std::int64_t kDeviceRows = 4096;

}  // namespace

double measure_flop_rate(Precision precision, c10::Device device, const Clock& clock) {
  const at::NoGradGuard no_graph;
  const Autocast autocast(precision, device.type());
  const std::int64_t rows = device.is_cpu() ? kHostRows : kDeviceRows;
  const at::Tensor matrix = at::ones({rows, rows}, at::TensorOptions(device));
  const TimePoint begin = clock.now();
  Duration least = Duration::max();
  for (int round = 0; round < kRounds; ++round) {
    const TimePoint began = clock.now();
    at::mm(matrix, matrix).select(0, 0).select(0, 0).item();  // waits for a device as well
    const TimePoint now = clock.now();
    least = std::min(least, now - began);
    if (round > 0 && now - begin > kEnough) break;  // where 16 bits are slow, they are very slow
  }
  const auto n = static_cast<double>(rows);
  return 2 * n * n * n / to_seconds(least);
}

}  // namespace muster::models
