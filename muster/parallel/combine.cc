#include "muster/parallel/combine.h"

#include <vector>

namespace muster::parallel {

Result<EvaluationTotals> combine_totals(comm::Communicator& communicator,
                                        std::span<const EvaluationTotals> by_slice,
                                        comm::OpOptions op) {
  std::vector<double> flat;  // the sum over ranks is exact
  for (const EvaluationTotals& slice : by_slice) {
    flat.insert(flat.end(), {slice.loss, slice.correct, slice.targets});
  }
  op.label = "evaluation";
  MUSTER_TRY(communicator.submit(comm::AllReduce{.buffer = view_of(std::span(flat))}, op).wait());
  EvaluationTotals total;
  for (std::size_t i = 0; i < flat.size(); i += 3) {
    total.loss += flat[i];
    total.correct += flat[i + 1];
    total.targets += flat[i + 2];
  }
  return total;
}

}  // namespace muster::parallel
