#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/cluster/store.h"
#include "muster/comm/backend/native/native.h"
#include "muster/testing/soon.h"

namespace muster::comm {
namespace {

using muster::testing::soon;
using ::testing::HasSubstr;

// Keeps what is set, and gives the same error for whatever it is asked.
class SilentStore final : public cluster::KvStore {
 public:
  explicit SilentStore(ErrorCode code) : why_(fail(code, "[store] no answer")) {}

  Status set(const std::string&, cluster::Bytes, Deadline) override { return ok(); }
  Result<cluster::Bytes> get(const std::string&, Deadline) override { return why_; }
  Result<std::int64_t> add(const std::string&, std::int64_t, Deadline) override { return why_; }
  Result<cluster::Bytes> compare_exchange(const std::string&, cluster::Bytes, cluster::Bytes,
                                          Deadline) override {
    return why_;
  }

 private:
  const Error why_;
};

Error why_nobody_met(ErrorCode code) {
  SilentStore store(code);
  const Exchange exchange = exchange_through(store, {Rank{1}, 2, Generation{6}}, "world");
  return exchange("me", soon()).error();
}

TEST(ExchangeThrough, BlamesARankOnlyWhereItWasWaitedFor) {
  const Error late = why_nobody_met(ErrorCode::kTimeout);
  EXPECT_EQ(late.peer, Rank{0});
  EXPECT_THAT(late.message, HasSubstr("[comm/join] rank 0 of generation 6 did not come"));
  for (const ErrorCode code : {ErrorCode::kPeerLost, ErrorCode::kStale}) {
    const Error gone = why_nobody_met(code);
    EXPECT_EQ(gone.code, code);
    EXPECT_EQ(gone.peer, kNoRank) << gone.message;
    EXPECT_THAT(gone.message, HasSubstr("rank 0 of generation 6 cannot be asked for"));
  }
}

}  // namespace
}  // namespace muster::comm
