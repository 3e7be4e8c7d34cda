// The C++ side of safetensors_test.py.
//   safetensors_tool write FOLDER   saves a checkpoint of known tensors in FOLDER/checkpoints and
//                                   exports its weights to FOLDER/weights
//   safetensors_tool read FILE      prints "name dtype shape sha256-of-bytes" of each tensor

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "muster/base/hash.h"
#include "muster/checkpoint/checkpointer.h"
#include "muster/checkpoint/export.h"
#include "muster/checkpoint/safetensors.h"

namespace muster {
namespace {

// Bytes 0, 1, 2, … as a tensor of each type, and a scalar and an empty one.
Status write(const Path& folder) {
  std::vector<std::vector<std::byte>> storage;
  storage.reserve(std::size(kAllDTypes) + 2);
  checkpoint::SaveRequest request{.step = Step{7}};
  const auto add = [&](std::string name, DType dtype, Shape shape) {
    auto& bytes =
        storage.emplace_back(static_cast<std::size_t>(element_count(shape)) * size_of(dtype));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
    request.model.push_back({std::move(name), {dtype, std::move(shape), bytes, Device::kCpu}});
  };
  for (const DType dtype : kAllDTypes) add(fmt::format("x.{}", to_string(dtype)), dtype, {2, 3, 4});
  add("scalar \"quoted\" ü", DType::kF32, {});
  add("empty", DType::kF32, {0, 5});
  checkpoint::Checkpointer checkpointer(system_files(), system_clock(), folder / "checkpoints",
                                        {.job = "interop"});
  MUSTER_ASSIGN(const auto saved, checkpointer.save(request));
  MUSTER_TRY(checkpoint::export_weights(system_files(), saved.folder, folder / "weights"));
  return ok();
}

Status read(const Path& path) {
  MUSTER_ASSIGN(const auto header, checkpoint::read_safetensors_header(system_files(), path));
  MUSTER_ASSIGN(const auto file, system_files().map(path));
  for (const auto& entry : header.entries) {
    const auto bytes = file->bytes().subspan(entry.begin, entry.end - entry.begin);
    fmt::print("{} {} {} {}\n", entry.name, to_string(entry.dtype), fmt::join(entry.shape, ","),
               to_hex(sha256(bytes)));
  }
  return ok();
}

int run(std::span<char*> arguments) {
  if (arguments.size() != 3) return 2;
  const std::string verb = arguments[1];
  const Status status = verb == "write" ? write(arguments[2]) : read(arguments[2]);
  if (!status) fmt::print(stderr, "{}\n", status.error().message);
  return status ? 0 : 1;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::run({argv, static_cast<std::size_t>(argc)}); }
