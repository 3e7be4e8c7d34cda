#include "muster/base/exception_error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <system_error>

#include "muster/base/host_fault.h"

namespace muster {
namespace {

Error thrown(const std::exception& exception) { return error_from_exception("here", exception); }

TEST(ExceptionError, OfAThreadThatCannotBeHadNamesTheLimit) {
  const Error error = thrown(std::system_error(EAGAIN, std::generic_category()));
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_EQ(error.message,
            "[here] no further thread can be had: Resource temporarily unavailable; raise the "
            "limit of processes (ulimit -u)");
}

TEST(ExceptionError, OfMemoryThatCannotBeHadIsTheHosts) {
  const Error error = thrown(std::bad_alloc());
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_NE(error.message.find("ulimit -v"), std::string::npos) << error.message;
  EXPECT_TRUE(may_be_of_one_host(error)) << error.message;
}

TEST(ExceptionError, OfAnythingElseIsAMistake) {
  EXPECT_EQ(thrown(std::logic_error("wrong")), fail(ErrorCode::kInternal, "[here] wrong"));
  EXPECT_EQ(thrown(std::system_error(EBADF, std::generic_category())).code, ErrorCode::kInternal);
}

TEST(ExceptionError, IsWhatABodyThatThrowsComesTo) {
  const auto outcome =
      without_exceptions("here", []() -> Result<int> { throw std::runtime_error("broken"); });
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().message, "[here] broken");
  EXPECT_EQ(without_exceptions("here", [] { return Result<int>(3); }), 3);
}

}  // namespace
}  // namespace muster
