#include "muster/own/same_model.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <span>

#include "muster/base/hash.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::own {
namespace {

using Lines = std::vector<std::string>;

std::string line_of(const std::string& name, const at::Tensor& tensor) {
  return fmt::format("{} {} [{}]{}", name, c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes(), ", "), tensor.requires_grad() ? "" : " frozen");
}

// Everything that has to be alike: a line for each tensor.
Lines description_of(const torch::nn::Module& module) {
  Lines lines;
  for (const auto& entry : module.named_parameters())
    lines.push_back(line_of(entry.key(), entry.value()));
  for (const auto& entry : module.named_buffers())
    lines.push_back("buffer " + line_of(entry.key(), entry.value()));
  return lines;
}

Lines split_lines(const std::string& text) {
  Lines lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end == std::string::npos ? text.size() : end + 1;
  }
  return lines;
}

Status check_reducible(const std::vector<NamedParameter>& parameters) {
  for (const NamedParameter& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    if (tensor.scalar_type() == at::kFloat && tensor.device().is_cpu()) continue;
    return fail(ErrorCode::kUnsupported,
                fmt::format("[data_parallel] parameter {} is on {}; DataParallel reduces f32 on "
                            "the CPU, no others",
                            describe(parameter), tensor.device().str()));
  }
  return ok();
}

// What one rank has to say of itself, of any length, on all of them.
Result<std::string> text_of(Rank who, std::string mine, std::int64_t size,
                            comm::Communicator& ranks) {
  mine.resize(static_cast<std::size_t>(size));
  const auto bytes = std::as_writable_bytes(std::span(mine));
  MUSTER_TRY(ranks
                 .submit(comm::Broadcast{.buffer = {DType::kU8, {size}, bytes}, .root = who},
                         {.label = "model"})
                 .wait());
  return mine;
}

std::int64_t fingerprint_of(const std::string& text) {
  const Digest digest = sha256(std::as_bytes(std::span(text)));
  std::int64_t first = 0;
  std::memcpy(&first, digest.data(), sizeof first);
  return first;
}

std::string first_difference(const Lines& first, const Lines& other) {
  const auto [one, another] = std::ranges::mismatch(first, other);
  const auto said = [](const auto& at, const Lines& lines) {
    return at == lines.end() ? std::string("nothing more") : *at;
  };
  return fmt::format("{} there, {} with rank 0", said(another, other), said(one, first));
}

}  // namespace

std::vector<NamedParameter> trained_parameters(const torch::nn::Module& module) {
  std::vector<NamedParameter> found;
  std::set<const c10::TensorImpl*> known;
  for (const auto& entry : module.named_parameters())
    if (entry.value().requires_grad() && known.insert(entry.value().unsafeGetTensorImpl()).second)
      found.push_back({entry.key(), entry.value()});
  return found;
}

std::string describe(const NamedParameter& parameter) {
  return line_of(parameter.name, parameter.tensor);
}

Status check_same_model(const torch::nn::Module& module, const app::World& world) {
  const Lines lines = description_of(module);
  const std::string mine = fmt::format("{}", fmt::join(lines, "\n"));
  std::vector<std::int64_t> said{static_cast<std::int64_t>(mine.size()), fingerprint_of(mine)};
  std::vector<std::int64_t> all(said.size() * static_cast<std::size_t>(world.size()));
  comm::Communicator& ranks = world.communicator();
  const comm::AllGather gather{.output = view_of(std::span(all)),
                               .input = view_of(std::span(said))};
  MUSTER_TRY(ranks.submit(gather, {.label = "model"}).wait());
  for (std::int32_t rank = 1; rank < world.size(); ++rank) {
    const std::size_t at = 2 * static_cast<std::size_t>(rank);
    if (all[at] == all[0] && all[at + 1] == all[1]) continue;
    MUSTER_ASSIGN(const auto first, text_of(Rank{0}, mine, all[0], ranks));
    MUSTER_ASSIGN(const auto other, text_of(Rank{rank}, mine, all[at], ranks));
    return fail(ErrorCode::kInvalid,
                fmt::format("[data_parallel] rank {} has another model than rank 0: {}; all ranks "
                            "have to build the same one",
                            rank, first_difference(split_lines(first), split_lines(other))),
                Rank{rank});
  }
  return check_reducible(trained_parameters(module));
}

Status copy_from_first(const torch::nn::Module& module, const app::World& world) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> tensors = module.parameters();
  for (const at::Tensor& buffer : module.buffers()) tensors.push_back(buffer);
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    const at::Tensor dense = tensor.detach().contiguous();
    TensorView bytes = parallel::bytes_over(dense);
    const auto copied =
        world.communicator().submit(comm::Broadcast{.buffer = bytes}, {.label = "parameters"});
    MUSTER_TRY(copied.wait());
    if (dense.data_ptr() != tensor.data_ptr()) tensor.detach().copy_(dense);
  }
  return ok();
}

}  // namespace muster::own
