#pragma once
// Activations and their gradients on the way between the stages of a pipeline. A tensor goes as its
// bytes alone; its layout (type, sizes, strides: the memory format decides which kernel the next
// stage runs, and so the bits) goes ahead of the first of a kind. One thread.

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "muster/base/result.h"
#include "muster/comm/communicator.h"

namespace muster::parallel {

// Tensors of one kind between two ranks have one layout and arrive in the order in which they were
// sent.
struct TensorKind {
  std::uint32_t stream = 0;  // what they are, below 2^16
  std::int64_t samples = 0;  // in them
  friend auto operator<=>(const TensorKind&, const TensorKind&) = default;
};

class StageLinks {
 public:
  // `device`: where tensors lie once they are here.
  StageLinks(std::shared_ptr<comm::Communicator> communicator, c10::Device device,
             comm::OpOptions op)
      : communicator_(std::move(communicator)), device_(device), op_(std::move(op)) {}

  // Each is told what it is for, "activation of micro-batch 5, stage 0 → 1", as errors, traces and
  // `muster debug` have it.
  // Never blocks; keeps the tensor until it is out.
  void send(Rank to, TensorKind kind, at::Tensor tensor, const std::string& what);
  // Gets ready for the tensor that recv() will be asked for; calls of a stream in the order of
  // those. False where the layout is not known yet: then none of the stream may be expected before
  // recv() has been there.
  bool expect(Rank from, TensorKind kind, const std::string& what);
  Result<at::Tensor> recv(Rank from, TensorKind kind, const std::string& what);

  Status finish();  // until all is sent

 private:
  static constexpr std::size_t kMostAxes = 6;
  static constexpr std::size_t kWords = 2 + 2 * kMostAxes;
  using Layout = std::array<std::int64_t, kWords>;  // [type, axes, sizes…, strides…]
  using Key = std::pair<Rank, TensorKind>;
  struct Receiving {
    TensorKind kind;
    at::Tensor tensor;
    comm::Work work;
  };
  static Layout layout_of(const at::Tensor& tensor);
  static at::Tensor tensor_of(const Layout& layout);
  Result<Layout> receive_layout(Rank from, TensorKind kind, const std::string& what);
  comm::OpOptions op_for(std::string what) const;
  void submit_send(TensorView view, Rank to, std::uint32_t tag, std::string what,
                   std::shared_ptr<void> memory);

  const std::shared_ptr<comm::Communicator> communicator_;
  const c10::Device device_;
  const comm::OpOptions op_;
  std::map<Key, Layout> sent_, received_;  // layouts that both sides know
  std::list<comm::Work> sending_;
  std::map<std::pair<Rank, std::uint32_t>, std::list<Receiving>> receiving_;  // by stream
};

}  // namespace muster::parallel
